//! `vfs::Kernel` over the FUSE session.

use std::os::fd::AsFd;

use fuse::Passthrough;
use store::BackingFile;

/// The kernel behind one mount.
#[derive(Debug)]
pub(crate) struct FuseKernel {
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
}
