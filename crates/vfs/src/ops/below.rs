//! Everything below a folder, or one file, into the bucket.

use std::sync::Arc;

use base::Ino;

use crate::file::File;
use crate::vfs::{News, Unpublished, Vfs};

/// Files that are committed at a time.
const FILES_MAX: usize = 64;

/// How deep folders may be nested; no key has as many parts.
const DEPTH_MAX: usize = 4096;

impl Vfs {
    /// What was written so far to `top`, or to anything below it, is in the bucket when this
    /// returns, attributes too; but for what it returns, with what nobody has [`heard`](Vfs::heard) of there.
    pub async fn sync_below(self: &Arc<Self>, top: Ino) -> Vec<Unpublished> {
        let committed = self.commit_in_order(self.staged_below(top), FILES_MAX).await;
        // The times of what was just uploaded are among the attributes.
        let synced = self.namespace.sync_below(top).await;
        let mut unpublished = committed.unpublished();
        unpublished.extend(self.unheard_below(top));
        let failed = |error: namespace::Error| Unpublished::pending(error.to_string());
        unpublished.extend(synced.err().map(failed));
        unpublished
    }

    /// What was lost and given up at and below `top`, as far as nobody was told of it yet.
    pub(crate) fn unheard_below(&self, top: Ino) -> Vec<Unpublished> {
        let path = self.namespace.path(top);
        let lost = path.map_or_else(Vec::new, |path| self.unheard.lock().below(&path));
        let given_up = self.namespace.given_up(top);
        let lost = lost.into_iter().map(Unpublished::lost);
        lost.chain(given_up.into_iter().map(Unpublished::given_up)).collect()
    }

    /// Somebody has heard of all of `told`. Until then who asks is told of it, too: one that asked may be gone before
    /// the answer is there.
    pub fn heard<'a>(&self, told: impl IntoIterator<Item = &'a Unpublished>) {
        for news in told.into_iter().filter_map(|told| told.news) {
            match news {
                News::Lost(number) => self.unheard.lock().heard(number),
                News::GivenUp(number) => self.namespace.heard(number),
            }
        }
    }

    /// Somebody was told by an error that there is some of `told`; the log has the words.
    pub fn heard_without_words<'a>(&self, told: impl IntoIterator<Item = &'a Unpublished>) {
        // Where files come last it is told again: what comes last further up must not come either, which who is told
        // may not know of.
        if self.options.last.is_empty() {
            self.heard(told);
        }
    }

    /// The files with bytes that the bucket may lack, of `top` and all below it.
    pub(crate) fn staged_below(&self, top: Ino) -> Vec<Arc<File>> {
        self.files.staged().into_iter().filter(|file| self.is_below(file.ino(), top)).collect()
    }

    /// Whether `ino` is `top`, or in or below it.
    pub(crate) fn is_below(&self, ino: Ino, top: Ino) -> bool {
        let mut at = ino;
        for _ in 0..DEPTH_MAX {
            if at == top {
                return true;
            }
            match self.namespace.parent(at) {
                Ok(parent) if parent != at => at = parent,
                // The root, or a file without a name.
                Ok(_) | Err(_) => return false,
            }
        }
        false
    }
}
