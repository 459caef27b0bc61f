//! The books of what is on its way into the bucket: how much, which names, what failed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base::{Ino, Unheard};
use parking_lot::Mutex;
use remote::Key;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::{Error, Result, Unsent};

/// Changes that may be on their way; who makes more waits.
const PENDING_MAX: usize = 4096;

/// Changes that are made in the bucket at a time.
const SENT_AT_A_TIME: usize = 64;

/// Failures that are remembered of changes that were given up.
const GIVEN_UP_MAX: usize = 64;

/// The changes under way.
#[derive(Debug)]
pub(super) struct Outbox {
    // A leaf: no other lock is taken under it.
    pending: Mutex<Pending>,
    room: Arc<Semaphore>,
    pub(super) sending: Semaphore,
    /// Grows when those who wait, for a while or between two tries, are not to wait any longer.
    hurry: watch::Sender<u64>,
    /// Grows when a change ends or fails.
    news: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Pending {
    last: u64,
    changes: BTreeMap<u64, Waiting>,
    /// Objects that are to be removed, and how many changes say so.
    leaving: HashMap<Key, usize>,
    /// For people who look.
    given_up: Vec<String>,
    /// For who waits.
    unheard: Unheard,
}

/// Why a change that is over is not as it was to be.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A part of it is not made, and nobody has to make it again: who asked for it knows that it failed, or finds
    /// it made but for a removal. For people who look.
    Unfinished(String),
    /// It is undone in the folders `places`, and who asked for it was told that it is made.
    GivenUp { words: String, places: Vec<Vec<u8>> },
}

/// What is known of a change under way.
#[derive(Debug)]
struct Waiting {
    dirs: Vec<Ino>,
    /// The object that it removes.
    leaving: Option<Key>,
    /// How often it failed, and why at last.
    failed: Option<(u64, Error)>,
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox {
            pending: Mutex::default(),
            room: Arc::new(Semaphore::new(PENDING_MAX)),
            sending: Semaphore::new(SENT_AT_A_TIME),
            hurry: watch::Sender::new(0),
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

    /// What is on its way of names.
    pub(super) fn unsent(&self) -> Unsent {
        let pending = self.pending.lock();
        let failing = pending.changes.values().filter_map(|waiting| waiting.failed.as_ref());
        let failing = failing.map(|(_, error)| error.to_string());
        Unsent {
            changes: pending.changes.len() as u64,
            attributes: 0,
            failures: pending.given_up.iter().cloned().chain(failing).collect(),
        }
    }

    /// A change in the folders `dirs` is under way.
    pub(super) fn add(&self, dirs: Vec<Ino>, leaving: Option<Key>) -> u64 {
        let mut pending = self.pending.lock();
        pending.last += 1;
        let number = pending.last;
        if let Some(key) = &leaving {
            *pending.leaving.entry(key.clone()).or_default() += 1;
        }
        pending.changes.insert(number, Waiting { dirs, leaving, failed: None });
        number
    }

    /// Those who wait need not wait any longer, once each.
    pub(super) fn hurry(&self) {
        self.hurry.send_modify(|hurry| *hurry += 1);
    }

    /// What tells that those who are under way by now are to hurry.
    pub(super) fn haste(&self) -> watch::Receiver<u64> {
        self.hurry.subscribe()
    }

    /// A try of the change failed; there will be others.
    pub(super) fn fail(&self, number: u64, error: &Error) {
        if let Some(waiting) = self.pending.lock().changes.get_mut(&number) {
            let tries = waiting.failed.as_ref().map_or(0, |(tries, _)| *tries);
            waiting.failed = Some((tries + 1, error.again()));
        }
        self.news.send_modify(|news| *news += 1);
    }

    /// A change is over, and why, if it is not as it was to be.
    pub(super) fn end(&self, number: u64, trouble: Option<Trouble>) {
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
        if let Some(trouble) = trouble {
            pending.keep(trouble);
        }
        drop(pending);
        self.news.send_modify(|news| *news += 1);
    }

    /// A change that is not under way here any more is not as it was to be.
    pub(super) fn tell(&self, trouble: Trouble) {
        self.pending.lock().keep(trouble);
    }

    /// What was given up at `place` and below it, and nobody has heard of; each with its number.
    pub(super) fn unheard(&self, place: &[u8]) -> Vec<(u64, String)> {
        self.pending.lock().unheard.below(place)
    }

    /// Somebody has heard of what was given up with this number.
    pub(super) fn heard(&self, number: u64) {
        self.pending.lock().unheard.heard(number);
    }

    /// Whether there is something that [`Outbox::unheard`] would tell.
    pub(super) fn has_unheard(&self, place: &[u8]) -> bool {
        self.pending.lock().unheard.has_below(place)
    }

    /// Waits until what was changed so far in folders that are wanted is in the bucket, or one of it fails.
    pub(super) async fn sent(&self, is_wanted: impl Fn(&[Ino]) -> bool) -> Result<()> {
        let mut news = self.news.subscribe();
        let under_way: Vec<(u64, u64, Vec<Ino>)> = {
            let pending = self.pending.lock();
            let changes = pending.changes.iter();
            changes
                .map(|(&number, waiting)| (number, waiting.tries(), waiting.dirs.clone()))
                .collect()
        };
        let awaited = under_way.into_iter().filter(|(_, _, dirs)| is_wanted(dirs));
        let awaited: BTreeMap<u64, u64> =
            awaited.map(|(number, tries, _)| (number, tries)).collect();
        self.hurry();
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

impl Pending {
    /// Remembers a failure; people who look are not told the oldest of too many.
    fn keep(&mut self, trouble: Trouble) {
        let words = match trouble {
            Trouble::Unfinished(words) => words,
            Trouble::GivenUp { words, places } => {
                self.unheard.add(places, words.clone());
                words
            }
        };
        self.given_up.push(words);
        let many = self.given_up.len().saturating_sub(GIVEN_UP_MAX);
        self.given_up.drain(..many);
    }
}

impl Waiting {
    fn tries(&self) -> u64 {
        self.failed.as_ref().map_or(0, |(tries, _)| *tries)
    }
}
