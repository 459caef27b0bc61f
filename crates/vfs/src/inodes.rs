//! The inodes the kernel knows, and how often it was told of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use base::Ino;
use parking_lot::Mutex;

use crate::page_cache::PageCache;

/// Counts references to inode numbers: the kernel's lookups, and our open files.
#[derive(Debug, Default)]
pub(crate) struct Inodes {
    /// Invariant: no count is zero.
    table: Mutex<HashMap<Ino, Record>>,
}

#[derive(Debug, Default)]
struct Record {
    references: u64,
    page_cache: PageCache,
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

    /// Calls `look` with what is known of the kernel's page cache of `ino`, if anyone refers to it.
    pub(crate) fn with_page_cache<T>(
        &self,
        ino: Ino,
        look: impl FnOnce(&mut PageCache) -> T,
    ) -> Option<T> {
        self.table.lock().get_mut(&ino).map(|record| look(&mut record.page_cache))
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
}
