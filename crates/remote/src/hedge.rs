//! Decorator: asks again for bytes when an answer is later than its peers' slowest hundredth, and takes the
//! first that comes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base::{ByteRange, Clock, Counter, Metrics};
use bytes::Bytes;
use futures::future::{self, BoxFuture, Either};
use parking_lot::Mutex;

use crate::patience::Patience;
use crate::{
    Body, Condition, Fresh, Key, ListRequest, Meta, Original, Page, PartNumber, PartTag,
    Personality, PutOptions, Remote, Result, Unfinished, UploadId, Version,
};

/// A store that is asked twice for what is late. Only reads are: nobody minds a second one.
#[derive(Clone, Debug)]
pub struct Hedge {
    inner: Arc<dyn Remote>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    patience: Arc<Mutex<Patience>>,
}

impl Hedge {
    /// `inner`, asked again by what `clock` says of earlier answers.
    pub fn new(inner: Arc<dyn Remote>, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Hedge {
        Hedge { inner, clock, metrics, patience: Arc::default() }
    }

    /// What `ask` gives, asked once or twice.
    async fn hedged<'a, T>(&self, ask: impl Fn() -> BoxFuture<'a, Result<T>>) -> Result<T> {
        let late = self.patience.lock().late();
        let first = self.timed(ask());
        let first = match late {
            None => return first.await,
            Some(late) => match self.in_time(Box::pin(first), late).await {
                Either::Left(answer) => return answer,
                Either::Right(first) => first,
            },
        };
        if !self.patience.lock().ask_again() {
            return first.await;
        }
        self.metrics.add(Counter::RemoteHedges, 1);
        match future::select(first, Box::pin(self.timed(ask()))).await {
            Either::Left((Ok(answer), _)) | Either::Right((Ok(answer), _)) => Ok(answer),
            // The other may still know better.
            Either::Left((Err(_), second)) => second.await,
            Either::Right((Err(_), first)) => first.await,
        }
    }

    /// The answer, or, if it is late, who still waits for it.
    async fn in_time<F: Future + Unpin>(&self, asked: F, late: Duration) -> Either<F::Output, F> {
        match future::select(asked, Box::pin(self.clock.sleep(late))).await {
            Either::Left((answer, _)) => Either::Left(answer),
            Either::Right(((), asked)) => Either::Right(asked),
        }
    }

    /// `asked`, from whose answer it is learnt how long answers take.
    async fn timed<T>(&self, asked: BoxFuture<'_, Result<T>>) -> Result<T> {
        let begun = self.clock.monotonic();
        let answer = asked.await?;
        self.patience.lock().learn(self.clock.monotonic().saturating_sub(begun));
        Ok(answer)
    }
}

#[async_trait]
impl Remote for Hedge {
    fn personality(&self) -> Personality {
        self.inner.personality()
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        self.inner.head(key).await
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        self.hedged(|| self.inner.get(key, range, version)).await
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        self.inner.get_whole(key, unless, bytes_max).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        self.inner.put(key, bytes, options).await
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        self.inner.upload_create(key, options).await
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        self.inner.upload_part(key, upload, part, bytes).await
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        self.inner.upload_part_copy(key, upload, part, original, range).await
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        self.inner.upload_complete(key, upload, parts, condition).await
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        self.inner.upload_abort(key, upload).await
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        self.inner.uploads(key).await
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        self.inner.copy(original, to, condition).await
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        self.inner.rename(original, to, condition).await
    }

    async fn rename_folder(&self, from: &Key, to: &Key) -> Result<()> {
        self.inner.rename_folder(from, to).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.inner.delete(key).await
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        self.inner.list(request).await
    }
}
