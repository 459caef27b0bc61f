//! `quayfs sync`: a wait until everything below a path is uploaded.

use std::io;
use std::path::Path;

use fuse::MountEntry;

use crate::ask_path;
use crate::control::{ANSWER_PATIENCE, Asked, Drained, drained, silent};
use crate::error::Error;
use crate::missing::Missing;
use crate::umount::{Progress, waiting};

/// Waits until everything that was written at or below `path` so far is in the bucket.
pub fn sync(path: &Path, mut tell: impl FnMut(Progress)) -> Result<(), Error> {
    let entry = fuse::mount_of(path)?;
    let missing = match by_socket(&entry, path, &mut tell) {
        // The kernel decides whether this user may read the path, so the daemon answers there.
        Err(closed) if closed.is_closed() => ask_path::sync(path, &mut tell).map_err(|source| {
            if source.kind() == io::ErrorKind::Unsupported {
                closed
            } else if source.kind() == io::ErrorKind::PermissionDenied {
                Error::NotLookedAt { path: path.to_owned(), source }
            } else {
                silent(&entry, source)
            }
        })?,
        missing => missing?,
    };
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Unsynced { path: path.to_owned(), missing })
}

fn by_socket(
    entry: &MountEntry,
    path: &Path,
    tell: &mut impl FnMut(Progress),
) -> Result<Missing, Error> {
    let number = rustix::fs::stat(path).map(|found| found.st_ino);
    let system = |source| Error::System { what: "cannot look at the path", source };
    let number = number.map_err(|errno| system(errno.into()))?;
    let failed = |source| silent(entry, source);
    let asked = Asked::of(entry, &format!("sync {number}"))?;
    let mut asked = asked.patient(ANSWER_PATIENCE).map_err(failed)?;
    let Drained { missing, .. } = drained(&mut asked, waiting(tell)).map_err(failed)?;
    Ok(missing)
}
