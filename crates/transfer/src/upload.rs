//! One upload: sealed version to acknowledged object.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Budget, ByteRange, Rng};
use bytes::Bytes;
use futures::{StreamExt, stream};
use remote::{
    Condition, Error as RemoteError, ErrorKind, Key, Metadata, PartNumber, PartTag, PutOptions,
    Remote, UPLOAD_ID, UploadId, Version,
};
use store::Sealed;
use tokio::sync::Semaphore;

use crate::parts::{Plan, parts, plan};
use crate::{Error, Result};

/// Bounds on uploading.
#[derive(Clone, Copy, Debug)]
pub struct UploaderOptions {
    /// The most requests with file data at a time.
    pub requests_max: usize,
    /// How large a part is, as long as the store takes as many; smaller files go in one request.
    pub part_bytes: u64,
}

/// What a sealed version is to become.
#[derive(Clone, Copy, Debug)]
pub struct UploadJob<'a> {
    /// The object to write.
    pub key: &'a Key,
    /// What must hold of the object it replaces.
    pub condition: &'a Condition,
    /// To be kept with the object.
    pub metadata: &'a Metadata,
    /// From [`Uploader::new_id`]; the same again for another try of the same bytes.
    pub id: &'a str,
}

/// Sends sealed versions to an object store.
#[derive(Debug)]
pub struct Uploader {
    remote: Arc<dyn Remote>,
    budget: Budget,
    requests: Semaphore,
    rng: Arc<Rng>,
    options: UploaderOptions,
}

impl Uploader {
    /// Sends to `remote`, holding bytes of `budget`.
    pub fn new(
        remote: Arc<dyn Remote>,
        budget: Budget,
        rng: Arc<Rng>,
        options: UploaderOptions,
    ) -> Uploader {
        let requests = Semaphore::new(options.requests_max.max(1));
        Uploader { remote, budget, requests, rng, options }
    }

    /// An id for an upload: practically no other upload ever has it.
    pub fn new_id(&self) -> String {
        format!("{:032x}", self.rng.id())
    }

    /// Makes the sealed bytes the object `job.key` if `job.condition` holds of what it replaces.
    ///
    /// Other clients see the old object until this returns its new version, never a mixture.
    pub async fn upload(&self, sealed: &Arc<Sealed>, job: &UploadJob<'_>) -> Result<Version> {
        let mut metadata = job.metadata.clone();
        metadata.insert(UPLOAD_ID.to_owned(), job.id.to_owned());
        let options = PutOptions { condition: job.condition.clone(), metadata };
        match plan(sealed.size(), self.options.part_bytes, self.remote.personality()) {
            Plan::Whole => self.put(sealed, job.key, &options).await,
            Plan::Parts { part_bytes } => {
                self.put_parts(sealed, job.key, &options, part_bytes).await
            }
            Plan::TooLarge => {
                let error = RemoteError::new(ErrorKind::Unsupported, "upload", job.key);
                Err(error.because("larger than the store's largest object").into())
            }
        }
    }

    /// The version of the object `key`, if it is what one of the uploads `ids` made of it: an upload
    /// whose answer was lost is no conflict.
    pub async fn written_by(&self, key: &Key, ids: &[String]) -> Result<Option<Version>> {
        let meta = match self.remote.head(key).await {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
            meta => meta?,
        };
        let writer = meta.metadata.get(UPLOAD_ID);
        Ok(writer.filter(|writer| ids.contains(writer)).map(|_| meta.version))
    }

    async fn put(&self, sealed: &Arc<Sealed>, key: &Key, options: &PutOptions) -> Result<Version> {
        let _request = self.requests.acquire().await.expect("never closed");
        let _memory = self.budget.acquire(sealed.size()).await;
        let bytes = read_sealed(sealed, ByteRange::new(0, sealed.size())).await?;
        Ok(self.remote.put(key, bytes, options).await?)
    }

    async fn put_parts(
        &self,
        sealed: &Arc<Sealed>,
        key: &Key,
        options: &PutOptions,
        part_bytes: u64,
    ) -> Result<Version> {
        let upload = self.remote.upload_create(key, options).await?;
        let sent = self.send_parts(sealed, key, &upload, part_bytes).await;
        let completed = match sent {
            Ok(tags) => self
                .remote
                .upload_complete(key, &upload, &tags, &options.condition)
                .await
                .map_err(Error::from),
            Err(error) => Err(error),
        };
        if completed.is_err() {
            // The parts would cost money for ever. A failure to remove them must not hide the first.
            if let Err(error) = self.remote.upload_abort(key, &upload).await {
                tracing::warn!(%error, "an unfinished upload could not be removed");
            }
        }
        completed
    }

    async fn send_parts(
        &self,
        sealed: &Arc<Sealed>,
        key: &Key,
        upload: &UploadId,
        part_bytes: u64,
    ) -> Result<Vec<(PartNumber, PartTag)>> {
        let failed = &AtomicBool::new(false);
        let sending = parts(sealed.size(), part_bytes).map(|(number, range)| async move {
            let sent = self.send_part(sealed, (key, upload), (number, range), failed).await;
            failed.fetch_or(sent.is_err(), Ordering::Relaxed);
            sent
        });
        // All of them end before this does: none may still read what the caller then gives up.
        let sent: Vec<_> =
            stream::iter(sending).buffered(self.options.requests_max.max(1)).collect().await;
        // The first error in time has the reason; those after it only say that there was one.
        let (tags, errors): (Vec<_>, Vec<_>) = sent.into_iter().partition(Result::is_ok);
        let reason = errors
            .into_iter()
            .filter_map(Result::err)
            .reduce(|first, next| if matches!(first, Error::Stopped) { next } else { first });
        reason.map_or_else(|| tags.into_iter().collect(), Err)
    }

    async fn send_part(
        &self,
        sealed: &Arc<Sealed>,
        (key, upload): (&Key, &UploadId),
        (number, range): (PartNumber, ByteRange),
        failed: &AtomicBool,
    ) -> Result<(PartNumber, PartTag)> {
        let _request = self.requests.acquire().await.expect("never closed");
        if failed.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let _memory = self.budget.acquire(range.len()).await;
        let bytes = read_sealed(sealed, Some(range)).await?;
        let tag = self.remote.upload_part(key, upload, number, bytes).await?;
        Ok((number, tag))
    }
}

/// Reads a part off the disk, away from the threads that drive the network.
async fn read_sealed(sealed: &Arc<Sealed>, range: Option<ByteRange>) -> Result<Bytes> {
    let Some(range) = range else { return Ok(Bytes::new()) };
    let sealed = Arc::clone(sealed);
    let reading = tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; usize::try_from(range.len()).expect("parts fit in memory")];
        sealed.read(range.start(), &mut buffer).map(|()| Bytes::from(buffer))
    });
    let bytes = reading.await.map_err(|_| Error::Stopped)?;
    Ok(bytes?)
}
