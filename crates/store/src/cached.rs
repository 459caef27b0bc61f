//! One cached version: bytes that the bucket has, as far as they are here.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{ByteRange, Counter, crc32c};
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::backing::{BackingFile, Moving};
use crate::error::{Error, ErrorKind, Result};
use crate::granule::{self, GRANULE_BYTES, STRIPE_GRANULES};
use crate::ground::{Ground, Turn};
use crate::layout::VersionName;
use crate::lock::Mode;
use crate::presence::{Presence, Standing};
use crate::state::versions::VersionNews;

/// Up to this size a file of an earlier boot is verified when the kernel asks for it, not before.
const VERIFY_AT_ONCE_BYTES_MAX: u64 = 16 << 20;

/// The backing file of one immutable version.
pub struct Cached {
    ground: Arc<Ground>,
    identity: Box<[u8]>,
    name: VersionName,
    size: u64,
    // Invariant: the bytes of every granule that the presence map has are in the file. A read guard
    // is enough to read and to add; taking granules away needs the write guard.
    life: RwLock<Life>,
    last_use: AtomicU64,
    uses: AtomicU64,
    // When it was last handed out while nobody had it.
    handed_out: AtomicU64,
    // Whether the present time of being open has been counted as a use.
    is_use_counted: AtomicBool,
    // Whether `last_use` or `uses` changed since they were recorded.
    is_use_unsaved: AtomicBool,
}

/// Whether the backing file is still this version's.
#[derive(Debug)]
enum Life {
    Here(Body),
    /// It was taken into staging.
    Gone,
}

/// A backing file and what of it is here.
#[derive(Debug)]
pub(crate) struct Body {
    /// The file.
    pub file: Arc<BackingFile>,
    /// What is here.
    pub presence: Presence,
}

/// What is remembered of a version's use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// When it was last used.
    pub last_use: u64,
    /// How often it was read.
    pub uses: u64,
}

/// Exclusive access to a version's body, for those who move it or take granules away.
pub(crate) struct BodyGuard<'a> {
    cached: &'a Cached,
    life: RwLockWriteGuard<'a, Life>,
}

impl Cached {
    /// The version `identity` with the body that was found or made for it.
    pub(crate) fn new(
        ground: &Arc<Ground>,
        identity: &[u8],
        (name, size): (VersionName, u64),
        body: Body,
        used: Use,
    ) -> Cached {
        Cached {
            ground: Arc::clone(ground),
            identity: identity.into(),
            name,
            size,
            life: RwLock::new(Life::Here(body)),
            last_use: AtomicU64::new(used.last_use),
            uses: AtomicU64::new(used.uses),
            handed_out: AtomicU64::new(ground.stamp()),
            is_use_counted: AtomicBool::new(false),
            is_use_unsaved: AtomicBool::new(false),
        }
    }

    /// The size of the version.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The first run of granules of `range` that is not here, from a granule boundary to a granule
    /// boundary or the end of the file; `None` if all of it is here.
    pub fn missing(&self, range: ByteRange) -> Option<ByteRange> {
        match &*self.life.read() {
            Life::Here(body) => body.presence.missing(range),
            Life::Gone => range.aligned(GRANULE_BYTES).below(self.size),
        }
    }

    /// Takes in bytes from a granule boundary on: whole granules, or up to the end of the file.
    ///
    /// Fails with [`ErrorKind::Full`] if no room can be made for them.
    ///
    /// # Panics
    ///
    /// If the bytes do not begin and end at granule boundaries or at the end of the file.
    pub fn fill(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let Some(range) = ByteRange::at(offset, bytes.len() as u64) else { return Ok(()) };
        assert!(offset.is_multiple_of(GRANULE_BYTES), "fill at {offset}");
        let is_end = range.end() == self.size || range.end().is_multiple_of(GRANULE_BYTES);
        assert!(is_end && range.end() <= self.size, "fill {range} of {} bytes", self.size);

        let need_bytes = self.here("fill")?.presence.missing_disk_bytes(range);
        if need_bytes == 0 {
            return Ok(());
        }
        let Some(reservation) = self.ground.space.reserve(need_bytes) else {
            return Err(self.error(ErrorKind::Full, "fill"));
        };
        let added = match self.fill_reserved(range, bytes) {
            // The disk is fuller than its limit says. The guard is let go before room is made.
            Err(error)
                if error.kind == ErrorKind::Full && self.ground.space.relieve(need_bytes) =>
            {
                self.fill_reserved(range, bytes)?
            }
            added => added?,
        };
        reservation.settle(added);
        Ok(())
    }

    fn fill_reserved(&self, range: ByteRange, bytes: &[u8]) -> Result<u64> {
        let body = self.here("fill")?;
        body.file.write(bytes, range.start()).map_err(|error| self.io("fill", error))?;
        let mut added = 0;
        for (granule, bytes) in
            granule::touched(range).zip(bytes.chunks(granule::index(GRANULE_BYTES)))
        {
            // A granule that is here already was written again with what it held: versions do not
            // change.
            added += body.presence.insert(granule, crc32c(bytes));
        }
        body.presence.touch(range, self.ground.stamp());
        Ok(added)
    }

    /// Reads into `buf` if all of it is here; `false`, and anything in `buf`, if not.
    ///
    /// # Panics
    ///
    /// If the range passes the end of the file.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        let Some(range) = ByteRange::at(offset, buf.len() as u64) else { return Ok(true) };
        self.read_by(range, |file| file.read(buf, offset))
    }

    /// The bytes of `range` if all of it is here.
    ///
    /// # Panics
    ///
    /// If the range passes the end of the file.
    pub fn bytes(&self, range: ByteRange) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        Ok(self.read_by(range, |file| file.append(range, &mut bytes))?.then_some(bytes))
    }

    fn read_by(
        &self,
        range: ByteRange,
        read: impl FnOnce(&BackingFile) -> io::Result<()>,
    ) -> Result<bool> {
        assert!(range.end() <= self.size, "read {range} of {} bytes", self.size);
        loop {
            let body = self.here("read")?;
            match body.presence.standing(range) {
                Standing::Missing => return Ok(false),
                Standing::Doubtful => {}
                Standing::Here => {
                    read(&body.file).map_err(|error| self.io("read", error))?;
                    let now = self.ground.stamp();
                    body.presence.touch(range, now);
                    self.note_use(now);
                    return Ok(true);
                }
            }
            drop(body);
            self.verify(range)?;
        }
    }

    /// Whether all of it is here and needs no verifying.
    pub fn is_complete(&self) -> bool {
        match &*self.life.read() {
            Life::Here(body) => body.presence.is_complete(),
            Life::Gone => false,
        }
    }

    /// The backing file for the kernel to read itself, if all of it is here. While the returned
    /// value lives, nothing of it is dropped.
    pub fn passthrough(&self) -> Option<Arc<BackingFile>> {
        if !self.is_complete() && self.size <= VERIFY_AT_ONCE_BYTES_MAX {
            // Of an earlier boot, perhaps; failing to verify is the same as not being complete.
            self.verify(ByteRange::new(0, self.size)?).ok()?;
        }
        let body = self.here("passthrough").ok()?;
        if !body.presence.is_complete() {
            return None;
        }
        self.note_use(self.ground.stamp());
        Some(Arc::clone(&body.file))
    }

    /// Compares what an earlier boot left with its checksums, and drops what does not match.
    pub fn verify(&self, range: ByteRange) -> Result<()> {
        let Some(range) = range.below(self.size) else { return Ok(()) };
        // A stripe at a time, so that what is dropped is dropped soon.
        for part in range.aligned(GRANULE_BYTES).pieces(STRIPE_GRANULES * GRANULE_BYTES) {
            let bad = self.verify_part(part)?;
            if !bad.is_empty() {
                let path = self.path();
                tracing::warn!(
                    path = %path.display(),
                    granules = bad.len(),
                    "dropping cached bytes that do not match their checksums"
                );
                let turn = self.ground.turn();
                self.guard("verify")?.forget(&turn, &bad)?;
            }
        }
        Ok(())
    }

    /// Confirms the granules of `range` that match their checksums; returns those that do not.
    fn verify_part(&self, range: ByteRange) -> Result<Vec<u64>> {
        let body = self.here("verify")?;
        let mut bad = Vec::new();
        let mut bytes = Vec::new();
        for (granule, sum) in body.presence.doubtful(range) {
            let place = granule::bytes_of(granule, self.size);
            bytes.resize(granule::index(place.len()), 0);
            // Bytes that cannot be read are as bad as wrong ones.
            let is_read = body.file.read(&mut bytes, place.start()).is_ok();
            if is_read && crc32c(&bytes) == sum {
                body.presence.confirm(granule);
            } else {
                bad.push(granule);
            }
        }
        Ok(bad)
    }

    /// What the caller of the store calls the version.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// The name of its backing file.
    pub(crate) fn name(&self) -> VersionName {
        self.name
    }

    /// Exclusive access to its body, unless it is gone.
    pub(crate) fn guard(&self, op: &'static str) -> Result<BodyGuard<'_>> {
        let life = self.life.write();
        match &*life {
            Life::Here(_) => Ok(BodyGuard { cached: self, life }),
            Life::Gone => Err(self.error(ErrorKind::Gone, op)),
        }
    }

    /// Its body for reading and adding, unless it is gone.
    pub(crate) fn here(&self, op: &'static str) -> Result<MappedRwLockReadGuard<'_, Body>> {
        RwLockReadGuard::try_map(self.life.read(), Life::body)
            .map_err(|_| self.error(ErrorKind::Gone, op))
    }

    /// Gives it another body with the same bytes, all of them; returns what the old one took on
    /// the disk. Readers notice nothing.
    pub(crate) fn replace_body(&self, body: Body) -> u64 {
        let mut life = self.life.write();
        let old = match &*life {
            Life::Here(old) => old.presence.disk_bytes(),
            Life::Gone => 0,
        };
        *life = Life::Here(body);
        old
    }

    /// Notes that it was handed out to one more user after nobody had it.
    pub(crate) fn note_open(&self) {
        self.handed_out.store(self.ground.stamp(), Ordering::Relaxed);
        self.is_use_counted.store(false, Ordering::Relaxed);
    }

    /// When somebody last wanted it, be it only to have it at hand.
    pub(crate) fn wanted_at(&self) -> u64 {
        self.used().last_use.max(self.handed_out.load(Ordering::Relaxed))
    }

    /// When and how often it was used.
    pub(crate) fn used(&self) -> Use {
        Use {
            last_use: self.last_use.load(Ordering::Relaxed),
            uses: self.uses.load(Ordering::Relaxed),
        }
    }

    /// What of it the database does not know, if anything; that counts as recorded from now on.
    ///
    /// The turn is held until they are: nobody may drop granules in between.
    pub(crate) fn take_news(&self, _turn: &Turn<'_>) -> Option<VersionNews<'_>> {
        let is_use_unsaved = self.is_use_unsaved.swap(false, Ordering::AcqRel);
        let body = self.here("save").ok()?;
        let pieces = body.presence.take_unsaved();
        if pieces.is_empty() && !is_use_unsaved {
            return None;
        }
        let Use { last_use, uses } = self.used();
        Some(VersionNews {
            name: self.name,
            identity: Cow::Borrowed(&self.identity),
            size: self.size,
            inode: body.file.inode(),
            last_use,
            uses,
            pieces,
        })
    }

    /// The database has not taken the news.
    pub(crate) fn give_back_news(&self, news: &VersionNews<'_>) {
        self.is_use_unsaved.store(true, Ordering::Release);
        if let Ok(body) = self.here("save") {
            body.presence.give_back_unsaved(&news.pieces);
        }
    }

    /// The path of the backing file.
    pub(crate) fn path(&self) -> PathBuf {
        self.ground.layout.object(self.name)
    }

    /// An error about this file.
    pub(crate) fn error(&self, kind: ErrorKind, op: &'static str) -> Error {
        Error::new(kind, op, &self.path())
    }

    fn io(&self, op: &'static str, error: io::Error) -> Error {
        Error::io(op, &self.path(), error)
    }

    fn note_use(&self, now: u64) {
        self.last_use.store(now, Ordering::Relaxed);
        if !self.is_use_counted.swap(true, Ordering::Relaxed) {
            self.uses.fetch_add(1, Ordering::Relaxed);
        }
        self.is_use_unsaved.store(true, Ordering::Release);
    }
}

impl Life {
    fn body(&self) -> Option<&Body> {
        match self {
            Life::Here(body) => Some(body),
            Life::Gone => None,
        }
    }
}

impl BodyGuard<'_> {
    /// The body.
    pub(crate) fn body(&self) -> &Body {
        self.life.body().expect("the guard is only made of a body that is here")
    }

    /// Drops stripes of the file, if it is not complete and neither the kernel nor another process
    /// uses it. Returns how many bytes that freed.
    pub(crate) fn drop_stripes(&self, turn: &Turn<'_>, stripes: &[u64]) -> Result<u64> {
        if self.body().presence.is_complete() { Ok(0) } else { self.drop_all_of(turn, stripes) }
    }

    /// As [`drop_stripes`](BodyGuard::drop_stripes), of a complete file too.
    pub(crate) fn drop_all_of(&self, turn: &Turn<'_>, stripes: &[u64]) -> Result<u64> {
        let body = self.body();
        let is_lent = 1 < Arc::strong_count(&body.file);
        if is_lent {
            return Ok(0);
        }
        let _moving = self.moving()?;
        if !self.claim(Mode::Exclusive)? {
            return Ok(0);
        }
        let granules: Vec<u64> =
            stripes.iter().flat_map(|&stripe| body.presence.present_in(stripe)).collect();
        let freed = self.forget(turn, &granules);
        self.claim(Mode::Shared)?;
        freed
    }

    /// Drops granules. The record goes first, the bytes last, so that nothing is ever said to be
    /// here that is not.
    fn forget(&self, _turn: &Turn<'_>, granules: &[u64]) -> Result<u64> {
        let Cached { ground, name, size, .. } = self.cached;
        let body = self.body();
        ground.db.forget_granules(*name, granules)?;
        let mut freed = 0;
        for &granule in granules {
            freed += body.presence.remove(granule);
        }
        ground.space.give_back(freed);
        ground.metrics.add(Counter::EvictedBytes, freed);
        for run in granules.chunk_by(|a, b| a + 1 == *b) {
            let range = ByteRange::new(
                granule::bytes_of(run[0], *size).start(),
                granule::bytes_of(run[run.len() - 1], *size).end(),
            );
            let range = range.expect("a run is not empty");
            body.file.punch(range).map_err(|error| self.cached.io("punch", error))?;
        }
        Ok(freed)
    }

    /// The version goes elsewhere with its file: everyone who has it is told that it is gone.
    pub(crate) fn leave(mut self) -> Body {
        match std::mem::replace(&mut *self.life, Life::Gone) {
            Life::Here(body) => body,
            Life::Gone => unreachable!("the guard is only made of a body that is here"),
        }
    }

    /// Keeps other processes waiting who are about to use the file.
    pub(crate) fn moving(&self) -> Result<Moving> {
        self.body().file.moving().map_err(|error| self.cached.io("claim", error))
    }

    /// Takes or converts the claim on the file.
    pub(crate) fn claim(&self, mode: Mode) -> Result<bool> {
        self.body().file.claim(mode).map_err(|error| self.cached.io("claim", error))
    }
}

impl fmt::Debug for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached")
            .field("name", &self.name)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
