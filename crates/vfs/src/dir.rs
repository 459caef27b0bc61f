//! One open folder: a stream of entries in which each keeps its place.

use base::Ino;
use namespace::Listing;
use parking_lot::Mutex;

/// An open folder. Its listing is begun when reading begins, so that an offset means the same entry
/// until the stream is rewound, whatever changes meanwhile.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) ino: Ino,
    listing: Mutex<Option<Listing>>,
}

impl Dir {
    pub(crate) fn new(ino: Ino) -> Dir {
        Dir { ino, listing: Mutex::new(None) }
    }

    /// What is read, if reading has begun.
    pub(crate) fn listing(&self) -> Option<Listing> {
        self.listing.lock().clone()
    }

    /// Begins to read, anew if it was begun before.
    pub(crate) fn begin(&self, listing: Listing) -> Listing {
        *self.listing.lock() = Some(listing.clone());
        listing
    }
}
