//! Decorator: counts and times requests, their bytes and failures, and tells the log of each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base::{ByteRange, Clock, Counter, Metrics, Timing};
use bytes::Bytes;
use futures::StreamExt as _;

use crate::{
    Body, Condition, ErrorKind, Fresh, Key, ListRequest, Meta, Original, Page, PartNumber, PartTag,
    Personality, PutOptions, Remote, Result, Traffic, Unfinished, UploadId, Version,
};

/// A store whose calls are counted and timed.
#[derive(Clone, Debug)]
pub struct Meter {
    inner: Arc<dyn Remote>,
    book: Book,
}

/// Where it is written down.
#[derive(Clone, Debug)]
struct Book {
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    traffic: Arc<Traffic>,
}

/// A request under way. When it is dropped it was answered, or nobody waits for it any more.
#[derive(Debug)]
struct Request {
    book: Book,
    timing: Timing,
    key: Key,
    begun: Duration,
}

impl Meter {
    /// `inner`, counted and timed in `metrics`.
    pub fn new(inner: Arc<dyn Remote>, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Meter {
        let traffic = Arc::new(Traffic::new(Arc::clone(&clock)));
        Meter { inner, book: Book { metrics, clock, traffic } }
    }

    /// The same, with each answer noted in `traffic`.
    #[must_use]
    pub fn noting_in(mut self, traffic: Arc<Traffic>) -> Meter {
        self.book.traffic = traffic;
        self
    }

    fn count(&self, counter: Counter) {
        self.book.metrics.add(counter, 1);
    }

    fn sent(&self, bytes: &Bytes) {
        self.book.metrics.add(Counter::RemotePuts, 1);
        self.book.metrics.add(Counter::RemotePutBytes, bytes.len() as u64);
    }

    /// Times `call`, which is for `key`.
    async fn timed<T>(
        &self,
        (timing, key): (Timing, &Key),
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let _request = self.book.begin(timing, key);
        call.await
    }

    fn note<T>(&self, result: Result<T>) -> Result<T> {
        self.book.note(result)
    }

    /// As [`Meter::note`]: that a store cannot do this is an answer, too.
    fn note_unless_unsupported<T>(&self, result: Result<T>) -> Result<T> {
        match result {
            Err(error) if error.kind == ErrorKind::Unsupported => Err(error),
            result => self.note(result),
        }
    }
}

impl Book {
    fn begin(&self, timing: Timing, key: &Key) -> Request {
        // Around it are the spans of the call for which it is sent.
        tracing::debug!(target: "quayfs_remote::request", kind = timing.name(), %key, "asking");
        Request { book: self.clone(), timing, key: key.clone(), begun: self.clock.monotonic() }
    }

    /// Counts a failure, as [`Traffic::note`] tells it from an answer.
    fn note<T>(&self, result: Result<T>) -> Result<T> {
        if self.traffic.note(&result) {
            self.metrics.add(Counter::RemoteErrors, 1);
        }
        result
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let took = self.book.clock.monotonic().saturating_sub(self.begun);
        self.book.metrics.record(self.timing, took);
        let (kind, key) = (self.timing.name(), &self.key);
        tracing::debug!(target: "quayfs_remote::answer", kind, %key, ?took, "asked");
    }
}

#[async_trait]
impl Remote for Meter {
    fn personality(&self) -> Personality {
        self.inner.personality()
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        self.count(Counter::RemoteHeads);
        self.note(self.timed((Timing::StoreHead, key), self.inner.head(key)).await)
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        self.count(Counter::RemoteGets);
        let request = self.book.begin(Timing::StoreGet, key);
        let body = self.note(self.inner.get(key, range, version).await)?;
        let counted = body.map(move |piece| {
            if let Ok(bytes) = &piece {
                request.book.metrics.add(Counter::RemoteGetBytes, bytes.len() as u64);
            }
            request.book.note(piece)
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
        self.note(
            self.timed((Timing::StoreSmallGet, key), self.inner.get_whole(key, unless, bytes_max))
                .await,
        )
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        self.sent(&bytes);
        self.note(self.timed((Timing::StorePut, key), self.inner.put(key, bytes, options)).await)
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        self.note(
            self.timed((Timing::StoreCreate, key), self.inner.upload_create(key, options)).await,
        )
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        self.sent(&bytes);
        self.note(
            self.timed((Timing::StorePart, key), self.inner.upload_part(key, upload, part, bytes))
                .await,
        )
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
        self.book.metrics.add(Counter::RemotePartCopyBytes, range.len());
        let copying = self.inner.upload_part_copy(key, upload, part, original, range);
        let copied = self.timed((Timing::StorePartCopy, key), copying).await;
        self.note_unless_unsupported(copied)
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        self.note(
            self.timed(
                (Timing::StoreComplete, key),
                self.inner.upload_complete(key, upload, parts, condition),
            )
            .await,
        )
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        self.note(self.timed((Timing::StoreAbort, key), self.inner.upload_abort(key, upload)).await)
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        self.count(Counter::RemoteLists);
        self.note(self.timed((Timing::StoreList, key), self.inner.uploads(key)).await)
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        self.count(Counter::RemoteCopies);
        let copying = self.inner.copy(original, to, condition);
        self.note(self.timed((Timing::StoreCopy, to), copying).await)
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        self.count(Counter::RemoteCopies);
        let moving = self.inner.rename(original, to, condition);
        self.note_unless_unsupported(self.timed((Timing::StoreCopy, to), moving).await)
    }

    async fn rename_folder(&self, from: &Key, to: &Key) -> Result<()> {
        self.count(Counter::RemoteCopies);
        let moving = self.inner.rename_folder(from, to);
        self.note_unless_unsupported(self.timed((Timing::StoreCopy, to), moving).await)
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.count(Counter::RemoteDeletes);
        self.note(self.timed((Timing::StoreDelete, key), self.inner.delete(key)).await)
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        self.count(Counter::RemoteLists);
        let listing = self.inner.list(request);
        self.note(self.timed((Timing::StoreList, &request.prefix), listing).await)
    }
}
