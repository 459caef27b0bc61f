//! `/dev/fuse`: requests by `read`, replies and notices by `write`.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use base::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};

use crate::answer::Core;
use crate::ticket::Outlet;
use crate::wire::{Header, IN_HEADER_BYTES, Opcode, REQUEST_BYTES_MAX, out_header};

/// What is opened for a new connection.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// A request of the largest write with all that comes before its data; the kernel refuses to read
/// into less.
pub(crate) const BUFFER_BYTES: usize = REQUEST_BYTES_MAX as usize + 4096;

/// `FUSE_DEV_IOC_CLONE`: this descriptor belongs to the connection of that one from now on.
const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// A descriptor of the connection. A reply goes where its request came from.
#[derive(Clone, Debug)]
pub(crate) struct Channel(Arc<OwnedFd>);

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    pub(crate) fn new(descriptor: OwnedFd) -> Channel {
        Channel(Arc::new(descriptor))
    }

    /// Another descriptor of the connection, so that threads don't wait for each other; the same
    /// one where the device cannot be opened, as an ordinary user may have got it from
    /// `fusermount3` alone.
    pub(crate) fn another(&self) -> Channel {
        self.cloned().unwrap_or_else(|error| {
            tracing::debug!(%error, "the threads share one descriptor");
            self.clone()
        })
    }

    fn cloned(&self) -> io::Result<Channel> {
        use rustix::fs::{CWD, Mode, OFlags, openat};

        let other = openat(CWD, DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let number = self.as_raw_fd().cast_unsigned();
        // SAFETY: `FUSE_DEV_IOC_CLONE` reads one `u32`, the number of a descriptor, whatever the
        // direction that its name claims.
        let request = unsafe { Setter::<CLONE, u32>::new(number) };
        // SAFETY: the request only reads its own four bytes, and both descriptors are open.
        unsafe { ioctl(&other, request) }?;
        Ok(Channel::new(other))
    }

    pub(crate) fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Reads one message; none if the file system is no longer mounted.
    pub(crate) fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        use rustix::io::Errno;
        loop {
            match rustix::io::read(&*self.0, &mut *buffer) {
                Ok(count) => return Ok(Some(&buffer[..count])),
                // Who asked has gone meanwhile.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                // A thread that is just taking a request when the mount ends sees the connection
                // aborted, where the others, who wait for one, see that there is no device.
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes one message in one piece.
    pub(crate) fn write(&self, parts: &[IoSlice<'_>]) -> rustix::io::Result<()> {
        rustix::io::writev(&*self.0, parts).map(drop)
    }

    /// Writes the reply to the request that the kernel calls `unique`; `errno` is 0 or positive.
    pub(crate) fn reply(&self, unique: u64, errno: i32, body: &[u8]) -> rustix::io::Result<()> {
        let header = out_header(unique, -errno, body.len());
        self.write(&[IoSlice::new(&header), IoSlice::new(body)])
    }

    /// Answers what comes until the end of the mount.
    pub(crate) fn serve(&self, core: &Arc<Core>) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let outlet: Arc<dyn Outlet> = Arc::new(self.clone());
        while let Some(message) = self.read(&mut buffer)? {
            let Some((header, body)) = split(message) else {
                return Err(io::Error::other("the kernel sent half a request"));
            };
            // What is not known has no fields that anyone looks at.
            let fixed = Opcode::of(header.opcode).map_or(0, Opcode::fixed_bytes);
            let (fixed, rest) = body.split_at(fixed.min(body.len()));
            core.take(&header, fixed, rest, &outlet);
        }
        Ok(())
    }
}

/// The header of a message, and what follows it.
pub(crate) fn split(message: &[u8]) -> Option<(Header, &[u8])> {
    let (header, body) = message.split_at_checked(IN_HEADER_BYTES)?;
    Some((Header::read(header)?, body))
}

impl Outlet for Channel {
    fn send(&self, unique: u64, outcome: Result<Vec<u8>, Errno>) {
        let (errno, body) = match outcome {
            Ok(body) => (0, body),
            Err(errno) => (errno.code(), Vec::new()),
        };
        if let Err(error) = self.reply(unique, errno, &body) {
            // Nobody waits for the reply any more: interrupted, or unmounted.
            tracing::debug!(unique, %error, "a reply was not taken");
        }
    }
}
