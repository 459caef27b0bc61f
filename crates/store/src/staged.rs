//! One staged file: bytes that the bucket does not have yet, over a base that it has.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use base::ByteRange;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::backing::BackingFile;
use crate::body::{Body, Lent, Recorded};
use crate::cached::Cached;
use crate::dirty::DirtyShare;
use crate::error::{Error, ErrorKind, Result};
use crate::extent::{Moment, Sum};
use crate::granule::{self, GRANULE_BYTES};
use crate::granule_set::GranuleSet;
use crate::ground::Ground;
use crate::residency::{Action, Event, Residency};
use crate::state::staged::{StagedId, StagedState};
use crate::sums::{Walk, Walked};

/// A file that grows longer is recorded at once: after a crash its bytes are worth to be told from those
/// of others although nobody was promised anything.
const NAMELESS_BYTES_MAX: u64 = 64 << 10;

/// A backing file with bytes the bucket does not have yet.
///
/// It stays on the disk, and is found again after a crash, until it is adopted, discarded or moved
/// to the recovery folder.
pub struct Staged {
    ground: Arc<Ground>,
    id: StagedId,
    // The name of its backing file.
    file_name: String,
    // Invariant: every granule below the visible part of the base is in the file or still to be
    // taken from the base; beyond, the file holds what was written and zeros elsewhere. The file is
    // `size` bytes long.
    life: RwLock<Life>,
    // What of it the bucket does not have.
    dirty: DirtyShare,
}

/// Whether the file is still staged.
#[derive(Debug)]
enum Life {
    Here(Box<Body>),
    /// It was adopted, discarded or moved to the recovery folder.
    Gone,
}

/// How a read or a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is done.
    Done,
    /// Nothing is done: these bytes of the base are needed first.
    Needs(ByteRange),
}

impl Staged {
    /// The staged file `file_name` with its row `id`.
    pub(crate) fn new(ground: &Arc<Ground>, id: StagedId, file_name: String, body: Body) -> Staged {
        let life = RwLock::new(Life::Here(Box::new(body)));
        let dirty = ground.space.dirty().share();
        Staged { ground: Arc::clone(ground), id, file_name, life, dirty }
    }

    /// Its size now; 0 once it is gone.
    pub fn size(&self) -> u64 {
        self.look(|body| body.size).unwrap_or(0)
    }

    /// Writes `bytes` at `offset`; the file grows if it must.
    ///
    /// Where a granule is overwritten only in part and the rest of it is in the base, it is taken
    /// from there if it is there, and asked for if not.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<Outcome> {
        let Some(range) = ByteRange::at(offset, bytes.len() as u64) else {
            return Ok(Outcome::Done);
        };
        let mut guard = self.guard("write")?;
        let body = guard.body();
        if let Some(needs) = self.draw_edges(body, range)? {
            return Ok(Outcome::Needs(needs));
        }
        if !self.ground.space.admits(range.len()) {
            return Err(self.error(ErrorKind::Full, "write"));
        }
        if body.size <= NAMELESS_BYTES_MAX && NAMELESS_BYTES_MAX < range.end() {
            self.ground.db.settle()?;
        }
        self.will_change(body, Some(range))?;
        body.will_differ(range);
        body.extents.will_write(range, body.now);
        let mut result = body.file.write(bytes, offset);
        if let Err(error) = &result
            && Error::is_full(error)
            && self.ground.space.relieve(range.len())
        {
            result = body.file.write(bytes, offset);
        }
        if let Err(error) = result {
            // What a failed write left beyond the end would show when the file grows again.
            body.file.set_len(body.size).map_err(|error| self.io("write", error))?;
            body.extents.resized(body.size);
            return Err(self.io("write", error));
        }
        body.extents.wrote(offset, bytes);
        for granule in granule::touched(range) {
            body.extents.insert(granule);
        }
        body.size = body.size.max(range.end());
        self.count(body);
        Ok(Outcome::Done)
    }

    /// Reads into `buf`, from the file and, where nothing was written, from the base. The caller
    /// stays below the size; beyond it there are zeros.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<Outcome> {
        let Some(range) = ByteRange::at(offset, buf.len() as u64) else {
            return Ok(Outcome::Done);
        };
        let life = self.life.read();
        let Life::Here(body) = &*life else { return Err(self.error(ErrorKind::Gone, "read")) };
        let inside = range.below(body.size).map_or(0, ByteRange::len);
        let (inside, beyond) = buf.split_at_mut(granule::index(inside));
        beyond.fill(0);
        let Some(range) = ByteRange::at(offset, inside.len() as u64) else {
            return Ok(Outcome::Done);
        };
        let mut at = range.start();
        while at < range.end() {
            let missing = ByteRange::new(at, range.end()).and_then(|rest| body.missing(rest));
            let missing = missing.and_then(|missing| missing.intersection(range));
            let here_end = missing.map_or(range.end(), |missing| missing.start().max(at));
            let part = |from: u64, to: u64| {
                granule::index(from - range.start())..granule::index(to - range.start())
            };
            body.file
                .read(&mut inside[part(at, here_end)], at)
                .map_err(|error| self.io("read", error))?;
            at = here_end;
            if let (Some(missing), Some(view)) = (missing, &body.base) {
                let through = ByteRange::new(at, missing.end()).expect("some of it is missing");
                let through_bytes = &mut inside[part(at, through.end())];
                if !view.read(at, through_bytes)? {
                    let needs = through.aligned(GRANULE_BYTES).below(body.visible());
                    return Ok(Outcome::Needs(needs.expect("it is below what is visible")));
                }
                at = through.end();
            }
        }
        Ok(Outcome::Done)
    }

    /// The bytes of `range` as far as it is below the size, if none of it must be taken from the
    /// base.
    pub fn bytes(&self, range: ByteRange) -> Result<Option<Vec<u8>>> {
        let life = self.life.read();
        let Life::Here(body) = &*life else { return Err(self.error(ErrorKind::Gone, "read")) };
        let Some(range) = range.below(body.size) else { return Ok(Some(Vec::new())) };
        if body.missing(range).is_some() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        body.file.append(range, &mut bytes).map_err(|error| self.io("read", error))?;
        Ok(Some(bytes))
    }

    /// Reads all of `buf`; does not, and says so, if some of it is beyond the size or must be taken from the base.
    pub fn read_here(&self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        let life = self.life.read();
        let Life::Here(body) = &*life else { return Err(self.error(ErrorKind::Gone, "read")) };
        let Some(range) = ByteRange::at(offset, buf.len() as u64) else { return Ok(true) };
        if range.below(body.size) != Some(range) || body.missing(range).is_some() {
            return Ok(false);
        }
        body.file.read(buf, offset).map_err(|error| self.io("read", error))?;
        Ok(true)
    }

    /// What of `range` must still be taken from the base: the first run of it, from a granule
    /// boundary to a granule boundary or the end of what is visible of the base.
    pub fn missing(&self, range: ByteRange) -> Option<ByteRange> {
        self.look(|body| body.missing(range)).flatten()
    }

    /// Takes in bytes of the base from a granule boundary on; granules that are here already are
    /// left as they are.
    pub fn fill(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        assert!(offset.is_multiple_of(GRANULE_BYTES), "fill at {offset}");
        let Some(range) = ByteRange::at(offset, bytes.len() as u64) else { return Ok(()) };
        if !self.ground.space.admits(range.len()) {
            return Err(self.error(ErrorKind::Full, "fill"));
        }
        let mut guard = self.guard("fill")?;
        let body = guard.body();
        for granule in granule::touched(range) {
            let Some(wanted) = body.wanted(granule) else { continue };
            // A last granule that is not whole cannot be told from one that is.
            if range.intersection(wanted) == Some(wanted) {
                let from = granule::index(wanted.start() - offset);
                let bytes = &bytes[from..from + granule::index(wanted.len())];
                self.put(body, granule, bytes)?;
            }
        }
        Ok(())
    }

    /// Whether the disk has room to spare for `bytes` of the base that nobody is about to change.
    pub fn can_spare(&self, bytes: u64) -> bool {
        self.ground.space.can_spare(bytes)
    }

    /// Copies what of `range` is wanted of the base and is there; returns the first run that is not
    /// there.
    pub fn draw_from_base(&self, range: ByteRange) -> Result<Option<ByteRange>> {
        loop {
            let mut guard = self.guard("draw")?;
            let body = guard.body();
            let Some(missing) = body.missing(range) else { return Ok(None) };
            // A granule at a time, so that readers and writers get a turn.
            let part = missing.pieces(GRANULE_BYTES).next().expect("a range is not empty");
            if !self.draw(body, part)? {
                return Ok(Some(missing));
            }
        }
    }

    /// Cuts the file, or lets it grow by zeros.
    pub fn truncate(&self, size: u64) -> Result<()> {
        let mut guard = self.guard("truncate")?;
        let body = guard.body();
        if size == body.size {
            return Ok(());
        }
        self.will_change(body, ByteRange::new(size, body.size))?;
        body.file.set_len(size).map_err(|error| self.io("truncate", error))?;
        body.cut(size);
        self.count(body);
        Ok(())
    }

    /// What it takes of the disk with bytes that the bucket does not have.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.bytes()
    }

    /// What its backing file takes of the disk; 0 if it cannot be asked.
    pub fn disk_bytes(&self) -> u64 {
        self.look(|body| body.file.disk_bytes().unwrap_or(0)).unwrap_or(0)
    }

    /// What of it the bucket does not have may have changed.
    pub(crate) fn count(&self, body: &Body) {
        self.dirty.set(body.dirty_bytes());
    }

    /// It is gone from staging.
    pub(crate) fn count_nothing(&self) {
        self.dirty.set(0);
    }

    /// What of it is as in the version that it was made from.
    pub fn unchanged(&self) -> GranuleSet {
        self.look(Body::unchanged).unwrap_or_default()
    }

    /// Begins a new moment, in which all of `range` can be read: what is written to it from now on is
    /// [told](Staged::is_written_since). `None` if not all of it was written here, or if the kernel may
    /// write to it unseen.
    pub fn begin_moment(&self, range: ByteRange) -> Option<Moment> {
        let mut guard = self.guard("begin").ok()?;
        let body = guard.body();
        let is_here = granule::touched(range).all(|granule| body.extents.is_here(granule));
        if !is_here || body.size < range.end() || body.lent == Lent::ToKernel {
            return None;
        }
        body.now += 1;
        Some(body.now - 1)
    }

    /// Whether anything of `range` may have been changed after the moment `since`.
    pub fn is_written_since(&self, range: ByteRange, since: Moment) -> bool {
        let is_written = self.look(|body| {
            body.lent == Lent::ToKernel
                || since < body.cut_at
                || body.extents.is_written_since(range, since)
        });
        is_written.unwrap_or(true)
    }

    /// The version that it was made from, if something of it may be left.
    pub fn origin(&self) -> Option<Box<[u8]>> {
        self.look(|body| body.origin.as_ref().map(|origin| origin.identity.clone())).flatten()
    }

    /// How much of the version that it was made from may be left; nothing beyond.
    pub fn origin_bytes(&self) -> u64 {
        self.look(|body| body.origin.as_ref().map_or(0, |origin| origin.until)).unwrap_or(0)
    }

    /// What must be taken from the base before it can be sealed: the rest of the granule in which the
    /// base ends, if the file goes on.
    pub fn edge(&self) -> Option<ByteRange> {
        self.look(Body::edge).flatten()
    }

    /// The version that it was made from is known as `identity` now.
    pub fn origin_moved(&self, identity: &[u8]) {
        let Ok(mut guard) = self.guard("follow") else { return };
        if let Some(origin) = &mut guard.body().origin {
            origin.identity = identity.into();
        }
    }

    /// What shows through where nothing was written.
    pub fn base(&self) -> Option<Arc<Cached>> {
        self.look(|body| body.base.as_ref().and_then(|view| view.cached.clone())).flatten()
    }

    /// Whether it has bytes, or a size, that no sealed and acknowledged version has.
    pub fn is_dirty(&self) -> bool {
        self.look(|body| body.residency != Residency::Clean).unwrap_or(false)
    }

    /// Whether it has bytes, or a size, that no sealed version has.
    pub fn is_written(&self) -> bool {
        let is_written = |body: &Body| match body.residency {
            Residency::Clean | Residency::Sealed { written_since: false, .. } => false,
            Residency::Dirty | Residency::Sealed { written_since: true, .. } => true,
        };
        self.look(is_written).unwrap_or(false)
    }

    /// Makes it dirty although nothing was written.
    pub fn mark_dirty(&self) {
        let Ok(mut guard) = self.guard("mark dirty") else { return };
        let body = guard.body();
        if let Err(error) = self.will_change(body, None) {
            // It is dirty all the same: only a crash before the next seal would not know of it.
            tracing::warn!(%error, "cannot record that a staged file is dirty");
            body.residency = body.residency.step(Event::Write).0;
        }
    }

    /// Walks over all granules, letting readers and writers in between turns; how much was read.
    pub(crate) fn in_turns(
        &self,
        op: &'static str,
        mut turn: impl FnMut(&mut Body, &mut Walk) -> Result<Walked>,
    ) -> Result<u64> {
        let mut walk = Walk::in_turns();
        loop {
            let mut guard = self.guard(op)?;
            if turn(guard.body(), &mut walk)? == Walked::All {
                return Ok(walk.read_bytes);
            }
            guard.pass_on();
        }
    }

    /// Replaces the note that is kept for recovery.
    pub fn set_note(&self, note: &[u8]) -> Result<()> {
        self.ground.db.set_staged_note(self.id, note)
    }

    /// Notes a change before it is made: saves what of a sealed version is in `range`, and records
    /// once that there are bytes that exist nowhere else.
    pub(crate) fn will_change(&self, body: &mut Body, range: Option<ByteRange>) -> Result<()> {
        if let (Some(frozen), Some(range)) = (&mut body.frozen, range) {
            frozen
                .save(&body.file, range, || self.make_side())
                .map_err(|error| self.io("save sealed bytes", error))?;
        }
        let (next, action) = body.residency.step(Event::Write);
        match action {
            // The sealed version was rejected, and nothing keeps what of it is overwritten now.
            Action::None if next == Residency::Dirty && body.recorded != Recorded::Otherwise => {
                self.ground.db.set_staged_state(self.id, StagedState::Open)?;
            }
            // After a crash the sealed bytes are compared with their sums, which tells of newer ones, but what showed
            // through from the base has none.
            Action::RecordWrittenSince if body.recorded == Recorded::AsSealedOverBase => {
                self.ground.db.set_staged_state(self.id, StagedState::WrittenSince)?;
            }
            Action::RecordWrittenSince | Action::None => {}
            Action::RecordDirty => {
                self.ground.db.set_staged_state(self.id, StagedState::Open)?;
                body.published = None;
            }
            Action::RecordSealed(_) | Action::Thaw(_) => unreachable!("{action:?} of a write"),
        }
        body.recorded = Recorded::Otherwise;
        body.residency = next;
        Ok(())
    }

    /// Takes over the granules at the ends of `range` that it does not cover; returns what of the
    /// base is needed for that and is not there.
    pub(crate) fn draw_edges(
        &self,
        body: &mut Body,
        range: ByteRange,
    ) -> Result<Option<ByteRange>> {
        for granule in [range.start() / GRANULE_BYTES, (range.end() - 1) / GRANULE_BYTES] {
            let Some(wanted) = body.wanted(granule) else { continue };
            let is_covered = range.intersection(wanted) == Some(wanted);
            if !is_covered && !self.draw(body, wanted)? {
                return Ok(Some(wanted));
            }
        }
        Ok(None)
    }

    /// Copies the granule's wanted bytes from the base, if they are there.
    fn draw(&self, body: &mut Body, wanted: ByteRange) -> Result<bool> {
        let Some(view) = &body.base else { return Ok(true) };
        let mut bytes = vec![0; granule::index(wanted.len())];
        if !view.read(wanted.start(), &mut bytes)? {
            return Ok(false);
        }
        self.put(body, wanted.start() / GRANULE_BYTES, &bytes)?;
        Ok(true)
    }

    /// Puts all that is wanted of a granule of the base into the file.
    fn put(&self, body: &mut Body, granule: u64, bytes: &[u8]) -> Result<()> {
        let offset = granule * GRANULE_BYTES;
        body.file.write(bytes, offset).map_err(|error| self.io("fill", error))?;
        body.extents.set_sum(granule, Sum::default());
        body.extents.wrote(offset, bytes);
        body.extents.insert(granule);
        Ok(())
    }

    /// Fails unless all of it is in the file; then the base is let go.
    pub(crate) fn need_all(&self, body: &mut Body, op: &'static str) -> Result<()> {
        let all = ByteRange::new(0, body.size);
        if all.and_then(|all| body.missing(all)).is_some() {
            return Err(self.error(ErrorKind::Missing, op));
        }
        body.base = None;
        Ok(())
    }

    /// A new side file.
    pub(crate) fn make_side(&self) -> io::Result<BackingFile> {
        let Ground { disk, layout, .. } = &*self.ground;
        let path = layout.side(&self.file_name);
        // One may be left of an earlier seal that could not be removed.
        disk.unlink(&path)?;
        BackingFile::new(disk.create(&path)?, Arc::clone(disk))
    }
}

/// Exclusive access to the body of a file that is still staged.
pub(crate) struct BodyGuard<'a> {
    life: RwLockWriteGuard<'a, Life>,
}

impl BodyGuard<'_> {
    /// The body.
    pub(crate) fn body(&mut self) -> &mut Body {
        match &mut *self.life {
            Life::Here(body) => body,
            Life::Gone => unreachable!("the guard is only made of a body that is here"),
        }
    }

    /// Lets go, first to those who wait.
    pub(crate) fn pass_on(self) {
        RwLockWriteGuard::unlock_fair(self.life);
    }

    /// The file goes elsewhere: everyone who has it is told that it is gone.
    pub(crate) fn leave(mut self) -> Box<Body> {
        match std::mem::replace(&mut *self.life, Life::Gone) {
            Life::Here(body) => body,
            Life::Gone => unreachable!("the guard is only made of a body that is here"),
        }
    }
}

impl Staged {
    /// Exclusive access, unless it is gone.
    pub(crate) fn guard(&self, op: &'static str) -> Result<BodyGuard<'_>> {
        let life = self.life.write();
        match &*life {
            Life::Here(_) => Ok(BodyGuard { life }),
            Life::Gone => Err(self.error(ErrorKind::Gone, op)),
        }
    }

    /// Calls `look` with the body, unless it is gone.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Body) -> T) -> Option<T> {
        let life: RwLockReadGuard<'_, Life> = self.life.read();
        match &*life {
            Life::Here(body) => Some(look(body)),
            Life::Gone => None,
        }
    }

    /// The state folder it is in.
    pub(crate) fn ground(&self) -> &Arc<Ground> {
        &self.ground
    }

    /// The number of its row.
    pub(crate) fn id(&self) -> StagedId {
        self.id
    }

    /// The name of its backing file.
    pub(crate) fn file_name(&self) -> &str {
        &self.file_name
    }

    /// The path of its backing file.
    pub(crate) fn path(&self) -> PathBuf {
        self.ground.layout.staged(&self.file_name)
    }

    /// An error about this file.
    pub(crate) fn error(&self, kind: ErrorKind, op: &'static str) -> Error {
        Error::new(kind, op, &self.path())
    }

    /// An error of the disk about this file.
    pub(crate) fn io(&self, op: &'static str, error: io::Error) -> Error {
        Error::io(op, &self.path(), error)
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").field("file", &self.file_name).finish_non_exhaustive()
    }
}
