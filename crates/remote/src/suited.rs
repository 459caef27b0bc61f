//! Decorator: works round what a store lacks, and learns what that is.
//!
//! Where conditions are not kept the object is looked at just before it is written: the best that such
//! a store allows. Where parts cannot be copied they are sent, which is the caller's business: it is
//! told by [`Personality::part_copies`].

use std::sync::Arc;

use async_trait::async_trait;
use base::ByteRange;
use bytes::Bytes;

use crate::capabilities::{Capability, Has, Learned, is_not_implemented};
use crate::{
    Body, Condition, Error, ErrorKind, Fresh, Key, ListOrder, ListRequest, Meta, Original, Page,
    PartCopies, PartNumber, PartTag, Personality, PutOptions, Remote, Result, Unfinished, UploadId,
    Version,
};

/// A store that is asked for nothing that it is known to lack.
#[derive(Clone, Debug)]
pub struct Suited {
    inner: Arc<dyn Remote>,
    learned: Arc<Learned>,
}

/// What writes an object.
#[derive(Clone, Copy, Debug)]
enum Write {
    Put,
    Complete,
}

impl Suited {
    /// `inner`, of which that is known.
    pub fn new(inner: Arc<dyn Remote>, learned: Arc<Learned>) -> Suited {
        Suited { inner, learned }
    }

    /// Whether the store may be left to keep to the condition of a write.
    fn is_kept(&self, write: Write, condition: &Condition) -> bool {
        needed(write, condition).is_none_or(|needed| !self.learned.lacks(needed))
    }

    /// What came of a write that the store was left to keep to the condition of; `None` if it does not
    /// know such conditions.
    fn learn(
        &self,
        (write, condition): (Write, &Condition),
        written: Result<Version>,
    ) -> Option<Result<Version>> {
        let Some(needed) = needed(write, condition) else { return Some(written) };
        match &written {
            Err(error) if is_not_implemented(error) => {
                self.learned.learn(needed, Has::No);
                return None;
            }
            // It looked, and refused.
            Err(error) if error.kind == ErrorKind::Changed => {
                self.learned.learn(needed, Has::Yes);
            }
            // That it was written tells nothing: perhaps the condition holds.
            Ok(_) | Err(_) => {}
        }
        Some(written)
    }

    /// `Changed` unless `condition` holds of `key` now.
    async fn look(&self, op: &'static str, key: &Key, condition: &Condition) -> Result<()> {
        let there = match self.head(key).await {
            Ok(meta) => Some(meta.version),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let holds = match (condition, &there) {
            (Condition::Always, _) | (Condition::Absent, None) => true,
            (Condition::Is(version), Some(there)) => there == version,
            (Condition::Absent, Some(_)) | (Condition::Is(_), None) => false,
        };
        if holds { Ok(()) } else { Err(Error::new(ErrorKind::Changed, op, key)) }
    }
}

impl Suited {
    /// What came of a look at `key`. To whom it lets list on a condition only, as below a prefix, S3 does not say that
    /// an object is not there, but refuses to show it: a listing of it may tell.
    async fn seen<T>(&self, key: &Key, seen: Result<T>) -> Result<T> {
        let error = match seen {
            Err(error) if error.is_refusal() && !key.as_bytes().is_empty() => error,
            seen => return seen,
        };
        // Elsewhere it may be on any page.
        if self.personality().naming.order != ListOrder::Keys {
            return Err(error);
        }
        let (prefix, start_after, continuation) = (key.clone(), None, None);
        let request =
            ListRequest { prefix, delimited: false, start_after, continuation, entries_max: 1 };
        match self.inner.list(&request).await {
            Ok(page) if page.entries.iter().all(|entry| entry.key() != key) => {
                Err(Error::new(ErrorKind::NotFound, error.op, key))
            }
            Err(failed) if matches!(failed.kind, ErrorKind::Transient { .. }) => Err(failed),
            Ok(_) | Err(_) => Err(error),
        }
    }
}

/// What a store has to be able to do for a write under `condition`.
fn needed(write: Write, condition: &Condition) -> Option<Capability> {
    match (write, condition) {
        (_, Condition::Always) => None,
        (Write::Put, Condition::Absent) => Some(Capability::PutIfAbsent),
        (Write::Put, Condition::Is(_)) => Some(Capability::PutIfMatch),
        (Write::Complete, Condition::Absent) => Some(Capability::CompleteIfAbsent),
        (Write::Complete, Condition::Is(_)) => Some(Capability::CompleteIfMatch),
    }
}

#[async_trait]
impl Remote for Suited {
    fn personality(&self) -> Personality {
        let mut personality = self.inner.personality();
        if self.learned.lacks(Capability::PartCopy) {
            personality.part_copies = PartCopies::None;
        }
        if self.learned.lacks(Capability::SortedLists) {
            personality.naming.order = ListOrder::Unsorted;
        }
        personality
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        self.seen(key, self.inner.head(key).await).await
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        self.inner.get(key, range, version).await
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        self.seen(key, self.inner.get_whole(key, unless, bytes_max).await).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        let condition = &options.condition;
        if self.is_kept(Write::Put, condition) {
            let written = self.inner.put(key, bytes.clone(), options).await;
            if let Some(written) = self.learn((Write::Put, condition), written) {
                return written;
            }
        }
        self.look("put", key, condition).await?;
        let options = PutOptions { condition: Condition::Always, ..options.clone() };
        self.inner.put(key, bytes, &options).await
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
        let copied = self.inner.upload_part_copy(key, upload, part, original, range).await;
        self.learned.learn_of_call(Capability::PartCopy, &copied);
        copied
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        if self.is_kept(Write::Complete, condition) {
            let written = self.inner.upload_complete(key, upload, parts, condition).await;
            if let Some(written) = self.learn((Write::Complete, condition), written) {
                return written;
            }
        }
        self.look("upload complete", key, condition).await?;
        self.inner.upload_complete(key, upload, parts, &Condition::Always).await
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
        // What no put knows no copy knows, but not the other way round.
        if self.is_kept(Write::Put, condition) {
            match self.inner.copy(original, to, condition).await {
                Err(error) if *condition != Condition::Always && is_not_implemented(&error) => {}
                copied => return copied,
            }
        }
        self.look("copy", to, condition).await?;
        self.inner.copy(original, to, &Condition::Always).await
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

#[cfg(test)]
mod tests;
