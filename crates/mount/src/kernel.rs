//! `vfs::Kernel` over the FUSE session.

use std::os::fd::AsFd;

use base::{Ino, Name};
use fuse::{Notifier, Passthrough};
use store::BackingFile;

/// The kernel behind one mount.
#[derive(Debug)]
pub(crate) struct FuseKernel {
    pub(crate) notifier: Notifier,
    pub(crate) passthrough: Option<Passthrough>,
}

#[derive(Debug)]
struct Registered(fuse::Backing);

impl vfs::Backing for Registered {
    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl vfs::Kernel for FuseKernel {
    fn register(&self, file: &BackingFile) -> Option<Box<dyn vfs::Backing>> {
        match self.passthrough.as_ref()?.register(file.as_fd()) {
            Ok(backing) => Some(Box::new(Registered(backing))),
            Err(error) => {
                tracing::debug!(%error, "the kernel does not take this backing file");
                None
            }
        }
    }

    fn forget_pages(&self, ino: Ino) {
        if let Err(error) = self.notifier.inval_inode(ino) {
            tracing::warn!(%ino, %error, "the kernel could not be told to forget a file's bytes");
        }
    }

    fn forget_name(&self, parent: Ino, name: &Name) {
        if let Err(error) = self.notifier.inval_entry(parent, name.as_bytes()) {
            tracing::warn!(%name, %error, "the kernel could not be told to forget a name");
        }
    }
}
