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

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream;
use http::Method;

use crate::upload_id::OwnUpload;
use crate::{
    Condition, Error, ErrorKind, Key, ListRequest, Metadata, PartNumber, PartTag, Result, Version,
};

use super::call::{Call, name};
use super::json::{self, Written};
use super::objects::{self, Shared};

/// How many objects are composed at a time.
const SOURCES_MAX: usize = 32;

/// How many requests of one upload are under way at a time, beside those for its parts.
const REQUESTS_MAX: usize = 16;

/// How many parts a page of them has.
const PAGE_ENTRIES_MAX: u16 = 1000;

/// Where the parts of an upload are.
pub(super) fn folder(shared: &Shared, upload: &OwnUpload) -> Key {
    shared.parts.join(format!("{:032x}/", upload.number).as_bytes())
}

/// Keeps a part.
pub(super) async fn put(
    shared: &Shared,
    upload: &OwnUpload,
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
    upload: &OwnUpload,
    parts: &[(PartNumber, PartTag)],
    condition: &Condition,
) -> Result<Version> {
    let folder = folder(shared, upload);
    let mut sources = Vec::with_capacity(parts.len());
    for (part, PartTag(generation)) in parts {
        let part_key = folder.join(json::part_name(*part).as_bytes());
        let name = name("upload complete", &part_key)?.to_owned();
        sources.push((name, Version::new(generation)));
    }
    if sources.is_empty() {
        let about = (&upload.metadata, condition);
        return shared.insert("upload complete", key, Bytes::new(), about).await;
    }
    let mut level = 0;
    while SOURCES_MAX < sources.len() {
        level += 1;
        sources = compose_level(shared, &folder, level, &sources).await?;
    }
    compose(shared, key, &sources, &upload.metadata, condition).await
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
        .long();
    call.path.push_str("/compose");
    let written: Written = shared.bucket.ask(call).await?;
    objects::written(op, key, &written)
}

/// Removes what is left of an upload.
pub(super) async fn remove(shared: &Shared, upload: &OwnUpload) -> Result<()> {
    let mut request = ListRequest {
        prefix: folder(shared, upload),
        delimited: false,
        start_after: None,
        continuation: None,
        entries_max: PAGE_ENTRIES_MAX,
    };
    loop {
        let page = shared.page(&request, None).await?;
        let mut removing: Vec<BoxFuture<'_, Result<()>>> = Vec::new();
        for entry in &page.entries {
            removing.push(Box::pin(shared.remove("upload abort", entry.key())));
        }
        let removed: Vec<Result<()>> =
            stream::iter(removing).buffer_unordered(REQUESTS_MAX).collect().await;
        removed.into_iter().collect::<Result<()>>()?;
        match page.next {
            Some(next) => request.continuation = Some(next),
            None => return Ok(()),
        }
    }
}

/// The error of an upload that is not there.
pub(super) fn no_upload(op: &'static str, key: &Key) -> Error {
    Error::new(ErrorKind::NotFound, op, key).because("no such upload")
}
