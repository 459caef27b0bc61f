//! Changes of names that are made here and in the journal, and on their way into the bucket.
//!
//! ```text
//!   a place in the line ─▶ what is known allows it ─▶ journal ─▶ tree ─▶ the caller goes on
//!                                                                │
//!                          its turn in the line ─▶ bucket ─▶ struck out
//! ```
//!
//! Such a change keeps its place in the line of [`turns`](super::turns) until the bucket has it: who
//! uploads a file or changes names at the same paths comes after it, all others go on. Until then the
//! bucket's word on its name does not count. What fails is tried again for as long as the mount lives;
//! what cannot go well is given up, and the name is again what the bucket says.

use std::sync::Arc;
use std::time::Duration;

use remote::ErrorKind as RemoteErrorKind;

use super::change::Made;
use super::shared::Shared;
use crate::{Error, ErrorKind};

/// Between tries of a change that failed.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_mins(1);

impl Shared {
    /// The change is made here; it gets into the bucket when its turn comes.
    pub(super) fn send(self: &Arc<Self>, made: Made) {
        made.place.0.applied();
        made.claim.applied();
        let number = self.outbox.add(made.dir, made.change.leaving().cloned());
        tokio::spawn(Arc::clone(self).carry_out(number, made));
    }

    async fn carry_out(self: Arc<Self>, number: u64, made: Made) {
        let Made { dir: _, change, record, place: (turn, wait), claim, room } = made;
        let began = self.clock.monotonic();
        turn.come(wait).await;
        let mut delay = RETRY_DELAY_MIN;
        let outcome = loop {
            let sending = self.outbox.sending.acquire().await.expect("never closed");
            let age = self.clock.monotonic().saturating_sub(began);
            let sent = self.make_in_bucket(&change, age).await;
            drop(sending);
            match sent {
                Err(error) if may_pass(&error) => {
                    tracing::warn!(%error, "a change of names has yet to get into the bucket");
                    self.outbox.fail(number, &error);
                    // Who has to wait for the bucket is told, and may come again.
                    turn.sticks();
                    tokio::select! {
                        () = self.clock.sleep(delay) => {}
                        () = self.outbox.hurry.notified() => {}
                    }
                    delay = (delay * 2).min(RETRY_DELAY_MAX);
                }
                Err(error) => {
                    tracing::error!(%error, "a change of names is given up");
                    self.give_up(&change);
                    break Err(error);
                }
                Ok(()) => break Ok(()),
            }
        };
        self.ledger.strike(&[record]);
        self.outbox.end(number, outcome);
        // In this order: who comes next finds that the bucket's word counts again.
        drop(claim);
        drop(turn);
        drop(room);
    }
}

/// Whether the same may go well later.
fn may_pass(error: &Error) -> bool {
    match error.kind {
        ErrorKind::Journal => true,
        ErrorKind::Remote(kind) => match kind {
            RemoteErrorKind::Transient { .. }
            | RemoteErrorKind::Unavailable
            | RemoteErrorKind::Full
            | RemoteErrorKind::Corrupt => true,
            RemoteErrorKind::NotFound
            | RemoteErrorKind::Changed
            | RemoteErrorKind::Denied
            | RemoteErrorKind::Unsupported => false,
        },
        ErrorKind::NotFound
        | ErrorKind::Stale
        | ErrorKind::Exists
        | ErrorKind::NotDirectory
        | ErrorKind::IsDirectory
        | ErrorKind::NotEmpty
        | ErrorKind::NoAttribute
        | ErrorKind::AttributesTooLarge
        | ErrorKind::NotPermitted
        | ErrorKind::Invalid
        | ErrorKind::Unsupported
        | ErrorKind::NameTooLong => false,
    }
}
