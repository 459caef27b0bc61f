//! Parts that the store copies itself, and uploads that nobody finished.

use aws_sdk_s3::types::EncodingType;
use base::ByteRange;

use super::terms::Purpose;
use super::{BucketKind, S3, name, number, patient, text, version_of};
use crate::http::range_header;
use crate::{
    Error, ErrorKind, Key, Original, PartNumber, PartTag, Result, UNFINISHED_MAX, Unfinished,
    UploadId,
};

/// So many pages of unfinished uploads are read: those of other keys come in between only where a
/// store does not sort them.
const PAGES_MAX: usize = 10;

/// So many unfinished uploads are looked into; each costs a request.
const LOOKED_INTO_MAX: usize = 64;

/// As many as a page has.
const PAGE_UPLOADS: i32 = 1000;

const UPLOADS: &str = "uploads";

/// Of a key and of an upload, with which a page begins; `None` if there is no page.
type Marks = Option<(Option<String>, Option<String>)>;

impl S3 {
    /// Makes `range` of `original` a part of an upload.
    pub(super) async fn copy_part(
        &self,
        op: &'static str,
        (to, upload, part): (&Key, &UploadId, PartNumber),
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        let from = original.key;
        if original.size < range.end() || self.copy_bytes_max < range.len() {
            let error = Error::new(ErrorKind::Unsupported, op, from);
            return Err(error.because("the range cannot be copied"));
        }
        // Of small objects S3 copies all or nothing.
        let whole = (range.start(), range.end()) == (0, original.size);
        let (way, purpose) = (self.ways.now(), Purpose::PartCopy);
        let request = way
            .client
            .upload_part_copy()
            .bucket(&self.bucket)
            .key(name(op, to)?)
            .upload_id(&upload.0)
            .part_number(number(part))
            .copy_source(text::copy_source(&self.bucket, name(op, from)?))
            .copy_source_if_match(original.version.as_str())
            .set_copy_source_range((!whole).then(|| range_header(range)))
            .customize()
            .config_override(patient());
        let request = self.on_terms(request, purpose);
        let asked = self.ask_for_work((&way, purpose), (op, from), range.len(), request.send());
        let sent = asked.await?;
        let copied = sent.copy_part_result;
        let crc32c = copied.as_ref().and_then(|copied| copied.checksum_crc32_c.clone());
        let version = version_of(op, to, copied.and_then(|copied| copied.e_tag))?;
        Ok(text::part_tag(version.as_str(), crc32c.as_deref()))
    }

    /// The unfinished uploads of `key`.
    pub(super) async fn unfinished(&self, key: &Key) -> Result<Vec<Unfinished>> {
        let op = UPLOADS;
        let wanted = name(op, key)?;
        // A directory bucket takes what ends in a slash only.
        let folder = wanted.rfind('/').map_or("", |slash| &wanted[..=slash]);
        let prefix = if self.kind == BucketKind::Directory { folder } else { wanted };
        let garbled = || Error::new(ErrorKind::Corrupt, op, key).because("a line is garbled");
        let mut found = Vec::new();
        let (mut key_marker, mut id_marker) = (None, None);
        let purpose = Purpose::Other;
        for _ in 0..PAGES_MAX {
            let way = self.ways.now();
            let request = way
                .client
                .list_multipart_uploads()
                .bucket(&self.bucket)
                .prefix(prefix)
                .encoding_type(EncodingType::Url)
                .max_uploads(PAGE_UPLOADS)
                .set_key_marker(key_marker)
                .set_upload_id_marker(id_marker)
                .customize();
            let request = self.on_terms(request, purpose);
            let page = self.ask((&way, purpose), (op, key), request.send()).await?;
            for upload in page.uploads() {
                let of = upload.key().and_then(text::decode_listed).ok_or_else(garbled)?;
                if of == key.as_bytes() {
                    let upload_id = UploadId(upload.upload_id().ok_or_else(garbled)?.to_owned());
                    let since = text::timestamp(upload.initiated());
                    found.push(Unfinished { upload: upload_id, since, has_parts: true });
                }
            }
            let marks = (page.next_key_marker(), page.next_upload_id_marker());
            match self.turn(key, marks)? {
                Some(next) if page.is_truncated == Some(true) && found.len() < UNFINISHED_MAX => {
                    (key_marker, id_marker) = next;
                }
                Some(_) | None => break,
            }
        }
        found.sort_by_key(|unfinished| unfinished.since);
        found.truncate(UNFINISHED_MAX);
        // Who looks for something looks for what was begun lately.
        for unfinished in found.iter_mut().rev().take(LOOKED_INTO_MAX) {
            unfinished.has_parts = self.has_parts(key, &unfinished.upload).await?;
        }
        Ok(found)
    }

    /// Whether an upload has parts, or may have: not everybody may look.
    async fn has_parts(&self, key: &Key, upload: &UploadId) -> Result<bool> {
        let (op, way, purpose) = (UPLOADS, self.ways.now(), Purpose::Other);
        let request = way
            .client
            .list_parts()
            .bucket(&self.bucket)
            .key(name(op, key)?)
            .upload_id(&upload.0)
            .max_parts(1)
            .customize();
        let request = self.on_terms(request, purpose);
        match self.ask((&way, purpose), (op, key), request.send()).await {
            Ok(page) => Ok(!page.parts().is_empty()),
            Err(error) if matches!(error.kind, ErrorKind::Transient { .. }) => Err(error),
            Err(error) => {
                tracing::debug!(%error, "an unfinished upload is taken for one that has parts");
                Ok(true)
            }
        }
    }

    /// Where the next page of unfinished uploads begins, after one that ends with these marks of a key and an
    /// upload; `None` if none of `key` can be on it.
    fn turn(&self, key: &Key, (next_key, next_id): (Option<&str>, Option<&str>)) -> Result<Marks> {
        let garbled = || Error::new(ErrorKind::Corrupt, UPLOADS, key).because("a mark is garbled");
        let Some(next) = next_key.filter(|next| !next.is_empty()) else { return Ok(None) };
        let next = text::decode_listed(next).and_then(|next| String::from_utf8(next).ok());
        let next = next.ok_or_else(garbled)?;
        Ok(match self.kind {
            // In no order, and the mark is no key.
            BucketKind::Directory => Some((Some(next), None)),
            BucketKind::General if next.as_bytes() == key.as_bytes() => {
                Some((Some(next), next_id.map(str::to_owned)))
            }
            BucketKind::General => None,
        })
    }
}
