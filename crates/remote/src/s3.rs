//! S3 and what speaks its language, through Amazon's own library.
//!
//! Keys go out byte for byte: nothing is normalised, and what is not UTF-8 is refused, because S3
//! itself refuses it. The library repeats nothing; that is `retry`'s business.

mod body;
mod connect;
mod fault;
mod large;
mod page;
mod part;
mod server;
mod text;

pub use connect::{Addressing, Credentials, S3Options};

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart, EncodingType};
use base::ByteRange;
use bytes::Bytes;

use crate::{
    Body, Condition, Entry, Error, ErrorKind, Fresh, Key, ListRequest, Meta, Metadata, Original,
    Page, PartCopies, PartNumber, PartTag, Personality, PutOptions, Remote, Result, Unfinished,
    UploadId, Version, metadata,
};
use server::PartChecks;

/// How long a large upload's answer may take, sending its bytes included; one that stands still is
/// given up long before. One value for all, because each has its own pool of connections.
const UPLOAD_MAX: Duration = Duration::from_mins(15);

/// Up to here an upload has no more time than any other call: a line that is slower is down.
const SMALL_BYTES_MAX: usize = 1 << 20;

/// One bucket of S3.
#[derive(Clone)]
pub struct S3 {
    client: Client,
    bucket: String,
    payload: Payload,
    part_checks: PartChecks,
    /// The largest object that is copied in one request.
    copy_bytes_max: u64,
}

/// Whether what is sent is part of the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payload {
    /// On a line that others can write to.
    Signed,
    /// TLS keeps others out, and a hash costs more than all the rest of an upload.
    Plain,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl S3 {
    /// A client for the bucket. That it can be used shows the first call.
    pub async fn connect(options: S3Options) -> Result<S3> {
        let key = Key::from(options.bucket.as_str());
        if options.bucket.is_empty() || options.bucket.contains('/') {
            let error = Error::new(ErrorKind::Unsupported, "connect", &key);
            return Err(error.because("not a bucket name"));
        }
        let insecure = options.endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
        let payload = if insecure { Payload::Signed } else { Payload::Plain };
        let client = connect::client(&options).await;
        let part_checks = match (payload, &options.endpoint) {
            (Payload::Signed, _) => PartChecks::Signature,
            (Payload::Plain, None) => PartChecks::Announced,
            (Payload::Plain, Some(_)) => server::part_checks(&client, &options.bucket).await,
        };
        let copy_bytes_max = options.copy_bytes_max;
        Ok(S3 { client, bucket: options.bucket, payload, part_checks, copy_bytes_max })
    }

    /// Metadata must survive the way through HTTP headers.
    fn check_metadata(op: &'static str, key: &Key, metadata: &Metadata) -> Result<()> {
        metadata::check_header_values(metadata)
            .map_err(|words| Error::new(ErrorKind::Unsupported, op, key).because(words))
    }

    async fn put_bytes(
        &self,
        key: &Key,
        bytes: Bytes,
        options: &PutOptions,
    ) -> Result<Option<String>> {
        let op = "put";
        let (crc32c, length) = (text::crc32c(&bytes), bytes.len());
        let (if_match, if_none_match) = conditions(&options.condition);
        let request = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(name(op, key)?)
            .set_if_match(if_match)
            .set_if_none_match(if_none_match)
            .set_metadata(Some(options.metadata.clone().into_iter().collect()))
            .checksum_crc32_c(crc32c)
            .body(ByteStream::from(bytes))
            .customize()
            .config_override(patient_with(length));
        let request = match self.payload {
            Payload::Signed => request,
            Payload::Plain => request.disable_payload_signing(),
        };
        let put = request.send().await;
        Ok(put.map_err(|error| of_write(op, key, &options.condition, &error))?.e_tag)
    }
}

/// The key as text; S3 takes nothing else.
fn name<'a>(op: &'static str, key: &'a Key) -> Result<&'a str> {
    let refuse = |words: &str| Error::new(ErrorKind::Unsupported, op, key).because(words);
    match std::str::from_utf8(key.as_bytes()) {
        Ok("") => Err(refuse("an object needs a name")),
        // The SDK would say that there is none, and be asked again and again.
        Ok(name) if name.trim().is_empty() => Err(refuse("a key of white space alone")),
        Ok(name) => Ok(name),
        Err(_) => Err(refuse("S3 takes only keys that are UTF-8")),
    }
}

/// `If-Match` and `If-None-Match`.
fn conditions(condition: &Condition) -> (Option<String>, Option<String>) {
    match condition {
        Condition::Always => (None, None),
        Condition::Absent => (None, Some("*".to_owned())),
        Condition::Is(version) => (Some(version.as_str().to_owned()), None),
    }
}

/// As [`fault::of_call`]; what is to be replaced and is not there has been changed.
fn of_write<E>(
    op: &'static str,
    key: &Key,
    condition: &Condition,
    error: &SdkError<E, HttpResponse>,
) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let no_such_key = error.code() == Some("NoSuchKey");
    let mut error = fault::of_call(op, key, error);
    if no_such_key && matches!(condition, Condition::Is(_)) {
        error.kind = ErrorKind::Changed;
    }
    error
}

fn version_of(op: &'static str, key: &Key, etag: Option<String>) -> Result<Version> {
    let etag = etag.filter(|etag| !etag.is_empty());
    let missing = || Error::new(ErrorKind::Corrupt, op, key).because("the answer has no etag");
    Ok(Version::new(&etag.ok_or_else(missing)?))
}

/// As much time as the store may work, or a slow line send.
fn patient() -> aws_sdk_s3::config::Builder {
    let timeouts = TimeoutConfig::builder().read_timeout(UPLOAD_MAX).build();
    aws_sdk_s3::Config::builder().timeout_config(timeouts)
}

/// As much time as an upload of `length` bytes may take.
fn patient_with(length: usize) -> aws_sdk_s3::config::Builder {
    if length <= SMALL_BYTES_MAX { aws_sdk_s3::Config::builder() } else { patient() }
}

#[async_trait]
impl Remote for S3 {
    fn personality(&self) -> Personality {
        Personality {
            part_bytes_min: 5 << 20,
            part_bytes_max: 5 << 30,
            parts_max: 10_000,
            object_bytes_max: 5 << 40,
            conditional_writes: true,
            part_copies: PartCopies::AnyRange { bytes_max: self.copy_bytes_max },
        }
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        let op = "head";
        let request = self.client.head_object().bucket(&self.bucket).key(name(op, key)?);
        let found = request.send().await.map_err(|error| fault::of_call(op, key, &error))?;
        let size = found.content_length.and_then(|size| u64::try_from(size).ok());
        let missing = || Error::new(ErrorKind::Corrupt, op, key).because("the answer has no size");
        Ok(Meta {
            size: size.ok_or_else(missing)?,
            modified: text::timestamp(found.last_modified.as_ref()),
            metadata: found.metadata.unwrap_or_default().into_iter().collect(),
            version: version_of(op, key, found.e_tag)?,
        })
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        let op = "get";
        let request = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(name(op, key)?)
            .range(text::range(range))
            .set_if_match(version.map(|version| version.as_str().to_owned()));
        let found = request.send().await.map_err(|error| fault::of_call(op, key, &error))?;
        body::checked(key, range, version, found)
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        let op = "get whole";
        let request = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(name(op, key)?)
            .set_if_none_match(unless.map(|version| version.as_str().to_owned()));
        match request.send().await {
            Ok(found) => body::whole(op, key, (unless, bytes_max), found).await,
            Err(error) if error.raw_response().is_some_and(|raw| raw.status().as_u16() == 304) => {
                Ok(Fresh::Same)
            }
            Err(error) => Err(fault::of_call(op, key, &error)),
        }
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        S3::check_metadata("put", key, &options.metadata)?;
        let etag = self.put_bytes(key, bytes, options).await?;
        version_of("put", key, etag)
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        let op = "upload create";
        S3::check_metadata(op, key, &options.metadata)?;
        let announced = match self.part_checks {
            PartChecks::Announced => Some(ChecksumAlgorithm::Crc32C),
            PartChecks::Signature | PartChecks::Unannounced => None,
        };
        let request = self
            .client
            .create_multipart_upload()
            .bucket(&self.bucket)
            .key(name(op, key)?)
            .set_checksum_algorithm(announced)
            .set_metadata(Some(options.metadata.clone().into_iter().collect()));
        let begun = request.send().await.map_err(|error| fault::of_call(op, key, &error))?;
        let missing = || Error::new(ErrorKind::Corrupt, op, key).because("the answer has no id");
        begun.upload_id.map(UploadId).ok_or_else(missing)
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        let op = "upload part";
        let length = bytes.len();
        let crc32c = match self.part_checks {
            PartChecks::Signature => None,
            PartChecks::Announced | PartChecks::Unannounced => Some(text::crc32c(&bytes)),
        };
        let request = self
            .client
            .upload_part()
            .bucket(&self.bucket)
            .key(name(op, key)?)
            .upload_id(&upload.0)
            .part_number(number(part))
            .set_checksum_crc32_c(crc32c.clone())
            .body(ByteStream::from(bytes))
            .customize()
            .config_override(patient_with(length));
        let request = match self.payload {
            Payload::Signed => request,
            Payload::Plain => request.disable_payload_signing(),
        };
        let sent = request.send().await.map_err(|error| fault::of_call(op, key, &error))?;
        let version = version_of(op, key, sent.e_tag)?;
        let told = crc32c.filter(|_| self.part_checks == PartChecks::Announced);
        Ok(text::part_tag(version.as_str(), told.as_deref()))
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        self.copy_part("upload part copy", (key, upload, part), original, range).await
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        let op = "upload complete";
        let parts = parts.iter().map(|(part, tag)| {
            let (etag, crc32c) = text::parse_part_tag(tag);
            CompletedPart::builder()
                .part_number(number(*part))
                .e_tag(etag)
                .set_checksum_crc32_c(crc32c.map(str::to_owned))
                .build()
        });
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts.collect())).build();
        let (if_match, if_none_match) = conditions(condition);
        let request = self
            .client
            .complete_multipart_upload()
            .bucket(&self.bucket)
            .key(name(op, key)?)
            .upload_id(&upload.0)
            .multipart_upload(parts)
            .set_if_match(if_match)
            .set_if_none_match(if_none_match)
            .customize()
            .config_override(patient());
        let done = request.send().await;
        let done = done.map_err(|error| of_write(op, key, condition, &error))?;
        version_of(op, key, done.e_tag)
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        let op = "upload abort";
        let request = self
            .client
            .abort_multipart_upload()
            .bucket(&self.bucket)
            .key(name(op, key)?)
            .upload_id(&upload.0);
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some("NoSuchUpload") => Ok(()),
            Err(error) => Err(fault::of_call(op, key, &error)),
        }
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        self.unfinished(key).await
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let op = "copy";
        let Original { key: from, version, size } = original;
        if self.copy_bytes_max < size {
            return self.copy_in_parts(original, to, condition).await;
        }
        let (if_match, if_none_match) = conditions(condition);
        let request = self
            .client
            .copy_object()
            .bucket(&self.bucket)
            .key(name(op, to)?)
            .copy_source(text::copy_source(&self.bucket, name(op, from)?))
            .copy_source_if_match(version.as_str())
            .set_if_match(if_match)
            .set_if_none_match(if_none_match)
            .customize()
            .config_override(patient());
        let done = request.send().await.map_err(|error| fault::of_call(op, from, &error))?;
        version_of(op, to, done.copy_object_result.and_then(|result| result.e_tag))
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        let op = "delete";
        let request = self.client.delete_object().bucket(&self.bucket).key(name(op, key)?);
        request.send().await.map_err(|error| fault::of_call(op, key, &error))?;
        Ok(())
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        let op = "list";
        let prefix = &request.prefix;
        let text = |key: &Key| match std::str::from_utf8(key.as_bytes()) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Error::new(ErrorKind::Unsupported, op, key).because("not UTF-8")),
        };
        let listed = self
            .client
            .list_objects_v2()
            .bucket(&self.bucket)
            .prefix(text(prefix)?)
            .set_delimiter(request.delimited.then(|| "/".to_owned()))
            .set_start_after(request.start_after.as_ref().map(text).transpose()?)
            .set_continuation_token(request.continuation.clone())
            .max_keys(i32::from(request.entries_max))
            .encoding_type(EncodingType::Url)
            .send()
            .await
            .map_err(|error| fault::of_call(op, prefix, &error))?;

        let garbled = || Error::new(ErrorKind::Corrupt, op, prefix).because("a key is garbled");
        let key = |text: &str| text::decode_listed(text).map(Key::new).ok_or_else(garbled);
        let mut entries = Vec::new();
        for object in listed.contents() {
            let key = key(object.key().ok_or_else(garbled)?)?;
            let meta = Meta {
                size: object.size().and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
                version: version_of(op, &key, object.e_tag.clone())?,
                modified: text::timestamp(object.last_modified()),
                metadata: Metadata::new(),
            };
            entries.push(Entry::Object(key, meta));
        }
        for folded in listed.common_prefixes() {
            entries.push(Entry::Prefix(key(folded.prefix().ok_or_else(garbled)?)?));
        }
        entries.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(Page { entries, next: listed.next_continuation_token })
    }
}

fn number(part: PartNumber) -> i32 {
    // Stores refuse numbers above 10,000, so a saturated one is refused as well.
    i32::try_from(part.0).unwrap_or(i32::MAX)
}
