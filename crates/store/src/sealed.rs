//! A frozen version of a staged file, on its way to the bucket.

use std::sync::Arc;

use base::ByteRange;

use crate::backing::BackingFile;
use crate::body::{Body, Home, Lent, Recorded};
use crate::error::{ErrorKind, Result};
use crate::extent::Moment;
use crate::frozen::Frozen;
use crate::granule_set::GranuleSet;
use crate::residency::{Action, Epoch, Event, Residency};
use crate::staged::Staged;
use crate::sums::Walk;

/// The bytes of a staged file as they were when it was sealed, whatever is written meanwhile.
///
/// Dropped without an answer, it counts as rejected: the bytes stay dirty. Unless it was told to
/// [stay](Sealed::stay).
#[derive(Debug)]
#[must_use = "a sealed version that is dropped counts as rejected"]
pub struct Sealed {
    staged: Arc<Staged>,
    size: u64,
    epoch: Epoch,
    moment: Moment,
    origin: Option<Box<[u8]>>,
    unchanged: GranuleSet,
    missing: GranuleSet,
    fate: Fate,
}

/// Whether the store still waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Answered,
    /// It is what is found after a crash, with or without this value.
    Stays,
}

/// What becomes of a sealed version that is out when there is another seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// There is none.
    None,
    /// Nobody uploads it: it gives way to the new one.
    GivesWay,
}

/// Who writes as fast as we read is waited for this often only.
const PASSES_MAX: usize = 3;

/// A pass that had no more to read than this leaves little to the next.
const REST_BYTES: u64 = 4 << 20;

/// How much is saved of a version before others get their turn.
const SAVE_BYTES: u64 = 1 << 20;

impl Staged {
    /// Freezes the present bytes: until the version is adopted or rejected it reads the same,
    /// whatever is written meanwhile. Where nothing was changed the base may show through.
    ///
    /// Fails with [`ErrorKind::Missing`] if the [`edge`](Staged::edge) must still be taken from the
    /// base.
    ///
    /// # Panics
    ///
    /// If a sealed version is out already.
    pub fn seal(self: &Arc<Staged>) -> Result<Sealed> {
        self.seal_noted(None, Earlier::None)
    }

    /// As [`seal`](Staged::seal), and makes `note` the note that is kept for recovery, at once with
    /// it.
    ///
    /// An earlier version that is out gives way to the new one if `earlier` says so; if this fails
    /// it stays, and stays what is found after a crash. It fails with [`ErrorKind::Held`] if the
    /// kernel was ever given the file: the two would need the same room.
    pub fn seal_noted(self: &Arc<Staged>, note: Option<&[u8]>, earlier: Earlier) -> Result<Sealed> {
        let sealed = self.seal_while(note, earlier, || Some(()))?;
        sealed.ok_or_else(|| self.error(ErrorKind::Gone, "seal"))
    }

    /// As [`seal_noted`](Staged::seal_noted), if `is_right` says that the note still is when all that may take
    /// long is done: else nothing is sealed, and this returns `None`. What that returns is kept until the seal is
    /// recorded. It must not wait for anybody who uses this file meanwhile.
    pub fn seal_while<Kept>(
        self: &Arc<Staged>,
        note: Option<&[u8]>,
        earlier: Earlier,
        is_right: impl FnOnce() -> Option<Kept>,
    ) -> Result<Option<Sealed>> {
        self.sum_ahead()?;
        let mut guard = self.guard("seal")?;
        let body = guard.body();
        if body.home == Home::Recovery {
            return Err(self.error(ErrorKind::Gone, "seal"));
        }
        if body.edge().is_some() {
            return Err(self.error(ErrorKind::Missing, "seal"));
        }
        let out = match (body.residency, earlier) {
            (Residency::Sealed { epoch, .. }, Earlier::GivesWay) => Some(epoch),
            (Residency::Clean | Residency::Dirty, _) | (_, Earlier::None) => None,
        };
        if out.is_some() && body.lent == Lent::ToKernel {
            return Err(self.error(ErrorKind::Held, "seal"));
        }
        // What was written since is all there is to read.
        let summed = body.complete_sums(&mut Walk::at_once());
        summed.map_err(|error| self.io("seal", error))?;
        let Some(kept) = is_right() else { return Ok(None) };
        let epoch = body.epoch + 1;
        let event = match out {
            None => Event::Seal(epoch),
            Some(earlier) => Event::SealAnew { earlier, epoch },
        };
        let (next, action) = body.residency.step(event);
        assert_eq!(action, Action::RecordSealed(epoch), "a seal is recorded");
        let frozen = self.freeze(body)?;
        let pieces = body.extents.take_unsaved(body.size, body.visible());
        let sealed = self.ground().db.seal_staged(self.id(), (epoch, body.size), note, &pieces);
        drop(kept);
        if let Err(error) = sealed {
            body.extents.give_back_unsaved(&pieces);
            return Err(error);
        }
        // Only now: until the new version was recorded, the old granules were of use after a crash.
        self.melt(body);
        body.frozen = Some(frozen);
        body.residency = next;
        body.published = None;
        body.epoch = epoch;
        let size = body.size;
        let (unchanged, missing) = (body.unchanged(), body.missing_all());
        let origin = body.origin.as_ref().map(|origin| origin.identity.clone());
        let moment = body.now;
        body.now += 1;
        if missing.is_empty() {
            body.recorded = Recorded::AsSealed;
            body.base = None;
        } else {
            body.recorded = Recorded::AsSealedOverBase;
        }
        drop(guard);
        let staged = Arc::clone(self);
        let sealed =
            Sealed { staged, size, epoch, moment, origin, unchanged, missing, fate: Fate::Open };
        self.save_from_kernel(size)?;
        Ok(Some(sealed))
    }

    /// Reads and sums what the seal needs summed, as far as that is possible while others write.
    fn sum_ahead(&self) -> Result<()> {
        // What the kernel writes past us is seen by the sums only.
        self.rescan()?;
        for _ in 0..PASSES_MAX {
            let read_bytes = self.in_turns("seal", |body, walk| {
                body.complete_sums(walk).map_err(|error| self.io("seal", error))
            })?;
            if read_bytes < REST_BYTES {
                break;
            }
        }
        Ok(())
    }

    fn freeze(&self, body: &Body) -> Result<Frozen> {
        match body.lent {
            Lent::Never => Ok(Frozen::new(body.size, body.now)),
            // The kernel may write to the file without asking us to save the old bytes first.
            Lent::ToKernel => {
                let io = |error| self.io("seal", error);
                let side = self.make_side().map_err(io)?;
                if side.share_from(&body.file).is_ok() {
                    return Ok(Frozen::copied(body.size, body.now, side));
                }
                Frozen::beside(body.size, body.now, side).map_err(io)
            }
        }
    }

    /// Saves all of a version that the kernel may write into, unless the disk has copied it
    /// already, letting readers and writers in between.
    fn save_from_kernel(&self, size: u64) -> Result<()> {
        for part in ByteRange::new(0, size).into_iter().flat_map(|all| all.pieces(SAVE_BYTES)) {
            let mut guard = self.guard("seal")?;
            let Body { file, frozen, lent, .. } = guard.body();
            let (Lent::ToKernel, Some(frozen)) = (*lent, frozen) else { return Ok(()) };
            let saved = frozen.save(file, part, || self.make_side());
            saved.map_err(|error| self.io("save sealed bytes", error))?;
            guard.pass_on();
        }
        Ok(())
    }

    /// Takes the answer to a sealed version; whether the bytes are clean now.
    pub(crate) fn thaw(&self, body: &mut Body, event: Event) -> bool {
        let (next, action) = body.residency.step(event);
        assert!(matches!(action, Action::Thaw(_)), "{action:?} of {event:?}");
        body.residency = next;
        self.melt(body);
        next == Residency::Clean
    }

    /// Lets go of the old granules of a sealed version, if there is one.
    fn melt(&self, body: &mut Body) {
        if body.frozen.take().is_some_and(|frozen| frozen.has_side()) {
            let side = self.ground().layout.side(self.file_name());
            if let Err(error) = self.ground().disk.unlink(&side) {
                // The next seal that needs one tries again.
                tracing::warn!(path = %side.display(), %error, "cannot remove a side file");
            }
        }
    }
}

/// Copies all of a file, without moving its bytes where the disk can, and without its holes where
/// it cannot.
pub(crate) fn copy_whole(from: &BackingFile, to: BackingFile) -> std::io::Result<BackingFile> {
    const STEP_BYTES: u64 = 1 << 20;
    if to.share_from(from).is_ok() {
        return Ok(to);
    }
    let len = from.len()?;
    to.set_len(len)?;
    let mut bytes = Vec::new();
    let mut at = 0;
    while let Some(rest) = ByteRange::new(at, len) {
        let Some(data) = from.data(rest)? else { break };
        for part in data.pieces(STEP_BYTES) {
            bytes.resize(crate::granule::index(part.len()), 0);
            from.read(&mut bytes, part.start())?;
            to.write(&bytes, part.start())?;
        }
        at = data.end();
    }
    Ok(to)
}

impl Sealed {
    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Which seal of its file it is.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// When it was sealed: what was read in an earlier moment, and not written since, is of it.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// The version that it was made from, if something of that is left in it.
    pub fn origin(&self) -> Option<&[u8]> {
        self.origin.as_deref()
    }

    /// The version that it was made from is known as `identity` now.
    pub fn origin_moved(&mut self, identity: &[u8]) {
        if let Some(origin) = &mut self.origin {
            *origin = identity.into();
        }
    }

    /// What is as in the version that it was made from.
    pub fn unchanged(&self) -> &GranuleSet {
        &self.unchanged
    }

    /// What of that is not here: it cannot be [read](Sealed::read).
    pub fn missing(&self) -> &GranuleSet {
        &self.missing
    }

    /// Reads bytes of the version.
    ///
    /// Fails with [`ErrorKind::Missing`] below what [`done_to`](Sealed::done_to) let go, and of what
    /// is [missing](Sealed::missing).
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        assert!(end.is_some_and(|end| end <= self.size), "read at {offset} of {}", self.size);
        let result = self.staged.look(|body| {
            let frozen = body.frozen.as_ref().filter(|_| body.epoch == self.epoch)?;
            let range = ByteRange::at(offset, buf.len() as u64);
            let is_missing = range.is_some_and(|range| self.missing.first_run(range).is_some());
            if offset < frozen.done_to() || is_missing {
                return Some(Err(self.staged.error(ErrorKind::Missing, "read sealed")));
            }
            let read = frozen.read(&body.file, offset, buf);
            Some(read.map_err(|error| self.staged.io("read sealed", error)))
        });
        let gone = || Err(self.staged.error(ErrorKind::Gone, "read sealed"));
        result.flatten().unwrap_or_else(gone)
    }

    /// The upload needs nothing below `offset` any more: writers there have nothing to save. Once
    /// they have written there, the version does not survive a crash.
    pub fn done_to(&self, offset: u64) {
        if let Ok(mut guard) = self.staged.guard("done")
            && let Some(frozen) = &mut guard.body().frozen
        {
            frozen.set_done_to(offset);
        }
    }

    /// Somebody was promised these bytes: if this is dropped without an answer, they stay sealed, and
    /// are found so after a crash, until a later version takes their place.
    pub fn stay(&mut self) {
        self.fate = Fate::Stays;
    }

    /// The file it is a version of.
    pub(crate) fn staged(&self) -> &Arc<Staged> {
        &self.staged
    }

    /// The answer is no: the bytes are dirty when this is dropped.
    pub(crate) fn rejected(&mut self) {
        self.fate = Fate::Open;
    }

    /// The answer is about to be noted; nothing is left to do on drop.
    pub(crate) fn answered(mut self) -> Epoch {
        self.fate = Fate::Answered;
        self.epoch
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        match self.fate {
            Fate::Open => {}
            Fate::Answered | Fate::Stays => return,
        }
        // A file that is gone needs no answer, nor does a version that gave way to a later one.
        let Ok(mut guard) = self.staged.guard("reject") else { return };
        if guard.body().epoch == self.epoch {
            self.staged.thaw(guard.body(), Event::Rejected(self.epoch));
        }
    }
}
