//! flush, fsync, fsync of a folder.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Errno, HandleId, Ino};

use crate::errno::{Error, Result};
use crate::file::File;
use crate::page_cache::InodeLock;
use crate::vfs::Vfs;

/// Files that a folder's fsync brings into the bucket at a time.
const FILES_AT_A_TIME: usize = 64;

impl Vfs {
    /// One close of one descriptor by the process `closer`.
    ///
    /// Every exit of a child that inherited a descriptor sends one of these too. Only the opener's
    /// close waits: a child's must not wait for bytes that others still write.
    pub async fn flush(self: Arc<Self>, handle: HandleId, closer: u32) -> Result<()> {
        let handle = self.handles.file(handle)?;
        if !handle.access.writes() {
            return Ok(());
        }
        // Before it looks at the bytes: what is cut from now on may not be among those.
        handle.closes.store(true, Ordering::SeqCst);
        handle.file.goes_on();
        self.settle_pages(&handle, InodeLock::Free).await;
        if handle.opener == closer {
            self.close(&handle.file).await?;
            self.take_back_at_close(&handle.file);
            return handle.file.check_not_lost();
        }
        if handle.file.is_dirty() {
            self.commit_after(&handle.file, self.delay_of(&handle.file));
        }
        Ok(())
    }

    /// What was written so far is in the bucket when this returns.
    pub async fn fsync(self: Arc<Self>, handle: HandleId) -> Result<()> {
        let handle = self.handles.file(handle)?;
        self.settle_pages(&handle, InodeLock::Held).await;
        self.commit(&handle.file).await?;
        handle.file.check_not_lost()
    }

    /// What was written to the files of a folder so far is in the bucket when this returns.
    pub async fn fsync_dir(self: Arc<Self>, dir: Ino) -> Result<()> {
        let is_in_it =
            |file: &Arc<File>| self.namespace.parent(file.ino()).is_ok_and(|parent| parent == dir);
        let mut files: Vec<Arc<File>> = self.files.staged().into_iter().filter(is_in_it).collect();
        if files.iter().any(|file| self.comes_last(file)) {
            // They come after what is further below, too.
            files = self.staged_below(dir);
        }
        // One that fails does not keep the others from the bucket, but for those that come last.
        let committed = self.commit_in_order(files, FILES_AT_A_TIME).await;
        let synced = match committed.failed.into_iter().next() {
            Some(error) => Err(error),
            // Somebody holds them back, who has not asked us to wait.
            None if 0 < committed.held => Err(Error::Call(Errno::EBUSY)),
            None => Ok(()),
        };
        // The times of what was just uploaded are among the attributes.
        let attributes = self.namespace.sync(Some(dir)).await;
        synced.and(attributes.map_err(Error::from))?;
        let unheard = self.unheard_below(dir);
        self.heard_without_words(&unheard);
        if unheard.is_empty() { Ok(()) } else { Err(Error::Call(Errno::EIO)) }
    }
}
