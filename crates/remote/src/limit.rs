//! Decorator: bounds the requests under way, at what the store bears.
//!
//! A body counts until it has ended or is dropped, so a reader that lets bodies lie keeps others
//! waiting.

use std::sync::Arc;

use async_trait::async_trait;
use base::{ByteRange, Counter, Metrics};
use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::throttle::{Epoch, Throttle};
use crate::{
    Body, Condition, Error, ErrorKind, Fresh, Key, ListRequest, Meta, Original, Page, PartNumber,
    PartTag, Personality, PutOptions, Remote, Result, Trouble, Unfinished, UploadId, Version,
};

/// A store with a bounded number of requests under way; the others wait their turn.
#[derive(Clone, Debug)]
pub struct Limit {
    inner: Arc<dyn Remote>,
    turns: Arc<Turns>,
}

#[derive(Debug)]
struct Turns {
    semaphore: Arc<Semaphore>,
    numbers: Mutex<Numbers>,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Numbers {
    throttle: Throttle,
    /// Permits that there are, free or taken. When the number falls, it follows as they come back.
    permits: usize,
}

/// The right to one request.
#[derive(Debug)]
struct Turn {
    /// Until it is dropped.
    permit: Option<OwnedSemaphorePermit>,
    begun: Epoch,
    turns: Arc<Turns>,
}

impl Limit {
    /// `inner`, with at most `requests_max` requests at a time, but at least one; fewer when it asks for fewer.
    pub fn new(inner: Arc<dyn Remote>, requests_max: usize, metrics: Arc<Metrics>) -> Limit {
        let permits = requests_max.clamp(1, Semaphore::MAX_PERMITS);
        let semaphore = Arc::new(Semaphore::new(permits));
        let numbers = Mutex::new(Numbers { throttle: Throttle::new(permits), permits });
        Limit { inner, turns: Arc::new(Turns { semaphore, numbers, metrics }) }
    }

    /// How many requests there may be at a time now.
    pub fn requests(&self) -> usize {
        self.turns.numbers.lock().throttle.number()
    }

    async fn turn(&self) -> Turn {
        let permit = Arc::clone(&self.turns.semaphore).acquire_owned().await;
        let permit = Some(permit.expect("the semaphore is never closed"));
        let begun = self.turns.numbers.lock().throttle.epoch();
        Turn { permit, begun, turns: Arc::clone(&self.turns) }
    }
}

impl Turn {
    /// Learns from what came of the request.
    fn learn<T>(&self, result: Result<T>) -> Result<T> {
        let mut numbers = self.turns.numbers.lock();
        match &result {
            Err(error) if asks_for_fewer(error) => {
                numbers.throttle.too_many(self.begun);
                self.turns.metrics.add(Counter::RemoteThrottled, 1);
            }
            Err(error) if !matches!(error.kind, ErrorKind::NotFound | ErrorKind::Changed) => {}
            Ok(_) | Err(_) => numbers.throttle.went_well(),
        }
        let number = numbers.throttle.number();
        let missing = number.saturating_sub(numbers.permits);
        numbers.permits += missing;
        self.turns.semaphore.add_permits(missing);
        // Those that are taken follow when they come back.
        let surplus = numbers.permits.saturating_sub(number);
        numbers.permits -= self.turns.semaphore.forget_permits(surplus);
        result
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut numbers = self.turns.numbers.lock();
        if numbers.throttle.number() < numbers.permits
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
            numbers.permits -= 1;
        }
    }
}

/// Whether the store says that it is asked too often, or when to come back.
fn asks_for_fewer(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Transient { retry_after: Some(_) })
        || error.trouble() == Trouble::Busy
}

#[async_trait]
impl Remote for Limit {
    fn personality(&self) -> Personality {
        self.inner.personality()
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        let turn = self.turn().await;
        turn.learn(self.inner.head(key).await)
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        let turn = self.turn().await;
        let body = turn.learn(self.inner.get(key, range, version).await)?;
        let pieces = futures::stream::unfold((body, turn), |(mut body, turn)| async {
            let piece = body.next().await?;
            Some((piece, (body, turn)))
        });
        Ok(pieces.boxed())
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        let turn = self.turn().await;
        turn.learn(self.inner.get_whole(key, unless, bytes_max).await)
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        let turn = self.turn().await;
        turn.learn(self.inner.put(key, bytes, options).await)
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        let turn = self.turn().await;
        turn.learn(self.inner.upload_create(key, options).await)
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        let turn = self.turn().await;
        turn.learn(self.inner.upload_part(key, upload, part, bytes).await)
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        let turn = self.turn().await;
        turn.learn(self.inner.upload_part_copy(key, upload, part, original, range).await)
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        let turn = self.turn().await;
        turn.learn(self.inner.upload_complete(key, upload, parts, condition).await)
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        let turn = self.turn().await;
        turn.learn(self.inner.upload_abort(key, upload).await)
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        let turn = self.turn().await;
        turn.learn(self.inner.uploads(key).await)
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let turn = self.turn().await;
        turn.learn(self.inner.copy(original, to, condition).await)
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let turn = self.turn().await;
        turn.learn(self.inner.rename(original, to, condition).await)
    }

    async fn rename_folder(&self, from: &Key, to: &Key) -> Result<()> {
        let turn = self.turn().await;
        turn.learn(self.inner.rename_folder(from, to).await)
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        let turn = self.turn().await;
        turn.learn(self.inner.delete(key).await)
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        let turn = self.turn().await;
        turn.learn(self.inner.list(request).await)
    }
}
