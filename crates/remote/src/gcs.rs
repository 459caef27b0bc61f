//! Google Cloud Storage, through its JSON calls. An object's generation is its version.

mod buckets;
mod call;
mod connect;
mod fault;
mod federation;
mod file_error;
mod folders;
mod identity;
mod json;
mod moving;
mod objects;
mod parts;
mod places;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod recorded_folders;
mod share;
mod token;
mod url_signer;

pub use connect::{GcsCredentials, GcsOptions, ServiceAccount, User};
pub use federation::{Federation, Subject, SubjectFormat};
pub use file_error::CredentialsFileError;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use base::{ByteRange, Clock, Rng, Timestamp};
use bytes::Bytes;
use http::Method;

use crate::behind::is_behind;
use crate::capabilities::{Has, Learned};
use crate::http::{Asked, Checksum, Told, collect, range_header, ranged};
use crate::identity::{Identified, Identity};
use crate::upload_id::{Aborted, OwnUpload};
use crate::{
    Body, Capability, Condition, Entry, Error, ErrorKind, Folders, Fresh, KEY_BYTES_MAX, Key,
    ListOrder, ListRequest, Meta, Metadata, Moves, Naming, Original, Page, PartCopies, PartNumber,
    PartNumbers, PartTag, Personality, PutOptions, Remote, Result, Unfinished, UploadId, Version,
    metadata,
};
use call::{Bucket, Call, name};
use json::Rewrite;
use moving::Moving;
use objects::{Shared, condition, generation, is_absent, meta, written};
use places::{Places, Upload};
use url_signer::UrlSigner;

/// How many pages in a row may hold nothing that was asked for before the caller has to ask again.
const EMPTY_PAGES_MAX: u32 = 64;

/// How often a copy is asked on: each time the store goes on for half a minute.
const COPY_CALLS_MAX: u32 = 1000;

/// How often a small object that is replaced under our eyes is read anew.
const WHOLE_TRIES_MAX: u32 = 5;

/// One bucket.
#[derive(Clone)]
pub struct Gcs {
    shared: Arc<Shared>,
}

impl fmt::Debug for Gcs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gcs").field(&self.shared.bucket).finish()
    }
}

impl Gcs {
    /// What every bucket of Google's can do.
    pub const HAS: [Capability; 8] = [
        Capability::PutIfAbsent,
        Capability::PutIfMatch,
        Capability::CompleteIfAbsent,
        Capability::CompleteIfMatch,
        Capability::PartCopy,
        Capability::SortedLists,
        Capability::UploadChecksum,
        Capability::Crc32cGiven,
    ];

    /// A client for the bucket. That it can be used shows the first call.
    pub fn connect(options: &GcsOptions, clock: Arc<dyn Clock>, rng: Arc<Rng>) -> Result<Gcs> {
        let bucket = Bucket::new(options, Arc::clone(&clock))?;
        let (prefix, parts) = (options.prefix.clone(), options.parts.clone());
        let learned = Arc::new(Learned::of_buckets(&Gcs::HAS, &[Capability::RealFolders]));
        let shared = Shared {
            bucket,
            clock,
            patience: options.patience,
            moving: Moving::default(),
            learned,
            places: Places::new(prefix.clone(), parts),
            prefix,
            rng,
            aborted: Aborted::default(),
            identity: identity::identity(&options.credentials),
            url_signer: UrlSigner::of(&options.credentials),
        };
        Ok(Gcs { shared: Arc::new(shared) })
    }

    /// What is known of the bucket.
    pub fn learned(&self) -> &Arc<Learned> {
        &self.shared.learned
    }

    /// Makes the bucket, for tests.
    #[cfg(feature = "testing")]
    pub async fn create_bucket(&self) -> Result<()> {
        self.shared.bucket.create().await
    }

    /// The folder that is listed, if nothing is in it: else its objects say that it is there.
    async fn empty_folder(
        &self,
        request: &ListRequest,
        after: Option<&Key>,
    ) -> Result<Option<Entry>> {
        let key = &request.prefix;
        let begins = request.continuation.is_none() && after.is_none_or(|after| after < key);
        if !begins || !is_folder_key(key) || !self.shared.has_real_folders().await? {
            return Ok(None);
        }
        match self.shared.folder("list", key).await {
            Ok(meta) => Ok(Some(Entry::Object(key.clone(), meta))),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The upload of that id, if it may still be added to.
    fn upload(&self, op: &'static str, key: &Key, id: &UploadId) -> Result<Upload> {
        let upload = Upload::parse(id, key);
        let upload = upload.filter(|upload| !self.shared.aborted.has(upload.own.number));
        upload.ok_or_else(|| parts::no_upload(op, key))
    }
}

#[async_trait]
impl Identified for Gcs {
    async fn identity(&self) -> Option<Identity> {
        let ends = self.shared.bucket.token_ends_secs();
        let expires = ends.map(|secs| Timestamp { secs, nanos: 0 });
        Some(Identity { expires, ..self.shared.identity.clone() })
    }
}

#[async_trait]
impl Remote for Gcs {
    fn personality(&self) -> Personality {
        Personality {
            part_bytes_min: 1,
            part_bytes_max: 5 << 30,
            parts_max: 10_000,
            object_bytes_max: 5 << 40,
            key_bytes_max: KEY_BYTES_MAX,
            conditional_writes: true,
            part_copies: PartCopies::WholeFirst,
            part_numbers: PartNumbers::Rising,
            naming: match self.shared.learned.has(Capability::RealFolders) {
                Some(Has::Yes) => {
                    Naming { folders: Folders::Real, order: ListOrder::Keys, moves: Moves::Atomic }
                }
                Some(Has::No) | None => Naming::OF_KEYS,
            },
        }
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        let object = match self.shared.object("head", key).await {
            Err(error) if is_folder_key(key) && is_absent(&error) => {
                // It may be a thing of its own.
                if self.shared.has_real_folders().await? {
                    return self.shared.folder("head", key).await;
                }
                return Err(error);
            }
            object => object?,
        };
        meta("head", key, object)
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        let op = "get";
        let wanted = version.map_or(Condition::Always, |version| Condition::Is(version.clone()));
        let call = Call::object(op, Method::GET, key)?
            .query("alt", "media")
            .queries(condition("ifGenerationMatch", op, key, &wanted)?)
            .header("range", range_header(range))
            // Without it objects that are compressed are sent unpacked, and ranges ignored.
            .header("accept-encoding", "gzip");
        let answer = self.shared.bucket.send(call).await?;
        let found = answer.header("x-goog-generation").and_then(json::version);
        let crc32c = answer.header("x-goog-hash").and_then(json::crc32c_of_header);
        let told = Told::of_object(crc32c.map(Checksum::Crc32c));
        ranged(Asked { key, range, version }, answer, found.as_ref(), told)
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        let op = "get whole";
        for _ in 0..WHOLE_TRIES_MAX {
            let object = self.shared.object(op, key).await?;
            let checksum = object.crc32c().map(Checksum::Crc32c);
            let meta = meta(op, key, object)?;
            if unless == Some(&meta.version) {
                return Ok(Fresh::Same);
            }
            if bytes_max < meta.size {
                let error = Error::new(ErrorKind::Unsupported, op, key);
                return Err(error.because("the object is larger than wanted"));
            }
            let call = Call::object(op, Method::GET, key)?
                .query("alt", "media")
                .query("ifGenerationMatch", meta.version.as_str())
                .header("accept-encoding", "gzip");
            let answer = match self.shared.bucket.send(call).await {
                Err(error) if error.kind == ErrorKind::Changed => continue,
                answer => answer?,
            };
            if answer.header("x-goog-generation") == Some(meta.version.as_str()) {
                let bytes = collect(key, meta.size, answer, checksum).await?;
                return Ok(Fresh::New(meta, bytes));
            }
        }
        let error = Error::new(ErrorKind::Transient { retry_after: None }, op, key);
        Err(error.because("the object is replaced again and again"))
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        let op = "put";
        check_metadata(op, key, &options.metadata)?;
        if bytes.is_empty() && is_folder_key(key) && self.shared.has_real_folders().await? {
            match self.shared.make_folder(op, key, &options.condition).await {
                // Who may make no folders may make an object of its name, which has the store make one.
                Err(error) if error.kind == ErrorKind::Denied => {}
                made => return made,
            }
        }
        self.shared.insert(op, key, bytes, (&options.metadata, &options.condition)).await
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        let op = "upload create";
        check_metadata(op, key, &options.metadata)?;
        name(op, key)?;
        let number = self.shared.rng.id();
        let upload = OwnUpload { number, metadata: options.metadata.clone() };
        Ok(parts::begin(&self.shared, key, upload).await?.to_id())
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        let upload = self.upload("upload part", key, upload)?;
        parts::put(&self.shared, &upload, part, bytes).await
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        _: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        let op = "upload part copy";
        self.upload(op, key, upload)?;
        let meta = meta(op, original.key, self.shared.object(op, original.key).await?)?;
        let fail = |kind, words: &str| Err(Error::new(kind, op, original.key).because(words));
        if meta.version != *original.version {
            return fail(ErrorKind::Changed, "the object is another generation");
        }
        if ByteRange::new(0, meta.size) != Some(range) {
            return fail(ErrorKind::Unsupported, "only whole objects are composed");
        }
        Ok(json::copied_tag(name(op, original.key)?, &meta.version))
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        let upload = self.upload("upload complete", key, upload)?;
        let version = parts::complete(&self.shared, key, &upload, parts, condition).await?;
        // The object is there: that its parts are too is untidy, but no failure.
        if let Err(error) = parts::remove(&self.shared, key, &upload).await {
            tracing::warn!(%error, "the parts of a finished upload could not be removed");
        }
        Ok(version)
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        let Some(upload) = Upload::parse(upload, key) else {
            return Err(parts::no_upload("upload abort", key));
        };
        self.shared.aborted.add(upload.own.number);
        parts::remove(&self.shared, key, &upload).await
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        name("uploads", key)?;
        parts::unfinished(&self.shared, key).await
    }

    async fn copy(&self, original: Original<'_>, to: &Key, wanted: &Condition) -> Result<Version> {
        let op = "copy";
        let Original { key: from, version, size } = original;
        let mut call = Call::object(op, Method::POST, from)?
            .query("ifSourceGenerationMatch", generation(op, from, version)?)
            .queries(condition("ifGenerationMatch", op, to, wanted)?)
            .query("fields", "done,rewriteToken,resource(generation)")
            .works_on(size);
        call.path = format!("{}/rewriteTo{}", call.path, self.shared.bucket.goal(op, to)?);
        let mut token = None;
        let fail = |words: &str| Err(Error::new(ErrorKind::Corrupt, op, to).because(words));
        for _ in 0..COPY_CALLS_MAX {
            let call = call.clone().queries(token.map(|token| ("rewriteToken", token)));
            let rewrite: Rewrite = self.shared.bucket.ask(call).await?;
            match (rewrite.done, rewrite.resource, rewrite.next) {
                (true, Some(resource), _) => return written(op, to, &resource),
                (false, _, Some(next)) => token = Some(next),
                (true, None, _) | (false, _, None) => return fail("not the answer to a copy"),
            }
        }
        fail("the copy does not end")
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        wanted: &Condition,
    ) -> Result<Version> {
        if self.shared.has_real_folders().await? {
            return self.shared.move_object(original, to, wanted).await;
        }
        Err(flat("rename", original.key))
    }

    async fn rename_folder(&self, from: &Key, to: &Key) -> Result<()> {
        if self.shared.has_real_folders().await? {
            return self.shared.move_folder(from, to).await;
        }
        Err(flat("rename folder", from))
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.shared.remove("delete", key).await?;
        if is_folder_key(key) && self.shared.has_real_folders().await? {
            return self.shared.remove_folder("delete", key).await;
        }
        Ok(())
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        // The store begins at a key, not behind it.
        let after = request.start_after.as_ref().filter(|_| request.continuation.is_none());
        let mut request = request.clone();
        let mut page = Page { entries: Vec::new(), next: None };
        for _ in 0..EMPTY_PAGES_MAX {
            page = self.shared.page(&request, after).await?;
            page.entries.retain(|entry| {
                !self.shared.is_hidden(entry) && after.is_none_or(|after| is_behind(entry, after))
            });
            if !page.entries.is_empty() || page.next.is_none() {
                break;
            }
            request.continuation.clone_from(&page.next);
        }
        if page.entries.is_empty()
            && let Some(folder) = self.empty_folder(&request, after).await?
        {
            page.entries.push(folder);
        }
        Ok(page)
    }
}

/// Whether a folder may stand for the key.
fn is_folder_key(key: &Key) -> bool {
    key.as_bytes().ends_with(b"/")
}

fn flat(op: &'static str, key: &Key) -> Error {
    let words = "the bucket has no hierarchical namespace";
    Error::new(ErrorKind::Unsupported, op, key).because(words)
}

fn check_metadata(op: &'static str, key: &Key, metadata: &Metadata) -> Result<()> {
    metadata::check_names(metadata)
        .map_err(|words| Error::new(ErrorKind::Unsupported, op, key).because(words))
}
