//! Syncing from outside: what is below a path is in the bucket when this returns.

use std::path::Path;

use crate::control::{ANSWER_PATIENCE, Asked, Drained, drained, silent};
use crate::error::Error;
use crate::umount::{Progress, waiting};

/// Waits until what was written to `path` so far, or to anything below it, is in the bucket.
pub fn sync(path: &Path, mut tell: impl FnMut(Progress)) -> Result<(), Error> {
    let entry = fuse::mount_of(path)?;
    let number = rustix::fs::stat(path).map(|found| found.st_ino);
    let system = |source| Error::System { what: "cannot look at the path", source };
    let number = number.map_err(|errno| system(errno.into()))?;
    let failed = |source| silent(&entry, source);
    let asked = Asked::of(&entry, &format!("sync {number}"))?;
    let mut asked = asked.patient(ANSWER_PATIENCE).map_err(failed)?;
    let Drained { missing, .. } = drained(&mut asked, waiting(&mut tell)).map_err(failed)?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Unsynced { path: path.to_owned(), missing })
}
