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

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use base::Ino;
use parking_lot::Mutex;
use remote::{ErrorKind as RemoteErrorKind, Key};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use super::changes::Claim;
use super::shared::Shared;
use super::soon::Change;
use super::turns::{Turn, Wait};
use crate::{Error, ErrorKind, RecordId, Result, Unsent};

/// Changes that may be on their way; who makes more waits.
const PENDING_MAX: usize = 4096;

/// Changes that are made in the bucket at a time.
const SENT_AT_A_TIME: usize = 64;

/// Between tries of a change that failed.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_mins(1);

/// Failures that are remembered of changes that were given up.
const GIVEN_UP_MAX: usize = 64;

/// The changes under way.
#[derive(Debug)]
pub(super) struct Outbox {
    // A leaf: no other lock is taken under it.
    pending: Mutex<Pending>,
    room: Arc<Semaphore>,
    sending: Semaphore,
    /// Those who wait between two tries are to try now.
    hurry: Notify,
    /// Grows when a change ends or fails.
    news: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Pending {
    last: u64,
    changes: BTreeMap<u64, Waiting>,
    /// Objects that are to be removed, and how many changes say so.
    leaving: HashMap<Key, usize>,
    given_up: Vec<String>,
}

/// What is known of a change under way.
#[derive(Debug)]
struct Waiting {
    dir: Ino,
    /// The object that it removes.
    leaving: Option<Key>,
    /// How often it failed, and why at last.
    failed: Option<(u64, Error)>,
}

/// A change that is made here.
#[derive(Debug)]
pub(super) struct Made {
    /// The folder in which a name was changed.
    pub(super) dir: Ino,
    pub(super) change: Change,
    pub(super) record: RecordId,
    pub(super) place: InLine,
    pub(super) claim: Claim,
    pub(super) room: OwnedSemaphorePermit,
}

/// A place in the line, and what tells that it is our turn, if that is not now.
pub(super) type InLine = (Turn, Option<Wait>);

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox {
            pending: Mutex::default(),
            room: Arc::new(Semaphore::new(PENDING_MAX)),
            sending: Semaphore::new(SENT_AT_A_TIME),
            hurry: Notify::new(),
            news: watch::Sender::new(0),
        }
    }
}

impl Outbox {
    /// Waits until there is room for another change.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.room).acquire_owned().await.expect("never closed")
    }

    /// Whether the object `key` is to be removed.
    pub(super) fn is_leaving(&self, key: &Key) -> bool {
        self.pending.lock().leaving.contains_key(key)
    }

    /// What is on its way.
    pub(super) fn unsent(&self) -> Unsent {
        let pending = self.pending.lock();
        let failing = pending.changes.values().filter_map(|waiting| waiting.failed.as_ref());
        let failing = failing.map(|(_, error)| error.to_string());
        Unsent {
            changes: pending.changes.len() as u64,
            failures: pending.given_up.iter().cloned().chain(failing).collect(),
        }
    }

    fn add(&self, dir: Ino, leaving: Option<Key>) -> u64 {
        let mut pending = self.pending.lock();
        pending.last += 1;
        let number = pending.last;
        if let Some(key) = &leaving {
            *pending.leaving.entry(key.clone()).or_default() += 1;
        }
        pending.changes.insert(number, Waiting { dir, leaving, failed: None });
        number
    }

    fn fail(&self, number: u64, error: &Error) {
        if let Some(waiting) = self.pending.lock().changes.get_mut(&number) {
            let tries = waiting.failed.as_ref().map_or(0, |(tries, _)| *tries);
            waiting.failed = Some((tries + 1, error.again()));
        }
        self.news.send_modify(|news| *news += 1);
    }

    fn end(&self, number: u64, outcome: Result<()>) {
        let mut pending = self.pending.lock();
        let waiting = pending.changes.remove(&number).expect("it ends once");
        if let Some(key) = waiting.leaving
            && let Some(count) = pending.leaving.get_mut(&key)
        {
            *count -= 1;
            if *count == 0 {
                pending.leaving.remove(&key);
            }
        }
        if let Err(error) = outcome {
            if pending.given_up.len() == GIVEN_UP_MAX {
                pending.given_up.remove(0);
            }
            pending.given_up.push(format!("given up: {error}"));
        }
        drop(pending);
        self.news.send_modify(|news| *news += 1);
    }

    /// Waits until what was changed so far in the folder `dir`, or anywhere, is in the bucket, or one
    /// of it fails.
    pub(super) async fn sent(&self, dir: Option<Ino>) -> Result<()> {
        let mut news = self.news.subscribe();
        let awaited: BTreeMap<u64, u64> = {
            let pending = self.pending.lock();
            let ours = |waiting: &Waiting| dir.is_none_or(|dir| waiting.dir == dir);
            let ours = pending.changes.iter().filter(|(_, waiting)| ours(waiting));
            ours.map(|(&number, waiting)| (number, waiting.tries())).collect()
        };
        self.hurry.notify_waiters();
        loop {
            news.borrow_and_update();
            let mut is_over = true;
            {
                let pending = self.pending.lock();
                for (number, before) in &awaited {
                    let Some(waiting) = pending.changes.get(number) else { continue };
                    is_over = false;
                    if let Some((tries, error)) = &waiting.failed
                        && before < tries
                    {
                        return Err(error.again());
                    }
                }
            }
            if is_over {
                return Ok(());
            }
            news.changed().await.expect("its sender is ours");
        }
    }
}

impl Waiting {
    fn tries(&self) -> u64 {
        self.failed.as_ref().map_or(0, |(tries, _)| *tries)
    }
}

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
