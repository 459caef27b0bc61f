//! statfs.

use crate::vfs::Vfs;

/// What a file system says of its room, in bytes and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// In all.
    pub bytes: u64,
    /// Left.
    pub bytes_free: u64,
    /// Files that can still be made.
    pub files_free: u64,
}

impl Space {
    /// A bucket has no limit that could be shown; programs that ask want to hear that there is room.
    pub const BUCKET: Space = Space { bytes: 1 << 50, bytes_free: 1 << 50, files_free: 1 << 40 };
}

impl Vfs {
    /// The room of a bucket.
    pub fn space(&self) -> Space {
        Space::BUCKET
    }
}
