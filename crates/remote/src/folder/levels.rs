//! The sorted names of one folder, read once for all pages of a listing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::disk::Disk;
use super::fault::Outcome;
use super::find::{is_side_area, plain_folder};
use super::place::{SideName, decode, side_folder};
use super::stamp;
use super::tree::{Child, ChildKind, Tree};

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

    fn recall(&self, listing: ListingId, prefix: &[u8]) -> Option<Names> {
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

impl Disk {
    /// The names below `prefix`, which is empty or ends in `/`, as the listing first saw them.
    pub(super) fn names(&self, listing: ListingId, prefix: &[u8]) -> Outcome<Names> {
        match self.levels.recall(listing, prefix) {
            Some(names) => Ok(names),
            None => Ok(Arc::new(self.read_names(prefix)?)),
        }
    }

    fn read_names(&self, prefix: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        // The side area first: a key may move from there to its plain place, never back.
        let mut names = self.read_side_names(prefix)?;
        if let Some(path) = plain_folder(prefix)
            && let Some(folder) = self.tree.open_folder(path)?
        {
            Tree::children(&folder, |Child { mut name, kind }| {
                if !is_side_area(prefix, &name) {
                    if kind == ChildKind::Folder {
                        name.push(b'/');
                    }
                    names.push(name);
                }
                true
            })?;
            let is_object =
                !path.is_empty() && (names.is_empty() || stamp::marker(&folder)?.is_some());
            if is_object {
                names.push(Vec::new());
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn read_side_names(&self, prefix: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        // Folders of the side area with the pieces of a part that lead to them.
        let mut folders = vec![(side_folder(prefix), Vec::new())];
        while let Some((path, pieces)) = folders.pop() {
            let Some(fd) = self.tree.open_folder(&path)? else { continue };
            let mut parts = Vec::new();
            Tree::children(&fd, |Child { name, kind }| {
                match (SideName::parse(&name), kind) {
                    (Some(SideName::File(piece)), ChildKind::File) => {
                        names.extend(decode(&[&pieces[..], piece].concat()));
                    }
                    (Some(SideName::Folder(piece)), ChildKind::Folder) => {
                        let below = [&path[..], b"/", &name].concat();
                        parts.extend(decode(&[&pieces[..], piece].concat()).map(|p| (p, below)));
                    }
                    (Some(SideName::Piece(piece)), ChildKind::Folder) => {
                        let below = [&path[..], b"/", &name].concat();
                        folders.push((below, [&pieces[..], piece].concat()));
                    }
                    (_, ChildKind::File | ChildKind::Folder) => {}
                }
                true
            })?;
            for (mut part, below) in parts {
                // A crash may leave a folder of the side area behind that has no keys any more.
                if self.has_side_keys(&below)? {
                    part.push(b'/');
                    names.push(part);
                }
            }
        }
        Ok(names)
    }
}
