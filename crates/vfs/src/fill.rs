//! What a written file lacks, and will be sent, is taken from the version that it was made from.

use std::sync::Arc;

use base::{ByteRange, Errno};
use store::Staged;
use transfer::Download;

use crate::errno::{Error, Result};
use crate::file::File;
use crate::vfs::Vfs;

/// How much of the base is taken over at a time.
const FILL_BYTES: u64 = 1 << 20;

/// How often the base of a file may be renamed while it is read.
const FILL_TRIES_MAX: usize = 100;

impl Vfs {
    /// Takes what `range` of the staged file lacks from its base.
    pub(crate) async fn fill(&self, file: &File, range: ByteRange) -> Result<()> {
        for _ in 0..FILL_TRIES_MAX {
            let Some((staged, base)) = file.staged_over() else { return Ok(()) };
            match fill_from(&staged, &base, range).await {
                // The base is in another object now.
                Err(_) if file.is_read_elsewhere(base.identity()) => {}
                Err(error) if error.is_changed() => {
                    let Ok(target) = self.namespace.target(file.ino()) else { return Err(error) };
                    if self.follow_unanswered(file, &target.key).await?.is_none() {
                        return Err(error);
                    }
                }
                filled => return filled,
            }
        }
        Err(Error::Call(Errno::EBUSY))
    }
}

/// Takes what `range` of `staged` lacks from `base`.
async fn fill_from(staged: &Staged, base: &Arc<Download>, range: ByteRange) -> Result<()> {
    while let Some(missing) = staged.missing(range) {
        for part in missing.pieces(FILL_BYTES) {
            let Some(part) = part.below(base.size()) else { break };
            let filled = match base.read(part).await {
                Ok(bytes) => staged.fill(part.start(), &bytes).map_err(Error::from),
                Err(error) => Err(error.into()),
            };
            // Others may have filled it meanwhile, and have published it.
            if let Err(error) = filled
                && staged.missing(part).is_some()
            {
                return Err(error);
            }
        }
    }
    Ok(())
}
