//! The mount that a path is in, or why it does not let us in.

use std::io;
use std::path::{Path, PathBuf};

use fuse::{MountEntry, MountError, MountErrorKind};

use crate::error::Error;

/// Whether `path` is in a mount of this program that answers.
pub fn is_in_mount(path: &Path) -> bool {
    fuse::mount_of(path).is_ok()
}

/// The folder at which the mount at `dir` is, which may have been named by a relative path or a link.
pub fn mounted_dir(dir: &Path) -> PathBuf {
    fuse::our_mount(dir).map_or_else(|_| dir.to_owned(), |entry| entry.path)
}

/// Why `path` cannot be looked at, in words that say what to do if it is in a mount whose daemon is gone.
pub fn not_looked_at(path: &Path, error: io::Error) -> Error {
    let above = || fuse::mounts_above([path]).pop();
    if error.kind() == io::ErrorKind::NotConnected
        && let Some(entry) = above()
    {
        return Error::Dead { dir: entry.path };
    }
    Error::NotLookedAt { path: path.to_owned(), source: error }
}

/// The mount of this program that `path` is in.
pub(crate) fn mount_of(path: &Path) -> Result<MountEntry, Error> {
    fuse::mount_of(path).map_err(|error| closed(path, error))
}

/// The mount that `path` is at or in, also if nothing answers there.
pub(crate) fn mount_around(path: &Path) -> Result<MountEntry, Error> {
    fuse::our_mount(path).or_else(|error| {
        let place = std::path::absolute(path).ok();
        let above = place.and_then(|place| fuse::mount_above(&place));
        above.filter(|_| error.is_not_mounted()).ok_or_else(|| error.into())
    })
}

/// The words for a mount point would be wrong here: nobody wants to mount anything.
fn closed(path: &Path, error: MountError) -> Error {
    let above = std::path::absolute(path).ok().and_then(|path| fuse::mount_above(&path));
    let is_denied = error.kind == MountErrorKind::Denied;
    match above {
        Some(entry) if error.kind == MountErrorKind::DeadMount => Error::Dead { dir: entry.path },
        Some(entry) if is_denied && is_of_others(&entry) => Error::Others { dir: entry.path },
        Some(_) | None if is_denied => {
            let source = io::ErrorKind::PermissionDenied.into();
            Error::System { what: "cannot look at the path", source }
        }
        Some(_) | None => error.into(),
    }
}

fn is_of_others(entry: &MountEntry) -> bool {
    let own = rustix::process::geteuid();
    !own.is_root() && entry.owner.is_some_and(|owner| owner != own.as_raw())
}
