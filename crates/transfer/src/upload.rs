//! One upload: sealed version to acknowledged object.

use std::sync::Arc;

use base::{Budget, ByteRange, Permit, Rng};
use bytes::Bytes;
use futures::{StreamExt, stream};
use remote::{
    Condition, Error as RemoteError, ErrorKind, Key, Meta, Metadata, Original, PartNumber, PartTag,
    Personality, PutOptions, Remote, UPLOAD_ID, UploadId, Version,
};
use store::{GranuleSet, Sealed};
use tokio::sync::{Semaphore, watch};

use crate::bandwidth::{Bandwidth, Urgency};
use crate::begun::Begun;
use crate::buffers::{Buffers, PartMemory};
use crate::parts::Grid;
use crate::plan::{Copies, Piece, Plan, Source, plan, plan_beside};
use crate::tuned::Tuned;
use crate::upload_log::UploadLog;
use crate::{Download, Error, Result};

/// Bounds on uploading.
#[derive(Clone, Debug)]
pub struct UploaderOptions {
    /// The most requests with file data at a time.
    pub requests_max: usize,
    /// How large the first parts are; smaller files go in one request. An upload that has begun keeps
    /// the size that it began with.
    pub part_bytes: Tuned,
    /// How fast file data may go, if that can be limited.
    pub bandwidth: Option<Bandwidth>,
}

/// What a sealed version is to become.
#[derive(Clone, Copy, Debug)]
pub struct UploadJob<'a> {
    /// The object to write.
    pub key: &'a Key,
    /// What must hold of the object it replaces.
    pub condition: &'a Condition,
    /// To be kept with the object.
    pub metadata: &'a Metadata,
    /// From [`Uploader::new_id`]; the same again for another try of the same bytes.
    pub id: &'a str,
    /// The object that has what was not changed: the store may copy it from there.
    pub original: Option<Original<'a>>,
    /// Where to read what was not changed and is not here.
    pub base: Option<&'a Arc<Download>>,
    /// The upload that began while the file was written, if its key and metadata are still right. It
    /// is over when this job is, however that ends.
    pub begun: Option<&'a Begun>,
}

/// How much of the budget may be kept for the next part beside what is in use.
const IDLE_SHARE: u64 = 4;

/// An upload under way.
#[derive(Clone, Copy, Debug)]
struct Sending<'a> {
    buffers: &'a Arc<Buffers>,
    sealed: &'a Arc<Sealed>,
    job: &'a UploadJob<'a>,
    options: &'a PutOptions,
}

/// Sends sealed versions to an object store.
#[derive(Debug)]
pub struct Uploader {
    pub(crate) remote: Arc<dyn Remote>,
    pub(crate) log: UploadLog,
    pub(crate) budget: Budget,
    pub(crate) requests: Semaphore,
    pub(crate) part_memory: PartMemory,
    /// Held by the one part that is fetched for.
    fetching: Semaphore,
    rng: Arc<Rng>,
    options: UploaderOptions,
}

impl Uploader {
    /// Sends to `remote`, holding bytes of `budget`; what is begun there and not over is in `log`.
    pub fn new(
        (remote, log): (Arc<dyn Remote>, UploadLog),
        budget: Budget,
        rng: Arc<Rng>,
        options: UploaderOptions,
    ) -> Uploader {
        let requests = Semaphore::new(options.requests_max.max(1));
        let part_memory = PartMemory::new(budget.limit_bytes() / IDLE_SHARE);
        let fetching = Semaphore::new(1);
        Uploader { remote, log, budget, requests, part_memory, fetching, rng, options }
    }

    /// An id for an upload: practically no other upload ever has it.
    pub fn new_id(&self) -> String {
        format!("{:032x}", self.rng.id())
    }

    /// Makes the sealed bytes the object `job.key` if `job.condition` holds of what it replaces. What
    /// was not changed is copied inside the store, where that can be.
    ///
    /// Other clients see the old object until this returns its new version, never a mixture.
    /// `Changed` also if the object to copy or read from is not the named version any more.
    pub async fn upload(&self, sealed: &Arc<Sealed>, job: &UploadJob<'_>) -> Result<Version> {
        let mut metadata = job.metadata.clone();
        metadata.insert(UPLOAD_ID.to_owned(), job.id.to_owned());
        let options = PutOptions { condition: job.condition.clone(), metadata };
        let buffers = &self.part_memory.buffers();
        let sending = Sending { buffers, sealed, job, options: &options };
        let grid = job.begun.map_or_else(|| self.grid(), |begun| begun.grid);
        let planned = self.plan(&grid, sealed.size(), (sealed.unchanged(), job.original));
        if let (Some(begun), Plan::Whole | Plan::TooLarge) = (job.begun, &planned) {
            self.end(begun).await;
        }
        let pieces = match planned {
            Plan::Whole => return self.put(&sending).await,
            Plan::Parts(pieces) => pieces,
            Plan::TooLarge => {
                let error = RemoteError::new(ErrorKind::Unsupported, "upload", job.key);
                return Err(error.because("larger than the store's largest object").into());
            }
        };
        if let Some(begun) = job.begun {
            let sent = self.send_rest(&sending, begun).await;
            let is_gone = |error: &Error| error.is_unsupported() || error.is_not_found();
            if !sent.as_ref().is_err_and(is_gone) {
                return sent;
            }
            // Somebody has removed its parts, perhaps.
            let ids = [begun.id.clone()];
            if let Some(meta) = self.written_by(job.key, &ids).await? {
                return Ok(meta.version);
            }
        }
        let has_copies = pieces.iter().any(|piece| piece.source == Source::Copied);
        let sent = self.put_parts(&sending, &pieces).await;
        if has_copies && sent.as_ref().is_err_and(Error::is_unsupported) {
            // The store cannot copy what it seemed to be able to.
            let pieces = match self.plan(&grid, sealed.size(), (sealed.unchanged(), None)) {
                Plan::Parts(pieces) => pieces,
                Plan::Whole | Plan::TooLarge => unreachable!("the size is the same"),
            };
            return self.put_parts(&sending, &pieces).await;
        }
        sent
    }

    /// What an upload of a file of `size` bytes would have to send if `unchanged` is as in `original`:
    /// what of it is not here has to be fetched first.
    pub fn sends(
        &self,
        size: u64,
        unchanged: &GranuleSet,
        original: Option<Original<'_>>,
    ) -> Vec<ByteRange> {
        match self.plan(&self.grid(), size, (unchanged, original)) {
            Plan::Whole | Plan::TooLarge => ByteRange::new(0, size).into_iter().collect(),
            Plan::Parts(pieces) => pieces
                .into_iter()
                .filter(|piece| piece.source == Source::Sent)
                .map(|piece| piece.range)
                .collect(),
        }
    }

    pub(crate) fn plan(
        &self,
        grid: &Grid,
        size: u64,
        (unchanged, original): (&GranuleSet, Option<Original<'_>>),
    ) -> Plan {
        let store = self.remote.personality();
        plan(size, grid, store, copies(store, unchanged, original))
    }

    /// The parts of an upload of which some are sent ahead.
    pub(crate) fn plan_beside(
        &self,
        begun: &Begun,
        size: u64,
        unchanged: &GranuleSet,
        original: Option<Original<'_>>,
    ) -> Vec<(PartNumber, Piece)> {
        let store = self.remote.personality();
        plan_beside(size, &begun.grid, store, copies(store, unchanged, original), begun.first)
    }

    /// How an upload that begins now is cut.
    pub fn grid(&self) -> Grid {
        Grid::new(self.options.part_bytes.bytes(), self.remote.personality())
    }

    /// The longest key that the store takes.
    pub fn key_bytes_max(&self) -> usize {
        self.remote.personality().key_bytes_max
    }

    /// Waits until so many bytes may go.
    pub(crate) async fn pace(&self, bytes: u64) {
        if let Some(bandwidth) = &self.options.bandwidth {
            bandwidth.take(bytes, Urgency::Urgent).await;
        }
    }

    /// What is known of the object `key`, if it is what one of the uploads `ids` made of it: an upload
    /// whose answer was lost is no conflict.
    pub async fn written_by(&self, key: &Key, ids: &[String]) -> Result<Option<Meta>> {
        let is_ours = |meta: &Meta| meta.metadata.get(UPLOAD_ID).is_some_and(|id| ids.contains(id));
        Ok(self.find(key).await?.filter(is_ours))
    }

    /// What is known of the object `key`, if there is one.
    pub async fn find(&self, key: &Key) -> Result<Option<Meta>> {
        match self.remote.head(key).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            meta => Ok(Some(meta?)),
        }
    }

    async fn put(&self, sending: &Sending<'_>) -> Result<Version> {
        // First, so that a request that waits for the line holds nothing that a smaller one could use.
        self.pace(sending.sealed.size()).await;
        let _request = self.requests.acquire().await.expect("never closed");
        let (_memory, bytes) = self.load(sending, ByteRange::new(0, sending.sealed.size())).await?;
        Ok(self.remote.put(sending.job.key, bytes, sending.options).await?)
    }

    async fn put_parts(&self, sending: &Sending<'_>, pieces: &[Piece]) -> Result<Version> {
        let upload = self.create(sending.job.key, sending.options).await?;
        let parts = (1..).map(PartNumber).zip(pieces.iter().copied()).collect();
        self.send_and_complete(sending, &upload, parts, Vec::new()).await
    }

    /// Sends what was not sent ahead, or was changed since.
    async fn send_rest(&self, sending: &Sending<'_>, begun: &Begun) -> Result<Version> {
        let (sealed, original) = (sending.sealed, sending.job.original);
        let parts = self.plan_beside(begun, sealed.size(), sealed.unchanged(), original);
        let ahead = parts
            .iter()
            .filter_map(|&part| Some((part.0, begun.tag(part, sealed, original)?)))
            .collect();
        self.send_and_complete(sending, &begun.upload, parts, ahead).await
    }

    async fn send_and_complete(
        &self,
        sending: &Sending<'_>,
        upload: &UploadId,
        parts: Vec<(PartNumber, Piece)>,
        ahead: Vec<(PartNumber, PartTag)>,
    ) -> Result<Version> {
        let UploadJob { key, condition, .. } = sending.job;
        let sent = self.send_parts(sending, upload, parts, ahead).await;
        let completed = match sent {
            Ok(tags) => {
                let completed = self.remote.upload_complete(key, upload, &tags, condition).await;
                completed.map_err(Error::from)
            }
            Err(error) => Err(error),
        };
        match completed {
            Ok(_) => self.log.over(key, upload),
            Err(_) => self.clear(key, upload).await,
        }
        completed
    }

    async fn send_parts(
        &self,
        sending: &Sending<'_>,
        upload: &UploadId,
        parts: Vec<(PartNumber, Piece)>,
        ahead: Vec<(PartNumber, PartTag)>,
    ) -> Result<Vec<(PartNumber, PartTag)>> {
        let failed = &watch::Sender::new(false);
        // In order, as the parts are.
        let is_ahead = |number| ahead.binary_search_by_key(&number, |(sent, _)| *sent).is_ok();
        let mut left = parts;
        left.retain(|(number, _)| !is_ahead(*number));
        // Copies first: that one cannot be made is found before much is sent.
        left.sort_by_key(|(_, piece)| piece.source == Source::Sent);
        let working = left.into_iter().map(|(number, piece)| async move {
            let sent = self.make_part(sending, upload, (number, piece), failed).await;
            if sent.is_err() {
                failed.send_replace(true);
            }
            sent
        });
        // All of them end before this does: none may still read what the caller then gives up.
        let made: Vec<_> =
            stream::iter(working).buffered(self.options.requests_max.max(1)).collect().await;
        // The first error in time has the reason; those after it only say that there was one.
        let (tags, errors): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
        let reason = errors
            .into_iter()
            .filter_map(Result::err)
            .reduce(|first, next| if matches!(first, Error::Stopped) { next } else { first });
        if let Some(reason) = reason {
            return Err(reason);
        }
        let mut tags: Vec<_> = tags.into_iter().collect::<Result<_>>()?;
        tags.extend(ahead);
        tags.sort_by_key(|(number, _)| *number);
        Ok(tags)
    }

    async fn make_part(
        &self,
        sending: &Sending<'_>,
        upload: &UploadId,
        (number, piece): (PartNumber, Piece),
        failed: &watch::Sender<bool>,
    ) -> Result<(PartNumber, PartTag)> {
        let is_sent = piece.source == Source::Sent || sending.job.original.is_none();
        if is_sent {
            let mut watched = failed.subscribe();
            // First, so that a part that waits for the line holds nothing that a smaller request could use.
            tokio::select! {
                biased;
                _ = watched.wait_for(|failed| *failed) => return Err(Error::Stopped),
                () = self.pace(piece.range.len()) => {}
            }
        }
        let _request = self.requests.acquire().await.expect("never closed");
        if *failed.borrow() {
            return Err(Error::Stopped);
        }
        let key = sending.job.key;
        let tag = match (piece.source, sending.job.original) {
            (Source::Copied, Some(original)) => {
                self.remote.upload_part_copy(key, upload, number, original, piece.range).await?
            }
            (Source::Sent, _) | (Source::Copied, None) => {
                let (_memory, bytes) = self.load(sending, Some(piece.range)).await?;
                self.remote.upload_part(key, upload, number, bytes).await?
            }
        };
        Ok((number, tag))
    }

    /// The bytes of a part, with the right to hold them.
    async fn load(
        &self,
        sending: &Sending<'_>,
        range: Option<ByteRange>,
    ) -> Result<(Option<Permit>, Bytes)> {
        let Some(range) = range else { return Ok((None, Bytes::new())) };
        let missing = runs(sending.sealed.missing(), range);
        if missing.is_empty() {
            let memory = self.budget.acquire(range.len()).await;
            return Ok((Some(memory), read_sealed(sending, range, Vec::new()).await?));
        }
        // Fetching takes of the same budget as what is fetched for. So one part at a time is fetched
        // for outside of it: who holds some of it never waits for more.
        let _turn = self.fetching.acquire().await.expect("never closed");
        let mut fetched = Vec::new();
        for run in missing {
            let base = sending.job.base.ok_or(Error::Stopped)?;
            fetched.push((run.start(), base.read_just(run).await?));
        }
        let memory = self.budget.acquire(range.len()).await;
        Ok((Some(memory), read_sealed(sending, range, fetched).await?))
    }
}

/// What a store may copy into a file that has `unchanged` of `original`.
fn copies<'a>(
    store: Personality,
    unchanged: &'a GranuleSet,
    original: Option<Original<'_>>,
) -> Option<Copies<'a>> {
    let (how, original) = (store.part_copies, original?);
    Some(Copies { how, original_bytes: original.size, unchanged })
}

/// The runs of `range` that are in `set`.
fn runs(set: &GranuleSet, range: ByteRange) -> Vec<ByteRange> {
    let mut found = Vec::new();
    let mut from = range.start();
    while let Some(run) = ByteRange::new(from, range.end()).and_then(|rest| set.first_run(rest)) {
        from = run.end();
        found.push(run);
    }
    found
}

/// What is as small as this is read by who sends it: it was written a moment ago, and handing it over costs
/// more than reading it.
const READ_HERE_BYTES_MAX: u64 = 64 << 10;

/// Reads a part off the disk, a large one away from the threads that drive the network, all but what is in
/// `fetched`.
async fn read_sealed(
    sending: &Sending<'_>,
    range: ByteRange,
    fetched: Vec<(u64, Vec<u8>)>,
) -> Result<Bytes> {
    let (sealed, buffers) = (Arc::clone(sending.sealed), Arc::clone(sending.buffers));
    let read = move || {
        let len = usize::try_from(range.len()).expect("parts fit in memory");
        let mut buffer = buffers.take(len);
        let index = |at: u64| usize::try_from(at - range.start()).expect("parts fit in memory");
        let mut at = range.start();
        for (start, bytes) in fetched {
            sealed.read(at, &mut buffer[index(at)..index(start)])?;
            at = start + bytes.len() as u64;
            buffer[index(start)..index(at)].copy_from_slice(&bytes);
        }
        sealed.read(at, &mut buffer[index(at)..])?;
        Ok::<_, store::Error>(Bytes::from(buffer))
    };
    if range.len() <= READ_HERE_BYTES_MAX {
        return Ok(read()?);
    }
    let bytes = tokio::task::spawn_blocking(read).await.map_err(|_| Error::Stopped)?;
    Ok(bytes?)
}
