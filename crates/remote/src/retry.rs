//! Decorator: repeats what may be repeated, within a deadline.
//!
//! A call that failed in passing may have been carried out all the same. Most calls do not mind
//! being carried out twice; a conditional write does: its repeat meets its own success and is told
//! `Changed`. Writes therefore carry [`UPLOAD_ID`] in their metadata, and a HEAD tells our own
//! success from somebody else's change. What was renamed is gone where it was, and is where it was to go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base::{ByteRange, Clock, Counter, Metrics, Rng, Timing};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::backoff::{Next, RetryOptions, Tries};
use crate::traffic::{Ticket, Traffic};
use crate::{
    Body, Condition, Error, ErrorKind, Fresh, Key, ListRequest, Meta, Original, Page, PartNumber,
    PartTag, Personality, PutOptions, Remote, Result, UPLOAD_ID, Unfinished, UploadId, Version,
};

/// How many uploads under way are remembered with their ids.
const UPLOADS_MAX: usize = 100_000;

/// A store that is asked again.
#[derive(Clone, Debug)]
pub struct Retry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<dyn Remote>,
    options: RetryOptions,
    clock: Arc<dyn Clock>,
    rng: Rng,
    metrics: Arc<Metrics>,
    traffic: Arc<Traffic>,
    // Those under way, by their names. Invariant: at most `UPLOADS_MAX`.
    uploads: Mutex<BTreeMap<String, UnderWay>>,
}

/// An upload under way.
#[derive(Debug)]
struct UnderWay {
    /// The id in its metadata.
    id: Option<String>,
    /// How long it took to begin it, if it may have been begun more than once.
    begun_again: Option<Duration>,
}

/// What came of a call, and whether an earlier try of it may have been carried out.
struct Outcome<T> {
    result: Result<T>,
    history: History,
}

/// How often a call was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum History {
    Once,
    Repeated,
}

impl Retry {
    /// `inner`, with failed calls repeated.
    pub fn new(
        inner: Arc<dyn Remote>,
        options: RetryOptions,
        clock: Arc<dyn Clock>,
        rng: Rng,
        metrics: Arc<Metrics>,
    ) -> Retry {
        let uploads = Mutex::new(BTreeMap::new());
        let traffic = Arc::new(Traffic::new(Arc::clone(&clock)));
        let shared = Shared { inner, options, clock, rng, metrics, traffic, uploads };
        Retry { shared: Arc::new(shared) }
    }

    /// The same, with each request in `traffic` until its caller has the answer.
    ///
    /// # Panics
    ///
    /// If this was cloned before.
    #[must_use]
    pub fn noting_in(mut self, traffic: Arc<Traffic>) -> Retry {
        Arc::get_mut(&mut self.shared).expect("not shared yet").traffic = traffic;
        self
    }

    async fn repeat<'a, T>(
        &'a self,
        (kind, key, bytes): (Timing, &Key, u64),
        call: impl Fn(&'a dyn Remote) -> BoxFuture<'a, Result<T>> + Send + Sync,
    ) -> Outcome<T> {
        let ticket = self.shared.traffic.ask(kind, key, bytes);
        self.repeat_by(&ticket, call).await
    }

    async fn repeat_by<'a, T>(
        &'a self,
        ticket: &Ticket,
        call: impl Fn(&'a dyn Remote) -> BoxFuture<'a, Result<T>> + Send + Sync,
    ) -> Outcome<T> {
        let shared = &self.shared;
        let mut tries = shared.begin();
        loop {
            let history = if tries.failed == 0 { History::Once } else { History::Repeated };
            let error = match call(&*shared.inner).await {
                Ok(value) => return Outcome { result: Ok(value), history },
                Err(error) => error,
            };
            ticket.failed(&error);
            if let Err(error) = shared.pause(&mut tries, error).await {
                return Outcome { result: Err(error), history };
            }
        }
    }

    /// Removes what earlier tries to begin the upload left, if they arrived: those of the same key that
    /// were begun in the time that all tries took. Nobody knows them, and they would stay for ever.
    ///
    /// Others may have begun uploads of the key at that time. So this is done when the upload is about to
    /// end: whoever is at work has sent a part by then.
    async fn abort_twins(&self, key: &Key, upload: &UploadId) {
        let took = {
            let mut uploads = self.shared.uploads.lock();
            uploads.get_mut(&upload.0).and_then(|under_way| under_way.begun_again.take())
        };
        let Some(took) = took else { return };
        let unfinished = match self.uploads(key).await {
            Ok(unfinished) => unfinished,
            Err(error) => {
                tracing::warn!(%error, "an upload that was begun twice may have been left");
                return;
            }
        };
        let Some(ours) = unfinished.iter().find(|other| other.upload == *upload) else { return };
        let secs = i64::try_from(took.as_secs()).unwrap_or(i64::MAX);
        // The store rounds to seconds, or to less.
        let from = ours.since.secs.saturating_sub(secs).saturating_sub(1);
        let is_known = |upload: &UploadId| self.shared.uploads.lock().contains_key(&upload.0);
        let is_twin = |other: &&Unfinished| {
            from <= other.since.secs
                && !other.has_parts
                && other.upload != *upload
                && !is_known(&other.upload)
        };
        for twin in unfinished.iter().filter(is_twin) {
            if let Err(error) = self.upload_abort(key, &twin.upload).await {
                tracing::warn!(%error, "an upload that was begun twice is left");
            }
        }
    }

    /// The version of `key` if it is the one that the write with this id made.
    async fn own_version(&self, key: &Key, id: Option<&String>) -> Option<Version> {
        let id = id?;
        let meta = self.head(key).await.ok()?;
        (meta.metadata.get(UPLOAD_ID) == Some(id)).then_some(meta.version)
    }

    /// The version of `to` if `original` is gone and is what is there now: where an earlier try to rename it
    /// may have been carried out, it was.
    async fn renamed(&self, original: Original<'_>, to: &Key) -> Option<Version> {
        match self.head(original.key).await {
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Ok(_) | Err(_) => return None,
        }
        let there = self.head(to).await.ok()?;
        (there.size == original.size).then_some(there.version)
    }

    /// As `outcome`, unless the write of which it speaks was ours.
    async fn settle(
        &self,
        key: &Key,
        id: Option<&String>,
        outcome: Outcome<Version>,
    ) -> Result<Version> {
        let error = match outcome.result {
            Err(error) if is_perhaps_ours(&error) => error,
            result => return result,
        };
        self.own_version(key, id).await.ok_or(error)
    }
}

impl Shared {
    fn begin(&self) -> Tries {
        Tries { begun: self.clock.monotonic(), failed: 0 }
    }

    /// Waits until the next try; the error to give up with if there is none.
    async fn pause(&self, tries: &mut Tries, error: Error) -> Result<()> {
        tries.failed += 1;
        let draw = |limit| self.rng.below(limit);
        match self.options.next(*tries, self.clock.monotonic(), error.kind, draw) {
            Next::Never => Err(error),
            Next::TooLate => Err(Error { kind: ErrorKind::Unavailable, ..error }),
            Next::After(delay) => {
                tracing::debug!(%error, ?delay, "repeating a call");
                self.metrics.add(Counter::RemoteRetries, 1);
                self.clock.sleep(delay).await;
                Ok(())
            }
        }
    }

    fn remember(&self, upload: &UploadId, under_way: UnderWay) {
        let mut uploads = self.uploads.lock();
        if uploads.len() == UPLOADS_MAX {
            uploads.pop_first();
        }
        uploads.insert(upload.0.clone(), under_way);
    }

    fn forget(&self, upload: &UploadId) {
        self.uploads.lock().remove(&upload.0);
    }
}

/// Whether a change that may have been made by an earlier try is refused like this for that reason.
fn is_perhaps_ours(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Changed | ErrorKind::NotFound)
}

/// A body that goes on where it broke off.
struct Resuming {
    shared: Arc<Shared>,
    key: Key,
    version: Option<Version>,
    rest: Option<ByteRange>,
    /// `None` if it has to be asked for.
    body: Option<Body>,
    /// Whether bytes were handed out: without a named version nothing may follow them.
    begun: bool,
    tries: Tries,
    /// In flight until the last byte is here.
    ticket: Ticket,
}

impl Resuming {
    async fn next(mut self) -> Option<(Result<Bytes>, Option<Resuming>)> {
        loop {
            let rest = self.rest?;
            let body = match self.body.take() {
                Some(body) => Ok(body),
                None => self.shared.inner.get(&self.key, rest, self.version.as_ref()).await,
            };
            let error = match body {
                Err(error) => error,
                Ok(mut body) => match body.next().await {
                    Some(Ok(bytes)) if bytes.len() as u64 <= rest.len() => {
                        self.rest = ByteRange::new(rest.start() + bytes.len() as u64, rest.end());
                        self.body = Some(body);
                        self.begun = true;
                        self.tries = self.shared.begin();
                        return Some((Ok(bytes), Some(self)));
                    }
                    Some(Ok(_)) => Error::new(ErrorKind::Corrupt, "get", &self.key),
                    Some(Err(error)) => error,
                    None => {
                        let kind = ErrorKind::Transient { retry_after: None };
                        Error::new(kind, "get", &self.key).because("the body ended early")
                    }
                },
            };
            if let Err(error) = self.pause(error).await {
                return Some((Err(error), None));
            }
        }
    }

    async fn pause(&mut self, error: Error) -> Result<()> {
        let transient = matches!(error.kind, ErrorKind::Transient { .. });
        if transient && self.begun && self.version.is_none() {
            return Err(Error { kind: ErrorKind::Unavailable, ..error });
        }
        let shared = Arc::clone(&self.shared);
        self.ticket.failed(&error);
        shared.pause(&mut self.tries, error).await
    }
}

#[async_trait]
impl Remote for Retry {
    fn personality(&self) -> Personality {
        self.shared.inner.personality()
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        self.repeat((Timing::StoreHead, key, 0), |inner| inner.head(key)).await.result
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        let ticket = self.shared.traffic.ask(Timing::StoreGet, key, 0);
        let body = self.repeat_by(&ticket, |inner| inner.get(key, range, version)).await.result?;
        let resuming = Resuming {
            shared: Arc::clone(&self.shared),
            key: key.clone(),
            version: version.cloned(),
            rest: Some(range),
            body: Some(body),
            begun: false,
            tries: self.shared.begin(),
            ticket,
        };
        let pieces = futures::stream::unfold(Some(resuming), |state| async { state?.next().await });
        Ok(pieces.boxed())
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        self.repeat((Timing::StoreSmallGet, key, 0), |inner| {
            inner.get_whole(key, unless, bytes_max)
        })
        .await
        .result
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        let outcome = self
            .repeat((Timing::StorePut, key, bytes.len() as u64), |inner| {
                inner.put(key, bytes.clone(), options)
            })
            .await;
        self.settle(key, options.metadata.get(UPLOAD_ID), outcome).await
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        let begun = self.shared.clock.monotonic();
        let Outcome { result, history } = self
            .repeat((Timing::StoreCreate, key, 0), |inner| inner.upload_create(key, options))
            .await;
        let upload = result?;
        let took = self.shared.clock.monotonic().saturating_sub(begun);
        let begun_again = (history == History::Repeated).then_some(took);
        let id = options.metadata.get(UPLOAD_ID).cloned();
        self.shared.remember(&upload, UnderWay { id, begun_again });
        Ok(upload)
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        self.repeat((Timing::StorePart, key, bytes.len() as u64), |inner| {
            inner.upload_part(key, upload, part, bytes.clone())
        })
        .await
        .result
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        let copied = self
            .repeat((Timing::StorePartCopy, key, 0), |inner| {
                inner.upload_part_copy(key, upload, part, original, range)
            })
            .await;
        copied.result
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        self.abort_twins(key, upload).await;
        let outcome = self
            .repeat((Timing::StoreComplete, key, 0), |inner| {
                inner.upload_complete(key, upload, parts, condition)
            })
            .await;
        let id = self.shared.uploads.lock().get(&upload.0).and_then(|known| known.id.clone());
        let is_refused = outcome.result.is_err();
        let version = self.settle(key, id.as_ref(), outcome).await?;
        self.shared.forget(upload);
        // It may be another upload of the same bytes that arrived, such as one that a process had
        // under way which died.
        if is_refused
            && let Err(error) = self.upload_abort(key, upload).await
            && error.kind != ErrorKind::NotFound
        {
            tracing::warn!(%error, "an upload of what is in the bucket already is left");
        }
        Ok(version)
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        self.abort_twins(key, upload).await;
        self.shared.forget(upload);
        self.repeat((Timing::StoreAbort, key, 0), |inner| inner.upload_abort(key, upload))
            .await
            .result
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        self.repeat((Timing::StoreList, key, 0), |inner| inner.uploads(key)).await.result
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let outcome = self
            .repeat((Timing::StoreCopy, to, 0), |inner| inner.copy(original, to, condition))
            .await;
        if outcome.history == History::Once {
            return outcome.result;
        }
        // A copy carries its source's id.
        let source = match &outcome.result {
            Err(error) if error.kind == ErrorKind::Changed => self.head(original.key).await.ok(),
            Ok(_) | Err(_) => None,
        };
        let id = source.filter(|source| source.version == *original.version);
        let id = id.and_then(|mut source| source.metadata.remove(UPLOAD_ID));
        self.settle(to, id.as_ref(), outcome).await
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let outcome = self
            .repeat((Timing::StoreCopy, to, 0), |inner| inner.rename(original, to, condition))
            .await;
        match outcome {
            Outcome { result: Err(error), history: History::Repeated }
                if is_perhaps_ours(&error) =>
            {
                self.renamed(original, to).await.ok_or(error)
            }
            outcome => outcome.result,
        }
    }

    async fn rename_folder(&self, from: &Key, to: &Key) -> Result<()> {
        let outcome =
            self.repeat((Timing::StoreCopy, to, 0), |inner| inner.rename_folder(from, to)).await;
        match outcome {
            Outcome { result: Err(error), history: History::Repeated }
                if is_perhaps_ours(&error) =>
            {
                match (self.head(from).await, self.head(to).await) {
                    (Err(gone), Ok(_)) if gone.kind == ErrorKind::NotFound => Ok(()),
                    (_, _) => Err(error),
                }
            }
            outcome => outcome.result,
        }
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.repeat((Timing::StoreDelete, key, 0), |inner| inner.delete(key)).await.result
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        self.repeat((Timing::StoreList, &request.prefix, 0), |inner| inner.list(request))
            .await
            .result
    }
}
