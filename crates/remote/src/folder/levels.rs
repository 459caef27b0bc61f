//! The sorted names of one folder, read once for all pages of a listing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How many folders are remembered: the ones on the way to where a few listings stand.
const LEVELS_MAX: usize = 16;

/// Smaller folders are faster read again than looked up.
const NAMES_MIN: usize = 256;

/// The names below one prefix in byte order: of folders with a `/` behind, of the prefix itself
/// the empty one, if it is an object.
pub(super) type Names = Arc<Vec<Vec<u8>>>;

/// Which listing a page is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListingId(pub(super) u64);

/// The folders that listings under way have read. A page may show what was there when the listing
/// began; a new listing never does.
#[derive(Debug)]
pub(super) struct Levels {
    next_listing: AtomicU64,
    // Invariant: at most `LEVELS_MAX`, the one used last at the end.
    levels: Mutex<Vec<Level>>,
}

#[derive(Debug)]
struct Level {
    listing: ListingId,
    prefix: Vec<u8>,
    names: Names,
}

impl Levels {
    pub(super) fn new() -> Levels {
        Levels { next_listing: AtomicU64::new(0), levels: Mutex::new(Vec::new()) }
    }

    pub(super) fn new_listing(&self) -> ListingId {
        ListingId(self.next_listing.fetch_add(1, Ordering::Relaxed))
    }

    /// What an earlier page of the listing saw below `prefix`.
    pub(super) fn recall(&self, listing: ListingId, prefix: &[u8]) -> Option<Names> {
        let mut levels = self.levels.lock();
        let at = levels.iter().position(|l| l.listing == listing && l.prefix == prefix)?;
        let level = levels.remove(at);
        let names = Arc::clone(&level.names);
        levels.push(level);
        Some(names)
    }

    /// Keeps `names` for the next page of the listing.
    pub(super) fn remember(&self, listing: ListingId, prefix: &[u8], names: &Names) {
        if names.len() < NAMES_MIN || self.recall(listing, prefix).is_some() {
            return;
        }
        let mut levels = self.levels.lock();
        if levels.len() == LEVELS_MAX {
            levels.remove(0);
        }
        levels.push(Level { listing, prefix: prefix.to_vec(), names: Arc::clone(names) });
    }

    /// The listing has come to its end.
    pub(super) fn forget(&self, listing: ListingId) {
        self.levels.lock().retain(|level| level.listing != listing);
    }
}
