//! `copy_file_range`: from one file to another without the bytes passing through a program.

use std::sync::Arc;

use base::{Errno, HandleId};

use crate::errno::{Error, Result};
use crate::page_cache::WriteMode;
use crate::vfs::Vfs;

/// How much is in memory at a time.
const PIECE_BYTES: u32 = 1 << 20;

/// How much one call copies at most; who asks for more calls again. A call that copied for long
/// could not be interrupted.
const CALL_BYTES_MAX: u64 = 64 << 20;

/// The bytes of one file from an offset on.
pub type Place = (HandleId, u64);

impl Vfs {
    /// Copies up to `len` bytes; fewer at the end of the source, or of what one call copies.
    pub async fn copy(self: Arc<Self>, from: Place, to: Place, len: u64) -> Result<u64> {
        let target = self.handles.file(to.0)?;
        if !target.access.writes() {
            return Err(Error::Call(Errno::EBADF));
        }
        let len = len.min(CALL_BYTES_MAX);
        let mut copied = 0;
        while copied < len {
            if 0 < copied {
                // The thread that asked first has others to serve.
                tokio::task::yield_now().await;
            }
            let piece =
                u32::try_from(len - copied).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let step = self.copy_piece((from.0, from.1 + copied), (to.0, to.1 + copied), piece);
            match step.await {
                Ok(0) => break,
                Ok(bytes) => copied += u64::from(bytes),
                // What was copied is told of; the next call meets the error again.
                Err(_) if 0 < copied => break,
                Err(error) => return Err(error),
            }
        }
        Ok(copied)
    }

    async fn copy_piece(self: &Arc<Self>, from: Place, to: Place, len: u32) -> Result<u32> {
        let bytes = Arc::clone(self).read(from.0, from.1, len).await?;
        if bytes.is_empty() {
            return Ok(0);
        }
        // The kernel drops the pages of what is copied to.
        match self.try_write(to, &bytes, WriteMode::Buffered) {
            Some(written) => {
                self.wait_for_room().await;
                written
            }
            None => Arc::clone(self).write(to, bytes, WriteMode::Buffered).await,
        }
    }
}
