//! The bucket's objects, one call at a time.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Rng};
use bytes::Bytes;
use http::Method;

use crate::capabilities::Learned;
use crate::identity::Identity;
use crate::upload_id::Aborted;
use crate::{
    Condition, Entry, Error, ErrorKind, Key, ListRequest, Meta, Metadata, Page, Result, Trouble,
    Version,
};

use super::call::{Bucket, Call, Service, name};
use super::json::{self, Object, Written};
use super::moving::Moving;
use super::places::Places;
use super::url_signer::UrlSigner;

/// A page of a thousand objects, each with all the metadata there may be.
pub(super) const PAGE_BYTES_MAX: usize = 64 << 20;

/// What all clones of a client share.
pub(super) struct Shared {
    pub(super) bucket: Bucket,
    pub(super) clock: Arc<dyn Clock>,
    /// How long the store may take for what it does in the background and tells nothing of.
    pub(super) patience: Duration,
    pub(super) moving: Moving,
    /// What is known of the bucket.
    pub(super) learned: Arc<Learned>,
    /// What all names begin with; empty, or ends in `/`.
    pub(super) prefix: Key,
    /// Where the parts of uploads are kept.
    pub(super) places: Places,
    pub(super) rng: Arc<Rng>,
    pub(super) aborted: Aborted,
    /// As whom it is asked, but for the end of the token.
    pub(super) identity: Identity,
    pub(super) url_signer: UrlSigner,
}

/// The query that asks for `condition`, which is about the object `key`.
pub(super) fn condition(
    query: &'static str,
    op: &'static str,
    key: &Key,
    condition: &Condition,
) -> Result<Option<(&'static str, String)>> {
    match condition {
        Condition::Always => Ok(None),
        Condition::Absent => Ok(Some((query, "0".to_owned()))),
        Condition::Is(version) => Ok(Some((query, generation(op, key, version)?))),
    }
}

/// A version as a generation. What is no number is the version of no object of this store.
pub(super) fn generation(op: &'static str, key: &Key, version: &Version) -> Result<String> {
    let known = json::version(version.as_str());
    let other = || Error::new(ErrorKind::Changed, op, key).because("not a generation");
    known.map(|version| version.as_str().to_owned()).ok_or_else(other)
}

pub(super) fn written(op: &'static str, key: &Key, written: &Written) -> Result<Version> {
    let missing =
        || Error::new(ErrorKind::Corrupt, op, key).because("the answer has no generation");
    written.version().ok_or_else(missing)
}

pub(super) fn meta(op: &'static str, key: &Key, object: Object) -> Result<Meta> {
    let garbled = || Error::new(ErrorKind::Corrupt, op, key).because("not an object");
    object.meta().map(|(_, meta)| meta).ok_or_else(garbled)
}

impl Shared {
    /// Puts an object in one request: what is said of it, then its bytes.
    pub(super) async fn insert(
        &self,
        op: &'static str,
        key: &Key,
        bytes: Bytes,
        (metadata, wanted): (&Metadata, &Condition),
    ) -> Result<Version> {
        let about = json::wanted(name(op, key)?, base::crc32c(&bytes), metadata);
        let boundary = format!("{:032x}", self.rng.id());
        let head = format!(
            "--{boundary}\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{about}\r\n\
             --{boundary}\r\ncontent-type: application/octet-stream\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        let mut call = Call::new(op, Method::POST, key)
            .query("uploadType", "multipart")
            .query("fields", "generation")
            .queries(condition("ifGenerationMatch", op, key, wanted)?)
            .header("content-type", format!("multipart/related; boundary={boundary}"));
        call.path.push_str("/o");
        call.service = Service::Upload;
        call.body = vec![head.into(), bytes, tail.into()];
        let done: Written = self.bucket.ask(call).await?;
        written(op, key, &done)
    }

    pub(super) async fn object(&self, op: &'static str, key: &Key) -> Result<Object> {
        let call = Call::object(op, Method::GET, key)?.query("fields", json::FIELDS);
        self.bucket.ask(call).await
    }

    pub(super) async fn remove(&self, op: &'static str, key: &Key) -> Result<()> {
        match self.bucket.send(Call::object(op, Method::DELETE, key)?).await {
            Ok(_) => Ok(()),
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// One page as the store has it; `after` is where the first begins.
    pub(super) async fn page(&self, request: &ListRequest, after: Option<&Key>) -> Result<Page> {
        let op = "list";
        let with_folders = request.delimited && self.has_real_folders().await?;
        let prefix = &request.prefix;
        let text = |key: &Key| match std::str::from_utf8(key.as_bytes()) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Error::new(ErrorKind::Unsupported, op, key).because("not UTF-8")),
        };
        let fields = format!("kind,items({}),prefixes,nextPageToken", json::FIELDS);
        let mut call = Call::new(op, Method::GET, prefix)
            .query("prefix", text(prefix)?)
            .query("maxResults", request.entries_max.to_string())
            .query("fields", fields)
            .queries(request.delimited.then(|| ("delimiter", "/".to_owned())))
            .queries(with_folders.then(|| ("includeFoldersAsPrefixes", "true".to_owned())))
            .queries(request.continuation.clone().map(|token| ("pageToken", token)));
        if let Some(after) = after.filter(|after| prefix < *after) {
            call = call.query("startOffset", text(after)?);
        }
        call.path.push_str("/o");
        let answer = self.bucket.send(call).await.map_err(no_bucket)?;
        let document = answer.bytes(PAGE_BYTES_MAX).await;
        let document = document.map_err(|failure| failure.into_error(op, prefix))?;
        let garbled = || Error::new(ErrorKind::Corrupt, op, prefix).because("not a listing");
        json::page(&document).ok_or_else(garbled)
    }

    /// Whether a line of a listing is of what we keep out of sight.
    pub(super) fn is_hidden(&self, entry: &Entry) -> bool {
        self.places.are_above(entry.key())
    }
}

/// Whether it is the object that was not found, and not the bucket.
pub(super) fn is_absent(error: &Error) -> bool {
    error.kind == ErrorKind::NotFound && error.trouble() != Trouble::NoBucket
}

/// A listing is of the bucket: nothing else can be missing.
fn no_bucket(error: Error) -> Error {
    if error.kind != ErrorKind::NotFound {
        return error;
    }
    let said = error.provider_error().cloned();
    match said {
        Some(said) => error.because(crate::ProviderError { trouble: Trouble::NoBucket, ..said }),
        None => error,
    }
}
