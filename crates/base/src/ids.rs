//! `Ino`, `HandleId`: numbers that must not be mixed up.

use std::fmt;

/// An inode number, as `stat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    /// The folder that is mounted. FUSE fixes its number.
    pub const ROOT: Ino = Ino(1);

    /// Numbers within one volume have so many bits. The others are for whoever shows several volumes as
    /// one file system.
    pub const BITS: u32 = 52;
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// One open file or folder, as the kernel refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandleId(pub u64);
