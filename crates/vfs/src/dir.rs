//! One open folder: a stable stream of entries.

use std::sync::Arc;

use base::Ino;
use namespace::Entry;
use parking_lot::Mutex;

/// An open folder. What it lists is fixed when reading begins, so that an offset means the same
/// entry until the stream is rewound, whatever changes meanwhile.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) ino: Ino,
    entries: Mutex<Option<Arc<Vec<Entry>>>>,
}

impl Dir {
    pub(crate) fn new(ino: Ino) -> Dir {
        Dir { ino, entries: Mutex::new(None) }
    }

    /// What the stream was fixed to, if reading has begun.
    pub(crate) fn entries(&self) -> Option<Arc<Vec<Entry>>> {
        self.entries.lock().clone()
    }

    /// Fixes the stream, anew if it was.
    pub(crate) fn fix(&self, entries: Vec<Entry>) -> Arc<Vec<Entry>> {
        let entries = Arc::new(entries);
        *self.entries.lock() = Some(Arc::clone(&entries));
        entries
    }
}
