//! read.

use std::sync::Arc;

use base::{ByteRange, HandleId};

use crate::errno::Result;
use crate::file::{Bytes, File};
use crate::vfs::Vfs;
use store::Outcome;

impl Vfs {
    /// Up to `size` bytes from `offset`; fewer only at the end of the file.
    pub async fn read(
        self: Arc<Self>,
        handle: HandleId,
        offset: u64,
        size: u32,
    ) -> Result<Vec<u8>> {
        let file = Arc::clone(&self.handles.file(handle)?.file);
        loop {
            match read_here(&file, offset, size)? {
                Here::Bytes(bytes) => return Ok(bytes),
                Here::Clean(download, range) => return Ok(download.read(range).await?),
                Here::Needs(range) => self.fill(&file, range).await?,
            }
        }
    }
}

/// Where the bytes of a read are.
enum Here {
    /// Here they are.
    Bytes(Vec<u8>),
    /// In a version that is fetched as it is read.
    Clean(Arc<transfer::Download>, ByteRange),
    /// Partly in the base of a staged file.
    Needs(ByteRange),
}

fn read_here(file: &File, offset: u64, size: u32) -> Result<Here> {
    let state = file.state.read();
    let end = match &state.bytes {
        Bytes::Clean(download) => download.size(),
        Bytes::Staged { staged, .. } => staged.size(),
    };
    let wanted = ByteRange::at(offset, u64::from(size)).and_then(|range| range.below(end));
    let Some(range) = wanted else { return Ok(Here::Bytes(Vec::new())) };
    match &state.bytes {
        Bytes::Clean(download) => Ok(Here::Clean(Arc::clone(download), range)),
        Bytes::Staged { staged, .. } => {
            let mut buffer = vec![0; usize::try_from(range.len()).expect("a read fits in memory")];
            Ok(match staged.read(range.start(), &mut buffer)? {
                Outcome::Done => Here::Bytes(buffer),
                Outcome::Needs(range) => Here::Needs(range),
            })
        }
    }
}
