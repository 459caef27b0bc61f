//! Decorator: counts calls, bytes and failures.

use std::sync::Arc;

use async_trait::async_trait;
use base::{ByteRange, Counter, Metrics};
use bytes::Bytes;
use futures::StreamExt as _;

use crate::{
    Body, Condition, ErrorKind, Fresh, Key, ListRequest, Meta, Original, Page, PartNumber, PartTag,
    Personality, PutOptions, Remote, Result, Unfinished, UploadId, Version,
};

/// A store whose calls are counted.
#[derive(Clone, Debug)]
pub struct Meter {
    inner: Arc<dyn Remote>,
    metrics: Arc<Metrics>,
}

impl Meter {
    /// `inner`, counted in `metrics`.
    pub fn new(inner: Arc<dyn Remote>, metrics: Arc<Metrics>) -> Meter {
        Meter { inner, metrics }
    }

    fn count(&self, counter: Counter) {
        self.metrics.add(counter, 1);
    }

    fn sent(&self, bytes: &Bytes) {
        self.metrics.add(Counter::RemotePuts, 1);
        self.metrics.add(Counter::RemotePutBytes, bytes.len() as u64);
    }

    fn note<T>(&self, result: Result<T>) -> Result<T> {
        note(&self.metrics, result)
    }
}

/// Counts a failure. That an object is not there or was changed is an answer.
fn note<T>(metrics: &Metrics, result: Result<T>) -> Result<T> {
    if let Err(error) = &result
        && !matches!(error.kind, ErrorKind::NotFound | ErrorKind::Changed)
    {
        metrics.add(Counter::RemoteErrors, 1);
    }
    result
}

#[async_trait]
impl Remote for Meter {
    fn personality(&self) -> Personality {
        self.inner.personality()
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        self.count(Counter::RemoteHeads);
        self.note(self.inner.head(key).await)
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        self.count(Counter::RemoteGets);
        let body = self.note(self.inner.get(key, range, version).await)?;
        let metrics = Arc::clone(&self.metrics);
        let counted = body.map(move |piece| {
            if let Ok(bytes) = &piece {
                metrics.add(Counter::RemoteGetBytes, bytes.len() as u64);
            }
            note(&metrics, piece)
        });
        Ok(counted.boxed())
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        self.count(Counter::RemoteSmallGets);
        self.note(self.inner.get_whole(key, unless, bytes_max).await)
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        self.sent(&bytes);
        self.note(self.inner.put(key, bytes, options).await)
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        self.note(self.inner.upload_create(key, options).await)
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        self.sent(&bytes);
        self.note(self.inner.upload_part(key, upload, part, bytes).await)
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        self.count(Counter::RemotePartCopies);
        self.metrics.add(Counter::RemotePartCopyBytes, range.len());
        let copied = self.inner.upload_part_copy(key, upload, part, original, range).await;
        match copied {
            // That a store cannot copy this one is an answer, too.
            Err(error) if error.kind == ErrorKind::Unsupported => Err(error),
            copied => self.note(copied),
        }
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        self.note(self.inner.upload_complete(key, upload, parts, condition).await)
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        self.note(self.inner.upload_abort(key, upload).await)
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        self.count(Counter::RemoteLists);
        self.note(self.inner.uploads(key).await)
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        self.count(Counter::RemoteCopies);
        self.note(self.inner.copy(original, to, condition).await)
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.count(Counter::RemoteDeletes);
        self.note(self.inner.delete(key).await)
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        self.count(Counter::RemoteLists);
        self.note(self.inner.list(request).await)
    }
}
