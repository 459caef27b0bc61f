//! Fetches, or opens, the small files of a folder that is read file by file, before they are opened.

use std::sync::{Arc, Weak};

use base::Counter;
use futures::{StreamExt, stream};
use namespace::{InFolder, Neighbour};

use crate::file::{Bytes, File};
use crate::trail::{Fetch, Found};
use crate::vfs::Vfs;

/// Larger files have readers of their own, whose reads say what they want.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// How much of a folder is fetched as a whole.
const WHOLE_BYTES_MAX: u64 = 64 << 20;
const WHOLE_FILES_MAX: usize = 4096;

/// Files of one folder that are fetched at a time: each is open meanwhile.
const FILES_AT_A_TIME: usize = 64;

impl Vfs {
    /// `file` was opened to be read.
    pub(crate) fn look_beside(&self, file: &File) {
        let found = match &file.state.read().bytes {
            Bytes::Clean(download) if download.size() <= SMALL_BYTES_MAX => {
                // Where there is no room for one, there is none for others.
                let Some(cached) = download.cached() else { return };
                if cached.is_complete() { Found::Here } else { Found::Missing }
            }
            Bytes::Clean(_) | Bytes::Staged { .. } => return,
        };
        let Some(InFolder { folder, name, entries }) = self.namespace.in_folder(file.ino()) else {
            return;
        };
        let mut trails = self.beside.trails.lock();
        let wanted = match trails.opened(folder, (&name, found), entries) {
            Fetch::Nothing => return,
            Fetch::After(after, files) => {
                let after = (folder, Some(&after));
                let wanted = self.namespace.files_after(after, SMALL_BYTES_MAX, files);
                if let Some(last) = wanted.last() {
                    trails.fetched(folder, &last.name, wanted.len());
                }
                wanted
            }
            Fetch::All(first) => {
                let from = |place| {
                    self.namespace.files_after(place, SMALL_BYTES_MAX, WHOLE_FILES_MAX).into_iter()
                };
                let before = from((folder, None)).take_while(|neighbour| neighbour.name < first);
                within(from((folder, Some(&first))).chain(before))
            }
        };
        drop(trails);
        // It is a guess: where many are under way it is not made.
        let Ok(turn) = Arc::clone(&self.beside.turns).try_acquire_owned() else { return };
        let fetching = fetch(Weak::clone(&self.me), wanted);
        self.runtime.spawn(async move {
            fetching.await;
            drop(turn);
        });
    }

    /// Fetches a file, unless somebody is at it. One that is here stays open for a while.
    async fn fetch_neighbour(self: Arc<Self>, Neighbour { ino, content, .. }: Neighbour) {
        let Some(identity) = content.identity else { return };
        let Ok(download) = self.download(&identity, content.size, content.extents) else { return };
        if download.cached().is_none_or(|cached| cached.is_complete()) {
            return;
        }
        if !self.beside.begin(&identity, &download) {
            return;
        }
        // In this order: who opened it before is at it himself, and who opens it now finds ours.
        if self.files.find(ino).is_none() {
            self.metrics.add(Counter::FilesAhead, 1);
            download.fetch_ahead().await;
        }
        self.beside.end(&identity);
    }
}

/// As many of them as have so many bytes together.
fn within(files: impl Iterator<Item = Neighbour>) -> Vec<Neighbour> {
    let mut bytes = 0;
    let fits = |neighbour: &Neighbour| {
        bytes += neighbour.content.size;
        bytes <= WHOLE_BYTES_MAX
    };
    files.take_while(fits).collect()
}

/// Does not keep the file system.
async fn fetch(vfs: Weak<Vfs>, files: Vec<Neighbour>) {
    stream::iter(files)
        .for_each_concurrent(FILES_AT_A_TIME, |neighbour| {
            let vfs = vfs.upgrade();
            async move {
                if let Some(vfs) = vfs {
                    vfs.fetch_neighbour(neighbour).await;
                }
            }
        })
        .await;
}
