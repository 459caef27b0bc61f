//! Upload of a file of the recovery folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::ByteRange;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use remote::{
    Condition, Error as RemoteError, ErrorKind, Key, ListRequest, Metadata, Original, PartNumber,
    PartTag, PutOptions, UPLOAD_ID, UploadId, Version,
};
use store::{GranuleSet, KeptFile};

use crate::plan::{Piece, Plan};
use crate::upload::Uploader;
use crate::{Error, Result};

/// Parts that are sent at a time.
const PARTS_AT_A_TIME: usize = 8;

/// Where a file of the recovery folder goes.
#[derive(Clone, Copy, Debug)]
pub struct KeptJob<'a> {
    /// The object to write.
    pub key: &'a Key,
    /// What must hold of the object that it replaces.
    pub condition: &'a Condition,
    /// To be kept with the object.
    pub metadata: &'a Metadata,
    /// The object that has the bytes that are missing in the file.
    pub original: Option<Original<'a>>,
    /// The runs of bytes that are missing.
    pub missing: &'a [ByteRange],
}

impl Uploader {
    /// Makes the bytes of `kept` the object `job.key`, if `job.condition` holds.
    pub async fn upload_kept(&self, kept: &Arc<KeptFile>, job: &KeptJob<'_>) -> Result<Version> {
        let id = self.new_id();
        let mut metadata = job.metadata.clone();
        metadata.insert(UPLOAD_ID.to_owned(), id.clone());
        let options = PutOptions { condition: job.condition.clone(), metadata };
        let uploaded = match self.plan(&self.grid(), kept.size(), (&GranuleSet::default(), None)) {
            Plan::Whole => {
                let bytes = self.load_kept(kept, job, ByteRange::new(0, kept.size())).await?;
                self.remote.put(job.key, bytes, &options).await.map_err(Error::from)
            }
            Plan::Parts(pieces) => self.put_kept_parts(kept, job, &options, pieces).await,
            Plan::TooLarge => {
                let error = RemoteError::new(ErrorKind::Unsupported, "upload", job.key);
                Err(error.because("larger than the store's largest object").into())
            }
        };
        // A request whose answer was lost may have arrived: its repeat finds the object changed.
        match uploaded {
            Err(error) => match self.written_by(job.key, &[id]).await {
                Ok(Some(meta)) => Ok(meta.version),
                Ok(None) | Err(_) => Err(error),
            },
            uploaded => uploaded,
        }
    }

    /// Whether there is an object below `key`, as if that were a folder.
    pub async fn is_folder(&self, key: &Key) -> Result<bool> {
        let below = ListRequest {
            prefix: key.join(b"/"),
            delimited: true,
            start_after: None,
            continuation: None,
            entries_max: 1,
        };
        Ok(!self.remote.list(&below).await?.entries.is_empty())
    }

    async fn put_kept_parts(
        &self,
        kept: &Arc<KeptFile>,
        job: &KeptJob<'_>,
        options: &PutOptions,
        pieces: Vec<Piece>,
    ) -> Result<Version> {
        let KeptJob { key, condition, .. } = job;
        let upload = self.create(key, options).await?;
        let sent = self.send_kept_parts(kept, job, &upload, pieces).await;
        let completed = match sent {
            Ok(tags) => {
                let completed = self.remote.upload_complete(key, &upload, &tags, condition).await;
                completed.map_err(Error::from)
            }
            Err(error) => Err(error),
        };
        match completed {
            Ok(_) => self.log.over(key, &upload),
            Err(_) => self.clear(key, &upload).await,
        }
        completed
    }

    async fn send_kept_parts(
        &self,
        kept: &Arc<KeptFile>,
        job: &KeptJob<'_>,
        upload: &UploadId,
        pieces: Vec<Piece>,
    ) -> Result<Vec<(PartNumber, PartTag)>> {
        let failed = &AtomicBool::new(false);
        let send = async |(number, piece): (PartNumber, Piece)| {
            if failed.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let sent = async {
                let _memory = self.budget.acquire(piece.range.len()).await;
                let bytes = self.load_kept(kept, job, Some(piece.range)).await?;
                Ok(self.remote.upload_part(job.key, upload, number, bytes).await?)
            };
            let sent = sent.await;
            failed.fetch_or(sent.is_err(), Ordering::Relaxed);
            sent.map(|tag| (number, tag))
        };
        // All of them end before this does: the caller removes what they send.
        let sent: Vec<Result<_>> = stream::iter((1..).map(PartNumber).zip(pieces))
            .map(send)
            .buffered(PARTS_AT_A_TIME)
            .collect()
            .await;
        let is_reason = |sent: &Result<_>| !matches!(sent, Ok(_) | Err(Error::Stopped));
        match sent.iter().position(is_reason) {
            Some(at) => {
                Err(sent.into_iter().nth(at).and_then(Result::err).unwrap_or(Error::Stopped))
            }
            None => sent.into_iter().collect(),
        }
    }

    /// The bytes `range`, with those from the original that are missing in the file.
    async fn load_kept(
        &self,
        kept: &Arc<KeptFile>,
        job: &KeptJob<'_>,
        range: Option<ByteRange>,
    ) -> Result<Bytes> {
        let Some(range) = range else { return Ok(Bytes::new()) };
        self.pace(range.len()).await;
        let index = |at: u64| usize::try_from(at - range.start()).expect("parts fit in memory");
        let (file, len) = (Arc::clone(kept), index(range.end()));
        let read = move || {
            let mut buffer = vec![0; len];
            file.read(range.start(), &mut buffer).map(|()| buffer)
        };
        let read = tokio::task::spawn_blocking(read).await.map_err(|_| Error::Stopped)?;
        let mut buffer = read?;
        for run in job.missing {
            let Some(original) = job.original else { return Err(Error::Stopped) };
            // The file may be longer than the original: there are zeros.
            let end = run.end().min(range.end()).min(original.size);
            let Some(wanted) = ByteRange::new(run.start().max(range.start()), end) else {
                continue;
            };
            let body = self.remote.get(original.key, wanted, Some(original.version)).await?;
            let mut at = index(wanted.start());
            let pieces: Vec<Bytes> = body.try_collect().await?;
            for piece in pieces {
                buffer[at..at + piece.len()].copy_from_slice(&piece);
                at += piece.len();
            }
        }
        Ok(buffer.into())
    }
}
