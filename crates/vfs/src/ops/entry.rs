//! mkdir, mknod, unlink, rmdir, rename.

use std::sync::Arc;

use base::{Attr, FileKind, Ino, Name};
use futures::{StreamExt, TryStreamExt, stream};
use namespace::{Entry, ErrorKind, NewNode, RenameMode};
use remote::Condition;

use crate::access::Access;
use crate::errno::Result;
use crate::file::File;
use crate::moved::is_nameless;
use crate::vfs::{Commit, Vfs};

/// Files below a folder that are brought into the bucket at a time before it is renamed.
const FILES_AT_A_TIME: usize = 64;

impl Vfs {
    /// Makes a folder.
    pub async fn mkdir(self: Arc<Self>, parent: Ino, name: Name, node: NewNode) -> Result<Attr> {
        let entry = self.namespace.mkdir(parent, &name, node).await?;
        // Others may have removed one of that path before: its number is the same.
        self.forget_losses(entry.attr.ino);
        self.hand_out(entry.attr)
    }

    /// Makes an empty file that nobody has open, and that is as safe as after its close.
    pub async fn mknod(self: Arc<Self>, parent: Ino, name: Name, node: NewNode) -> Result<Attr> {
        let vfs = Arc::clone(&self);
        let (attr, opened) = vfs.create(parent, name, node, Access::Write, (0, true)).await?;
        let committed = match self.handles.file(opened.handle) {
            Ok(handle) => self.close(&handle.file).await,
            Err(error) => Err(error),
        };
        self.release(opened.handle)?;
        if let Err(error) = committed {
            self.give_back(attr.ino, 1);
            return Err(error);
        }
        Ok(attr)
    }

    /// Removes a file; its bytes live on for who has it open.
    pub async fn unlink(self: Arc<Self>, parent: Ino, name: Name) -> Result<()> {
        let ino = self.namespace.unlink(parent, &name).await?;
        if let Some(file) = self.files.find(ino) {
            self.end_stream(&file);
        }
        self.unname(ino);
        Ok(())
    }

    /// Removes an empty folder.
    pub async fn rmdir(self: Arc<Self>, parent: Ino, name: Name) -> Result<()> {
        let gone = self.namespace.rmdir(parent, &name).await?;
        self.forget_losses(gone);
        Ok(())
    }

    /// Renames; a file of the new name is replaced.
    pub async fn rename(
        self: Arc<Self>,
        from: (Ino, Name),
        to: (Ino, Name),
        mode: RenameMode,
    ) -> Result<()> {
        if mode == RenameMode::Exchange {
            // What is not in the bucket yet could not be found again after a crash in between.
            self.commit_named(from.0, &from.1).await?;
            self.commit_named(to.0, &to.1).await?;
        }
        for file in self.staged_at(from.0, &from.1).await? {
            self.end_ahead(&file).await;
        }
        if self.options.commit == Commit::Async && mode == RenameMode::Exchange {
            self.send_acknowledged(from.0, &from.1).await?;
            self.send_acknowledged(to.0, &to.1).await?;
        }
        let replaced = self.named(to.0, &to.1).await?;
        if let Some(file) = &replaced {
            self.end_ahead(file).await;
        }
        let moving = self.named(from.0, &from.1).await?;
        if let Some(moving) = &moving {
            self.send_what_replaces(moving).await?;
            moving.replaces.lock().clone_from(&replaced);
        }
        let renamed = self.namespace.rename((from.0, &from.1), (to.0, &to.1), mode).await;
        if let Some(moving) = &moving {
            *moving.replaces.lock() = None;
        }
        match renamed {
            Ok(gone) => {
                if let Some(gone) = gone {
                    self.forget_losses(gone);
                    self.unname(gone);
                }
                // Under its new name it may be one for which others wait.
                if let Some(moving) = moving
                    && self.comes_last(&moving)
                    && moving.acknowledged.lock().is_some()
                {
                    self.commit_after(&moving, self.delay_of(&moving));
                }
                Ok(())
            }
            Err(error) => {
                // It may have failed after the new name was there.
                if let Some(file) = replaced
                    && is_nameless(self.namespace.target(file.ino()))
                {
                    self.unname(file.ino());
                }
                Err(error.into())
            }
        }
    }

    /// The file in use that `name` names, if there is one.
    async fn named(&self, parent: Ino, name: &Name) -> Result<Option<Arc<File>>> {
        match self.namespace.lookup(parent, name).await {
            Ok(entry) => Ok(self.files.find(entry.attr.ino)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn commit_named(self: &Arc<Self>, parent: Ino, name: &Name) -> Result<()> {
        match self.named(parent, name).await? {
            Some(file) => self.commit(&file).await,
            None => Ok(()),
        }
    }

    /// Brings into the bucket what closes were told is safe of the file or folder `name`, as far as a
    /// crash in the middle of an exchange could leave it under the old name: what only this mount has
    /// of a file moves with its note, all at once.
    async fn send_acknowledged(self: &Arc<Self>, parent: Ino, name: &Name) -> Result<()> {
        let is_single = |file: &Arc<File>| {
            let content = self.namespace.content_now(file.ino());
            content.is_ok_and(|content| content.identity.is_none())
        };
        let files = self.staged_at(parent, name).await?;
        if self.named(parent, name).await?.is_some_and(|file| is_single(&file)) {
            return Ok(());
        }
        let acknowledged = files.into_iter().filter(|file| file.acknowledged.lock().is_some());
        stream::iter(acknowledged.collect::<Vec<_>>())
            .map(|file| async move { self.commit_in_background(&file).await })
            .buffer_unordered(FILES_AT_A_TIME)
            .try_for_each(|()| async { Ok(()) })
            .await
    }

    /// Brings into the bucket what a close was told is safe of `file`, if it is to replace an object under
    /// its old name: that object has to go first, and after a crash in between nobody would know what
    /// became of it.
    async fn send_what_replaces(self: &Arc<Self>, file: &Arc<File>) -> Result<()> {
        let is_new =
            self.namespace.content_now(file.ino()).is_ok_and(|content| content.identity.is_none());
        let target = self.namespace.target(file.ino());
        let replaces = target.is_ok_and(|target| matches!(target.condition, Condition::Is(_)));
        if is_new && replaces && file.acknowledged.lock().is_some() {
            self.commit_in_background(file).await?;
        }
        Ok(())
    }

    /// The files with bytes that the bucket may lack, of `name` and all below it.
    async fn staged_at(&self, parent: Ino, name: &Name) -> Result<Vec<Arc<File>>> {
        match self.namespace.lookup(parent, name).await {
            Ok(Entry { attr: Attr { kind: FileKind::Directory, ino, .. }, .. }) => {
                Ok(self.staged_below(ino))
            }
            Ok(entry) => Ok(self.files.find(entry.attr.ino).into_iter().collect()),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Who finds the bytes of a removed file after a crash is not to upload them.
    fn disown(&self, file: &File) {
        let Some(staged) = file.staged() else { return };
        let mut notes = file.noting.lock();
        *notes += 1;
        if let Err(error) = staged.set_note(&[]) {
            tracing::warn!(ino = %file.ino(), %error, "a removed file would come back after a crash");
        }
        if let Some(version) = file.acknowledged.lock().take() {
            self.store.reject(&staged, version.sealed);
        }
    }

    /// A node lost its name.
    fn unname(&self, ino: Ino) {
        if let Some(file) = self.files.unname(ino) {
            self.failures.remove(ino);
            self.retire(&file);
            if self.files.find(ino).is_some() {
                self.disown(&file);
            }
        }
        if !self.inodes.knows(ino) {
            self.namespace.forget(ino);
        }
    }
}
