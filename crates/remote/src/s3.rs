//! S3 and what speaks its language: what moves bytes goes [straight](direct), all else through Amazon's
//! own library.
//!
//! Keys go out byte for byte: nothing is normalised, and what is not UTF-8 is refused, because S3
//! itself refuses it. The library repeats nothing; that is `retry`'s business.

mod body;
mod connect;
mod direct;
mod fault;
mod identity;
mod keys;
mod large;
mod named;
mod page;
mod part;
mod place;
#[cfg(test)]
mod recorded;
mod server;
mod sign;
mod text;

pub use connect::{Addressing, Credentials, S3Options};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart, EncodingType};
use base::{ByteRange, Clock};
use bytes::Bytes;
use http::Method;
use tokio::sync::OnceCell;

use crate::http::{Answer, Asked, Http, range_header, ranged};
use crate::{
    Body, Condition, Entry, Error, ErrorKind, Fresh, Key, ListRequest, Meta, Metadata, Original,
    Page, PartCopies, PartNumber, PartTag, Personality, PutOptions, Remote, Result, Unfinished,
    UploadId, Version, metadata,
};
use direct::{Asker, Call, Direct};
use keys::Keys;
use named::{name, version_of};
use place::Place;
use server::PartChecks;
use sign::Payload;

/// How long a large upload's answer may take, sending its bytes included; one that stands still is
/// given up long before. One value for all, because each has its own pool of connections.
const UPLOAD_MAX: Duration = Duration::from_mins(15);

/// One bucket of S3.
#[derive(Clone)]
pub struct S3 {
    client: Client,
    direct: Arc<OnceCell<Direct>>,
    asker: Asker,
    bucket: String,
    part_checks: PartChecks,
    /// The largest object that is copied in one request.
    copy_bytes_max: u64,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl S3 {
    /// A client for the bucket. That it can be used shows the first call.
    pub async fn connect(options: S3Options, clock: Arc<dyn Clock>) -> Result<S3> {
        let key = Key::from(options.bucket.as_str());
        if options.bucket.is_empty() || options.bucket.contains('/') {
            let error = Error::new(ErrorKind::Unsupported, "connect", &key);
            return Err(error.because("not a bucket name"));
        }
        let insecure = options.endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
        let payload = if insecure { Payload::Signed } else { Payload::Plain };
        let (client, provider) = connect::client(&options).await;
        let part_checks = match (payload, &options.endpoint) {
            (Payload::Signed, _) => PartChecks::Signature,
            (Payload::Plain, None) => PartChecks::Announced,
            (Payload::Plain, Some(_)) => server::part_checks(&client, &options.bucket).await,
        };
        let keys = provider.map(|provider| Arc::new(Keys::new(provider, Arc::clone(&clock))));
        let asker =
            Asker { http: Http::new(options.patience, Arc::clone(&clock)), clock, keys, payload };
        let S3Options { bucket, copy_bytes_max, .. } = options;
        Ok(S3 { client, direct: Arc::default(), asker, bucket, part_checks, copy_bytes_max })
    }

    /// The way for calls that move bytes; found with the first of them, for it takes credentials.
    async fn direct(&self) -> Result<&Direct> {
        let found = async || {
            let place = Place::of(&self.client, &self.bucket).await?;
            Ok(Direct::new(self.asker.clone(), place))
        };
        self.direct.get_or_try_init(found).await
    }

    async fn send(&self, call: Call<'_>) -> Result<Answer> {
        self.direct().await?.send(call).await
    }

    /// Metadata must survive the way through HTTP headers.
    fn check_metadata(op: &'static str, key: &Key, metadata: &Metadata) -> Result<()> {
        metadata::check_header_values(metadata)
            .map_err(|words| Error::new(ErrorKind::Unsupported, op, key).because(words))
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

/// As much time as the store may work, or a slow line send.
fn patient() -> aws_sdk_s3::config::Builder {
    let timeouts = TimeoutConfig::builder().read_timeout(UPLOAD_MAX).build();
    aws_sdk_s3::Config::builder().timeout_config(timeouts)
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
        let answer = self.send(Call::new(op, Method::HEAD, key)).await?;
        direct::meta(op, key, &answer)
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        let call = Call::new("get", Method::GET, key)
            .header("range", range_header(range))
            .maybe("if-match", version.map(|version| version.as_str().to_owned()));
        let answer = self.send(call).await?;
        let found = answer.header("etag").map(Version::new);
        ranged(Asked { key, range, version }, answer, found.as_ref(), None)
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        let op = "get whole";
        let call = Call::new(op, Method::GET, key)
            .maybe("if-none-match", unless.map(|version| version.as_str().to_owned()));
        let answer = self.send(call).await?;
        if answer.status() == 304 {
            return Ok(Fresh::Same);
        }
        body::whole(op, key, (unless, bytes_max), answer).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        let op = "put";
        S3::check_metadata(op, key, &options.metadata)?;
        let (if_match, if_none_match) = conditions(&options.condition);
        let call = Call::new(op, Method::PUT, key)
            .maybe("if-match", if_match)
            .maybe("if-none-match", if_none_match)
            .header("x-amz-checksum-crc32c", text::crc32c(&bytes))
            // What stores say of bytes of which nobody says anything differs.
            .header("content-type", "application/octet-stream")
            .metadata(&options.metadata)
            .body(bytes);
        let sent = self.send(call).await;
        let answer = sent.map_err(|error| fault::of_replacing(error, &options.condition))?;
        direct::version(op, key, &answer)
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
        let crc32c = match self.part_checks {
            PartChecks::Signature => None,
            PartChecks::Announced | PartChecks::Unannounced => Some(text::crc32c(&bytes)),
        };
        let call = Call::new(op, Method::PUT, key)
            .query("partNumber", number(part).to_string())
            .query("uploadId", &upload.0)
            .maybe("x-amz-checksum-crc32c", crc32c.clone())
            .body(bytes);
        let answer = self.send(call).await?;
        let version = direct::version(op, key, &answer)?;
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
        let done =
            done.map_err(|error| fault::of_replacing(fault::of_call(op, key, &error), condition))?;
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
