//! A frozen version of a staged file, on its way to the bucket.

use std::sync::Arc;

use base::ByteRange;

use crate::backing::BackingFile;
use crate::body::{Body, Home, Lent};
use crate::error::{ErrorKind, Result};
use crate::frozen::Frozen;
use crate::residency::{Action, Epoch, Event, Residency};
use crate::staged::Staged;

/// The bytes of a staged file as they were when it was sealed, whatever is written meanwhile.
///
/// Dropped without an answer, it counts as rejected: the bytes stay dirty.
#[derive(Debug)]
#[must_use = "a sealed version that is dropped counts as rejected"]
pub struct Sealed {
    staged: Arc<Staged>,
    size: u64,
    epoch: Epoch,
    fate: Fate,
}

/// Whether the store still waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Answered,
}

impl Staged {
    /// Freezes the present bytes: until the version is adopted or rejected it reads the same,
    /// whatever is written meanwhile.
    ///
    /// Fails with [`ErrorKind::Missing`] if something must still be taken from the base.
    ///
    /// # Panics
    ///
    /// If a sealed version is out already.
    pub fn seal(self: &Arc<Staged>) -> Result<Sealed> {
        let mut guard = self.guard("seal")?;
        let body = guard.body();
        if body.home == Home::Recovery {
            return Err(self.error(ErrorKind::Gone, "seal"));
        }
        self.need_all(body, "seal")?;
        self.rescan_body(body)?;
        body.complete_sums().map_err(|error| self.io("seal", error))?;
        let epoch = body.epoch + 1;
        let (next, action) = body.residency.step(Event::Seal(epoch));
        assert_eq!(action, Action::RecordSealed(epoch), "a seal is recorded");
        let frozen = self.freeze(body)?;
        let pieces = body.extents.take_unsaved(body.size);
        if let Err(error) = self.ground().db.seal_staged(self.id(), epoch, body.size, &pieces) {
            body.extents.give_back_unsaved(&pieces);
            return Err(error);
        }
        body.frozen = Some(frozen);
        body.residency = next;
        body.published = None;
        body.epoch = epoch;
        Ok(Sealed { staged: Arc::clone(self), size: body.size, epoch, fate: Fate::Open })
    }

    fn freeze(&self, body: &Body) -> Result<Frozen> {
        match body.lent {
            Lent::Never => Ok(Frozen::new(body.size)),
            // The kernel may write to the file without asking us to save the old bytes first.
            Lent::ToKernel => {
                let copy = self.make_side().and_then(|side| copy_whole(&body.file, side));
                Ok(Frozen::copied(body.size, copy.map_err(|error| self.io("seal", error))?))
            }
        }
    }

    /// Takes the answer to a sealed version; whether the bytes are clean now.
    pub(crate) fn thaw(&self, body: &mut Body, event: Event) -> bool {
        let (next, action) = body.residency.step(event);
        assert!(matches!(action, Action::Thaw(_)), "{action:?} of {event:?}");
        body.residency = next;
        if body.frozen.take().is_some_and(|frozen| frozen.has_side()) {
            let side = self.ground().layout.side(self.file_name());
            if let Err(error) = self.ground().disk.unlink(&side) {
                // The next seal that needs one tries again.
                tracing::warn!(path = %side.display(), %error, "cannot remove a side file");
            }
        }
        next == Residency::Clean
    }
}

/// Copies all of a file, without moving its bytes where the disk can.
pub(crate) fn copy_whole(from: &BackingFile, to: BackingFile) -> std::io::Result<BackingFile> {
    const STEP_BYTES: u64 = 1 << 20;
    if to.share_from(from).is_ok() {
        return Ok(to);
    }
    let mut bytes = Vec::new();
    let all = ByteRange::new(0, from.len()?);
    for part in all.into_iter().flat_map(|all| all.pieces(STEP_BYTES)) {
        bytes.resize(crate::granule::index(part.len()), 0);
        from.read(&mut bytes, part.start())?;
        to.write(&bytes, part.start())?;
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

    /// Reads bytes of the version.
    ///
    /// Fails with [`ErrorKind::Missing`] below what [`done_to`](Sealed::done_to) let go.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        assert!(end.is_some_and(|end| end <= self.size), "read at {offset} of {}", self.size);
        let result = self.staged.look(|body| {
            let frozen = body.frozen.as_ref().filter(|_| body.epoch == self.epoch)?;
            if offset < frozen.done_to() {
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

    /// The file it is a version of.
    pub(crate) fn staged(&self) -> &Arc<Staged> {
        &self.staged
    }

    /// The answer is about to be noted; nothing is left to do on drop.
    pub(crate) fn answered(mut self) -> Epoch {
        self.fate = Fate::Answered;
        self.epoch
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if self.fate == Fate::Answered {
            return;
        }
        // A file that is gone needs no answer.
        let Ok(mut guard) = self.staged.guard("reject") else { return };
        self.staged.thaw(guard.body(), Event::Rejected(self.epoch));
    }
}
