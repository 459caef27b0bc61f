//! Uploads that begin while their file is still being written: whole parts behind the writer are sent
//! ahead, and the upload of the sealed version sends only what is not sent yet or was changed since.

use std::sync::Arc;

use base::ByteRange;
use bytes::Bytes;
use futures::future::BoxFuture;
use remote::{Condition, Key, Metadata, Original, PartCopies, PartNumbers, PutOptions, UPLOAD_ID};
use store::Staged;

use crate::begun::{Begun, Early, EarlyBytes};
use crate::buffers::Buffers;
use crate::parts::Grid;
use crate::plan::Source;
use crate::{Error, Result, Uploader};

impl Uploader {
    /// How long a file must be to be sent in parts.
    pub fn part_bytes(&self) -> u64 {
        self.grid().first_bytes()
    }

    /// Whether the store copies what was not changed of a file.
    pub fn copies_parts(&self) -> bool {
        self.remote.personality().part_copies != PartCopies::None
    }

    /// Where the first part of `grid` begins that has nothing of the first `kept` bytes and can be sent ahead.
    pub fn first_ahead(&self, grid: &Grid, kept: u64) -> Option<u64> {
        match self.remote.personality().part_numbers {
            // What is copied before it may take fewer numbers than it has parts.
            PartNumbers::Consecutive if 0 < kept => None,
            PartNumbers::Consecutive | PartNumbers::Rising => grid.first_ahead(kept),
        }
    }

    /// Begins an upload of what `staged` will be, cut along `grid`; parts from `first` on are sent ahead.
    pub async fn begin(
        &self,
        (staged, first, grid): (&Arc<Staged>, u64, Grid),
        (key, condition, metadata): (&Key, &Condition, &Metadata),
        id: String,
    ) -> Result<Begun> {
        let mut carried = metadata.clone();
        carried.insert(UPLOAD_ID.to_owned(), id.clone());
        let options = PutOptions { condition: condition.clone(), metadata: carried };
        let upload = self.create(key, &options).await?;
        let (file, buffers) = ((staged, first, grid), self.part_memory.buffers());
        Ok(Begun::new((key.clone(), upload), id, metadata.clone(), file, buffers))
    }

    /// Sends the part `range` as it is now; `None` if not all of it is here.
    pub fn send_ahead<'a>(&'a self, begun: &Begun, range: ByteRange) -> Making<'a> {
        let (key, upload) = (begun.key.clone(), begun.upload.clone());
        let (staged, first, grid) = (Arc::clone(begun.staged()), begun.first, begun.grid);
        let buffers = Arc::clone(begun.buffers());
        Box::pin(async move {
            self.pace(range.len()).await;
            let _request = self.requests.acquire().await.expect("never closed");
            let _memory = self.budget.acquire(range.len()).await;
            let Some(moment) = staged.begin_moment(range) else { return Ok(None) };
            let Some(bytes) = read_staged(&staged, range, &buffers).await? else { return Ok(None) };
            let number = grid.number_ahead(range.start(), first);
            let tag = self.remote.upload_part(&key, &upload, number, bytes).await?;
            Ok(Some(Early { number, range, bytes: EarlyBytes::Of(moment), tag }))
        })
    }

    /// Copies what is before the parts that are sent ahead and is as in `original`, as it would be
    /// copied if nothing more of it were changed.
    pub fn copy_ahead<'a>(&'a self, begun: &Begun, original: Original<'_>) -> Vec<Making<'a>> {
        let (size, first) = (begun.staged().size(), begun.first);
        if size <= first {
            return Vec::new();
        }
        let unchanged = begun.staged().unchanged();
        let parts = self.plan_beside(begun, size, &unchanged, Some(original));
        let copies = parts.into_iter().filter(|(_, piece)| piece.source == Source::Copied);
        let making = copies.map(|(number, piece)| -> Making<'a> {
            let (key, upload) = (begun.key.clone(), begun.upload.clone());
            let (from, version, size) =
                (original.key.clone(), original.version.clone(), original.size);
            let range = piece.range;
            Box::pin(async move {
                let _request = self.requests.acquire().await.expect("never closed");
                let original = Original { key: &from, version: &version, size };
                let copying = self.remote.upload_part_copy(&key, &upload, number, original, range);
                let tag = copying.await?;
                Ok(Some(Early { number, range, bytes: EarlyBytes::Copied(from, version), tag }))
            })
        });
        making.collect()
    }

    /// Gives up an upload that is of no use any more.
    pub async fn end(&self, begun: &Begun) {
        self.clear(&begun.key, &begun.upload).await;
    }
}

/// A part that is being made ahead.
pub type Making<'a> = BoxFuture<'a, Result<Option<Early>>>;

/// How much is read at a time: a writer waits for no more.
const READ_BYTES: usize = 256 << 10;

/// Reads a part off the disk, away from the threads that drive the network.
async fn read_staged(
    staged: &Arc<Staged>,
    range: ByteRange,
    buffers: &Arc<Buffers>,
) -> Result<Option<Bytes>> {
    let (staged, buffers) = (Arc::clone(staged), Arc::clone(buffers));
    let reading = tokio::task::spawn_blocking(move || {
        let len = usize::try_from(range.len()).expect("parts fit in memory");
        let mut part = buffers.take(len);
        let mut at = range.start();
        for piece in part.chunks_mut(READ_BYTES) {
            if !staged.read_here(at, piece)? {
                return Ok(None);
            }
            at += piece.len() as u64;
        }
        Ok::<_, store::Error>(Some(Bytes::from(part)))
    });
    Ok(reading.await.map_err(|_| Error::Stopped)??)
}
