//! Which names were changed here since a request to the bucket was begun.
//!
//! An answer of the bucket is as old as its request. Where a name was changed on this mount after
//! the request went out, or is being changed while the answer comes in, the answer must not undo
//! the change: it does not tell about that name. A [`Ticket`] is a request under way, a [`Claim`] a
//! change under way.
//!
//! A directory that gets other keys is noted as one change, however many names are below it: an
//! answer that is older tells nothing of it, or of anything below it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Ino, Name};
use parking_lot::Mutex;

/// The order of requests and changes.
type Seq = u64;

/// The changes that requests under way may not know of.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    // Invariant: `requests` counts the tickets that live, by the `seq` at which they began;
    // `names` has every claimed name, and every name changed after the oldest ticket began;
    // `moved` has every directory that got other keys after the oldest ticket began.
    // A leaf: no other lock is taken under it.
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    seq: Seq,
    requests: BTreeMap<Seq, usize>,
    names: HashMap<(Ino, Name), Changed>,
    moved: HashMap<Ino, Seq>,
}

#[derive(Debug, Default)]
struct Changed {
    claims: usize,
    /// How many of them are of changes that are made on this mount.
    applied: usize,
    at: Seq,
}

/// A request under way; what it tells is as old as the ticket.
#[derive(Debug)]
pub(super) struct Ticket {
    changes: Changes,
    seq: Seq,
}

/// A change of one name under way: until it is dropped, and for every request begun before that,
/// the bucket's word on the name does not count.
#[derive(Debug)]
pub(super) struct Claim {
    changes: Changes,
    name: (Ino, Name),
    is_applied: AtomicBool,
}

impl Changes {
    /// To be called before a request is sent.
    pub(super) fn ticket(&self) -> Ticket {
        let mut inner = self.inner.lock();
        let seq = inner.seq;
        *inner.requests.entry(seq).or_default() += 1;
        Ticket { changes: self.clone(), seq }
    }

    /// To be called before a change that involves the bucket.
    pub(super) fn claim(&self, parent: Ino, name: &Name) -> Claim {
        let name = (parent, name.clone());
        self.inner.lock().names.entry(name.clone()).or_default().claims += 1;
        Claim { changes: self.clone(), name, is_applied: AtomicBool::new(false) }
    }

    /// Whether the name is what it is here, because its changes that are under way are all made on
    /// this mount.
    pub(super) fn is_applied(&self, parent: Ino, name: &Name) -> bool {
        let inner = self.inner.lock();
        let changed = inner.names.get(&(parent, name.clone()));
        changed.is_some_and(|changed| 0 < changed.claims && changed.claims == changed.applied)
    }

    /// Whether a change of the name is under way.
    pub(super) fn is_claimed(&self, parent: Ino, name: &Name) -> bool {
        let inner = self.inner.lock();
        inner.names.get(&(parent, name.clone())).is_some_and(|changed| 0 < changed.claims)
    }

    /// Notes a change that is complete, under the lock of what was changed.
    pub(super) fn note(&self, parent: Ino, name: &Name) {
        self.inner.lock().note((parent, name.clone()));
    }

    /// Notes that the directory `dir`, and with it all below it, has other keys than before; under the
    /// lock of the tree.
    pub(super) fn note_moved(&self, dir: Ino) {
        let mut inner = self.inner.lock();
        inner.seq += 1;
        let at = inner.seq;
        if !inner.requests.is_empty() {
            inner.moved.insert(dir, at);
        }
    }
}

impl Ticket {
    /// Whether the request's answer counts for the name.
    pub(super) fn tells(&self, parent: Ino, name: &Name) -> bool {
        let inner = self.changes.inner.lock();
        if inner.names.is_empty() {
            return true;
        }
        match inner.names.get(&(parent, name.clone())) {
            None => true,
            Some(changed) => changed.claims == 0 && changed.at <= self.seq,
        }
    }
}

impl Ticket {
    /// The directories that got other keys since the request was begun; mostly none.
    pub(super) fn moved_since(&self) -> Vec<Ino> {
        let inner = self.changes.inner.lock();
        inner.moved.iter().filter(|&(_, &at)| self.seq < at).map(|(&dir, _)| dir).collect()
    }

    /// Whether a name in the folder `parent` was changed since the request was begun.
    pub(super) fn outdated(&self, parent: Ino) -> bool {
        let inner = self.changes.inner.lock();
        let mut names = inner.names.iter();
        names.any(|((dir, _), changed)| *dir == parent && self.seq < changed.at)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = self.changes.inner.lock();
        let was_oldest = inner.requests.first_key_value().is_some_and(|(&seq, _)| seq == self.seq);
        let count = inner.requests.get_mut(&self.seq).expect("counted when the ticket was made");
        *count -= 1;
        if *count == 0 {
            inner.requests.remove(&self.seq);
            if was_oldest {
                inner.prune();
            }
        }
    }
}

impl Claim {
    /// The change is made on this mount.
    pub(super) fn applied(&self) {
        if !self.is_applied.swap(true, Ordering::AcqRel) {
            let mut inner = self.changes.inner.lock();
            inner.names.get_mut(&self.name).expect("kept while it is claimed").applied += 1;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut inner = self.changes.inner.lock();
        let changed = inner.names.get_mut(&self.name).expect("kept while it is claimed");
        changed.claims -= 1;
        changed.applied -= usize::from(self.is_applied.load(Ordering::Acquire));
        inner.note(self.name.clone());
    }
}

impl Inner {
    fn note(&mut self, name: (Ino, Name)) {
        self.seq += 1;
        let at = self.seq;
        if self.requests.is_empty() {
            // No request is under way that the change could be hidden from.
            if self.names.get(&name).is_some_and(|changed| changed.claims == 0) {
                self.names.remove(&name);
            }
        } else {
            self.names.entry(name).or_default().at = at;
        }
    }

    fn prune(&mut self) {
        let oldest = self.requests.first_key_value().map_or(Seq::MAX, |(&seq, _)| seq);
        self.names.retain(|_, changed| changed.claims > 0 || oldest < changed.at);
        self.moved.retain(|_, at| oldest < *at);
    }
}

#[cfg(test)]
mod tests {
    use base::{Ino, Name};

    use super::Changes;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_answer_does_not_count_for_names_changed_since_it_was_asked_for() {
        let changes = Changes::default();
        let before = changes.ticket();
        changes.note(Ino(1), &name("a"));
        let after = changes.ticket();
        assert!(!before.tells(Ino(1), &name("a")));
        assert!(before.tells(Ino(1), &name("b")));
        assert!(before.tells(Ino(2), &name("a")));
        assert!(after.tells(Ino(1), &name("a")));
        assert!(before.outdated(Ino(1)) && !before.outdated(Ino(2)) && !after.outdated(Ino(1)));
    }

    #[test]
    fn an_answer_does_not_count_while_the_name_is_being_changed() {
        let changes = Changes::default();
        let claim = changes.claim(Ino(1), &name("a"));
        let during = changes.ticket();
        assert!(!during.tells(Ino(1), &name("a")));
        drop(claim);
        assert!(!during.tells(Ino(1), &name("a")));
        assert!(changes.ticket().tells(Ino(1), &name("a")));
    }

    #[test]
    fn a_directory_that_moved_is_known_to_older_requests_only() {
        let changes = Changes::default();
        changes.note_moved(Ino(2));
        let before = changes.ticket();
        changes.note_moved(Ino(3));
        let after = changes.ticket();
        assert_eq!(before.moved_since(), [Ino(3)]);
        assert!(after.moved_since().is_empty());
        drop(before);
        assert!(changes.inner.lock().moved.is_empty());
    }

    #[test]
    fn nothing_is_remembered_once_no_request_is_under_way() {
        let changes = Changes::default();
        let first = changes.ticket();
        let claim = changes.claim(Ino(1), &name("a"));
        changes.note(Ino(1), &name("b"));
        let second = changes.ticket();
        drop(first);
        assert_eq!(changes.inner.lock().names.len(), 1, "the second began after the change of b");
        drop(claim);
        drop(second);
        assert!(changes.inner.lock().names.is_empty());
        changes.note(Ino(1), &name("c"));
        assert!(changes.inner.lock().names.is_empty());
    }
}
