//! `Attr`, `FileKind`, `Timestamp`: what `stat` can say of a node.

use crate::Ino;

/// A moment, in seconds and nanoseconds since 1970; before it, `secs` is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds, rounded down.
    pub secs: i64,
    /// The rest, 0 to 999,999,999.
    pub nanos: u32,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Bytes.
    File,
    /// Names.
    Directory,
    /// A path to elsewhere.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A local socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// What `stat` says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits with suid, sgid and sticky: `0o7777` at most.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names.
    pub nlink: u32,
    /// Device number of a device node, else 0.
    pub rdev: u32,
    /// Last read, as far as it is kept.
    pub atime: Timestamp,
    /// Last change of the bytes.
    pub mtime: Timestamp,
    /// Last change of bytes or attributes.
    pub ctime: Timestamp,
}

impl Attr {
    /// Space taken in units of 512 bytes: objects have no holes.
    pub fn blocks(&self) -> u64 {
        self.size.div_ceil(512)
    }
}
