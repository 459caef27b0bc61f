//! read.

use std::sync::Arc;

use base::{ByteRange, Errno, HandleId};

use crate::errno::{Error, Result};
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
        let _pages = file.page_locks.hold();
        for _ in 0..READ_TRIES_MAX {
            match read_here(&file, offset, size)? {
                Here::Bytes(bytes) => return Ok(bytes),
                Here::Needs { missing, .. } if has_room_for(&file, missing) => {
                    self.fill(&file, missing).await?;
                }
                Here::Needs { wanted, .. } => {
                    if let Some(bytes) = read_around(&file, wanted).await? {
                        return Ok(bytes);
                    }
                }
                Here::Clean(download, range) => match download.read(range).await {
                    // A writer took the bytes, or has replaced them in the bucket: they are
                    // elsewhere now.
                    Err(_) if !file.is_read_from(&download) => {}
                    read => return Ok(read?),
                },
            }
        }
        Err(Error::Call(Errno::EBUSY))
    }
}

/// All of `wanted` of a staged file whose base has no room to be taken over: what it lacks goes to the reader
/// only. `None` if its bytes are elsewhere by now, or fewer.
async fn read_around(file: &File, wanted: ByteRange) -> Result<Option<Vec<u8>>> {
    let Some((staged, base)) = file.staged_over() else { return Ok(None) };
    let mut bytes = Vec::new();
    while let Some(rest) = ByteRange::new(wanted.start() + bytes.len() as u64, wanted.end()) {
        let missing = staged.missing(rest).and_then(|missing| missing.intersection(rest));
        let part = match missing {
            Some(missing) if missing.start() == rest.start() => match base.read(missing).await {
                // It was published meanwhile, and the base with it: the object is another one.
                Err(_) if !file.is_based_on(&base) => return Ok(None),
                read => read?,
            },
            Some(_) | None => {
                let end = missing.map_or(rest.end(), ByteRange::start);
                let here = ByteRange::new(rest.start(), end).expect("it is not missing");
                match staged.bytes(here) {
                    Ok(Some(bytes)) if bytes.len() as u64 == here.len() => bytes,
                    // It was cut: what is at the end is not what the reader was to have.
                    Ok(_) => return Ok(None),
                    Err(error) if error.kind == store::ErrorKind::Gone => return Ok(None),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        bytes.extend(part);
    }
    Ok(Some(bytes))
}

/// Whether what a reader needs of the base of a file may stay in it.
fn has_room_for(file: &File, range: ByteRange) -> bool {
    file.staged().is_none_or(|staged| staged.can_spare(range.len()))
}

/// Writers may move the bytes while they are read, but not for ever.
const READ_TRIES_MAX: usize = 1000;

/// Where the bytes of a read are.
enum Here {
    /// Here they are.
    Bytes(Vec<u8>),
    /// In a version that is fetched as it is read.
    Clean(Arc<transfer::Download>, ByteRange),
    /// Partly in the base of a staged file, which has what is missing.
    Needs { missing: ByteRange, wanted: ByteRange },
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
            if let Some(bytes) = staged.bytes(range)? {
                return Ok(Here::Bytes(bytes));
            }
            let mut buffer = vec![0; usize::try_from(range.len()).expect("a read fits in memory")];
            Ok(match staged.read(range.start(), &mut buffer)? {
                Outcome::Done => Here::Bytes(buffer),
                Outcome::Needs(missing) => Here::Needs { missing, wanted: range },
            })
        }
    }
}
