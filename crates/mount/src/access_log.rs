//! Decorator: a line of the access log for each request to the store, repeats included.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base::{ByteRange, Clock};
use bytes::Bytes;
use futures::StreamExt as _;
use remote::{
    Body, Condition, ErrorKind, Fresh, Key, ListRequest, Meta, Original, Page, PartNumber, PartTag,
    Personality, PutOptions, Remote, Result, Unfinished, UploadId, Version,
};

use crate::telemetry::{Access, AccessLog};

/// A store whose requests are logged.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    inner: Arc<dyn Remote>,
    log: AccessLog,
    clock: Arc<dyn Clock>,
    /// The bucket, as in `s3://lab`.
    bucket: Arc<str>,
}

/// A request under way. Its line is written when it is dropped.
struct Request {
    log: AccessLog,
    clock: Arc<dyn Clock>,
    begun: Duration,
    method: &'static str,
    name: String,
    bytes: u64,
    status: &'static str,
}

impl Logged {
    pub(crate) fn new(
        inner: Arc<dyn Remote>,
        log: AccessLog,
        clock: Arc<dyn Clock>,
        bucket: &str,
    ) -> Logged {
        Logged { inner, log, clock, bucket: bucket.trim_end_matches('/').into() }
    }

    fn begin(&self, method: &'static str, key: &Key, bytes: u64) -> Request {
        Request {
            log: self.log.clone(),
            clock: Arc::clone(&self.clock),
            begun: self.clock.monotonic(),
            method,
            name: format!("{}/{key}", self.bucket),
            bytes,
            status: "cancelled",
        }
    }

    async fn logged<T>(
        &self,
        (method, key, bytes): (&'static str, &Key, u64),
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let mut request = self.begin(method, key, bytes);
        let result = call.await;
        request.status = status(&result);
        result
    }
}

impl Request {
    /// Counts a piece of the answer, which is `length` bytes in all.
    fn has(&mut self, piece: &Result<Bytes>, length: u64) {
        match piece {
            Ok(bytes) => {
                self.bytes += bytes.len() as u64;
                // A reader that has all of it does not ask whether there is more.
                if self.bytes == length {
                    self.status = "ok";
                }
            }
            Err(_) => self.status = status(piece),
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let Request { method, status, bytes, .. } = *self;
        let took = self.clock.monotonic().saturating_sub(self.begun);
        self.log.note(Access { method, status, bytes, took, name: &self.name });
    }
}

fn status<T>(result: &Result<T>) -> &'static str {
    match result.as_ref().map_err(|error| error.kind) {
        Ok(_) => "ok",
        Err(ErrorKind::NotFound) => "not-found",
        Err(ErrorKind::Changed) => "changed",
        Err(ErrorKind::Transient { .. }) => "failed",
        Err(ErrorKind::Unavailable) => "unavailable",
        Err(ErrorKind::Denied) => "denied",
        Err(ErrorKind::Corrupt) => "corrupt",
        Err(ErrorKind::Unsupported) => "unsupported",
        Err(ErrorKind::Archived) => "archived",
        Err(ErrorKind::Full) => "full",
    }
}

#[async_trait]
impl Remote for Logged {
    fn personality(&self) -> Personality {
        self.inner.personality()
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        self.logged(("head", key, 0), self.inner.head(key)).await
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        let mut request = self.begin("get", key, 0);
        let body = self.inner.get(key, range, version).await;
        if body.is_err() {
            request.status = status(&body);
        }
        let logged = body?.map(move |piece| {
            request.has(&piece, range.len());
            piece
        });
        Ok(logged.boxed())
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        let mut request = self.begin("get", key, 0);
        let fresh = self.inner.get_whole(key, unless, bytes_max).await;
        request.status = status(&fresh);
        request.bytes = fresh.as_ref().map_or(0, bytes_of);
        fresh
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        let length = bytes.len() as u64;
        self.logged(("put", key, length), self.inner.put(key, bytes, options)).await
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        self.logged(("create", key, 0), self.inner.upload_create(key, options)).await
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        let length = bytes.len() as u64;
        let sending = self.inner.upload_part(key, upload, part, bytes);
        self.logged(("part", key, length), sending).await
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        let copying = self.inner.upload_part_copy(key, upload, part, original, range);
        self.logged(("part-copy", key, 0), copying).await
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        let completing = self.inner.upload_complete(key, upload, parts, condition);
        self.logged(("complete", key, 0), completing).await
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        self.logged(("abort", key, 0), self.inner.upload_abort(key, upload)).await
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        self.logged(("uploads", key, 0), self.inner.uploads(key)).await
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        self.logged(("copy", to, 0), self.inner.copy(original, to, condition)).await
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        self.logged(("rename", to, 0), self.inner.rename(original, to, condition)).await
    }

    async fn rename_folder(&self, from: &Key, to: &Key) -> Result<()> {
        self.logged(("rename", to, 0), self.inner.rename_folder(from, to)).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.logged(("delete", key, 0), self.inner.delete(key)).await
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        self.logged(("list", &request.prefix, 0), self.inner.list(request)).await
    }
}

/// Bytes of an object that was fetched whole.
fn bytes_of(fresh: &Fresh) -> u64 {
    match fresh {
        Fresh::Same => 0,
        Fresh::New(_, bytes) => bytes.len() as u64,
    }
}
