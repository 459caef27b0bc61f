//! Who brings a file into the bucket, for as long as that takes.

use std::sync::Arc;

use crate::file::File;
use crate::vfs::Vfs;

/// While it lives, the file is not retired: its number stays its own, and nobody who comes to its path is
/// taken for it. Who wanted it gone meanwhile did not wait for that, so its end retires it, also if what it
/// stands for is broken off.
pub(crate) struct Publishing<'a> {
    vfs: &'a Vfs,
    file: &'a Arc<File>,
}

impl<'a> Publishing<'a> {
    /// Begins.
    pub(crate) fn begin(vfs: &'a Vfs, file: &'a Arc<File>) -> Publishing<'a> {
        file.begins_publishing();
        Publishing { vfs, file }
    }
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        self.file.ends_publishing();
        self.vfs.retire(self.file);
    }
}
