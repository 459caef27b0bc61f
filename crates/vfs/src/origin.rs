//! The version that a file was made from: what was not changed is copied or read from there.

use std::sync::Arc;

use base::ByteRange;
use futures::{StreamExt, stream};
use namespace::Target;
use remote::{Condition, Extent, Key, Meta, Original, Version};
use store::{Sealed, Staged};
use transfer::Download;

use crate::aimed::Origin;
use crate::errno::Result;
use crate::file::{Bytes, File};
use crate::source::Source;
use crate::vfs::Vfs;

/// How much of a base is taken at a time, and how many times at once.
const TAKE_BYTES: u64 = 1 << 20;
const TAKES_MAX: usize = 4;

impl Vfs {
    /// The version that an upload to `target` replaces, if it is known which bytes that has.
    pub(crate) fn origin(&self, file: &File, target: &Target) -> Option<Origin> {
        let Condition::Is(version) = &target.condition else { return None };
        // A file that is just being removed will not be published.
        let content = self.namespace.content_now(file.ino()).ok()?;
        let [Extent { key, version: known, object_offset: 0, .. }] = &content.extents[..] else {
            return None;
        };
        let (identity, size) = (content.identity?, content.size);
        let (key, version) = (known == version).then(|| (key.clone(), version.clone()))?;
        Some(Origin { identity, key, version, size })
    }

    /// What an earlier try of ours made of the object, if it is that: its answer was lost. What the
    /// file lacks is fetched from there from now on.
    pub(crate) async fn follow_unanswered(&self, file: &File, key: &Key) -> Result<Option<Meta>> {
        let tries = file.unanswered();
        if tries.is_empty() {
            return Ok(None);
        }
        let Some(meta) = self.uploader.written_by(key, &tries).await? else { return Ok(None) };
        // What is unchanged now was unchanged then.
        file.state.write().follow(self.read_past_cache(key, &meta.version, meta.size));
        Ok(Some(meta))
    }

    /// Reads of an object that is not worth a place in the cache.
    pub(crate) fn read_past_cache(&self, key: &Key, version: &Version, size: u64) -> Arc<Download> {
        let identity = version.as_str().as_bytes();
        Download::uncached(&self.fetcher, (identity, size), whole_object(key, version, size))
    }

    /// What an edit sends and does not have is taken from its base, so that it is here afterwards.
    pub(crate) async fn fill_what_is_sent(
        &self,
        file: &File,
        staged: &Staged,
        origin: Option<&Origin>,
    ) -> Result<()> {
        let Some(base) = file.base() else { return Ok(()) };
        let original = staged.origin();
        let original = origin.and_then(|origin| origin.original(original.as_deref()));
        for range in self.uploader.sends(staged.size(), &staged.unchanged(), original) {
            if original.is_some() && !staged.can_spare(range.len()) {
                // It is fetched when it is sent, and not kept.
                break;
            }
            if take(staged, &base, range).await.is_err() {
                // The base may have gone elsewhere.
                self.fill(file, range).await?;
            }
        }
        match staged.edge() {
            Some(edge) => self.fill(file, edge).await,
            None => Ok(()),
        }
    }

    /// The staged bytes that are published as an object, and stay staged, have what they lack in that
    /// object from now on.
    pub(crate) fn follow_published(
        &self,
        bytes: &mut Bytes,
        (identity, extents): (&[u8], Vec<Extent>),
        size: u64,
    ) {
        let Bytes::Staged { staged, base } = bytes else { return };
        let lacks = ByteRange::new(0, staged.size()).and_then(|all| staged.missing(all));
        let source = lacks.map(|_| match self.download(identity, size, extents.clone()) {
            Ok(download) => download,
            Err(error) => {
                tracing::warn!(%error, "a published version has no place in the cache");
                Download::uncached(&self.fetcher, (identity, size), extents)
            }
        });
        *base = source.map(Source::from);
    }
}

/// Takes what `range` of `staged` lacks from `base`, and nothing else.
async fn take(staged: &Staged, base: &Arc<Download>, range: ByteRange) -> Result<()> {
    let mut from = range.start();
    let missing_from =
        |from| ByteRange::new(from, range.end()).and_then(|rest| staged.missing(rest));
    while let Some(missing) = missing_from(from) {
        from = missing.end();
        let parts = missing.pieces(TAKE_BYTES).filter_map(|part| part.below(base.size()));
        let taking = parts.map(|part| {
            let base = Arc::clone(base);
            async move { base.read_just(part).await.map(|bytes| (part.start(), bytes)) }
        });
        let mut taking = stream::iter(taking).buffered(TAKES_MAX);
        while let Some(taken) = taking.next().await {
            let (start, bytes) = taken?;
            staged.fill(start, &bytes)?;
        }
    }
    Ok(())
}

/// Whether `sealed` can be put together with what is known of its origin.
pub(crate) fn is_whole(sealed: &Sealed, origin: Option<&Original<'_>>) -> bool {
    sealed.missing().is_empty() || origin.is_some()
}

/// The file as one extent.
pub(crate) fn whole_object(key: &Key, version: &Version, size: u64) -> Vec<Extent> {
    let extent =
        |range| Extent { range, key: key.clone(), version: version.clone(), object_offset: 0 };
    ByteRange::new(0, size).map(extent).into_iter().collect()
}
