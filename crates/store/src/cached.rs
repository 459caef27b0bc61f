//! One cached version: bytes that the bucket has, as far as they are here.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::{ByteRange, Counter, crc32c};
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::backing::{BackingFile, Moving};
use crate::error::{Error, ErrorKind, Result};
use crate::granule::{self, GRANULE_BYTES, STRIPE_GRANULES};
use crate::ground::{Ground, Turn};
use crate::layout::VersionName;
use crate::lock::Mode;
use crate::presence::{Presence, Standing};
use crate::spares::Spare;
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
    // How many files of this process have their bytes here.
    files: AtomicU32,
}

/// One file has its bytes in a version. Two have where the bucket got the same bytes under a name again,
/// and who lost the name is still open.
#[derive(Debug)]
pub struct InUse {
    cached: Arc<Cached>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.cached.files.fetch_sub(1, Ordering::AcqRel);
    }
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
            files: AtomicU32::new(0),
        }
    }

    /// One more file has its bytes here, for as long as what is returned lives.
    pub fn in_use(self: &Arc<Cached>) -> InUse {
        self.files.fetch_add(1, Ordering::AcqRel);
        InUse { cached: Arc::clone(self) }
    }

    /// Whether several files have their bytes here: none of them may change these in place.
    pub fn is_shared(&self) -> bool {
        1 < self.files.load(Ordering::Acquire)
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
            let body = self.here("verify")?;
            let is_matched = self.unmatched(&body, part).is_empty();
            drop(body);
            if !is_matched {
                self.drop_unmatched(part)?;
            }
        }
        Ok(())
    }

    /// Drops the granules of `range` that do not match their checksums, as they are now: since somebody
    /// last looked they may have been dropped and fetched again, by another thread or another process.
    fn drop_unmatched(&self, range: ByteRange) -> Result<()> {
        let turn = self.ground.turn();
        let guard = self.guard("verify")?;
        let bad = self.unmatched(guard.body(), range);
        if !bad.is_empty() {
            tracing::warn!(
                path = %self.path().display(),
                granules = bad.len(),
                "dropping cached bytes that do not match their checksums"
            );
            guard.disown(&turn, &bad)?;
        }
        Ok(())
    }

    /// Confirms the doubtful granules of `range` that match their checksums; returns those that do not.
    fn unmatched(&self, body: &Body, range: ByteRange) -> Vec<u64> {
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
        bad
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

    /// What of it the database does not know, if anything, and how much of that has come to the disk;
    /// that counts as recorded from now on.
    ///
    /// The turn is held until they are: nobody may drop granules in between.
    pub(crate) fn take_news(&self, _turn: &Turn<'_>) -> Option<(VersionNews<'_>, u64)> {
        let is_use_unsaved = self.is_use_unsaved.swap(false, Ordering::AcqRel);
        let body = self.here("save").ok()?;
        let (pieces, come_bytes) = body.presence.take_unsaved();
        if pieces.is_empty() && come_bytes == 0 && !is_use_unsaved {
            return None;
        }
        let Use { last_use, uses } = self.used();
        let news = VersionNews {
            name: self.name,
            identity: Cow::Borrowed(&self.identity),
            size: self.size,
            inode: body.file.inode(),
            last_use,
            uses,
            pieces,
        };
        Some((news, come_bytes))
    }

    /// The database has not taken the news.
    pub(crate) fn give_back_news(&self, news: &VersionNews<'_>, come_bytes: u64) {
        self.is_use_unsaved.store(true, Ordering::Release);
        if let Ok(body) = self.here("save") {
            body.presence.give_back_unsaved(&news.pieces);
            body.presence.come_back(come_bytes);
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
        let granules: Vec<u64> =
            stripes.iter().flat_map(|&stripe| self.body().presence.present_in(stripe)).collect();
        let dropped = self.if_alone(|| {
            // The record goes first, the bytes last, so that nothing is ever said to be here that
            // is not.
            self.unrecord(turn, &granules)?;
            let freed = self.remove(&granules);
            self.punch(&granules)?;
            Ok(freed)
        });
        Ok(dropped?.unwrap_or(0))
    }

    /// Drops granules whose bytes are wrong, whoever else uses the file. Others may have put the right
    /// bytes in their place by now, and believe in them: where there are others, the bytes stay until
    /// they are written again, and are only not said to be here any more.
    pub(crate) fn disown(&self, turn: &Turn<'_>, granules: &[u64]) -> Result<u64> {
        let unrecorded = self.unrecord(turn, granules);
        // Nobody here is to read them, even if others still can.
        let freed = self.remove(granules);
        unrecorded?;
        if let Err(error) = self.if_alone(|| self.punch(granules)) {
            tracing::warn!(%error, "wrong bytes that nobody reads stay on the disk");
        }
        Ok(freed)
    }

    /// Does something that nobody else who uses the file may meet with; nothing, and `None`, if the
    /// kernel or another process uses it.
    fn if_alone<T>(&self, then: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        let is_lent = 1 < Arc::strong_count(&self.body().file);
        if is_lent {
            return Ok(None);
        }
        let _moving = self.moving()?;
        if !self.claim(Mode::Exclusive)? {
            return Ok(None);
        }
        let done = then();
        self.claim(Mode::Shared)?;
        done.map(Some)
    }

    /// Nobody learns of the granules from the database any more.
    fn unrecord(&self, _turn: &Turn<'_>, granules: &[u64]) -> Result<()> {
        let of = (self.cached.name, self.body().file.inode());
        self.cached.ground.db.forget_granules(of, granules)
    }

    /// The granules are not here any more; returns what that frees.
    fn remove(&self, granules: &[u64]) -> u64 {
        let Cached { ground, .. } = self.cached;
        let presence = &self.body().presence;
        let freed = granules.iter().map(|&granule| presence.remove(granule)).sum();
        ground.space.give_back(freed);
        ground.metrics.add(Counter::EvictedBytes, freed);
        freed
    }

    /// Gives back the space of granules that are not here any more.
    fn punch(&self, granules: &[u64]) -> Result<()> {
        let size = self.cached.size;
        for run in granules.chunk_by(|a, b| a + 1 == *b) {
            let range = ByteRange::new(
                granule::bytes_of(run[0], size).start(),
                granule::bytes_of(run[run.len() - 1], size).end(),
            );
            let range = range.expect("a run is not empty");
            self.body().file.punch(range).map_err(|error| self.cached.io("punch", error))?;
        }
        Ok(())
    }

    /// The version has another file, with nothing in it. Whoever else has the old one goes on with that, and what
    /// they record of it says nothing of the new one.
    pub(crate) fn begin_anew(&mut self, _turn: &Turn<'_>) -> Result<()> {
        let Cached { ground, size, .. } = self.cached;
        let spare = ground.spares.take().map_err(|error| self.cached.io("begin anew", error))?;
        if let Err(error) = self.settle_in(&spare) {
            ground.spares.discard(&spare);
            return Err(error);
        }
        *self.life = Life::Here(Body { file: spare.file, presence: Presence::empty(*size) });
        Ok(())
    }

    /// The name of the version leads to `spare`.
    fn settle_in(&self, Spare { file_name, file }: &Spare) -> Result<()> {
        let Cached { ground, size, .. } = self.cached;
        let io = |error| self.cached.io("begin anew", error);
        file.set_len(*size).map_err(io)?;
        file.claim(Mode::Shared).map_err(io)?;
        // Others who wait find that the name leads elsewhere.
        let _moving = self.moving()?;
        let Use { last_use, uses } = self.cached.used();
        // The record first, so that there is always one of another file than theirs.
        ground.db.replace_version(&VersionNews {
            name: self.cached.name,
            identity: Cow::Borrowed(&self.cached.identity),
            size: *size,
            inode: file.inode(),
            last_use,
            uses,
            pieces: Vec::new(),
        })?;
        ground.disk.rename(&ground.layout.staged(file_name), &self.cached.path()).map_err(io)
    }

    /// The version goes elsewhere with its file: everyone who has it is told that it is gone.
    pub(crate) fn leave(mut self) -> Body {
        match std::mem::replace(&mut *self.life, Life::Gone) {
            Life::Here(body) => body,
            Life::Gone => unreachable!("the guard is only made of a body that is here"),
        }
    }

    /// Whether its name still leads to its file: another process may have put another one there.
    pub(crate) fn is_current(&self) -> Result<bool> {
        let Cached { ground, .. } = self.cached;
        let found = ground.disk.inode(&self.cached.path());
        let found = found.map_err(|error| self.cached.io("look for", error))?;
        Ok(found == Some(self.body().file.inode()))
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::sync::Arc;

    use base::{ByteRange, Metrics, SystemClock};

    use super::Cached;
    use crate::disk::Disk;
    use crate::granule::GRANULE_BYTES;
    use crate::space::CacheLimit;
    use crate::store::{Options, Store};

    const SIZE: u64 = 2 * GRANULE_BYTES;
    static CONTENT: [u8; 256 << 10] = [7; 256 << 10];

    #[test]
    fn what_another_thread_has_fetched_again_meanwhile_is_not_dropped() {
        let folder = torn();
        let store = open(folder.path(), "boot 2");
        let cached = store.cached(b"v", SIZE).unwrap();
        let slow = found_torn(&cached);
        cached.verify(slow).unwrap();
        cached.fill(0, &CONTENT[..CONTENT.len() / 2]).unwrap();
        let lent = cached.passthrough().unwrap();
        cached.drop_unmatched(slow).unwrap();
        assert!(cached.is_complete());
        let mut bytes = vec![0; CONTENT.len()];
        lent.read(&mut bytes, 0).unwrap();
        assert!(bytes == CONTENT);
    }

    #[test]
    fn what_another_process_has_fetched_again_meanwhile_is_not_dropped() {
        let folder = torn();
        let (here, there) = (open(folder.path(), "boot 2"), open(folder.path(), "boot 2"));
        let (one, other) = (here.cached(b"v", SIZE).unwrap(), there.cached(b"v", SIZE).unwrap());
        let slow = found_torn(&other);
        one.verify(slow).unwrap();
        one.fill(0, &CONTENT[..CONTENT.len() / 2]).unwrap();
        here.record(&one).unwrap();
        other.drop_unmatched(slow).unwrap();
        for cached in [one, other] {
            let all = ByteRange::new(0, SIZE).unwrap();
            assert!(cached.bytes(all).unwrap().is_some_and(|bytes| bytes == CONTENT));
        }
    }

    /// All of the version, as it is before somebody drops what he has found not to match.
    fn found_torn(cached: &Cached) -> ByteRange {
        let all = ByteRange::new(0, SIZE).unwrap();
        assert_eq!(cached.unmatched(&cached.here("verify").unwrap(), all), [0]);
        all
    }

    /// A folder with a version of an earlier boot, of which the disk has lost the beginning.
    fn torn() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), "boot 1");
        let cached = store.cached(b"v", SIZE).unwrap();
        cached.fill(0, &CONTENT).unwrap();
        let file = File::options().write(true).open(cached.path()).unwrap();
        file.write_all_at(b"torn", 0).unwrap();
        folder
    }

    fn open(dir: &Path, boot_id: &str) -> Store {
        let options = Options { dir: dir.to_owned(), cache: CacheLimit::default() };
        let world = (Arc::new(SystemClock::new()) as _, Arc::new(Metrics::new()));
        Store::assemble(options, world, &Arc::new(Disk::default()), boot_id).unwrap()
    }
}
