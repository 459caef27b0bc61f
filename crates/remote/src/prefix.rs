//! Decorator: the keys below a prefix, as if there were no others, and no more of what a store tells than can be.

use std::sync::Arc;

use async_trait::async_trait;
use base::ByteRange;
use bytes::Bytes;

use crate::turning::{Place, believed};
use crate::{
    Body, Condition, Entry, Error, ErrorKind, Fresh, Key, ListRequest, Meta, Original, Page,
    PartNumber, PartTag, Personality, PutOptions, Remote, Result, Unfinished, UploadId, Version,
};

/// A part of a store, or all of it. No key leads out of it: keys are bytes, and `..` is a name like any other.
#[derive(Clone, Debug)]
pub struct Prefixed {
    inner: Arc<dyn Remote>,
    prefix: Key,
}

/// The keys of `remote` that begin with `prefix`, without it. A listing comes to an end, whatever the store says,
/// and tells of what was asked for and of nothing else.
pub fn prefixed(remote: Arc<dyn Remote>, prefix: Key) -> Prefixed {
    Prefixed { inner: remote, prefix }
}

impl Prefixed {
    fn outer(&self, key: &Key) -> Key {
        if self.prefix.as_bytes().is_empty() {
            return key.clone();
        }
        self.prefix.join(key.as_bytes())
    }

    /// `key` as seen from within; an error if it is not below the prefix.
    fn inner_key(&self, key: &Key) -> Result<Key> {
        let below = key.as_bytes().strip_prefix(self.prefix.as_bytes());
        let outside = || {
            let error = Error::new(ErrorKind::Corrupt, "list", &self.prefix);
            error.because(format!("the store listed {key:?}, which does not begin like that"))
        };
        below.map(Key::from).ok_or_else(outside)
    }
}

#[async_trait]
impl Remote for Prefixed {
    fn personality(&self) -> Personality {
        let personality = self.inner.personality();
        // Where the prefix alone is too long no key fits.
        let key_bytes_max = personality.key_bytes_max.saturating_sub(self.prefix.as_bytes().len());
        Personality { key_bytes_max, ..personality }
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        believed("head", key, self.inner.head(&self.outer(key)).await?)
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        self.inner.get(&self.outer(key), range, version).await
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        self.inner.get_whole(&self.outer(key), unless, bytes_max).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        self.inner.put(&self.outer(key), bytes, options).await
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        self.inner.upload_create(&self.outer(key), options).await
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        self.inner.upload_part(&self.outer(key), upload, part, bytes).await
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        let from = self.outer(original.key);
        let original = Original { key: &from, ..original };
        self.inner.upload_part_copy(&self.outer(key), upload, part, original, range).await
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        self.inner.upload_complete(&self.outer(key), upload, parts, condition).await
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        self.inner.upload_abort(&self.outer(key), upload).await
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        self.inner.uploads(&self.outer(key)).await
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let key = self.outer(original.key);
        let original = Original { key: &key, ..original };
        self.inner.copy(original, &self.outer(to), condition).await
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let key = self.outer(original.key);
        let original = Original { key: &key, ..original };
        self.inner.rename(original, &self.outer(to), condition).await
    }

    async fn rename_folder(&self, from: &Key, to: &Key) -> Result<()> {
        self.inner.rename_folder(&self.outer(from), &self.outer(to)).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.inner.delete(&self.outer(key)).await
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        let place = Place::of(request)?;
        let outer = ListRequest {
            prefix: self.outer(&request.prefix),
            start_after: request.start_after.as_ref().map(|key| self.outer(key)),
            continuation: place.continuation.clone(),
            ..request.clone()
        };
        let page = self.inner.list(&outer).await?;
        let next = place.after(&outer, &page, self.personality().naming.order)?;
        if self.prefix.as_bytes().is_empty() {
            return Ok(Page { next, ..page });
        }
        let within = |entry| match entry {
            Entry::Object(key, meta) => Ok(Entry::Object(self.inner_key(&key)?, meta)),
            Entry::Prefix(key) => Ok(Entry::Prefix(self.inner_key(&key)?)),
        };
        let entries = page.entries.into_iter().map(within).collect::<Result<Vec<Entry>>>()?;
        Ok(Page { entries, next })
    }
}
