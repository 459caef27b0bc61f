//! Decorator: bounds the requests under way.
//!
//! A body counts until it has ended or is dropped, so a reader that lets bodies lie keeps others
//! waiting.

use std::sync::Arc;

use async_trait::async_trait;
use base::ByteRange;
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Body, Condition, Fresh, Key, ListRequest, Meta, Original, Page, PartNumber, PartTag,
    Personality, PutOptions, Remote, Result, Unfinished, UploadId, Version,
};

/// A store with a bounded number of requests under way; the others wait their turn.
#[derive(Clone, Debug)]
pub struct Limit {
    inner: Arc<dyn Remote>,
    turns: Arc<Semaphore>,
}

impl Limit {
    /// `inner`, with at most `requests_max` requests at a time, but at least one.
    pub fn new(inner: Arc<dyn Remote>, requests_max: usize) -> Limit {
        let requests_max = requests_max.clamp(1, Semaphore::MAX_PERMITS);
        Limit { inner, turns: Arc::new(Semaphore::new(requests_max)) }
    }

    async fn turn(&self) -> OwnedSemaphorePermit {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        turn.expect("the semaphore is never closed")
    }
}

#[async_trait]
impl Remote for Limit {
    fn personality(&self) -> Personality {
        self.inner.personality()
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        let _turn = self.turn().await;
        self.inner.head(key).await
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        let turn = self.turn().await;
        let body = self.inner.get(key, range, version).await?;
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
        let _turn = self.turn().await;
        self.inner.get_whole(key, unless, bytes_max).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        let _turn = self.turn().await;
        self.inner.put(key, bytes, options).await
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        let _turn = self.turn().await;
        self.inner.upload_create(key, options).await
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        let _turn = self.turn().await;
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
        let _turn = self.turn().await;
        self.inner.upload_part_copy(key, upload, part, original, range).await
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        let _turn = self.turn().await;
        self.inner.upload_complete(key, upload, parts, condition).await
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        let _turn = self.turn().await;
        self.inner.upload_abort(key, upload).await
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        let _turn = self.turn().await;
        self.inner.uploads(key).await
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let _turn = self.turn().await;
        self.inner.copy(original, to, condition).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        let _turn = self.turn().await;
        self.inner.delete(key).await
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        let _turn = self.turn().await;
        self.inner.list(request).await
    }
}
