//! Which versions the store has said to be in an archive: who opens one is told at once, and need not
//! read first. It may have been restored since, so it is no more than a reason to look.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::Version;

/// So many are remembered. Of others is heard by who reads them.
const VERSIONS_MAX: usize = 100_000;

/// Versions that lie in an archive.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    // Invariant: at most `VERSIONS_MAX`.
    versions: Mutex<BTreeSet<Version>>,
}

impl Shelf {
    /// Remembers `version`.
    pub(crate) fn put(&self, version: &Version) {
        let mut versions = self.versions.lock();
        if versions.len() < VERSIONS_MAX {
            versions.insert(version.clone());
        }
    }

    /// Whether `version` is remembered.
    pub(crate) fn has(&self, version: &Version) -> bool {
        self.versions.lock().contains(version)
    }
}

#[cfg(test)]
mod tests {
    use super::{Shelf, VERSIONS_MAX};
    use crate::Version;

    #[test]
    fn it_does_not_grow_without_end() {
        let shelf = Shelf::default();
        for number in 0..=VERSIONS_MAX {
            shelf.put(&Version::new(&number.to_string()));
        }
        assert!(shelf.has(&Version::new("0")));
        assert!(!shelf.has(&Version::new(&VERSIONS_MAX.to_string())));
    }
}
