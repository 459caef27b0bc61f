//! In-memory store with versions, conditions and scheduled faults, for tests.
//!
//! It takes every key that is not empty, counts the calls of each kind, and fails or waits exactly
//! when told to. All clones are the same store, so a test keeps one to look at from the side.

mod folders;
mod gate;
mod list;
mod schedule;
mod traffic;

pub use gate::Gate;
pub use schedule::{Fault, Op};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use async_trait::async_trait;
use base::{ByteRange, Timestamp, crc32c};
use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;

use crate::{
    Body, Condition, Entry, Error, ErrorKind, Folders, Fresh, KEY_BYTES_MAX, Key, ListOrder,
    ListRequest, Meta, Metadata, Moves, Naming, Original, Page, PartCopies, PartNumber,
    PartNumbers, PartTag, Personality, ProviderError, PutOptions, Remote, Result, Trouble,
    UNFINISHED_MAX, Unfinished, UploadId, Version, metadata,
};
use gate::Gates;
use list::{backwards, list};
use schedule::Schedule;
use traffic::Traffic;

/// What a call does to the state, before it is known for which key.
type Step<T> = std::result::Result<T, ErrorKind>;

/// The pieces in which bodies come, so that readers meet more than one.
const PIECE_BYTES: u64 = 64 << 10;

/// An object store in memory.
#[derive(Clone, Debug)]
pub struct Fake {
    personality: Personality,
    state: Arc<Mutex<State>>,
    schedule: Arc<Schedule>,
    gates: Arc<Gates>,
    page_entries_max: Arc<AtomicU16>,
    traffic: Arc<Traffic>,
}

// Invariant: an upload id is given out once, and so is a version unless it is a checksum.
#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Object>,
    uploads: BTreeMap<String, Upload>,
    writes: u32,
    /// Whether folders are things of their own.
    real_folders: bool,
    /// Whether listings tell metadata.
    tells_metadata: bool,
    /// Whether versions are checksums.
    sums_up: bool,
    /// What listings under way are of, where they are of one state of the bucket.
    listed: Option<Vec<BTreeMap<Key, Object>>>,
}

#[derive(Clone, Debug)]
struct Object {
    bytes: Bytes,
    meta: Meta,
}

#[derive(Debug)]
struct Upload {
    key: Key,
    metadata: Metadata,
    begun: u32,
    parts: BTreeMap<PartNumber, (PartTag, Bytes)>,
}

impl Fake {
    /// An empty store that takes parts of any size.
    #[expect(clippy::new_without_default, reason = "a second way to say the same")]
    pub fn new() -> Fake {
        Fake::with(Personality {
            part_bytes_min: 1,
            part_bytes_max: 5 << 30,
            parts_max: 10_000,
            object_bytes_max: 5 << 40,
            key_bytes_max: KEY_BYTES_MAX,
            conditional_writes: true,
            part_copies: PartCopies::AnyRange { bytes_max: 5 << 30 },
            part_numbers: PartNumbers::Rising,
            naming: Naming::OF_KEYS,
        })
    }

    /// An empty store with these limits.
    pub fn with(personality: Personality) -> Fake {
        Fake {
            personality,
            state: Arc::default(),
            schedule: Arc::default(),
            gates: Arc::default(),
            page_entries_max: Arc::new(AtomicU16::new(u16::MAX)),
            traffic: Arc::default(),
        }
    }

    /// An empty store that has folders of its own and renames in one step.
    pub fn with_folders() -> Fake {
        let plain = Fake::new();
        let naming =
            Naming { folders: Folders::Real, order: ListOrder::Keys, moves: Moves::Atomic };
        plain.state.lock().real_folders = true;
        Fake { personality: Personality { naming, ..plain.personality }, ..plain }
    }

    /// From now on no page of a listing has more than `entries_max` entries.
    pub fn short_pages(&self, entries_max: u16) {
        self.page_entries_max.store(entries_max, Ordering::Relaxed);
    }

    /// From now on listings tell the metadata of objects, as some stores have it.
    pub fn tell_metadata(&self) {
        self.state.lock().tells_metadata = true;
    }

    /// From now on the same bytes are the same version, as etags mostly have it.
    pub fn versions_are_checksums(&self) {
        self.state.lock().sums_up = true;
    }

    /// From now on the pages of a listing are of the state in which its first page found the bucket,
    /// as some stores have it.
    pub fn pages_of_one_state(&self) {
        self.state.lock().listed.get_or_insert_default();
    }

    /// The next call of `op` does nothing and fails like this. Several are taken one by one.
    pub fn fail_next(&self, op: Op, kind: ErrorKind) {
        self.refuse_next(op, kind, Trouble::Other);
    }

    /// As [`Fake::fail_next`], for this reason.
    pub fn refuse_next(&self, op: Op, kind: ErrorKind, trouble: Trouble) {
        self.schedule.push(op, Fault::Refuse(kind, trouble));
    }

    /// The next call of `op` is carried out, but its caller hears of a transient fault.
    pub fn lose_next_answer(&self, op: Op) {
        self.schedule.push(op, Fault::LoseAnswer);
    }

    /// The body of the next `get` breaks off after `bytes` with a transient fault.
    pub fn break_next_body(&self, bytes: u64) {
        let kind = ErrorKind::Transient { retry_after: None };
        self.schedule.push(Op::Get, Fault::BreakBody { bytes, kind });
    }

    /// The body of the next `get` shows after `bytes` that it is not what the checksum says.
    pub fn spoil_next_body(&self, bytes: u64) {
        self.schedule.push(Op::Get, Fault::BreakBody { bytes, kind: ErrorKind::Corrupt });
    }

    /// Calls off the faults that have not come yet.
    pub fn forget_faults(&self) {
        self.schedule.clear();
    }

    /// Keeps calls of `op` waiting, before they do anything, until the gate lets them through.
    pub fn hold(&self, op: Op) -> Gate {
        self.gates.shut(Some(op))
    }

    /// As [`Fake::hold`], of calls of every kind.
    pub fn hold_all(&self) -> Gate {
        self.gates.shut(None)
    }

    /// How many calls of `op` were made.
    pub fn calls(&self, op: Op) -> u64 {
        self.schedule.calls(op)
    }

    /// How many bytes were sent in puts and parts.
    pub fn sent_bytes(&self) -> u64 {
        self.traffic.sent()
    }

    /// How many bytes were asked for in ranges.
    pub fn fetched_bytes(&self) -> u64 {
        self.traffic.fetched()
    }

    /// How many bytes were being sent at a time, at most.
    pub fn sent_at_a_time(&self) -> u64 {
        self.traffic.in_flight_most()
    }

    /// How many calls were made in all.
    pub fn calls_total(&self) -> u64 {
        Op::ALL.iter().map(|&op| self.calls(op)).sum()
    }

    /// Writes an object past all faults and counters, as another client would.
    pub fn insert(&self, key: &Key, bytes: impl Into<Bytes>, metadata: Metadata) -> Version {
        self.state.lock().write(key, bytes.into(), metadata)
    }

    /// Removes an object past all faults and counters. Says whether there was one.
    pub fn remove(&self, key: &Key) -> bool {
        self.state.lock().objects.remove(key).is_some()
    }

    /// The bytes of an object.
    pub fn bytes(&self, key: &Key) -> Option<Bytes> {
        self.state.lock().objects.get(key).map(|object| object.bytes.clone())
    }

    /// What is known of an object.
    pub fn meta(&self, key: &Key) -> Option<Meta> {
        self.state.lock().objects.get(key).map(|object| object.meta.clone())
    }

    /// Every key, in order.
    pub fn keys(&self) -> Vec<Key> {
        self.state.lock().objects.keys().cloned().collect()
    }

    /// How many uploads are neither completed nor aborted.
    pub fn uploads_open(&self) -> usize {
        self.state.lock().uploads.len()
    }

    /// One call: counted, held, failed or carried out.
    async fn call<T>(
        &self,
        op: Op,
        key: &Key,
        act: impl FnOnce(&mut State) -> Step<T>,
    ) -> Result<(T, Option<Fault>)> {
        let name = op.name();
        let fault = self.schedule.begin(op);
        self.gates.pass(op).await;
        match fault {
            Some(Fault::Refuse(kind, trouble)) => {
                let (code, message) = ("Refused".to_owned(), "on schedule".to_owned());
                let words = ProviderError { code, message, request_id: None, trouble };
                Err(Error::new(kind, name, key).because(words))
            }
            Some(Fault::LoseAnswer) => {
                // The caller cannot know how it went, not even if it failed.
                let _ = act(&mut self.state.lock());
                let kind = ErrorKind::Transient { retry_after: None };
                Err(Error::new(kind, name, key).because("answer lost on schedule"))
            }
            Some(Fault::BreakBody { .. }) | None => {
                let done = act(&mut self.state.lock());
                let value = done.map_err(|kind| Error::new(kind, name, key))?;
                Ok((value, fault))
            }
        }
    }
}

impl State {
    fn write(&mut self, key: &Key, bytes: Bytes, metadata: Metadata) -> Version {
        if self.real_folders {
            self.make_folders_of(key);
        }
        self.write_alone(key, bytes, metadata)
    }

    fn write_alone(&mut self, key: &Key, bytes: Bytes, metadata: Metadata) -> Version {
        self.writes += 1;
        let size = bytes.len() as u64;
        let version = if self.sums_up {
            format!("{:08x}-{size}", crc32c(&bytes))
        } else {
            format!("v{}", self.writes)
        };
        let version = Version::new(&version);
        let modified = time_of(self.writes);
        let meta = Meta { size, version: version.clone(), modified, metadata };
        self.objects.insert(key.clone(), Object { bytes, meta });
        version
    }

    fn object(&self, key: &Key) -> Step<&Object> {
        self.objects.get(key).ok_or(ErrorKind::NotFound)
    }

    fn check(&self, key: &Key, condition: &Condition) -> Step<()> {
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => !self.objects.contains_key(key),
            Condition::Is(version) => {
                self.objects.get(key).is_some_and(|object| object.meta.version == *version)
            }
        };
        if holds { Ok(()) } else { Err(ErrorKind::Changed) }
    }

    fn upload(&mut self, key: &Key, upload: &UploadId) -> Step<&mut Upload> {
        let found = self.uploads.get_mut(&upload.0).filter(|upload| upload.key == *key);
        found.ok_or(ErrorKind::NotFound)
    }

    fn with_metadata(&self, page: Page) -> Page {
        let told = |entry| match entry {
            Entry::Object(key, meta) => {
                let metadata = self.objects.get(&key).map(|object| object.meta.metadata.clone());
                Entry::Object(key, Meta { metadata: metadata.unwrap_or_default(), ..meta })
            }
            Entry::Prefix(key) => Entry::Prefix(key),
        };
        Page { entries: page.entries.into_iter().map(told).collect(), next: page.next }
    }

    fn list(&mut self, request: &ListRequest) -> Page {
        let Some(listed) = &mut self.listed else {
            return list(&self.objects, |object| &object.meta, request);
        };
        let token = request.continuation.as_ref().and_then(|token| token.split_once('@'));
        let (number, continuation) = if let Some((number, token)) = token {
            (number.parse().unwrap_or(0), Some(token.to_owned()))
        } else {
            listed.push(self.objects.clone());
            (listed.len() - 1, None)
        };
        let request = ListRequest { continuation, ..request.clone() };
        let page = list(&listed[number], |object| &object.meta, &request);
        Page { next: page.next.map(|token| format!("{number}@{token}")), ..page }
    }
}

/// When so many writes were done.
fn time_of(writes: u32) -> Timestamp {
    Timestamp { secs: 1_700_000_000 + i64::from(writes), nanos: 0 }
}

fn check_write(op: Op, key: &Key, options: &PutOptions) -> Result<()> {
    let refuse = |words: String| Error::new(ErrorKind::Unsupported, op.name(), key).because(words);
    if key.as_bytes().is_empty() {
        return Err(refuse("an object needs a name".to_owned()));
    }
    metadata::check_names(&options.metadata).map_err(refuse)
}

fn index(at: u64) -> usize {
    usize::try_from(at).expect("within an object in memory")
}

fn body(key: &Key, bytes: &Bytes, range: ByteRange, fault: Option<&Fault>) -> Body {
    let breaks = match fault {
        Some(Fault::BreakBody { bytes, kind }) => {
            Some((range.start().saturating_add(*bytes), *kind))
        }
        Some(Fault::Refuse(..) | Fault::LoseAnswer) | None => None,
    };
    let breaks_at = breaks.map_or(u64::MAX, |(at, _)| at);
    let slice = |piece: ByteRange| Ok(bytes.slice(index(piece.start())..index(piece.end())));
    let whole = range.below(breaks_at);
    let mut pieces: Vec<Result<Bytes>> =
        whole.map(|whole| whole.pieces(PIECE_BYTES).map(slice).collect()).unwrap_or_default();
    if let Some((at, kind)) = breaks
        && at < range.end()
    {
        pieces.push(Err(Error::new(kind, "get", key).because("broken on schedule")));
    }
    futures::stream::iter(pieces).boxed()
}

#[async_trait]
impl Remote for Fake {
    fn personality(&self) -> Personality {
        self.personality
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        let act = |state: &mut State| Ok(state.object(key)?.meta.clone());
        Ok(self.call(Op::Head, key, act).await?.0)
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        self.traffic.fetch(range.len());
        let act = |state: &mut State| {
            let object = state.object(key)?;
            if version.is_some_and(|version| *version != object.meta.version) {
                return Err(ErrorKind::Changed);
            }
            let within = range.end() <= object.meta.size;
            if within { Ok(object.bytes.clone()) } else { Err(ErrorKind::Unsupported) }
        };
        let (bytes, fault) = self.call(Op::Get, key, act).await?;
        Ok(body(key, &bytes, range, fault.as_ref()))
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        let act = |state: &mut State| {
            let object = state.object(key)?;
            if unless == Some(&object.meta.version) {
                return Ok(Fresh::Same);
            }
            if bytes_max < object.meta.size {
                return Err(ErrorKind::Unsupported);
            }
            Ok(Fresh::New(object.meta.clone(), object.bytes.clone()))
        };
        Ok(self.call(Op::GetWhole, key, act).await?.0)
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        check_write(Op::Put, key, options)?;
        let _sending = self.traffic.send(bytes.len());
        let act = |state: &mut State| {
            state.check(key, &options.condition)?;
            Ok(state.write(key, bytes, options.metadata.clone()))
        };
        Ok(self.call(Op::Put, key, act).await?.0)
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        check_write(Op::UploadCreate, key, options)?;
        let act = |state: &mut State| {
            state.writes += 1;
            let id = format!("u{}", state.writes);
            let (key, metadata, begun) = (key.clone(), options.metadata.clone(), state.writes);
            let upload = Upload { key, metadata, begun, parts: BTreeMap::new() };
            state.uploads.insert(id.clone(), upload);
            Ok(UploadId(id))
        };
        Ok(self.call(Op::UploadCreate, key, act).await?.0)
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        let _sending = self.traffic.send(bytes.len());
        let act = |state: &mut State| {
            state.writes += 1;
            let tag = PartTag(format!("p{}", state.writes));
            state.upload(key, upload)?.parts.insert(part, (tag.clone(), bytes));
            Ok(tag)
        };
        Ok(self.call(Op::UploadPart, key, act).await?.0)
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        let act = |state: &mut State| {
            let source = state.object(original.key)?;
            if source.meta.version != *original.version {
                return Err(ErrorKind::Changed);
            }
            let bytes = source.bytes.clone();
            let whole = ByteRange::new(0, source.meta.size);
            let can = match self.personality.part_copies {
                PartCopies::None => false,
                PartCopies::AnyRange { bytes_max } => range.len() <= bytes_max,
                PartCopies::OwnBlocks => original.key == key,
                PartCopies::WholeFirst => part == PartNumber(1) && Some(range) == whole,
            };
            if !can || whole.is_none_or(|whole| whole.end() < range.end()) {
                return Err(ErrorKind::Unsupported);
            }
            state.writes += 1;
            let tag = PartTag(format!("p{}", state.writes));
            let bytes = bytes.slice(index(range.start())..index(range.end()));
            state.upload(key, upload)?.parts.insert(part, (tag.clone(), bytes));
            Ok(tag)
        };
        Ok(self.call(Op::UploadPartCopy, key, act).await?.0)
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        let act = |state: &mut State| {
            let kept = state.upload(key, upload)?;
            let ordered = match self.personality.part_numbers {
                PartNumbers::Rising => parts.windows(2).all(|pair| pair[0].0 < pair[1].0),
                PartNumbers::Consecutive => (1..).zip(parts).all(|(at, part)| part.0.0 == at),
            };
            let mut whole = Vec::new();
            for (number, tag) in parts {
                let sent = kept.parts.get(number).filter(|(sent, _)| sent == tag);
                whole.extend_from_slice(&sent.ok_or(ErrorKind::Unsupported)?.1);
            }
            if parts.is_empty() || !ordered {
                return Err(ErrorKind::Unsupported);
            }
            let metadata = kept.metadata.clone();
            state.check(key, condition)?;
            state.uploads.remove(&upload.0);
            Ok(state.write(key, whole.into(), metadata))
        };
        Ok(self.call(Op::UploadComplete, key, act).await?.0)
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        let act = |state: &mut State| {
            state.uploads.remove(&upload.0);
            Ok(())
        };
        self.call(Op::UploadAbort, key, act).await.map(drop)
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        let act = |state: &mut State| {
            let of_key = state.uploads.iter().filter(|(_, upload)| upload.key == *key);
            let told = of_key.map(|(id, upload)| Unfinished {
                upload: UploadId(id.clone()),
                since: time_of(upload.begun),
                has_parts: !upload.parts.is_empty(),
            });
            let mut found: Vec<Unfinished> = told.collect();
            found.sort_by_key(|unfinished| unfinished.since);
            found.truncate(UNFINISHED_MAX);
            Ok(found)
        };
        Ok(self.call(Op::Uploads, key, act).await?.0)
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let act = |state: &mut State| {
            let source = state.object(original.key)?.clone();
            if source.meta.version != *original.version {
                return Err(ErrorKind::Changed);
            }
            state.check(to, condition)?;
            Ok(state.write(to, source.bytes, source.meta.metadata))
        };
        Ok(self.call(Op::Copy, original.key, act).await?.0)
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let act = |state: &mut State| {
            if !state.real_folders {
                return Err(ErrorKind::Unsupported);
            }
            let source = state.object(original.key)?.clone();
            if source.meta.version != *original.version {
                return Err(ErrorKind::Changed);
            }
            state.check(to, condition)?;
            state.objects.remove(original.key);
            Ok(state.write(to, source.bytes, source.meta.metadata))
        };
        Ok(self.call(Op::Rename, original.key, act).await?.0)
    }

    async fn rename_folder(&self, from: &Key, to: &Key) -> Result<()> {
        let act = |state: &mut State| {
            if !state.real_folders {
                return Err(ErrorKind::Unsupported);
            }
            state.rename_folder(from, to)
        };
        self.call(Op::RenameFolder, from, act).await.map(drop)
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        let act = |state: &mut State| {
            if !state.real_folders || !state.is_full(key) {
                state.objects.remove(key);
            }
            Ok(())
        };
        self.call(Op::Delete, key, act).await.map(drop)
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        let short = self.page_entries_max.load(Ordering::Relaxed);
        let entries_max = request.entries_max.min(short);
        let request = ListRequest { entries_max, ..request.clone() };
        let act = |state: &mut State| {
            let page = match self.personality.naming.order {
                ListOrder::Keys | ListOrder::Folded => state.list(&request),
                ListOrder::Unsorted => backwards(&request, |request| state.list(request)),
            };
            Ok(if state.tells_metadata { state.with_metadata(page) } else { page })
        };
        Ok(self.call(Op::List, &request.prefix, act).await?.0)
    }
}
