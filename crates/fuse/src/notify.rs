//! Invalidations pushed to the kernel unasked.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use base::{ByteRange, Ino};
use fuser::INodeNo;

/// Tells the kernel to forget what it holds of a node or a name.
///
/// Each call but [`Notifier::inval_attr`] waits for the kernel's locks on pages or names, which a
/// request under way on the same node may hold: never call from inside a request, nor where a
/// request of the node is waited for. What the kernel does not know is no error.
#[derive(Clone, Debug)]
pub struct Notifier(fuser::Notifier);

impl Notifier {
    pub(crate) fn new(notifier: fuser::Notifier) -> Notifier {
        Notifier(notifier)
    }

    /// Attributes and all pages of `ino` are to be asked for again.
    pub fn inval_inode(&self, ino: Ino) -> io::Result<()> {
        // A length of 0 means up to the end.
        self.0.inval_inode(INodeNo(ino.0), 0, 0)
    }

    /// Attributes of `ino` are to be asked for again; its pages stay. Takes no lock, so that it may
    /// be called from anywhere.
    pub fn inval_attr(&self, ino: Ino) -> io::Result<()> {
        self.0.inval_inode(INodeNo(ino.0), -1, 0)
    }

    /// Attributes of `ino` and the pages that hold `range` are to be asked for again.
    pub fn inval_inode_range(&self, ino: Ino, range: ByteRange) -> io::Result<()> {
        let start = i64::try_from(range.start()).unwrap_or(i64::MAX);
        let bytes = i64::try_from(range.end() - range.start()).unwrap_or(0);
        self.0.inval_inode(INodeNo(ino.0), start, bytes)
    }

    /// The name `name` in `parent` is to be looked up again, whether it was there or not.
    pub fn inval_entry(&self, parent: Ino, name: &[u8]) -> io::Result<()> {
        self.0.inval_entry(INodeNo(parent.0), OsStr::from_bytes(name))
    }
}
