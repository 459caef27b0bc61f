//! symlink, readlink, mknod of pipes, sockets and devices.

use std::sync::Arc;

use base::{Attr, Ino, Name};
use namespace::{NewNode, Owner, Special};

use crate::errno::Result;
use crate::vfs::Vfs;

impl Vfs {
    /// Makes a symbolic link.
    pub async fn symlink(
        self: Arc<Self>,
        parent: Ino,
        name: Name,
        target: Vec<u8>,
        owner: Owner,
    ) -> Result<Attr> {
        let entry = self.namespace.symlink(parent, &name, &target, owner).await?;
        self.hand_out(entry.attr)
    }

    /// Where a symbolic link points.
    pub async fn readlink(self: Arc<Self>, ino: Ino) -> Result<Vec<u8>> {
        Ok(self.namespace.readlink(ino).await?)
    }

    /// Makes a pipe, a socket or a device node.
    pub async fn mknod_special(
        self: Arc<Self>,
        parent: Ino,
        name: Name,
        special: Special,
        node: NewNode,
    ) -> Result<Attr> {
        let entry = self.namespace.mknod(parent, &name, special, node).await?;
        self.hand_out(entry.attr)
    }
}
