//! Hands the kernel a backing file to read without us.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::MemfdFlags;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl, opcode};
use rustix::thread::CapabilitySet;

use crate::channel::Channel;

/// `FUSE_DEV_IOC_BACKING_OPEN`: the kernel keeps a file and gives it a number.
const BACKING_OPEN: Opcode = opcode::write::<BackingMap>(229, 1);

/// `FUSE_DEV_IOC_BACKING_CLOSE`: the kernel forgets a backing file's number.
const BACKING_CLOSE: Opcode = opcode::write::<u32>(229, 2);

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
    channel: Channel,
}

/// A registered backing file; the kernel forgets its number on drop.
///
/// Opens that were answered with the number keep the file, but no further open may use it.
#[derive(Debug)]
pub struct Backing {
    id: u32,
    channel: Channel,
}

impl Passthrough {
    /// Tries it with a file in memory: the kernel may have granted passthrough at the handshake
    /// and still refuse every registration, as it does inside user namespaces.
    pub(crate) fn probe(channel: Channel) -> Option<Passthrough> {
        let passthrough = Passthrough { channel };
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
        let map = BackingMap { descriptor: fd.as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: the request reads its own sixteen bytes, and `fd` is open while it is lent.
        let id = unsafe { ioctl(&self.channel, map) }?;
        Ok(Backing { id, channel: self.channel.clone() })
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
        if let Err(error) = close(&self.channel, self.id) {
            tracing::debug!(id = self.id, %error, "backing file not closed");
        }
    }
}

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    descriptor: i32,
    flags: u32,
    padding: u64,
}

// SAFETY: the opcode is `FUSE_DEV_IOC_BACKING_OPEN`, which reads a `struct fuse_backing_map` and
// returns a number; nothing is written.
unsafe impl Ioctl for BackingMap {
    type Output = u32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        BACKING_OPEN
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        std::ptr::from_mut(self).cast()
    }

    unsafe fn output_from_ptr(
        returned: IoctlOutput,
        _: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<u32> {
        u32::try_from(returned).map_err(|_| rustix::io::Errno::RANGE)
    }
}

fn close(channel: &Channel, id: u32) -> rustix::io::Result<()> {
    // SAFETY: the opcode is `FUSE_DEV_IOC_BACKING_CLOSE`, which reads one `u32`.
    let request = unsafe { Setter::<BACKING_CLOSE, u32>::new(id) };
    // SAFETY: the request only reads its own four bytes, and `channel` is open while it is lent.
    unsafe { ioctl(channel, request) }
}
