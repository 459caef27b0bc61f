//! Where the bytes of a file come from, so that nobody edits them in place for whom they are another file's.

use std::ops::Deref;
use std::sync::Arc;

use store::{Cached, InUse};
use transfer::Download;

/// What a file in use is fetched from. While it lives, no other file takes the cached bytes for writing.
#[derive(Debug)]
pub(crate) struct Source {
    download: Arc<Download>,
    in_use: Option<InUse>,
}

impl Source {
    /// The file is not in use any more, for however long something still has it.
    pub(crate) fn let_go(&mut self) {
        self.in_use = None;
    }
}

impl From<Arc<Download>> for Source {
    fn from(download: Arc<Download>) -> Source {
        let in_use = download.cached().map(Cached::in_use);
        Source { download, in_use }
    }
}

impl Deref for Source {
    type Target = Arc<Download>;

    fn deref(&self) -> &Arc<Download> {
        &self.download
    }
}
