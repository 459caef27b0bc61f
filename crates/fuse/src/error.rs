//! Why a mount or an unmount failed, sorted by what the person who asked for it does next.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A mount or an unmount that failed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct MountError {
    /// What to do about it.
    pub kind: MountErrorKind,
    /// The mount point.
    pub path: PathBuf,
    /// The words of the system or of `fusermount3`.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Failures by what to do about them; `Display` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountErrorKind {
    /// `/dev/fuse` is missing or may not be opened.
    NoDevice,
    /// An ordinary user needs `fusermount3`, and it is not there.
    NoHelper,
    /// There is no such folder.
    NotFound,
    /// The mount point is not a folder.
    NotADirectory,
    /// A mount of this program is there already.
    AlreadyMounted,
    /// Nothing is mounted there.
    NotMounted,
    /// Something is mounted there, and not by this program; the source says what.
    NotOurs,
    /// Files on it are open.
    Busy,
    /// The system says no.
    Denied,
    /// An ordinary user asked for `allow_other`, and `/etc/fuse.conf` does not allow it.
    AllowOtherDenied,
    /// The user has no entry in `/etc/passwd`, which fusermount3 insists on.
    NoUserName,
    /// A mount whose daemon is gone is in the way and could not be cleared.
    DeadMount,
    /// Anything else; the source says what.
    Other,
}

impl fmt::Display for MountErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MountErrorKind::NoDevice => {
                "cannot open /dev/fuse: load it with `modprobe fuse`, or give the container \
                 `--device /dev/fuse --cap-add SYS_ADMIN`"
            }
            MountErrorKind::NoHelper => {
                "fusermount3 is missing: install the package fuse3, or mount as root"
            }
            MountErrorKind::NotFound => "no such folder: create it first",
            MountErrorKind::NotADirectory => "not a folder: a mount point must be one",
            MountErrorKind::AlreadyMounted => "already mounted: unmount it first",
            MountErrorKind::NotMounted => "not mounted",
            MountErrorKind::NotOurs => "no mount of quayfs",
            MountErrorKind::Busy => {
                "busy: files on it are open, or a shell is in it; `fuser -vm` shows who, and \
                 `quayfs umount --force` does not wait for them"
            }
            MountErrorKind::Denied => {
                "not permitted: an ordinary user needs write access to the mount point and unmounts \
                 only what is his own; a container needs `--cap-add SYS_ADMIN`"
            }
            MountErrorKind::AllowOtherDenied => {
                "allow_other is not permitted to ordinary users: root can allow it with a line \
                 `user_allow_other` in /etc/fuse.conf"
            }
            MountErrorKind::NoUserName => {
                "this user has no name, and fusermount3 wants one:\n  add a line for the user to /etc/passwd \
                 of the container, or mount as root"
            }
            MountErrorKind::DeadMount => {
                "a mount whose daemon is gone is in the way: clear it with `fusermount3 -uz` or, \
                 as root, `umount -l`"
            }
            MountErrorKind::Other => "cannot mount or unmount",
        })
    }
}

impl MountError {
    /// An error with no more to say than its kind.
    pub(crate) fn plain(kind: MountErrorKind, path: &Path) -> MountError {
        MountError { kind, path: path.to_path_buf(), source: None }
    }

    /// An error with the system's or the helper's words.
    pub(crate) fn with_source(
        kind: MountErrorKind,
        path: &Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> MountError {
        MountError { kind, path: path.to_path_buf(), source: Some(source.into()) }
    }

    /// Whether no mount of this program is there, be it another one's.
    pub fn is_not_mounted(&self) -> bool {
        matches!(self.kind, MountErrorKind::NotMounted | MountErrorKind::NotOurs)
    }

    /// What a failed system call on the mount point means.
    pub(crate) fn of_path(path: &Path, error: io::Error) -> MountError {
        let kind = match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NOENT) => MountErrorKind::NotFound,
            Some(rustix::io::Errno::NOTDIR) => MountErrorKind::NotADirectory,
            Some(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => MountErrorKind::Denied,
            Some(rustix::io::Errno::BUSY) => MountErrorKind::Busy,
            Some(rustix::io::Errno::INVAL) => MountErrorKind::NotMounted,
            Some(rustix::io::Errno::NOTCONN) => MountErrorKind::DeadMount,
            _ => MountErrorKind::Other,
        };
        MountError::with_source(kind, path, error)
    }
}
