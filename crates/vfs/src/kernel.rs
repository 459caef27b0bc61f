//! `Kernel`: what we ask of the kernel, as a trait, so that tests need none.

use std::fmt::Debug;

use base::{ByteRange, Ino};
use store::BackingFile;

/// The kernel, as far as it can be asked.
pub trait Kernel: Debug + Send + Sync + 'static {
    /// Makes `file` known, so that opens can be answered with it; `None` if the kernel or our
    /// privileges do not allow it.
    fn register(&self, file: &BackingFile) -> Option<Box<dyn Backing>>;

    /// Has what was written to `range` of `ino` through a mapping sent to us, as writes. Waits for
    /// their answers: never to be called where those would wait for the caller.
    fn write_back(&self, ino: Ino, range: ByteRange);

    /// Has the attributes of `ino` asked for again. Never waits.
    fn attr_changed(&self, ino: Ino) {
        let _ = ino;
    }
}

/// A backing file that the kernel knows; given back on drop.
pub trait Backing: Debug + Send + Sync {
    /// The number by which replies name it.
    fn id(&self) -> u32;
}
