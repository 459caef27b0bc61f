//! Copies of objects that are too large for one request: in parts, inside the store.

use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::types::Tag;
use base::ByteRange;
use futures::{StreamExt as _, TryStreamExt as _};

use super::terms::Purpose;
use super::{BucketKind, S3, name};
use crate::http::encode;
use crate::{
    Condition, Error, ErrorKind, Key, Original, PartNumber, PartTag, Remote as _, Result, UploadId,
    Version,
};

/// The parts: large enough that there are few, small enough that many are copied at a time.
const PART_BYTES: u64 = 512 << 20;

/// S3 takes so many parts.
const PARTS_MAX: u64 = 10_000;

/// Parts that are copied at a time.
const REQUESTS_MAX: usize = 8;

const OP: &str = "copy";

impl S3 {
    /// Copies a large object, with everything that its writer said of it.
    pub(super) async fn copy_in_parts(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let from = original.key;
        let (way, purpose) = (self.ways.now(), Purpose::Read);
        let request = way.client.head_object().bucket(&self.bucket).key(name(OP, from)?);
        let request = self.on_terms(request.customize(), purpose);
        let head = self.ask((&way, purpose), (OP, from), request.send()).await?;
        if head.e_tag() != Some(original.version.as_str()) {
            return Err(Error::new(ErrorKind::Changed, OP, from));
        }
        let tags = match (self.kind, self.terms.tags_anew(from, to)) {
            // There are none.
            (BucketKind::Directory, _) => None,
            (BucketKind::General, Some(tags)) => Some(tags),
            (BucketKind::General, None) => self.tags_kept(from, to).await?,
        };
        let upload = self.begin_copy(&head, to, tags).await?;
        let copied = self.copy_parts(original, to, &upload, condition).await;
        if copied.is_err()
            && let Err(error) = self.upload_abort(to, &upload).await
        {
            tracing::warn!(%error, "the parts of a copy stay in the bucket");
        }
        copied
    }

    /// The tags of an object as a header spells them, or those that the rules have for its new name if its own
    /// are not to be had; `None` if there are none. A copy in one request keeps them without being asked.
    async fn tags_kept(&self, key: &Key, to: &Key) -> Result<Option<String>> {
        let (way, purpose) = (self.ways.now(), Purpose::Other);
        let request = way.client.get_object_tagging().bucket(&self.bucket).key(name(OP, key)?);
        let request = self.on_terms(request.customize(), purpose);
        let tags = match self.ask((&way, purpose), (OP, key), request.send()).await {
            Ok(found) => found.tag_set,
            // Many stores know no tags, some say of an object without any that there are none, and whoever may
            // not see them may still move the object.
            Err(error)
                if matches!(
                    error.kind,
                    ErrorKind::Unsupported | ErrorKind::Denied | ErrorKind::NotFound
                ) =>
            {
                tracing::warn!(%error, "a large object is copied without its tags, if it has any");
                return Ok(self.terms.tags_of_new(to));
            }
            Err(error) => return Err(error),
        };
        let spelt =
            |tag: &Tag| format!("{}={}", encode(tag.key.as_bytes()), encode(tag.value.as_bytes()));
        let text = tags.iter().map(spelt).collect::<Vec<String>>().join("&");
        Ok((!text.is_empty()).then_some(text))
    }

    async fn begin_copy(
        &self,
        head: &HeadObjectOutput,
        to: &Key,
        tags: Option<String>,
    ) -> Result<UploadId> {
        let (way, purpose) = (self.ways.now(), Purpose::CopyInParts);
        let request = way
            .client
            .create_multipart_upload()
            .bucket(&self.bucket)
            .key(name(OP, to)?)
            .set_metadata(head.metadata.clone())
            .set_content_type(head.content_type.clone())
            .set_content_encoding(head.content_encoding.clone())
            .set_content_language(head.content_language.clone())
            .set_content_disposition(head.content_disposition.clone())
            .set_cache_control(head.cache_control.clone())
            .set_tagging(tags)
            .customize();
        let request = self.on_terms(request, purpose);
        let begun = self.ask((&way, purpose), (OP, to), request.send()).await?;
        let missing = || Error::new(ErrorKind::Corrupt, OP, to).because("the answer has no id");
        begun.upload_id.map(UploadId).ok_or_else(missing)
    }

    async fn copy_parts(
        &self,
        original: Original<'_>,
        to: &Key,
        upload: &UploadId,
        condition: &Condition,
    ) -> Result<Version> {
        let part_bytes = part_bytes(original.size, self.copy_bytes_max);
        let whole = ByteRange::new(0, original.size);
        let ranges: Vec<_> = whole.into_iter().flat_map(|whole| whole.pieces(part_bytes)).collect();
        let copies = ranges.into_iter().zip(1..).map(|(range, number)| async move {
            let part = PartNumber(number);
            let tag = self.copy_part(OP, (to, upload, part), original, range).await?;
            Ok::<_, Error>((part, tag))
        });
        let parts: Vec<(PartNumber, PartTag)> =
            futures::stream::iter(copies).buffered(REQUESTS_MAX).try_collect().await?;
        self.upload_complete(to, upload, &parts, condition).await
    }
}

/// How large the parts of a copy of `size` bytes are.
fn part_bytes(size: u64, part_bytes_max: u64) -> u64 {
    PART_BYTES.min(part_bytes_max).max(size.div_ceil(PARTS_MAX))
}

#[cfg(test)]
mod tests {
    use super::part_bytes;

    #[test]
    fn the_largest_object_fits_into_the_parts_there_may_be() {
        let largest: u64 = 5 << 40;
        assert!(largest.div_ceil(part_bytes(largest, 5 << 30)) <= 10_000);
        assert_eq!(part_bytes(6 << 30, 5 << 30), 512 << 20);
        assert_eq!(part_bytes(12 << 20, 5 << 20), 5 << 20);
    }
}
