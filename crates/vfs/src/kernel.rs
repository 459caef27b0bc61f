//! `Kernel`: what we ask of the kernel, as a trait, so that tests need none.

use std::fmt::Debug;
use std::io;

use base::{ByteRange, Ino};
use store::BackingFile;

/// The kernel, as far as it can be asked.
pub trait Kernel: Debug + Send + Sync + 'static {
    /// Makes `file` known, so that opens can be answered with it; `None` if the kernel or our
    /// privileges do not allow it.
    fn register(&self, file: &BackingFile) -> Option<Box<dyn Backing>>;

    /// Drops what the page cache has of `ino`. What was written to it through a mapping comes to us before, as
    /// writes, and what is being read into it after. Waits for the answers to all of these: never to be called where
    /// one of them would wait for the caller.
    fn drop_pages(&self, ino: Ino, pages: PageRange) -> io::Result<()>;

    /// Has the attributes of `ino` asked for again. Never waits.
    fn attr_changed(&self, ino: Ino) {
        let _ = ino;
    }
}

/// Pages of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRange {
    /// All of them.
    All,
    /// Those that hold some of these bytes.
    Of(ByteRange),
}

/// A backing file that the kernel knows; given back on drop.
pub trait Backing: Debug + Send + Sync {
    /// The number by which replies name it.
    fn id(&self) -> u32;
}
