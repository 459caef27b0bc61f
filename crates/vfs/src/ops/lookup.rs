//! lookup, forget, getattr, setattr.

use std::sync::Arc;

use base::{Attr, Errno, FileKind, HandleId, Ino, Name, Timestamp};
use namespace::{SetAttr, SetId};

use crate::errno::{Error, Result};
use crate::ops::write::Cut;
use crate::vfs::Vfs;

impl Vfs {
    /// The node `name` in `parent`, with one more reference to it.
    pub async fn lookup(self: Arc<Self>, parent: Ino, name: Name) -> Result<Attr> {
        let entry = self.namespace.lookup(parent, &name).await?;
        self.hand_out(entry.attr)
    }

    /// The kernel gives back `count` references.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.give_back(ino, count);
    }

    /// What `stat` says.
    pub async fn attr(self: Arc<Self>, ino: Ino) -> Result<Attr> {
        let mut attr = self.namespace.attr(ino).await?;
        self.overlay(&mut attr);
        Ok(attr)
    }

    /// As [`Vfs::set_attr`], by who has the file open as `handle`.
    pub async fn set_attr_by(
        self: Arc<Self>,
        handle: HandleId,
        ino: Ino,
        change: SetAttr,
    ) -> Result<Attr> {
        self.handles.file(handle)?.goes_on();
        self.set_attr(ino, change).await
    }

    /// Changes attributes; a new size truncates or grows the file.
    pub async fn set_attr(self: Arc<Self>, ino: Ino, mut change: SetAttr) -> Result<Attr> {
        if let Some(size) = change.size.take() {
            if change.set_id == SetId::Dropped {
                // Before: new bytes never have the bits, not even after a crash.
                Arc::clone(&self).clear_set_id(ino).await?;
                change.set_id = SetId::Kept;
            }
            if self.truncate(ino, size).await? == Cut::Unchanged && change.mtime.is_none() {
                self.say_time(ino, self.clock.wall()).await?;
            }
        }
        if change != SetAttr::default() {
            self.change_attributes(ino, change).await?;
            self.note_attributes(ino)?;
        }
        self.attr(ino).await
    }

    /// At `now` the file was changed in a way that no upload tells: the time goes the way of one that a program
    /// gives. Nobody has asked for it, so where it cannot be said the change stands without it.
    pub(crate) async fn say_time(&self, ino: Ino, now: Timestamp) -> Result<()> {
        let change = SetAttr { mtime: Some(now), ctime: Some(now), ..SetAttr::default() };
        let said = self.change_attributes(ino, change).await;
        match said.and_then(|()| self.note_attributes(ino)) {
            Err(error) if error.is_unsayable() => {
                tracing::debug!(%ino, %error, "the time of a change cannot be said");
                // An upload that is still to come tells it.
                if let Some(file) = self.files.find(ino) {
                    file.attributes_changed(&change, now);
                }
                Ok(())
            }
            said => said,
        }
    }

    async fn change_attributes(&self, ino: Ino, change: SetAttr) -> Result<()> {
        let Some(file) = self.files.find(ino) else {
            self.namespace.set_attr(ino, change).await?;
            return Ok(());
        };
        let _timing = file.timing.lock().await;
        // One time for both: the names tell it after the upload, the file until then.
        let ctime = change.ctime.unwrap_or_else(|| self.clock.wall());
        let change = SetAttr { ctime: Some(ctime), ..change };
        self.namespace.set_attr(ino, change).await?;
        file.attributes_changed(&change, ctime);
        Ok(())
    }

    /// A truncation of what nobody writes is done as by who closes it; else it goes with their close.
    async fn truncate(self: &Arc<Self>, ino: Ino, size: u64) -> Result<Cut> {
        if self.options.file_bytes_max < size {
            return Err(Error::Call(Errno::EFBIG));
        }
        if self.namespace.attr(ino).await?.kind == FileKind::Directory {
            return Err(Error::Call(Errno::EISDIR));
        }
        let file = self.enter(ino).await?;
        let truncated = self.truncate_file(&file, size).await;
        self.files.leave(&file);
        let done = match truncated {
            // Those who only read it close nothing for us, nor do those whose close may have been the last. A cut that
            // changed nothing leaves a clean file: what others do to that counts again.
            Ok(cut) if !self.handles.is_to_be_closed(&file) => {
                let closed = self.close(&file).await.and_then(|()| file.check_not_lost());
                closed.and_then(|()| self.restore(&file)).map(|()| cut)
            }
            other => other,
        };
        if done.is_err() && file.is_dirty() {
            self.commit_later(&file);
        }
        self.retire(&file);
        done
    }

    /// `attr` with one more reference to its node, and with what was written since. Fails if the
    /// names have forgotten the node since they told of it.
    pub(crate) fn hand_out(&self, mut attr: Attr) -> Result<Attr> {
        // In this order: who gives back the last other reference either sees ours, or has told the
        // names to forget before they are told to hold.
        self.inodes.refer(attr.ino);
        if !self.namespace.hold(attr.ino) {
            self.give_back(attr.ino, 1);
            return Err(Error::Call(Errno::ESTALE));
        }
        self.overlay(&mut attr);
        Ok(attr)
    }

    /// The attributes of `ino`, which a listing told of, with one more reference to it; `None` if
    /// the names have forgotten it since.
    pub(crate) fn hand_out_listed(&self, ino: Ino) -> Option<Attr> {
        // In the same order, for the same reason.
        self.inodes.refer(ino);
        let Some(mut attr) = self.namespace.hold_listed(ino) else {
            self.give_back(ino, 1);
            return None;
        };
        self.overlay(&mut attr);
        Some(attr)
    }

    pub(crate) fn overlay(&self, attr: &mut Attr) {
        if attr.kind == FileKind::File
            && let Some(file) = self.files.find(attr.ino)
        {
            file.overlay(attr);
        }
    }
}
