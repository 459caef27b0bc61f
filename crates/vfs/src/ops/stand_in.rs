//! A copy of a file in the place of a link to it.

use std::sync::Arc;

use base::{Errno, Ino};

use crate::errno::{Error, Result};
use crate::vfs::Vfs;

impl Vfs {
    /// The symbolic link `link` gives way to a copy of `file`, which the store makes; the bucket has it when this
    /// returns. What was written to `file` so far is in it.
    pub async fn copy_over_link(self: &Arc<Self>, link: Ino, file: Ino) -> Result<()> {
        if let Some(written) = self.files.find(file) {
            self.commit(&written).await?;
            if written.is_dirty() {
                // Somebody writes on: there is no telling what a copy would be.
                return Err(Error::Call(Errno::EBUSY));
            }
        }
        Ok(self.namespace.copy_over_link(link, file).await?)
    }
}
