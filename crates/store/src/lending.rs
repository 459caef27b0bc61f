//! What the kernel gets of a staged file: its backing file, to read or to map.

use std::sync::Arc;

use base::ByteRange;

use crate::backing::BackingFile;
use crate::body::{Body, Lent};
use crate::error::Result;
use crate::staged::Staged;
use crate::sums::{Walk, Walked};

impl Staged {
    /// The backing file for the kernel to read, while writes come through us; `None` if something must
    /// still be taken from the base.
    pub fn to_read(&self) -> Option<Arc<BackingFile>> {
        self.look(|body| body.base.is_none().then(|| Arc::clone(&body.file))).flatten()
    }

    /// The backing file for the kernel to read and to map for writing.
    ///
    /// Fails with [`ErrorKind::Missing`] if something must still be taken from the base.
    pub fn passthrough(&self) -> Result<Arc<BackingFile>> {
        let mut guard = self.guard("passthrough")?;
        let body = guard.body();
        self.need_all(body, "passthrough")?;
        if body.lent == Lent::Never {
            let summed = body.complete_sums(&mut Walk::at_once());
            summed.map_err(|error| self.io("passthrough", error))?;
            let all = ByteRange::new(0, body.size);
            if let (Some(frozen), Some(all)) = (&mut body.frozen, all) {
                // The kernel will not ask us to save what it overwrites of the version on its way.
                let saved = frozen.save(&body.file, all, || self.make_side());
                saved.map_err(|error| self.io("save sealed bytes", error))?;
            }
            body.lent = Lent::ToKernel;
        }
        Ok(Arc::clone(&body.file))
    }

    /// Finds what was written past us through a shared mapping of the backing file, and makes the
    /// file dirty if there was anything; whether there was.
    pub fn rescan(&self) -> Result<bool> {
        let mut is_changed = false;
        self.in_turns("rescan", |body, walk| {
            let (walked, changed) = self.rescan_some(body, walk)?;
            is_changed |= changed;
            Ok(walked)
        })?;
        Ok(is_changed)
    }

    /// Whether the kernel can write to it no more. If so, it is dirty if anything was written past us, and if it
    /// is clean it stays so but for what is written through us.
    pub fn is_back(&self) -> Result<bool> {
        let mut guard = self.guard("look")?;
        self.is_body_back(guard.body())
    }

    pub(crate) fn is_body_back(&self, body: &mut Body) -> Result<bool> {
        // Asked first: what is found to be unchanged afterwards stays so.
        if body.lent == Lent::ToKernel && !body.file.is_ours_alone() {
            return Ok(false);
        }
        self.rescan_body(body)?;
        Ok(true)
    }

    /// Compares checksums, if the kernel ever had the file.
    pub(crate) fn rescan_body(&self, body: &mut Body) -> Result<bool> {
        let (_all, is_changed) = self.rescan_some(body, &mut Walk::at_once())?;
        Ok(is_changed)
    }

    fn rescan_some(&self, body: &mut Body, walk: &mut Walk) -> Result<(Walked, bool)> {
        if body.lent == Lent::Never {
            return Ok((Walked::All, false));
        }
        let (walked, is_changed) = body.rescan(walk).map_err(|error| self.io("rescan", error))?;
        if is_changed {
            self.will_change(body, None)?;
        }
        Ok((walked, is_changed))
    }
}
