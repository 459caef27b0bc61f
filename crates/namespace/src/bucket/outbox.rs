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
//! what cannot go well is given up, and the name is again what the bucket says; who waits next hears of that.
//! A move that lacks only the removal of what was copied is made, and nobody is to make it again.

use std::sync::Arc;
use std::time::Duration;

use base::Ino;
use remote::ErrorKind as RemoteErrorKind;
use tokio::sync::watch;

use super::attributes::books::Books;
use super::change::{Change, Made, Stage};
use super::changes::Claim;
use super::make_soon::SEND_DELAY;
use super::moving_tree::TreeStage;
use super::persist::Rest;
use super::shared::Shared;
use super::turns::Turn;
use super::unsent::Trouble;
use crate::{Error, ErrorKind, Result, Unsent};

/// Between tries of a change that failed.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_mins(1);

impl Shared {
    /// What the bucket has yet to get.
    pub(super) fn unsent(&self) -> Unsent {
        let attributes = self.state().tree.books.as_ref().map_or(0, Books::pending);
        Unsent { attributes, ..self.outbox.unsent() }
    }

    /// The change is made here; it gets into the bucket when its turn comes.
    pub(super) fn send(self: &Arc<Self>, made: Made) {
        match &made.change {
            // Under the old name there is still what is to leave.
            Change::MoveTree(moving) => made.place.0.applied_below(moving.path.clone()),
            Change::Remove { .. }
            | Change::MakeFolder { .. }
            | Change::RemoveFolder { .. }
            | Change::MakeObject { .. }
            | Change::Move(_)
            | Change::Rest(_) => made.place.0.applied(),
        }
        made.claims.iter().for_each(Claim::applied);
        let number = self.outbox.add(made.dirs.clone(), made.change.leaving().cloned());
        tokio::spawn(Arc::clone(self).carry_out(number, made, self.outbox.haste()));
    }

    /// A change failed in the middle with `error`, and who asked for it knows. The rest is done
    /// while the mount lives, or else by the next; the names of `turn` are ours until then.
    pub(super) fn finish_later(
        self: &Arc<Self>,
        dirs: Vec<Ino>,
        turn: Turn,
        (rest, error): (Rest, &Error),
    ) {
        let Ok(room) = Arc::clone(&self.rests).try_acquire_owned() else {
            tracing::error!(%error, "too many changes of names wait for the store: left to the next mount");
            let words = format!("{}: {error}", End::Left.words());
            self.outbox.tell(Trouble::Unfinished(words));
            return;
        };
        turn.sticks();
        let number = self.outbox.add(dirs.clone(), None);
        self.outbox.fail(number, error);
        let (change, place) = (Change::Rest(Some(Box::new(rest))), (turn, None));
        let made = Made { dirs, change, records: Vec::new(), place, claims: Vec::new(), room };
        tokio::spawn(Arc::clone(self).carry_out(number, made, self.outbox.haste()));
    }

    async fn carry_out(self: Arc<Self>, number: u64, made: Made, mut haste: watch::Receiver<u64>) {
        let Made { dirs, mut change, records, place: (turn, wait), claims, room } = made;
        let began = self.clock.monotonic();
        turn.come(wait).await;
        self.pause(change.pause(), &mut haste).await;
        let mut delay = RETRY_DELAY_MIN;
        let outcome = loop {
            let sending = self.outbox.sending.acquire().await.expect("never closed");
            let age = self.clock.monotonic().saturating_sub(began);
            let sent = self.make_in_bucket(&mut change, age).await;
            drop(sending);
            match sent {
                Err(error) if may_pass(&error) => {
                    tracing::warn!(%error, "a change of names has yet to get into the bucket");
                    self.outbox.fail(number, &error);
                    // Who has to wait for the bucket is told, and may come again.
                    turn.sticks();
                    self.pause(delay, &mut haste).await;
                    delay = (delay * 2).min(RETRY_DELAY_MAX);
                }
                sent => break sent,
            }
        };
        let trouble = outcome.err().map(|error| self.despair((&dirs, &turn), &change, &error));
        self.ledger.strike_soon(&records);
        self.outbox.end(number, trouble);
        // In this order: who comes next finds that the bucket's word counts again.
        drop(claims);
        drop(turn);
        drop(room);
    }

    /// What was moved has its new name, and `removed` is how the removal of its old objects went. One that the store
    /// refuses for good is told to who looks, and the move is made without it.
    pub(super) fn made_but_for<T>(&self, removed: Result<T>) -> Result<()> {
        match removed {
            Ok(_) => Ok(()),
            Err(error) if may_pass(&error) => Err(error),
            Err(error) => {
                self.outbox.tell(Trouble::Unfinished(End::Moved.told(&error)));
                Ok(())
            }
        }
    }

    /// Waits for so long, or until somebody waits for us.
    async fn pause(&self, delay: Duration, haste: &mut watch::Receiver<u64>) {
        if !delay.is_zero() {
            tokio::select! {
                () = self.clock.sleep(delay) => {}
                Ok(()) = haste.changed() => {}
            }
        }
    }

    /// The change in the folders `dirs`, whose names `turn` holds, cannot go well on this mount; returns what people
    /// are told.
    fn despair(&self, (dirs, turn): (&[Ino], &Turn), change: &Change, error: &Error) -> Trouble {
        let end = change.end();
        let words = end.told(error);
        self.give_up(change);
        match end {
            End::Left | End::Moved => Trouble::Unfinished(words),
            End::Undone => {
                let state = self.state();
                // One that was removed or forgotten meanwhile is nowhere; who waits above it is to hear all the same.
                let place =
                    |(dir, before): (&Ino, _)| state.tree.names_of("path", *dir).unwrap_or(before);
                let places = dirs.iter().zip(turn.folders()).map(place).collect();
                Trouble::GivenUp { words, places }
            }
        }
    }
}

/// How a change ends that cannot go well on this mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The journal has what is left of it, for the next mount.
    Left,
    /// It is made, and what has the old name stays. It would be wrong to leave the removal to the next mount: until
    /// then people see both, and may remove the new one, or put the same bytes under the old name.
    Moved,
    /// Nothing of it is to be seen.
    Undone,
}

impl End {
    fn words(self) -> &'static str {
        match self {
            End::Left => "left to the next mount",
            End::Moved => "moved, but what has the old name could not be removed",
            End::Undone => "given up",
        }
    }

    /// Says so in the log; returns what people who look are told.
    fn told(self, error: &Error) -> String {
        tracing::error!(%error, "a change of names is {}", self.words());
        format!("{}: {error}", self.words())
    }
}

impl Change {
    /// How long it waits before its first try.
    fn pause(&self) -> Duration {
        match self {
            Change::Remove { .. }
            | Change::MakeFolder { .. }
            | Change::RemoveFolder { .. }
            | Change::Move(_)
            | Change::MoveTree(_) => Duration::ZERO,
            Change::MakeObject { .. } => SEND_DELAY,
            Change::Rest(_) => RETRY_DELAY_MIN,
        }
    }

    /// How it ends if it cannot go well.
    fn end(&self) -> End {
        match self {
            Change::Rest(rest) => match rest.as_deref() {
                Some(Rest::Old { .. } | Rest::OldFolder { .. }) => End::Moved,
                Some(Rest::Copied(_) | Rest::Copies { .. } | Rest::Swap(_)) | None => End::Left,
            },
            Change::Move(moving) => match moving.stage {
                Stage::Copying => End::Undone,
                Stage::Removing => End::Moved,
            },
            Change::MoveTree(moving) => match moving.stage {
                TreeStage::Copying(_) => End::Undone,
                TreeStage::Removing(_) => End::Moved,
            },
            Change::Remove { .. }
            | Change::MakeFolder { .. }
            | Change::RemoveFolder { .. }
            | Change::MakeObject { .. } => End::Undone,
        }
    }
}

/// Whether the same may go well later.
fn may_pass(error: &Error) -> bool {
    match error.kind {
        ErrorKind::Journal(_) => true,
        ErrorKind::Remote(kind) => match kind {
            RemoteErrorKind::Transient { .. }
            | RemoteErrorKind::Unavailable
            | RemoteErrorKind::Full
            | RemoteErrorKind::Corrupt => true,
            RemoteErrorKind::NotFound
            | RemoteErrorKind::Changed
            | RemoteErrorKind::Denied
            | RemoteErrorKind::Archived
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
        | ErrorKind::ReadOnly
        | ErrorKind::NameTooLong => false,
    }
}
