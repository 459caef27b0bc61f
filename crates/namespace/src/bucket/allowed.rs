//! What is known of where changes are taken, if not everywhere: credentials may be for a part of a bucket only.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use remote::Key;

/// What finds out whether a store takes changes of keys that begin with this prefix; `Denied` if it does not.
pub type TryWrite = Box<dyn Fn(Key) -> BoxFuture<'static, remote::Result<()>> + Send + Sync>;

/// A refusal is believed for so long: permissions are given while people wait for them.
const REFUSAL_TTL: Duration = Duration::from_secs(30);

/// Folders of which a refusal is remembered.
const REFUSALS_MAX: usize = 1024;

/// Places where changes are taken that are remembered: those of long ago are tried again.
const TAKEN_MAX: usize = 1024;

/// What is known of changes at the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They are refused.
    Known,
    /// Nobody has tried.
    Unknown,
}

/// What the store says of changes.
pub(super) struct Allowed {
    pub(super) try_write: TryWrite,
    places: Mutex<Places>,
    /// One asks at a time: others mostly want to know the same.
    pub(super) turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Places {
    /// The latest is the last. Invariant: none begins with another.
    taken: VecDeque<Key>,
    /// And when that was said.
    refused: HashMap<Key, Duration>,
}

impl Allowed {
    /// Nothing is known yet, but that changes at the top were refused at `refused_at`.
    pub(super) fn new(try_write: TryWrite, refused_at: Option<Duration>) -> Allowed {
        let refused = refused_at.map(|at| (Key::from(""), at)).into_iter().collect();
        let places = Mutex::new(Places { taken: VecDeque::new(), refused });
        Allowed { try_write, places, turn: tokio::sync::Mutex::new(()) }
    }

    /// Whether all changes that were tried so far were refused.
    pub(super) fn is_refused(&self) -> bool {
        let places = self.places.lock();
        places.taken.is_empty() && !places.refused.is_empty()
    }

    /// The beginning of keys below which changes are taken, if `key` has such a one.
    pub(super) fn place_of(&self, key: &Key) -> Option<Key> {
        self.places.lock().place_of(key).cloned()
    }

    /// What is known of the folder `prefix`.
    pub(super) fn known(&self, prefix: &Key, now: Duration) -> Option<bool> {
        let places = self.places.lock();
        if places.place_of(prefix).is_some() {
            return Some(true);
        }
        let said = places.refused.get(prefix)?;
        (now < *said + REFUSAL_TTL).then_some(false)
    }

    /// Changes in the folder `prefix` are taken, and below it.
    pub(super) fn takes(&self, prefix: Key) {
        self.places.lock().takes(prefix);
    }

    /// Changes in the folder `prefix` are refused.
    pub(super) fn refuses(&self, prefix: Key, now: Duration) {
        self.places.lock().refuses(prefix, now);
    }
}

impl Places {
    fn place_of(&self, key: &Key) -> Option<&Key> {
        self.taken.iter().find(|taken| key.as_bytes().starts_with(taken.as_bytes()))
    }

    fn takes(&mut self, prefix: Key) {
        self.refused.remove(&prefix);
        self.taken.retain(|taken| !taken.as_bytes().starts_with(prefix.as_bytes()));
        if TAKEN_MAX <= self.taken.len() {
            self.taken.pop_front();
        }
        self.taken.push_back(prefix);
    }

    fn refuses(&mut self, prefix: Key, now: Duration) {
        if REFUSALS_MAX <= self.refused.len() {
            self.refused.retain(|_, said| now < *said + REFUSAL_TTL);
        }
        if self.refused.len() < REFUSALS_MAX {
            self.refused.insert(prefix, now);
        }
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowed").field("places", &self.places).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use remote::Key;

    use super::{Allowed, REFUSAL_TTL, TAKEN_MAX};

    #[test]
    fn what_is_taken_in_a_folder_is_taken_below_it_and_a_refusal_says_nothing_of_that() {
        let allowed = Allowed::new(Box::new(|_| Box::pin(async { Ok(()) })), Some(Duration::ZERO));
        let known = |prefix: &str, now| allowed.known(&Key::from(prefix), now);
        assert!(allowed.is_refused());
        assert_eq!((known("", Duration::ZERO), known("", REFUSAL_TTL)), (Some(false), None));
        assert_eq!(known("a/", Duration::ZERO), None);
        allowed.takes(Key::from("a/b/"));
        allowed.takes(Key::from("a/"));
        assert_eq!(allowed.places.lock().taken, [Key::from("a/")]);
        assert_eq!((known("a/c/", REFUSAL_TTL), known("ab/", REFUSAL_TTL)), (Some(true), None));
        assert_eq!(allowed.place_of(&Key::from("a/c")), Some(Key::from("a/")));
        assert!(!allowed.is_refused());
    }

    #[test]
    fn of_many_places_that_take_changes_the_latest_are_remembered() {
        let allowed = Allowed::new(Box::new(|_| Box::pin(async { Ok(()) })), None);
        for number in 0..=TAKEN_MAX {
            allowed.takes(Key::from(format!("{number}/").as_str()));
        }
        let known = |number: usize| {
            allowed.known(&Key::from(format!("{number}/").as_str()), Duration::ZERO)
        };
        assert_eq!((known(0), known(1), known(TAKEN_MAX)), (None, Some(true), Some(true)));
    }
}
