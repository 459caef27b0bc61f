//! A store whose answers are late: read now, delivered when a test says so.

use std::collections::BTreeSet;
use std::ops::Range;

use async_trait::async_trait;
use base::ByteRange;
use bytes::Bytes;
use remote::fake::Fake;
use remote::{
    Body, Condition, Fresh, Key, ListRequest, Meta, Original, Page, PartNumber, PartTag,
    Personality, PutOptions, Remote, Result, Unfinished, UploadId, Version,
};
use tokio::sync::watch;

/// Delivers the answers to `head` and `list` when it is told to, and all others at once.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) fake: Fake,
    read: watch::Sender<usize>,
    delivered: watch::Sender<BTreeSet<usize>>,
}

impl Late {
    pub(super) fn new(fake: Fake) -> Late {
        let delivered = watch::Sender::new(BTreeSet::new());
        Late { fake, read: watch::Sender::new(0), delivered }
    }

    /// How many answers were read.
    pub(super) fn count(&self) -> usize {
        *self.read.borrow()
    }

    /// Waits until so many answers were read.
    pub(super) async fn read(&self, answers: usize) {
        self.read.subscribe().wait_for(|&read| answers <= read).await.unwrap();
    }

    /// Delivers these answers, counted from 0 in the order in which they were read.
    pub(super) fn deliver(&self, answers: Range<usize>) {
        self.delivered.send_modify(|delivered| delivered.extend(answers));
    }

    /// Holds the next answer that is read back until [`Held::deliver`].
    pub(super) fn hold_next(&self) -> Held<'_> {
        let number = self.count();
        self.delivered.send_modify(|delivered| {
            delivered.remove(&number);
        });
        Held { late: self, number }
    }

    async fn answer<T>(&self, answer: T) -> T {
        let number = self.count();
        self.read.send_modify(|read| *read += 1);
        let mut delivered = self.delivered.subscribe();
        delivered.wait_for(|delivered| delivered.contains(&number)).await.unwrap();
        answer
    }
}

/// An answer that comes late.
#[derive(Debug)]
pub(super) struct Held<'a> {
    late: &'a Late,
    number: usize,
}

impl Held<'_> {
    /// Waits until it is read.
    pub(super) async fn read(&self) {
        self.late.read(self.number + 1).await;
    }

    /// Delivers it.
    pub(super) fn deliver(&self) {
        self.late.deliver(self.number..self.number + 1);
    }
}

#[async_trait]
impl Remote for Late {
    fn personality(&self) -> Personality {
        self.fake.personality()
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        self.answer(self.fake.head(key).await).await
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        self.fake.get(key, range, version).await
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        self.fake.get_whole(key, unless, bytes_max).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        self.fake.put(key, bytes, options).await
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        self.fake.upload_create(key, options).await
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        self.fake.upload_part(key, upload, part, bytes).await
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        self.fake.upload_part_copy(key, upload, part, original, range).await
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        self.fake.upload_complete(key, upload, parts, condition).await
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        self.fake.upload_abort(key, upload).await
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        self.fake.uploads(key).await
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        self.fake.copy(original, to, condition).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.fake.delete(key).await
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        self.answer(self.fake.list(request).await).await
    }
}
