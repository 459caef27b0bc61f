//! Who is at the other end of a socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::Pid;

/// Who listens where we connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Their user.
    pub(crate) uid: u32,
    /// Their process; none if it is in a namespace of processes that is not seen from ours.
    pub(crate) process: Option<Pid>,
}

impl Peer {
    /// The one of `socket`, as of its `listen`; see unix(7), `SO_PEERCRED`. The safe wrapper takes for granted
    /// that the process is seen.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> io::Result<Peer> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length =
            libc::socklen_t::try_from(size_of_val(&found)).map_err(io::Error::other)?;
        // SAFETY: the kernel writes at most `length` bytes, which `found` has, and any bytes are a value of it.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Peer { uid: found.uid, process: Pid::from_raw(found.pid) })
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::Peer;

    #[test]
    fn the_peer_of_a_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let process = Some(rustix::process::getpid());
        assert_eq!(Peer::of(one.as_fd()).unwrap(), Peer { uid, process });
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(Peer::of(file.as_fd()).is_err());
    }
}
