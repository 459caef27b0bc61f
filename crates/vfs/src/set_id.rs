//! The set-uid and set-gid bits go when somebody else than root changes a file's bytes, and when its
//! owner changes.

use std::sync::Arc;

use base::{FileKind, HandleId, Ino};
use namespace::SetAttr;

use crate::errno::Result;
use crate::vfs::Vfs;

const SET_UID: u16 = 0o4000;
const SET_GID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o0010;

/// `mode` without the bits that lend somebody's rights. Set-gid without execution by the group lends
/// none: it once meant locking.
fn cleared(mode: u16) -> u16 {
    let lends_group = mode & GROUP_EXECUTES != 0;
    mode & !(SET_UID | if lends_group { SET_GID } else { 0 })
}

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
        let mode = cleared(attr.mode);
        if attr.kind == FileKind::Directory || mode == attr.mode {
            return Ok(());
        }
        let change = SetAttr { mode: Some(mode), ..SetAttr::default() };
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

#[cfg(test)]
mod tests {
    use super::cleared;

    #[test]
    fn what_lends_rights_goes_and_nothing_else() {
        for (mode, want) in [
            (0o4755, 0o755),
            (0o2755, 0o755),
            (0o6711, 0o711),
            (0o2644, 0o2644),
            (0o6644, 0o2644),
            (0o1777, 0o1777),
        ] {
            assert_eq!(cleared(mode), want, "{mode:o}");
        }
    }
}
