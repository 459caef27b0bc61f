//! Drops of stale pages from the kernel's page cache, before anything is answered that may read them.
//!
//! The kernel waits for the lock of each page that it drops. It holds such a lock while a read fills the page, and while
//! a buffered write of a part of it is on its way. So a drop ends only after the daemon has answered these, and:
//!
//! * no answer to a read, to a buffered write, or to a truncation may wait for a drop: opens, direct writes, closes and
//!   fsyncs do;
//! * a drop begins when the [requests that hold pages](crate::page_locks) are answered, has a thread of its own, and the
//!   wait for all of it has a limit.

use std::sync::Arc;
use std::time::Duration;

use base::Ino;

use crate::file::File;
use crate::handles::Handle;
use crate::kernel::PageRange;
use crate::page_cache::{Dropped, InodeLock, PageCache};
use crate::vfs::Vfs;

/// Longest wait for a drop, in real time: reads of these pages may wait for a store that does not answer. The pages
/// stay stale then, and each open passes them by until a drop ends in time.
const DROP_WAIT_MAX: Duration = Duration::from_secs(5);

/// Answer of the kernel to a drop.
enum InKernel {
    Dropped,
    Kept,
}

impl Vfs {
    /// Has the kernel drop pages of `file`. Waits for reads of them that are under way, but not for ever.
    pub(crate) async fn drop_pages(
        &self,
        file: &File,
        pages: PageRange,
        lock: InodeLock,
    ) -> Dropped {
        let ino = file.ino();
        let begun = self.inodes.with_page_cache(ino, |cache| cache.begin_drop(lock));
        let dropping = async {
            file.page_locks.released().await;
            self.drop_in_kernel(ino, pages).await
        };
        let outcome = tokio::time::timeout(DROP_WAIT_MAX, dropping).await.unwrap_or_else(|_| {
            tracing::warn!(%ino, "reads of a file hold stale pages; its opens pass the page cache until they are answered");
            // It drops them some time, perhaps beside a write that is under way then.
            self.inodes.with_page_cache(ino, PageCache::pass);
            InKernel::Kept
        });
        let dropped = match (outcome, pages) {
            (InKernel::Dropped, PageRange::All) => Dropped::All,
            (InKernel::Dropped, PageRange::Of(_)) | (InKernel::Kept, _) => Dropped::Some,
        };
        if let Some(begun) = begun {
            self.inodes.with_page_cache(ino, |cache| cache.end_drop(begun, dropped));
        }
        dropped
    }

    async fn drop_in_kernel(&self, ino: Ino, pages: PageRange) -> InKernel {
        let Some(kernel) = self.kernel().map(Arc::clone) else { return InKernel::Kept };
        let Ok(permit) = Arc::clone(&self.dropping).acquire_owned().await else {
            return InKernel::Kept;
        };
        let dropping = self.runtime.spawn_blocking(move || {
            let _permit = permit;
            kernel.drop_pages(ino, pages)
        });
        match dropping.await {
            Ok(Ok(())) => InKernel::Dropped,
            Ok(Err(error)) => {
                tracing::warn!(%ino, %error, "kernel keeps stale pages of a file; its opens pass the page cache");
                InKernel::Kept
            }
            // The runtime ends.
            Err(_) => InKernel::Kept,
        }
    }

    /// Leaves nothing in the page cache that is older than the writes of `handle`, which is about to be closed or
    /// synced: a reader may have it open already, and its open drops nothing any more.
    pub(crate) async fn settle_pages(&self, handle: &Handle, lock: InodeLock) {
        let file = &handle.file;
        if !file.state.read().io.is_cached() {
            return;
        }
        let look = |cache: &mut PageCache| (cache.is_stale(), cache.drops());
        let Some((is_stale, drops)) = self.inodes.with_page_cache(file.ino(), look) else { return };
        let unsettled = handle.unsettled.lock().settle(drops, lock);
        if is_stale {
            self.drop_pages(file, PageRange::All, lock).await;
        } else if let Some(written) = unsettled {
            self.drop_pages(file, PageRange::Of(written), lock).await;
        }
    }
}
