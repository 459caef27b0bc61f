//! `vfs::Kernel` over the FUSE session.

use std::io;
use std::os::fd::AsFd;

use base::Ino;
use fuse::{Mounted, Notifier, Passthrough};
use store::BackingFile;
use vfs::PageRange;

use crate::tag::Tag;

/// The kernel behind one mount.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    passthrough: Option<Passthrough>,
    notifier: Notifier,
}

impl Link {
    /// That of `mounted`.
    pub(crate) fn new(mounted: &Mounted) -> Link {
        Link { passthrough: mounted.passthrough(), notifier: mounted.notifier() }
    }

    /// As the volume with this tag sees it.
    pub(crate) fn kernel(&self, tag: Tag) -> FuseKernel {
        FuseKernel { link: self.clone(), tag }
    }
}

/// The kernel behind one mount, for one of its volumes.
#[derive(Debug)]
pub(crate) struct FuseKernel {
    link: Link,
    /// How the kernel's numbers begin.
    tag: Tag,
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
        match self.link.passthrough.as_ref()?.register(file.as_fd()) {
            Ok(backing) => Some(Box::new(Registered(backing))),
            Err(error) => {
                tracing::debug!(%error, "the kernel does not take this backing file");
                None
            }
        }
    }

    fn attr_changed(&self, ino: Ino) {
        if let Err(error) = self.link.notifier.inval_attr(self.tag.outer(ino)) {
            tracing::debug!(%ino, %error, "the kernel keeps the attributes it has for their time");
        }
    }

    fn drop_pages(&self, ino: Ino, pages: PageRange) -> io::Result<()> {
        let (notifier, outer) = (&self.link.notifier, self.tag.outer(ino));
        match pages {
            PageRange::All => notifier.inval_inode(outer),
            PageRange::Of(range) => notifier.inval_inode_range(outer, range),
        }
    }
}
