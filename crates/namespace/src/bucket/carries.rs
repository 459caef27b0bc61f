//! What moves of earlier processes carried: which uploads, and where to; and which removals have to wait.

use std::collections::HashSet;

use parking_lot::Mutex;
use remote::{Key, Version};

use super::marks::Marks;
use crate::RecordId;

/// What moves of earlier processes carried.
#[derive(Debug, Default)]
pub(super) struct Carries {
    // A leaf: no other lock is taken under it.
    carries: Mutex<Vec<Carry>>,
    /// Objects whose removal the store did not let us finish.
    // A leaf, too.
    removed: Mutex<HashSet<Key>>,
}

/// What one of them carried.
#[derive(Debug)]
pub(super) struct Carry {
    pub(super) uploads: HashSet<String>,
    /// The old name, a prefix if it is a folder.
    pub(super) from: Key,
    /// The new one.
    pub(super) to: Key,
    pub(super) end: End,
}

/// How the move went.
#[derive(Debug)]
pub(super) enum End {
    /// It is over.
    Done { marks: Marks, records: Vec<RecordId> },
    /// The store did not let us finish it.
    Waits,
}

impl Carries {
    /// A move of an earlier process was looked at.
    pub(super) fn add(&self, carry: Carry) {
        self.carries.lock().push(carry);
    }

    /// How many there are, in the order in which they were made.
    pub(super) fn len(&self) -> usize {
        self.carries.lock().len()
    }

    /// The removal of this object has to wait, if it is one.
    pub(super) fn removal_waits(&self, key: Option<Key>) {
        self.removed.lock().extend(key);
    }

    /// Whether the object was removed by an earlier process, and is in the bucket until that can be finished.
    pub(super) fn is_to_go(&self, key: &Key) -> bool {
        self.removed.lock().contains(key)
    }

    /// All of them; none are left, and nobody asks any more what was removed.
    pub(super) fn take_all(&self) -> Vec<Carry> {
        self.removed.lock().clear();
        std::mem::take(&mut *self.carries.lock())
    }
}

/// Whether and where bytes went.
pub(super) enum Along {
    Not,
    Waits,
    To(Key),
}

impl Carries {
    /// Whether and where bytes went that were to become `key` by the upload `upload`, with the move `at`.
    pub(super) fn carried_by(&self, at: usize, upload: &str, key: &Key) -> Along {
        let carries = self.carries.lock();
        let Some(carry) = carries.get(at).filter(|carry| carry.uploads.contains(upload)) else {
            return Along::Not;
        };
        let Some(rest) = carry.rest(key) else { return Along::Not };
        match carry.end {
            End::Done { .. } => Along::To(carry.to.join(rest)),
            End::Waits => Along::Waits,
        }
    }

    /// Whether the object of this version at the destination is a copy of what `key` was.
    pub(super) fn is_copy_of(
        &self,
        at: usize,
        (key, old): (&Key, &Version),
        now: &Version,
    ) -> bool {
        let carries = self.carries.lock();
        let Some(carry) = carries.get(at) else { return false };
        match (&carry.end, carry.rest(key)) {
            (End::Done { marks, .. }, Some(rest)) => marks.moved(rest, old, now),
            (End::Done { .. } | End::Waits, _) => false,
        }
    }
}

impl Carry {
    /// What follows the old name in `key`, if it moved with it; or the new name, of which those may have been
    /// told already who have yet to be told of the version that is there.
    fn rest<'a>(&self, key: &'a Key) -> Option<&'a [u8]> {
        let is_folder = self.from.as_bytes().ends_with(b"/");
        let ends = [&self.from, &self.to].into_iter();
        let mut rests = ends.filter_map(|end| key.as_bytes().strip_prefix(end.as_bytes()));
        rests.find(|rest| rest.is_empty() || is_folder)
    }
}
