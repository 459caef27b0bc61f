//! Uploads in parts: each part is an object of its own, out of sight, and they are composed.
//!
//! Google's own uploads in parts take no conditions, and every object has to be written under one.
//! A compose does, and moves no bytes. It takes 32 objects, so many parts are composed in levels:
//!
//! ```text
//!   part-00000001 … part-00000032  ┐
//!                                  ├─▶ level-1-00000000 ┐
//!   part-00000033 …                ┴─▶ level-1-00000001 ┴─▶ the object
//! ```
//!
//! A part may also be an object that is there already, as a whole: so a file grows without its old
//! bytes being sent. All that is written on the way is removed in the end; where, is
//!
//! ```text
//!   .quayfs-parts/4f…/part-00000001       parts, below the number of their upload
//!   .quayfs-parts/of-9a…/4f…              that upload 4f… has begun, below a hash of its key
//! ```
//!
//! at the top of the volume, or in a folder, as [`places`](super::places) says.

use std::fmt::Write as _;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream;
use http::Method;
use ring::digest;

use crate::capabilities::{Capability, Has};
use crate::http::bytes_of_parts;
use crate::turning::Place;
use crate::upload_id::OwnUpload;
use crate::{
    Condition, Entry, Error, ErrorKind, Key, ListOrder, ListRequest, Metadata, PartNumber, PartTag,
    Result, UNFINISHED_MAX, Unfinished, Version,
};

use super::call::{Call, name};
use super::json::{self, Written};
use super::objects::{self, Shared};
use super::places::Upload;

/// How many objects are composed at a time.
const SOURCES_MAX: usize = 32;

/// How many requests of one upload are under way at a time, beside those for its parts.
const REQUESTS_MAX: usize = 16;

/// How many parts a page of them has.
const PAGE_ENTRIES_MAX: u16 = 1000;

/// So much of a key's hash keeps keys apart.
const HASH_BYTES: usize = 16;

/// Where the parts of an upload are.
pub(super) fn folder(shared: &Shared, upload: &Upload) -> Key {
    let parts = shared.places.parts_in(upload.folder.as_ref());
    parts.join(format!("{:032x}/", upload.own.number).as_bytes())
}

/// What the names of the marks in `folder` of uploads of `key` begin with.
fn marks(shared: &Shared, key: &Key, folder: Option<&Key>) -> Key {
    let hash = digest::digest(&digest::SHA256, key.as_bytes());
    let mut name = "of-".to_owned();
    for byte in &hash.as_ref()[..HASH_BYTES] {
        write!(name, "{byte:02x}").expect("a string takes all text");
    }
    shared.places.parts_in(folder).join(format!("{name}/").as_bytes())
}

fn mark(shared: &Shared, key: &Key, upload: &Upload) -> Key {
    let marks = marks(shared, key, upload.folder.as_ref());
    marks.join(format!("{:032x}", upload.own.number).as_bytes())
}

/// Writes down that an upload of `key` begins, which also shows whether we may write.
pub(super) async fn begin(shared: &Shared, key: &Key, own: OwnUpload) -> Result<Upload> {
    let upload = Upload { own, folder: shared.places.folder_for(key) };
    // For people who look for what a part is of.
    let target = Bytes::copy_from_slice(key.as_bytes());
    let about = (&upload.own.metadata, &Condition::Always);
    let mark = mark(shared, key, &upload);
    shared.insert("upload create", &mark, target, about).await?;
    shared.places.takes(upload.folder.as_ref());
    Ok(upload)
}

/// The uploads of `key` that have begun and are not finished.
pub(super) async fn unfinished(shared: &Shared, key: &Key) -> Result<Vec<Unfinished>> {
    let mut found = Vec::new();
    for folder in shared.places.folders_of(key) {
        match unfinished_in(shared, key, folder.as_ref(), &mut found).await {
            // Who may not list there has not written there either.
            Err(error)
                if folder.as_ref() != shared.places.folder_for(key).as_ref()
                    && error.is_refusal() => {}
            told => told?,
        }
    }
    found.sort_by_key(|unfinished| unfinished.since);
    found.truncate(UNFINISHED_MAX);
    Ok(found)
}

async fn unfinished_in(
    shared: &Shared,
    key: &Key,
    folder: Option<&Key>,
    found: &mut Vec<Unfinished>,
) -> Result<()> {
    let marks = marks(shared, key, folder);
    let page = shared.page(&below(marks.clone(), PAGE_ENTRIES_MAX), None).await?;
    for entry in page.entries {
        let Entry::Object(mark, meta) = entry else { continue };
        let number = mark.as_bytes().strip_prefix(marks.as_bytes());
        let number = number.and_then(|number| std::str::from_utf8(number).ok());
        let Some(number) = number.and_then(|text| u128::from_str_radix(text, 16).ok()) else {
            continue;
        };
        let own = OwnUpload { number, metadata: meta.metadata };
        let upload = Upload { own, folder: folder.cloned() };
        let parts = self::folder(shared, &upload);
        let parts = shared.page(&below(parts, 1), None).await?;
        found.push(Unfinished {
            upload: upload.to_id(),
            since: meta.modified,
            has_parts: !parts.entries.is_empty() || parts.next.is_some(),
        });
    }
    Ok(())
}

/// Keeps a part.
pub(super) async fn put(
    shared: &Shared,
    upload: &Upload,
    part: PartNumber,
    bytes: Bytes,
) -> Result<PartTag> {
    let key = folder(shared, upload).join(json::part_name(part).as_bytes());
    let version =
        shared.insert("upload part", &key, bytes, (&Metadata::new(), &Condition::Always)).await?;
    Ok(json::part_tag(&version))
}

/// Makes the parts the object `key`.
pub(super) async fn complete(
    shared: &Shared,
    key: &Key,
    upload: &Upload,
    parts: &[(PartNumber, PartTag)],
    condition: &Condition,
) -> Result<Version> {
    let folder = folder(shared, upload);
    let mut sources = Vec::with_capacity(parts.len());
    let mut copied = None;
    for (part, tag) in parts {
        let part_key = folder.join(json::part_name(*part).as_bytes());
        let (version, original) = json::parse_part_tag(tag);
        let own = name("upload complete", &part_key)?;
        sources.push((original.unwrap_or(own).to_owned(), version.clone()));
        if let Some(original) = original {
            copied = Some((Key::from(original), version));
        }
    }
    if sources.is_empty() {
        let about = (&upload.own.metadata, condition);
        return shared.insert("upload complete", key, Bytes::new(), about).await;
    }
    let composed =
        compose_all(shared, (key, &folder), sources, &upload.own.metadata, condition).await;
    match (composed, copied) {
        // A source is not there: a part, or the generation that was to be copied.
        (Err(error), Some((original, version))) if error.kind == ErrorKind::NotFound => {
            Err(blame(shared, error, &original, &version).await)
        }
        (composed, _) => composed,
    }
}

async fn compose_all(
    shared: &Shared,
    (key, folder): (&Key, &Key),
    mut sources: Vec<(String, Version)>,
    metadata: &Metadata,
    condition: &Condition,
) -> Result<Version> {
    let mut level = 0;
    while SOURCES_MAX < sources.len() {
        level += 1;
        sources = compose_level(shared, folder, level, &sources).await?;
    }
    compose(shared, key, &sources, metadata, condition).await
}

/// `error`, as `Changed` if the object that was to be copied is another one.
async fn blame(shared: &Shared, error: Error, original: &Key, version: &Version) -> Error {
    let found = match shared.object(error.op, original).await {
        Ok(object) => objects::meta(error.op, original, object).ok(),
        Err(_) => None,
    };
    let same = found.is_some_and(|found| found.version == *version);
    if same { error } else { Error { kind: ErrorKind::Changed, ..error } }
}

/// One object for every so many of `sources`.
async fn compose_level(
    shared: &Shared,
    folder: &Key,
    level: u32,
    sources: &[(String, Version)],
) -> Result<Vec<(String, Version)>> {
    let mut composing: Vec<BoxFuture<'_, Result<(String, Version)>>> = Vec::new();
    for (index, group) in sources.chunks(SOURCES_MAX).enumerate() {
        let key = folder.join(format!("level-{level}-{index:08}").as_bytes());
        composing.push(Box::pin(async move {
            let (nothing, always) = (Metadata::new(), Condition::Always);
            let version = compose(shared, &key, group, &nothing, &always).await?;
            Ok((name("upload complete", &key)?.to_owned(), version))
        }));
    }
    let composed: Vec<Result<(String, Version)>> =
        stream::iter(composing).buffered(REQUESTS_MAX).collect().await;
    composed.into_iter().collect()
}

async fn compose(
    shared: &Shared,
    key: &Key,
    sources: &[(String, Version)],
    metadata: &Metadata,
    condition: &Condition,
) -> Result<Version> {
    let op = "upload complete";
    let mut call = Call::object(op, Method::POST, key)?
        .queries(objects::condition("ifGenerationMatch", op, key, condition)?)
        .json(json::compose(sources, metadata))
        .works_on(bytes_of_parts(sources.len()));
    call.path.push_str("/compose");
    let written: Written = shared.bucket.ask(call).await?;
    objects::written(op, key, &written)
}

/// The request for the first keys below `prefix`.
fn below(prefix: Key, entries_max: u16) -> ListRequest {
    ListRequest { prefix, delimited: false, start_after: None, continuation: None, entries_max }
}

/// Removes what is left of an upload; its mark goes last.
pub(super) async fn remove(shared: &Shared, key: &Key, upload: &Upload) -> Result<()> {
    let first = below(folder(shared, upload), PAGE_ENTRIES_MAX);
    let mut next = None;
    loop {
        let mut request = ListRequest { continuation: next, ..first.clone() };
        let place = Place::of(&request)?;
        request.continuation.clone_from(&place.continuation);
        let page = shared.page(&request, None).await?;
        // What is listed is removed: so it had better be what was asked for.
        next = place.after(&request, &page, ListOrder::Keys)?;
        let mut removing: Vec<BoxFuture<'_, Result<()>>> = Vec::new();
        for entry in &page.entries {
            removing.push(Box::pin(shared.remove("upload abort", entry.key())));
        }
        let removed: Vec<Result<()>> =
            stream::iter(removing).buffer_unordered(REQUESTS_MAX).collect().await;
        removed.into_iter().collect::<Result<()>>()?;
        if next.is_none() {
            break;
        }
    }
    shared.remove("upload abort", &mark(shared, key, upload)).await?;
    remove_folders(shared, key, upload).await;
    Ok(())
}

/// Where folders are things of their own, those that only held the upload would keep the one that they are in from
/// being removed; at the top they are in nobody's way.
async fn remove_folders(shared: &Shared, key: &Key, upload: &Upload) {
    let has_folders = shared.learned.has(Capability::RealFolders) == Some(Has::Yes);
    let Some(within) = upload.folder.as_ref().filter(|_| has_folders) else { return };
    let marks = marks(shared, key, Some(within));
    for folder in [folder(shared, upload), marks, shared.places.parts_in(Some(within))] {
        // One in which others have something stays.
        if let Err(error) = shared.remove_folder("upload abort", &folder).await {
            tracing::debug!(%error, "an empty folder stays");
        }
    }
}

/// The error of an upload that is not there.
pub(super) fn no_upload(op: &'static str, key: &Key) -> Error {
    Error::new(ErrorKind::NotFound, op, key).because("no such upload")
}
