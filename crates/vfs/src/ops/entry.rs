//! mkdir, mknod, unlink, rmdir, rename.

use std::sync::Arc;

use base::{Attr, Errno, Ino, Name};
use namespace::{NewNode, RenameMode};

use crate::access::Access;
use crate::errno::{Error, Result};
use crate::file::{File, Turn};
use crate::order;
use crate::vfs::Vfs;

impl Vfs {
    /// Makes a folder.
    pub async fn mkdir(self: Arc<Self>, parent: Ino, name: Name, node: NewNode) -> Result<Attr> {
        let entry = self.namespace.mkdir(parent, &name, node).await?;
        self.hand_out(entry.attr)
    }

    /// Makes an empty file that nobody has open; it is in the bucket when this returns.
    pub async fn mknod(self: Arc<Self>, parent: Ino, name: Name, node: NewNode) -> Result<Attr> {
        let vfs = Arc::clone(&self);
        let (attr, opened) = vfs.create(parent, name, node, Access::Write, (0, true)).await?;
        let committed = match self.handles.file(opened.handle) {
            Ok(handle) => self.commit(&handle.file).await,
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
        let file = self.named(parent, &name).await?;
        // An upload under way would bring the object back.
        let _turns = order::both(file.as_ref(), None).await;
        let ino = self.namespace.unlink(parent, &name).await?;
        self.unname(ino);
        Ok(())
    }

    /// Removes an empty folder.
    pub async fn rmdir(self: Arc<Self>, parent: Ino, name: Name) -> Result<()> {
        self.namespace.rmdir(parent, &name).await?;
        Ok(())
    }

    /// Renames; a file of the new name is replaced.
    pub async fn rename(
        self: Arc<Self>,
        from: (Ino, Name),
        to: (Ino, Name),
        mode: RenameMode,
    ) -> Result<()> {
        let source = self.named(from.0, &from.1).await?;
        let replaced = match self.named(to.0, &to.1).await {
            Err(error) if is_not_found(&error) => None,
            found => found?,
        };
        let (turn, _other) = order::both(source.as_ref(), replaced.as_ref()).await;
        if let (Some(file), Some(turn)) = (&source, &turn) {
            self.settle(file, turn).await?;
        }
        let gone = self.namespace.rename((from.0, &from.1), (to.0, &to.1), mode).await?;
        if let Some(gone) = gone {
            self.unname(gone);
        }
        if let Some(file) = &source {
            self.rename_note(file)?;
            self.follow(file).await?;
        }
        Ok(())
    }

    /// An edited object is published before it is renamed, because the object that moves is the
    /// published one. A file that was never published has no object and only changes its name.
    async fn settle(self: &Arc<Self>, file: &Arc<File>, turn: &Turn) -> Result<()> {
        let target = self.namespace.target(file.ino())?;
        match target.condition {
            remote::Condition::Absent => Ok(()),
            remote::Condition::Always | remote::Condition::Is(_) => {
                self.commit_in_turn(file, turn).await
            }
        }
    }

    /// What is not here yet of an open file is fetched from the object of the new name.
    async fn follow(&self, file: &File) -> Result<()> {
        if file.is_whole() {
            return Ok(());
        }
        let content = self.namespace.content(file.ino()).await?;
        let Some(identity) = content.identity else { return Ok(()) };
        let moved = self.download(&identity, content.size, content.extents)?;
        file.state.write().follow(moved);
        Ok(())
    }

    /// Staged bytes say where they belong; after a rename that is elsewhere.
    fn rename_note(&self, file: &File) -> Result<()> {
        let Some(staged) = file.staged() else { return Ok(()) };
        let target = self.namespace.target(file.ino())?;
        Ok(staged.set_note(&self.note(&target, "").to_bytes())?)
    }

    /// The file in use that `name` names, if it is in use.
    async fn named(&self, parent: Ino, name: &Name) -> Result<Option<Arc<File>>> {
        let entry = self.namespace.lookup(parent, name).await?;
        Ok(self.files.find(entry.attr.ino))
    }

    /// A node lost its name.
    fn unname(&self, ino: Ino) {
        if let Some(file) = self.files.unname(ino) {
            self.failures.lock().remove(&ino);
            self.retire(&file);
        }
        if !self.inodes.knows(ino) {
            self.namespace.forget(ino);
        }
    }
}

fn is_not_found(error: &Error) -> bool {
    crate::errno::errno(error) == Errno::ENOENT
}
