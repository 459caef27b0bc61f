//! The inodes the kernel knows, and how often it was told of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use base::Ino;
use parking_lot::Mutex;

/// Counts references to inode numbers: the kernel's lookups, and our open files.
#[derive(Debug, Default)]
pub(crate) struct Inodes {
    /// Invariant: no count is zero.
    table: Mutex<HashMap<Ino, Record>>,
}

#[derive(Debug, Default)]
struct Record {
    references: u64,
    pages: Pages,
}

/// What the kernel's page cache may hold of a file.
#[derive(Debug, Default, PartialEq, Eq)]
enum Pages {
    /// Nothing that may be used.
    #[default]
    Stale,
    /// What was written through it, over what it had.
    Written,
    /// Bytes of this version only.
    Of(Vec<u8>),
}

/// What is left after references were given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Some,
    None,
}

impl Inodes {
    /// One more reference to `ino`.
    pub(crate) fn refer(&self, ino: Ino) {
        self.table.lock().entry(ino).or_default().references += 1;
    }

    /// Gives back `count` references.
    pub(crate) fn give_back(&self, ino: Ino, count: u64) -> Left {
        match self.table.lock().entry(ino) {
            Entry::Occupied(mut record) if count < record.get().references => {
                record.get_mut().references -= count;
                Left::Some
            }
            Entry::Occupied(record) => {
                record.remove();
                Left::None
            }
            Entry::Vacant(_) => Left::None,
        }
    }

    /// Whether anyone refers to `ino`.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.table.lock().contains_key(&ino)
    }

    /// The file is opened through the page cache, for the bytes `identity`. Returns whether the
    /// cache may keep what it has, because it is of just those bytes.
    pub(crate) fn pages_opened(&self, ino: Ino, identity: &[u8]) -> bool {
        let mut table = self.table.lock();
        let Some(record) = table.get_mut(&ino) else { return false };
        let kept = record.pages == Pages::Of(identity.to_vec());
        record.pages = Pages::Of(identity.to_vec());
        kept
    }

    /// The file is opened through the page cache, for bytes that are being written through it.
    /// Returns whether the cache may keep what it has.
    pub(crate) fn pages_written(&self, ino: Ino) -> bool {
        let mut table = self.table.lock();
        let Some(record) = table.get_mut(&ino) else { return false };
        let kept = record.pages != Pages::Stale;
        record.pages = Pages::Written;
        kept
    }

    /// What was written is the version `identity` now.
    pub(crate) fn pages_published(&self, ino: Ino, identity: &[u8]) {
        if let Some(record) = self.table.lock().get_mut(&ino)
            && record.pages != Pages::Stale
        {
            record.pages = Pages::Of(identity.to_vec());
        }
    }

    /// The bytes change without the page cache seeing it from now on.
    pub(crate) fn pages_bypassed(&self, ino: Ino) {
        if let Some(record) = self.table.lock().get_mut(&ino) {
            record.pages = Pages::Stale;
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Ino;

    use super::{Inodes, Left};

    #[test]
    fn an_inode_is_known_until_every_reference_is_back() {
        let inodes = Inodes::default();
        inodes.refer(Ino(5));
        inodes.refer(Ino(5));
        assert_eq!(inodes.give_back(Ino(5), 1), Left::Some);
        assert!(inodes.knows(Ino(5)));
        assert_eq!(inodes.give_back(Ino(5), 1), Left::None);
        assert!(!inodes.knows(Ino(5)));
    }

    #[test]
    fn pages_are_kept_for_the_same_bytes_only() {
        let inodes = Inodes::default();
        inodes.refer(Ino(5));
        assert!(!inodes.pages_opened(Ino(5), b"v1"));
        assert!(inodes.pages_opened(Ino(5), b"v1"));
        assert!(!inodes.pages_opened(Ino(5), b"v2"));
        inodes.pages_bypassed(Ino(5));
        assert!(!inodes.pages_opened(Ino(5), b"v2"));
    }

    #[test]
    fn pages_follow_what_is_written_through_them() {
        let inodes = Inodes::default();
        inodes.refer(Ino(5));
        assert!(!inodes.pages_opened(Ino(5), b"v1"));
        assert!(inodes.pages_written(Ino(5)));
        inodes.pages_published(Ino(5), b"v2");
        assert!(inodes.pages_opened(Ino(5), b"v2"));
    }

    #[test]
    fn publishing_does_not_revive_pages_that_were_bypassed() {
        let inodes = Inodes::default();
        inodes.refer(Ino(5));
        inodes.pages_opened(Ino(5), b"v1");
        inodes.pages_bypassed(Ino(5));
        inodes.pages_published(Ino(5), b"v2");
        assert!(!inodes.pages_opened(Ino(5), b"v2"));
    }
}
