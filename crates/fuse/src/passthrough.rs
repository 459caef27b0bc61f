//! Hands the kernel a backing file to read without us.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::MemfdFlags;
use rustix::ioctl::{Setter, ioctl, opcode};
use rustix::thread::CapabilitySet;

/// `FUSE_DEV_IOC_BACKING_CLOSE`: the kernel forgets a backing file's number.
const BACKING_CLOSE: rustix::ioctl::Opcode = opcode::write::<u32>(229, 2);

/// Whether to ask the kernel for passthrough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassthroughWish {
    /// If the kernel and our privileges allow it.
    Wanted,
    /// Not at all.
    Off,
}

impl PassthroughWish {
    /// The wish as far as this process could make use of its being granted: to agree on
    /// passthrough without the privilege would gain nothing, and forbid stacking on the mount.
    pub(crate) fn if_privileged(self) -> PassthroughWish {
        if is_admin() { self } else { PassthroughWish::Off }
    }
}

/// Whether this thread may mount and register backing files, as far as it can tell itself.
pub(crate) fn is_admin() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Registers backing files with the kernel. Exists only where that has been seen to work.
#[derive(Clone, Debug)]
pub struct Passthrough {
    device: Arc<OwnedFd>,
}

/// A registered backing file; the kernel forgets its number on drop.
///
/// Opens that were answered with the number keep the file, but no further open may use it.
#[derive(Debug)]
pub struct Backing {
    id: u32,
    device: Arc<OwnedFd>,
}

impl Passthrough {
    /// Tries it with a file in memory: the kernel may have granted passthrough at the handshake
    /// and still refuse every registration, as it does inside user namespaces.
    pub(crate) fn probe(device: OwnedFd) -> Option<Passthrough> {
        let passthrough = Passthrough { device: Arc::new(device) };
        let trial = rustix::fs::memfd_create("passthrough-trial", MemfdFlags::CLOEXEC).ok()?;
        match passthrough.register(trial.as_fd()) {
            Ok(_closed_at_once) => Some(passthrough),
            Err(error) => {
                tracing::debug!(%error, "no passthrough here");
                None
            }
        }
    }

    /// Registers `fd`, which may be closed afterwards. It must be a regular file, on a file system
    /// that is not itself stacked on another.
    pub fn register(&self, fd: BorrowedFd<'_>) -> io::Result<Backing> {
        let id = fuser::BackingId::create_raw(&self.device, fd)?;
        Ok(Backing { id, device: Arc::clone(&self.device) })
    }
}

impl Backing {
    /// The number for [`crate::OpenReply::Passthrough`].
    pub fn id(&self) -> u32 {
        self.id
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // After an unmount the kernel has forgotten everything and says so; nothing is lost.
        if let Err(error) = close(&self.device, self.id) {
            tracing::debug!(id = self.id, %error, "backing file not closed");
        }
    }
}

fn close(device: &OwnedFd, id: u32) -> rustix::io::Result<()> {
    // SAFETY: the opcode is `FUSE_DEV_IOC_BACKING_CLOSE`, which reads one `u32`.
    let request = unsafe { Setter::<BACKING_CLOSE, u32>::new(id) };
    // SAFETY: the request only reads its own four bytes, and `device` is open while it is lent.
    unsafe { ioctl(device, request) }
}
