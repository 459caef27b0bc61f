//! `Kernel`: what we ask of the kernel, as a trait, so that tests need none.

use std::fmt::Debug;

use store::BackingFile;

/// The kernel, as far as it can be asked.
pub trait Kernel: Debug + Send + Sync + 'static {
    /// Makes `file` known, so that opens can be answered with it; `None` if the kernel or our
    /// privileges do not allow it.
    fn register(&self, file: &BackingFile) -> Option<Box<dyn Backing>>;
}

/// A backing file that the kernel knows; given back on drop.
pub trait Backing: Debug + Send + Sync {
    /// The number by which replies name it.
    fn id(&self) -> u32;
}
