//! Invalidations pushed to the kernel unasked.

use std::io::{self, IoSlice};

use base::{ByteRange, Ino};

use crate::channel::Channel;
use crate::wire::out_header;

/// `FUSE_NOTIFY_INVAL_INODE`.
const INVAL_INODE: i32 = 2;

/// `FUSE_NOTIFY_INVAL_ENTRY`.
const INVAL_ENTRY: i32 = 3;

/// Tells the kernel to forget what it holds of a node or a name.
///
/// Each call but [`Notifier::inval_attr`] waits for the kernel's locks on pages or names, which a
/// request under way on the same node may hold: never call from inside a request, nor where a
/// request of the node is waited for. What the kernel does not know is no error.
#[derive(Clone, Debug)]
pub struct Notifier(Channel);

impl Notifier {
    pub(crate) fn new(channel: Channel) -> Notifier {
        Notifier(channel)
    }

    /// Attributes and all pages of `ino` are to be asked for again.
    pub fn inval_inode(&self, ino: Ino) -> io::Result<()> {
        // A length of 0 means up to the end.
        self.inode(ino, 0, 0)
    }

    /// Attributes of `ino` are to be asked for again; its pages stay. Takes no lock, so that it may
    /// be called from anywhere.
    pub fn inval_attr(&self, ino: Ino) -> io::Result<()> {
        self.inode(ino, -1, 0)
    }

    /// Attributes of `ino` and the pages that hold `range` are to be asked for again.
    pub fn inval_inode_range(&self, ino: Ino, range: ByteRange) -> io::Result<()> {
        let start = i64::try_from(range.start()).unwrap_or(i64::MAX);
        let bytes = i64::try_from(range.end() - range.start()).unwrap_or(0);
        self.inode(ino, start, bytes)
    }

    /// The name `name` in `parent` is to be looked up again, whether it was there or not.
    pub fn inval_entry(&self, parent: Ino, name: &[u8]) -> io::Result<()> {
        let bytes = u32::try_from(name.len()).map_err(io::Error::other)?;
        // The last field would have the name forgotten without a look at who holds it.
        let fields = [&parent.0.to_ne_bytes()[..], &bytes.to_ne_bytes(), &[0; 4]].concat();
        self.send(INVAL_ENTRY, &[&fields, name, &[0]])
    }

    fn inode(&self, ino: Ino, start: i64, bytes: i64) -> io::Result<()> {
        let fields = [ino.0.to_ne_bytes(), start.to_ne_bytes(), bytes.to_ne_bytes()].concat();
        self.send(INVAL_INODE, &[&fields])
    }

    fn send(&self, kind: i32, body: &[&[u8]]) -> io::Result<()> {
        let body_bytes: usize = body.iter().map(|part| part.len()).sum();
        let header = out_header(0, kind, body_bytes);
        let parts = std::iter::once(&header[..]).chain(body.iter().copied());
        let parts: Vec<IoSlice> = parts.map(IoSlice::new).collect();
        match self.0.write(&parts) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
