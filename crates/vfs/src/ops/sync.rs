//! flush, fsync, fsync of a folder.

use std::sync::Arc;

use base::{HandleId, Ino};

use crate::errno::{Error, Result};
use crate::vfs::Vfs;

impl Vfs {
    /// One close of one descriptor by the process `closer`.
    ///
    /// Every exit of a child that inherited a descriptor sends one of these too. Only the opener's
    /// close waits for the bucket: a child's must not wait for bytes that others still write.
    pub async fn flush(self: Arc<Self>, handle: HandleId, closer: u32) -> Result<()> {
        let handle = self.handles.file(handle)?;
        if !handle.access.writes() {
            return Ok(());
        }
        if handle.opener == closer {
            return self.commit(&handle.file).await;
        }
        if handle.file.is_dirty() {
            self.commit_later(&handle.file);
        }
        Ok(())
    }

    /// What was written so far is in the bucket when this returns.
    pub async fn fsync(self: Arc<Self>, handle: HandleId) -> Result<()> {
        let handle = self.handles.file(handle)?;
        self.commit(&handle.file).await
    }

    /// What was written to the files of a folder so far is in the bucket when this returns.
    pub async fn fsync_dir(self: Arc<Self>, dir: Ino) -> Result<()> {
        let mut synced = Ok(());
        for file in self.files.staged() {
            if self.namespace.parent(file.ino()).is_ok_and(|parent| parent == dir) {
                // One that fails does not keep the others from the bucket.
                synced = synced.and(self.commit(&file).await);
            }
        }
        // The times of what was just uploaded are among the attributes.
        let attributes = self.namespace.sync(Some(dir)).await;
        synced.and(attributes.map_err(Error::from))
    }
}
