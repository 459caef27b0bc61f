//! The set-uid and set-gid bits go when somebody else than root changes a file's bytes, and when its
//! owner changes.

use std::sync::Arc;

use base::{FileKind, HandleId, Ino};
use namespace::{SetAttr, SetId, without_set_id};

use crate::errno::Result;
use crate::vfs::Vfs;

impl Vfs {
    /// Whether a change of bytes through `handle` has bits to take off.
    pub fn has_set_id(&self, handle: HandleId) -> bool {
        self.handles.file(handle).is_ok_and(|handle| handle.file.has_set_id())
    }

    /// Takes the bits off the file of `handle`.
    pub async fn clear_set_id_of(self: Arc<Self>, handle: HandleId) -> Result<()> {
        let ino = self.handles.file(handle)?.file.ino();
        self.clear_set_id(ino).await
    }

    /// Takes the bits off a file.
    pub async fn clear_set_id(self: Arc<Self>, ino: Ino) -> Result<()> {
        let attr = self.namespace.attr(ino).await?;
        if attr.kind == FileKind::Directory || without_set_id(attr.mode) == attr.mode {
            return Ok(());
        }
        let change = SetAttr { set_id: SetId::Dropped, ..SetAttr::default() };
        let attr = self.namespace.set_attr(ino, change).await?;
        if let Some(file) = self.files.find(ino) {
            file.mode_is(attr.mode);
        }
        if let Some(kernel) = self.kernel() {
            kernel.attr_changed(ino);
        }
        Ok(())
    }
}
