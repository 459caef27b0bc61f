//! Azure Blob Storage, through its REST calls.
//!
//! Uploads in parts are block lists: an upload has no name there, so its id is made here and names
//! its blocks. Blocks that no list takes up vanish within a week, or as soon as anybody else writes
//! the blob.

mod away;
mod blocks;
mod call;
mod connect;
mod containers;
mod copying;
mod entra;
mod fault;
mod hierarchy;
mod identity;
mod list;
mod lists;
mod paths;
mod permission;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod recorded_paths;
mod share;
mod sign;
mod signed_url;
mod text;

pub use connect::{AzureCredentials, AzureOptions, ConnectionStringError};
pub use entra::{Entra, Proof};

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use aws_smithy_types::base64;
use base::{ByteRange, Clock, Rng};
use bytes::Bytes;
use http::Method;

use crate::behind::is_behind;
use crate::capabilities::{Has, Learned};
use crate::http::{
    Answer, Asked, Told, bytes_of_parts, collect, parse_http_date, range_header, ranged,
};
use crate::identity::{Identified, Identity};
use crate::upload_id::{Aborted, OwnUpload};
use crate::{
    Body, Capability, Condition, Error, ErrorKind, Folders, Fresh, KEY_BYTES_MAX, Key, ListOrder,
    ListRequest, Meta, Metadata, Moves, Naming, Original, Page, PartCopies, PartNumber,
    PartNumbers, PartTag, Personality, PutOptions, Remote, Result, Trouble, Unfinished, UploadId,
    Version, metadata,
};
use away::PathsAway;
use blocks::Blocks;
use call::{Call, Container};
use list::Names;
use lists::Lists;

/// The largest block, and the most blocks of a blob.
const BLOCK_BYTES_MAX: u64 = 4000 << 20;
const BLOCKS_MAX: u32 = 50_000;

/// A page of a thousand blobs, each with all the metadata there may be.
const PAGE_BYTES_MAX: usize = 64 << 20;

/// A list of as many blocks as there may be, with names of any length.
const BLOCK_LIST_BYTES_MAX: usize = 16 << 20;

/// How many pages in a row may hold nothing that was asked for before the caller has to ask again.
const EMPTY_PAGES_MAX: u32 = 64;

/// Azure computes the checksum of a range that it sends, if it is asked and the range is no longer.
const SUMMED_BYTES_MAX: u64 = 4 << 20;

/// Has the checksum of a body.
const CONTENT_CRC64: &str = "x-ms-content-crc64";

/// One container.
#[derive(Clone)]
pub struct Azure {
    shared: Arc<Shared>,
}

struct Shared {
    container: Container,
    clock: Arc<dyn Clock>,
    rng: Arc<Rng>,
    aborted: Aborted,
    lists: Lists,
    learned: Arc<Learned>,
    options: AzureOptions,
    /// Whether the service has said that we may write.
    may_write: AtomicBool,
    /// Whether nobody could say that the account has a hierarchical namespace.
    is_taken_for_flat: AtomicBool,
    paths_away: PathsAway,
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Azure").field(&self.shared.container).finish()
    }
}

impl Azure {
    /// What every container can do.
    const HAS: [Capability; 8] = [
        Capability::PutIfAbsent,
        Capability::PutIfMatch,
        Capability::CompleteIfAbsent,
        Capability::CompleteIfMatch,
        Capability::PartCopy,
        Capability::SortedLists,
        Capability::UploadChecksum,
        Capability::Crc64NvmeGiven,
    ];

    /// A client for the container. That it can be used shows the first call.
    pub fn connect(options: &AzureOptions, clock: Arc<dyn Clock>, rng: Arc<Rng>) -> Result<Azure> {
        let container = Container::new(options, Arc::clone(&clock))?;
        let (aborted, lists) = (Aborted::default(), Lists::default());
        let (may_write, options) = (AtomicBool::new(false), options.clone());
        let learned = Arc::new(Learned::of_buckets(&Azure::HAS, &[Capability::RealFolders]));
        let is_taken_for_flat = AtomicBool::new(false);
        let shared = Shared {
            container,
            clock,
            rng,
            aborted,
            lists,
            learned,
            options,
            may_write,
            is_taken_for_flat,
            paths_away: PathsAway::default(),
        };
        Ok(Azure { shared: Arc::new(shared) })
    }

    /// What is known of the container.
    pub fn learned(&self) -> &Arc<Learned> {
        &self.shared.learned
    }

    /// Makes the container, for tests.
    #[cfg(feature = "testing")]
    pub async fn create_container(&self) -> Result<()> {
        let key = Key::from("");
        let call = Call::new("create", Method::PUT, &key).query("restype", "container");
        self.shared.container.container(call).await.map(|_| ())
    }

    async fn blob(&self, call: Call<'_>) -> Result<Answer> {
        let has_paths = self.shared.learned.has(Capability::RealFolders) == Some(Has::Yes);
        if has_paths && paths::is_odd(call.key) {
            let error = Error::new(ErrorKind::Unsupported, call.op, call.key);
            return Err(error.because("a path has no empty parts in this account"));
        }
        self.shared.container.blob(call).await
    }

    /// The upload of that id, if it may still be added to.
    fn upload(&self, op: &'static str, key: &Key, id: &UploadId) -> Result<OwnUpload> {
        let upload = OwnUpload::parse(id).filter(|upload| !self.shared.aborted.has(upload.number));
        upload.ok_or_else(|| Error::new(ErrorKind::NotFound, op, key).because("no such upload"))
    }

    /// The blocks of a blob, which must still be `version`.
    async fn committed(&self, op: &'static str, key: &Key, version: &Version) -> Result<Blocks> {
        let call = Call::new(op, Method::GET, key)
            .query("comp", "blocklist")
            .query("blocklisttype", "committed");
        let answer = self.blob(call).await?;
        let fail = |kind, words: &str| Err(Error::new(kind, op, key).because(words));
        match answer.header("etag").and_then(text::version) {
            Some(found) if found == *version => {}
            Some(_) => return fail(ErrorKind::Changed, "the blob is another version"),
            // Blocks were sent, but there is no blob yet.
            None => return fail(ErrorKind::NotFound, "no such blob"),
        }
        let document = answer.bytes(BLOCK_LIST_BYTES_MAX).await;
        let document = document.map_err(|failure| failure.into_error(op, key))?;
        let garbled = || Error::new(ErrorKind::Corrupt, op, key).because("not a list of blocks");
        Blocks::parse(&document).ok_or_else(garbled)
    }
}

/// Whether a folder may stand for the key.
fn is_folder_key(key: &Key) -> bool {
    key.as_bytes().ends_with(b"/")
}

fn flat(op: &'static str, key: &Key) -> Error {
    let words = "the account has no hierarchical namespace";
    Error::new(ErrorKind::Unsupported, op, key).because(words)
}

/// Whether what was not found is not the container itself.
fn is_in_bucket(error: &Error) -> bool {
    error.trouble() != Trouble::NoBucket
}

/// The checksum of a body as Azure spells it.
fn crc64(bytes: &[u8]) -> String {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes);
    base64::encode(crc.to_le_bytes())
}

fn check_metadata(op: &'static str, key: &Key, metadata: &Metadata) -> Result<()> {
    metadata::check_header_values(metadata)
        .map_err(|words| Error::new(ErrorKind::Unsupported, op, key).because(words))
}

fn version_of(op: &'static str, key: &Key, answer: &Answer) -> Result<Version> {
    let missing = || Error::new(ErrorKind::Corrupt, op, key).because("the answer has no etag");
    answer.header("etag").and_then(text::version).ok_or_else(missing)
}

/// What the headers of an answer say of a blob.
fn meta_of(op: &'static str, key: &Key, answer: &Answer) -> Result<Meta> {
    let missing = || Error::new(ErrorKind::Corrupt, op, key).because("the answer lacks headers");
    Ok(Meta {
        size: answer.length().ok_or_else(missing)?,
        version: version_of(op, key, answer)?,
        modified: answer.header("last-modified").and_then(parse_http_date).ok_or_else(missing)?,
        metadata: text::metadata_of(answer.headers()),
    })
}

#[async_trait]
impl Identified for Azure {
    async fn identity(&self) -> Option<Identity> {
        let ends_secs = self.shared.container.token_ends_secs();
        Some(identity::identity(&self.shared.options, ends_secs))
    }
}

#[async_trait]
impl Remote for Azure {
    fn personality(&self) -> Personality {
        Personality {
            part_bytes_min: 1,
            part_bytes_max: BLOCK_BYTES_MAX,
            parts_max: BLOCKS_MAX,
            object_bytes_max: BLOCK_BYTES_MAX * u64::from(BLOCKS_MAX),
            key_bytes_max: KEY_BYTES_MAX,
            conditional_writes: true,
            part_copies: PartCopies::OwnBlocks,
            part_numbers: PartNumbers::Rising,
            naming: match self.shared.learned.has(Capability::RealFolders) {
                Some(Has::Yes) => Naming {
                    folders: Folders::Real,
                    order: ListOrder::Folded,
                    moves: Moves::Atomic,
                },
                Some(Has::No) | None => Naming { folders: Folders::Stubs, ..Naming::OF_KEYS },
            },
        }
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        if is_folder_key(key) && self.has_real_folders().await? {
            return self.head_folder("head", key).await;
        }
        let answer = self.blob(Call::new("head", Method::HEAD, key)).await?;
        let mut meta = meta_of("head", key, &answer)?;
        if answer.header("x-ms-resource-type") == Some("directory") {
            // As older versions of the service say it.
            meta.metadata.insert("hdi_isfolder".to_owned(), "true".to_owned());
        }
        if answer.header("x-ms-access-tier") == Some(list::ARCHIVE) {
            self.shared.learned.learn_archived(&meta.version);
        }
        Ok(meta)
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        let named = version.map(|version| ("if-match".to_owned(), text::etag(version)));
        let summed = (range.len() <= SUMMED_BYTES_MAX)
            .then(|| ("x-ms-range-get-content-crc64".to_owned(), "true".to_owned()));
        let call = Call::new("get", Method::GET, key)
            .header("x-ms-range", range_header(range))
            .headers(summed)
            .headers(named);
        let answer = self.blob(call).await?;
        let found = answer.header("etag").and_then(text::version);
        let version = version.and_then(|version| text::version(version.as_str()));
        let asked = Asked { key, range, version: version.as_ref() };
        // Not the MD5 of a blob: it is what a writer once noted, and whoever changed blocks since need not
        // have noted another.
        let checksum = answer.header(CONTENT_CRC64).and_then(text::checksum);
        ranged(asked, answer, found.as_ref(), Told::of_answer(checksum))
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        let op = "get whole";
        let named = unless.map(|version| ("if-none-match".to_owned(), text::etag(version)));
        let answer = self.blob(Call::new(op, Method::GET, key).headers(named)).await?;
        if answer.status() == 304 {
            return Ok(Fresh::Same);
        }
        let meta = meta_of(op, key, &answer)?;
        if unless == Some(&meta.version) {
            return Ok(Fresh::Same);
        }
        if bytes_max < meta.size {
            let error = Error::new(ErrorKind::Unsupported, op, key);
            return Err(error.because("the object is larger than wanted"));
        }
        // Azure computes sums of ranges only, and an empty blob has none.
        let bytes = collect(key, meta.size, answer, None).await?;
        Ok(Fresh::New(meta, bytes))
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        let op = "put";
        check_metadata(op, key, &options.metadata)?;
        if bytes.is_empty() && is_folder_key(key) && self.has_real_folders().await? {
            return self.put_folder(key, options).await;
        }
        let call = Call::new(op, Method::PUT, key)
            .header("x-ms-blob-type", "BlockBlob")
            .header(CONTENT_CRC64, crc64(&bytes))
            .headers(text::condition(&options.condition))
            .headers(text::metadata_headers(&options.metadata))
            .body(bytes);
        version_of(op, key, &self.blob(call).await?)
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        let op = "upload create";
        check_metadata(op, key, &options.metadata)?;
        let number = self.shared.rng.id();
        self.check_write(op, key, number).await?;
        Ok(OwnUpload { number, metadata: options.metadata.clone() }.to_id())
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        let op = "upload part";
        let upload = self.upload(op, key, upload)?;
        let block = blocks::name(upload.number, part);
        let call = Call::new(op, Method::PUT, key)
            .query("comp", "block")
            .query("blockid", block.clone())
            .header(CONTENT_CRC64, crc64(&bytes))
            .body(bytes);
        self.blob(call).await?;
        Ok(PartTag(block))
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
        let refuse = |words: &str| Error::new(ErrorKind::Unsupported, op, key).because(words);
        if original.key != key {
            return Err(refuse("only blocks of the blob itself can be taken up again"));
        }
        let list = self.shared.lists.of(key, original.version);
        let blocks = list.get_or_try_init(|| self.committed(op, key, original.version)).await?;
        let part = blocks.part(range, original.version);
        part.ok_or_else(|| refuse("the range is not exactly some blocks of ours"))
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        let op = "upload complete";
        let upload = self.upload(op, key, upload)?;
        let listed = blocks::list(parts, condition);
        let changed = || Error::new(ErrorKind::Changed, op, key).because("copied from another");
        let (blocks, condition) = listed.ok_or_else(changed)?;
        let call = Call::new(op, Method::PUT, key)
            .query("comp", "blocklist")
            .header(CONTENT_CRC64, crc64(blocks.as_bytes()))
            .headers(text::condition(&condition))
            .headers(text::metadata_headers(&upload.metadata))
            .body(blocks)
            .works_on(bytes_of_parts(parts.len()));
        version_of(op, key, &self.blob(call).await?)
    }

    async fn upload_abort(&self, _: &Key, upload: &UploadId) -> Result<()> {
        // The blocks vanish by themselves; there is no call for it.
        if let Some(upload) = OwnUpload::parse(upload) {
            self.shared.aborted.add(upload.number);
        }
        Ok(())
    }

    async fn uploads(&self, _: &Key) -> Result<Vec<Unfinished>> {
        // No upload has a name there, and blocks that no list takes up vanish by themselves.
        Ok(Vec::new())
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let op = "copy";
        let Original { key: from, version, size } = original;
        let call = Call::new(op, Method::PUT, to)
            .header("x-ms-copy-source", self.shared.container.source_url(op, from)?)
            .header("x-ms-source-if-match", text::etag(version))
            .headers(text::condition(condition))
            .works_on(size);
        let answer = self.blob(call).await?;
        self.copied(op, to, answer).await
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        if self.has_real_folders().await? {
            if self.shared.paths_away.is_known(self.shared.clock.monotonic()) {
                return Err(away::away(original));
            }
            return self.rename_object(original, to, condition).await;
        }
        Err(flat("rename", original.key))
    }

    async fn rename_folder(&self, from: &Key, to: &Key) -> Result<()> {
        if self.has_real_folders().await? {
            return self.rename_folder_of(from, to).await;
        }
        Err(flat("rename folder", from))
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        if is_folder_key(key) && self.has_real_folders().await? {
            return self.delete_folder(key).await;
        }
        let call = Call::new("delete", Method::DELETE, key);
        match self.blob(call.header("x-ms-delete-snapshots", "include")).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind == ErrorKind::NotFound && is_in_bucket(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        let op = "list";
        let prefix = &request.prefix;
        let refuse = |words: &str| Error::new(ErrorKind::Unsupported, op, prefix).because(words);
        let mut place = list::Place::of(request).ok_or_else(|| refuse("not a place of ours"))?;
        if place.after.as_ref().is_some_and(|after| list::is_past(prefix, after)) {
            return Ok(Page { entries: Vec::new(), next: None });
        }
        let names = if self.has_real_folders().await? { Names::Paths } else { Names::Keys };
        for _ in 0..EMPTY_PAGES_MAX {
            let query = list::query(request, &place, names).ok_or_else(|| refuse("not UTF-8"))?;
            let call = Call { query, ..Call::new(op, Method::GET, prefix) };
            let answer = match self.shared.container.container(call).await {
                Ok(answer) => answer,
                Err(error) if names == Names::Keys => return Err(error),
                Err(error) => {
                    if self.is_below_a_file(op, prefix).await? {
                        return Ok(Page { entries: Vec::new(), next: None });
                    }
                    return Err(error);
                }
            };
            let document = answer.bytes(PAGE_BYTES_MAX).await;
            let document = document.map_err(|failure| failure.into_error(op, prefix))?;
            let garbled = || Error::new(ErrorKind::Corrupt, op, prefix).because("not a listing");
            let (mut page, archived) = list::page(&document, names).ok_or_else(garbled)?;
            if names == Names::Paths && request.delimited {
                list::fold(&mut page, &mut place.held);
            }
            for version in &archived {
                self.shared.learned.learn_archived(version);
            }
            if let Some(after) = &place.after {
                page.entries.retain(|entry| is_behind(entry, after));
            }
            place.marker = page.next.take();
            if place.marker.is_none() || !page.entries.is_empty() {
                return Ok(Page { entries: page.entries, next: place.to_text() });
            }
        }
        Ok(Page { entries: Vec::new(), next: place.to_text() })
    }
}

#[cfg(test)]
mod tests {
    use super::crc64;

    #[test]
    fn the_checksum_is_spelt_as_documented() {
        assert_eq!(crc64(b"123456789"), "iJh5CoYUi64=");
    }
}
