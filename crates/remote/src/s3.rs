//! S3 and what speaks its language: what moves bytes goes [straight](direct), all else through Amazon's
//! own library.
//!
//! Keys go out byte for byte: nothing is normalised, and what is not UTF-8 is refused, because S3
//! itself refuses it. The library repeats nothing; that is `retry`'s business.

mod asking;
mod body;
mod buckets;
mod checks;
mod connect;
mod customer_key;
mod direct;
mod directory;
mod fault;
mod identity;
mod keys;
mod lacking;
mod large;
mod list;
mod login;
#[cfg(test)]
mod movable;
mod named;
mod page;
mod part;
mod place;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod recorded_refusals;
#[cfg(test)]
mod recorded_sessions;
#[cfg(test)]
mod recorded_terms;
mod rename;
mod renames;
mod route;
mod server;
mod session;
mod share;
mod shown;
mod sign;
mod tags;
mod terms;
mod text;
mod there;
mod ways;

pub use connect::{Addressing, Credentials, Endpoints, S3Options};
pub use customer_key::{CustomerKey, CustomerKeyError};
pub use tags::{Tags, TagsError};
pub use terms::{Encryption, Payer, S3Terms};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::SharedCredentialsProvider;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use base::{ByteRange, Clock};
use bytes::Bytes;
use http::Method;

use crate::capabilities::{Capability, Has, Learned};
use crate::http::{Asked, Http, Told, bytes_of_parts, range_header, ranged};
use crate::there::There;
use crate::{
    Body, Condition, Entry, Error, ErrorKind, Folders, Fresh, KEY_BYTES_MAX, Key, ListOrder,
    ListRequest, Meta, Metadata, Moves, Naming, Original, Page, PartCopies, PartNumber,
    PartNumbers, PartTag, Personality, PutOptions, Remote, Result, Unfinished, UploadId, Version,
    metadata, xml,
};
use direct::{Asker, Call};
use directory::is_directory;
use keys::Keys;
use named::{name, version_of};
use place::Place;
use renames::Renames;
use server::PartChecks;
use sign::{Payload, Signer};
use terms::Purpose;
use ways::{Start, Ways};

/// How long the library waits for what takes long; how long the store really may take is said for each call.
/// One value for all, because each has its own pool of connections.
const UPLOAD_MAX: Duration = Duration::from_mins(15);

/// A page of a thousand keys, each as long as it may be and spelt as in a URL.
const PAGE_BYTES_MAX: usize = 64 << 20;

/// Asks for the checksum of an object.
const CHECKSUM_MODE: &str = "x-amz-checksum-mode";

/// One bucket of S3.
#[derive(Clone)]
pub struct S3 {
    ways: Arc<Ways>,
    http: Http,
    bucket: String,
    kind: BucketKind,
    terms: Arc<S3Terms>,
    part_checks: PartChecks,
    learned: Arc<Learned>,
    renames: Arc<Renames>,
    /// The largest object that is copied in one request.
    copy_bytes_max: u64,
}

/// What kind of bucket it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BucketKind {
    /// For all purposes.
    General,
    /// Of one zone, asked in sessions.
    Directory,
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
        let refuse = |words: &'static str| {
            Err(Error::new(ErrorKind::Unsupported, "connect", &key).because(words))
        };
        let is_access_point = options.bucket.starts_with("arn:");
        if options.bucket.is_empty() || options.bucket.contains('/') && !is_access_point {
            return refuse("not a bucket name");
        }
        if is_directory(&options.bucket)
            && let Some(words) = lacking::unknown(&options)
        {
            let words = format!("directory buckets (S3 Express One Zone) {words}");
            return Err(Error::new(ErrorKind::Unsupported, "connect", &key).because(words));
        }
        let (client, provider) = connect::client(&options).await;
        S3::over(client, provider, options, clock).await
    }

    /// As [`S3::connect`], with the client at hand, whoever told it the endpoint.
    async fn over(
        client: Client,
        provider: Option<SharedCredentialsProvider>,
        options: S3Options,
        clock: Arc<dyn Clock>,
    ) -> Result<S3> {
        let place = Place::of(&client, &options.bucket).await?;
        let payload = if place.is_private() { Payload::Plain } else { Payload::Signed };
        if payload == Payload::Signed && matches!(options.terms.encryption, Encryption::Customer(_))
        {
            let words = "a key for encryption is sent over TLS only, not to an http:// endpoint";
            let key = Key::from(options.bucket.as_str());
            return Err(Error::new(ErrorKind::Unsupported, "connect", &key).because(words));
        }
        let keys = provider.map(|provider| Arc::new(Keys::new(provider, Arc::clone(&clock))));
        let S3Options { bucket, endpoint, copy_bytes_max, terms, patience, authorities, .. } =
            options;
        let kind = if is_directory(&bucket) { BucketKind::Directory } else { BucketKind::General };
        let http = Http::new(patience, &authorities, Arc::clone(&clock));
        let there = Arc::new(There::new(Arc::clone(&clock)));
        let keys = keys.map(|keys| (Signer::Account, keys));
        let asker = Asker { http: http.clone(), there, keys, payload };
        let encryption = terms.of_session();
        let start = Start { bucket: bucket.clone(), asker, here: clock, encryption };
        let ways = Arc::new(Ways::begin(start, &client, place));
        let part_checks = match (payload, &endpoint) {
            (Payload::Signed, _) => PartChecks::Signature,
            (Payload::Plain, None) => PartChecks::Announced,
            (Payload::Plain, Some(_)) => server::part_checks(&ways.now().client, &bucket).await,
        };
        let learned = Arc::new(Learned::default());
        if kind == BucketKind::Directory {
            // "ListObjectsV2" of the S3 API reference.
            learned.learn(Capability::SortedLists, Has::No);
        }
        let terms = Arc::new(terms);
        let renames = Arc::default();
        Ok(S3 { ways, http, bucket, kind, terms, part_checks, learned, renames, copy_bytes_max })
    }

    /// What has shown so far of what the store can do.
    pub fn learned(&self) -> &Arc<Learned> {
        &self.learned
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

/// As much time as any store may work.
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
            key_bytes_max: KEY_BYTES_MAX,
            conditional_writes: true,
            part_copies: PartCopies::AnyRange { bytes_max: self.copy_bytes_max },
            // "Using multipart uploads with directory buckets" of the S3 user guide.
            part_numbers: match self.kind {
                BucketKind::General => PartNumbers::Rising,
                BucketKind::Directory => PartNumbers::Consecutive,
            },
            naming: match self.kind {
                BucketKind::General => Naming::OF_KEYS,
                BucketKind::Directory => Naming {
                    folders: Folders::Keys,
                    order: ListOrder::Unsorted,
                    moves: if self.renames.are_known() { Moves::Atomic } else { Moves::Copied },
                },
            },
        }
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        let op = "head";
        let answer = self.send(self.call(op, Method::HEAD, key, Purpose::Read)).await?;
        let meta = direct::meta(op, key, &answer)?;
        if shown::is_archived(&answer) {
            self.learned.learn_archived(&meta.version);
        }
        Ok(meta)
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        let call = self
            .call("get", Method::GET, key, Purpose::Read)
            .header("range", range_header(range))
            // It may be all of the object, whose checksum the store may know.
            .maybe(CHECKSUM_MODE, (range.start() == 0).then(|| "ENABLED".to_owned()))
            .maybe("if-match", version.map(|version| version.as_str().to_owned()));
        let answer = self.send(call).await?;
        let found = answer.header("etag").map(Version::new);
        shown::checksums(&self.learned, &answer);
        let checksum = text::checksum(|name| answer.header(name));
        ranged(Asked { key, range, version }, answer, found.as_ref(), Told::of_object(checksum))
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        let op = "get whole";
        let call = self
            .call(op, Method::GET, key, Purpose::Read)
            .header(CHECKSUM_MODE, "ENABLED")
            .maybe("if-none-match", unless.map(|version| version.as_str().to_owned()));
        let answer = self.send(call).await?;
        if answer.status() == 304 {
            return Ok(Fresh::Same);
        }
        shown::checksums(&self.learned, &answer);
        body::whole(op, key, (unless, bytes_max), answer).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        let op = "put";
        S3::check_metadata(op, key, &options.metadata)?;
        let (if_match, if_none_match) = conditions(&options.condition);
        let call = self
            .call(op, Method::PUT, key, Purpose::New(key))
            .maybe("if-match", if_match)
            .maybe("if-none-match", if_none_match)
            // What stores say of bytes of which nobody says anything differs.
            .header("content-type", "application/octet-stream")
            .metadata(&options.metadata);
        let crc32c = text::crc32c(&bytes);
        let sent = self.send_checked(call, bytes, &crc32c).await;
        let answer = sent.map_err(|error| fault::of_replacing(error, &options.condition))?;
        direct::version(op, key, &answer)
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        let op = "upload create";
        S3::check_metadata(op, key, &options.metadata)?;
        self.begin(op, key, options).await
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        let op = "upload part";
        let call = self
            .call(op, Method::PUT, key, Purpose::Part)
            .query("partNumber", number(part).to_string())
            .query("uploadId", &upload.0);
        if self.part_checks == PartChecks::Signature {
            let answer = self.send(call.body(bytes)).await?;
            return Ok(text::part_tag(direct::version(op, key, &answer)?.as_str(), None));
        }
        let crc32c = text::crc32c(&bytes);
        let answer = self.send_checked(call, bytes, &crc32c).await?;
        let version = direct::version(op, key, &answer)?;
        let is_announced = self.part_checks == PartChecks::Announced
            && !self.learned.lacks(Capability::UploadChecksum);
        Ok(text::part_tag(version.as_str(), is_announced.then_some(&crc32c)))
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
        let number_of_parts = parts.len();
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
        let (way, purpose) = (self.ways.now(), Purpose::Part);
        let request = way
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
        let request = self.on_terms(request, purpose);
        let work_bytes = bytes_of_parts(number_of_parts);
        let done = self.ask_for_work((&way, purpose), (op, key), work_bytes, request.send()).await;
        let done = done.map_err(|error| fault::of_replacing(error, condition))?;
        version_of(op, key, done.e_tag)
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        let op = "upload abort";
        let (way, purpose) = (self.ways.now(), Purpose::Other);
        let request = way
            .client
            .abort_multipart_upload()
            .bucket(&self.bucket)
            .key(name(op, key)?)
            .upload_id(&upload.0)
            .customize();
        let request = self.on_terms(request, purpose);
        match self.ask((&way, purpose), (op, key), request.send()).await {
            Ok(_) => Ok(()),
            Err(error) if fault::code_of(&error) == Some("NoSuchUpload") => Ok(()),
            Err(error) => Err(error),
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
        let (way, purpose) = (self.ways.now(), Purpose::Copy { from, to });
        let request = way
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
        let request = self.on_terms(request, purpose);
        let done = self.ask_for_work((&way, purpose), (op, from), size, request.send()).await?;
        version_of(op, to, done.copy_object_result.and_then(|result| result.e_tag))
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        match self.kind {
            BucketKind::Directory => self.rename_object(original, to, condition).await,
            BucketKind::General => {
                let error = Error::new(ErrorKind::Unsupported, "rename", original.key);
                Err(error.because("only directory buckets rename objects"))
            }
        }
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        let op = "delete";
        let (way, purpose) = (self.ways.now(), Purpose::Other);
        let request = way.client.delete_object().bucket(&self.bucket).key(name(op, key)?);
        let request = self.on_terms(request.customize(), purpose);
        self.ask((&way, purpose), (op, key), request.send()).await?;
        Ok(())
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        let op = "list";
        let prefix = &request.prefix;
        let refuse = |words| Error::new(ErrorKind::Unsupported, op, prefix).because(words);
        let query = match self.kind {
            BucketKind::General => list::query(request),
            BucketKind::Directory if request.start_after.is_some() => {
                return Err(refuse("a directory bucket lists from the beginning only"));
            }
            BucketKind::Directory => list::query(&list::of_folder(request)),
        };
        let query = query.ok_or_else(|| refuse("not UTF-8"))?;
        let call = Call::of_bucket(op, prefix, query).terms(self.headers(Purpose::Other));
        let document = self.send(call).await?.bytes(PAGE_BYTES_MAX).await;
        let document = document.map_err(|failure| failure.into_error(op, prefix))?;
        let corrupt = |words| Error::new(ErrorKind::Corrupt, op, prefix).because(words);
        // One that was cut off on the way comes whole the next time.
        let root = xml::parse(&document)
            .ok_or_else(|| fault::in_passing(corrupt("the listing is not whole")))?;
        let listed = list::page(&root).map_err(corrupt)?;

        let list::Listed { objects, prefixes, next } = listed;
        shown::order(&self.learned, &objects, &prefixes);
        let mut entries: Vec<Entry> = prefixes.into_iter().map(Entry::Prefix).collect();
        for list::Line { key, size, etag, modified, class } in objects {
            let version = version_of(op, &key, etag)?;
            if class.is_some_and(|class| shown::is_archive(&class)) {
                self.learned.learn_archived(&version);
            }
            let meta = Meta { size, version, modified, metadata: Metadata::new() };
            entries.push(Entry::Object(key, meta));
        }
        if self.kind == BucketKind::Directory {
            entries.retain(|entry| entry.key().as_bytes().starts_with(prefix.as_bytes()));
        }
        entries.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(Page { entries, next })
    }
}

fn number(part: PartNumber) -> i32 {
    // Stores refuse numbers above 10,000, so a saturated one is refused as well.
    i32::try_from(part.0).unwrap_or(i32::MAX)
}
