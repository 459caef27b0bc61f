//! lseek to data and to holes.

use std::sync::Arc;

use base::{ByteRange, Errno, HandleId};
use store::Seek;

use crate::errno::{Error, Result};
use crate::file::{Bytes, File};
use crate::kernel::PageRange;
use crate::page_cache::InodeLock;
use crate::vfs::Vfs;

/// A hole is looked at again when the kernel has written back what a mapping has in it; who writes
/// into one hole after the other meanwhile gets an answer that is old at once, in any case.
const LOOKS_MAX: usize = 8;

impl Vfs {
    /// The first place from `from` on that is what is looked for; ENXIO if there is none.
    ///
    /// Holes are what was written as holes. What was not fetched yet is data, and so is all of a
    /// clean file that is not wholly here.
    pub async fn seek(self: Arc<Self>, handle: HandleId, from: u64, seek: Seek) -> Result<u64> {
        let file = Arc::clone(&self.handles.file(handle)?.file);
        let mut found = seek_here(&file, from, seek)?;
        if self.handles.is_mappable(&file) {
            for _ in 0..LOOKS_MAX {
                let Some(hole) = hole_of(&file, from, found, seek)? else { break };
                self.drop_pages(&file, PageRange::Of(hole), InodeLock::Held).await;
                let again = seek_here(&file, from, seek)?;
                if again == found {
                    break;
                }
                found = again;
            }
        }
        found.ok_or(Error::Call(Errno::ENXIO))
    }
}

/// The hole that the answer `found` speaks of, if it speaks of one.
fn hole_of(file: &File, from: u64, found: Option<u64>, seek: Seek) -> Result<Option<ByteRange>> {
    let size = file.size();
    Ok(match (seek, found) {
        (Seek::Data, found) => ByteRange::new(from, found.unwrap_or(size)),
        (Seek::Hole, None) => None,
        (Seek::Hole, Some(hole)) => {
            ByteRange::new(hole, seek_here(file, hole, Seek::Data)?.unwrap_or(size))
        }
    })
}

fn seek_here(file: &File, from: u64, seek: Seek) -> Result<Option<u64>> {
    let state = file.state.read();
    match &state.bytes {
        Bytes::Staged { staged, .. } => Ok(staged.seek(seek, from)?),
        Bytes::Clean(download) => {
            let size = download.size();
            if size <= from {
                return Ok(None);
            }
            // While it is held nothing is dropped of it, so that what is a hole is one of the file.
            let whole = download.cached().and_then(|cached| cached.passthrough());
            // A file that cannot be asked is data.
            let found = whole.and_then(|whole| whole.seek(seek, from, size).ok());
            Ok(found.unwrap_or(match seek {
                Seek::Data => Some(from),
                Seek::Hole => Some(size),
            }))
        }
    }
}
