//! Pinning from outside: what is at or below a path is fetched, and stays.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fuse::{MountError, MountErrorKind};
use serde::Serialize;

use crate::control::{Asked, check_answers};
use crate::entry::mount_of;
use crate::error::Error;
use crate::task::{Answer, Outcome, Task};

/// How far a pin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinProgress {
    /// Bytes that have come since the last time.
    pub bytes: u64,
    /// Bytes that the pin has altogether.
    pub of_bytes: u64,
}

/// A pin that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pinned {
    /// Files below the path.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What of them was fetched.
    pub brought_bytes: u64,
    /// Why some are not here yet; the mount tries them again.
    pub failed: Vec<String>,
}

/// Whether there was a pin to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpinned {
    /// There was.
    Yes,
    /// There was none.
    WasNot,
}

/// A pin, as it is kept in a state folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The endpoint and bucket.
    pub volume: String,
    /// The path in it; the top of the volume is `/`.
    pub path: String,
    /// How many files it keeps.
    pub files: u64,
    /// What they take of the disk.
    pub bytes: u64,
}

/// Pins `path`, which is in a mount: fetches what is at or below it, and keeps it.
pub fn pin(path: &Path, mut tell: impl FnMut(PinProgress)) -> Result<Pinned, Error> {
    let refused = |reason| Error::NotPinned { path: path.to_owned(), reason };
    ask(
        path,
        |path| Task::Pin { path },
        |outcome| match outcome {
            Outcome::Came { bytes, of_bytes } => {
                tell(PinProgress { bytes, of_bytes });
                None
            }
            Outcome::Pinned { files, bytes, brought_bytes, failed } => {
                Some(Ok(Pinned { files, bytes, brought_bytes, failed }))
            }
            Outcome::TooLarge { bytes, others_bytes, limit_bytes } => {
                let path = path.to_owned();
                Some(Err(Error::PinTooLarge { path, bytes, others_bytes, limit_bytes }))
            }
            Outcome::Failed { reason } => Some(Err(refused(reason))),
            other @ (Outcome::Warmed { .. }
            | Outcome::Full { .. }
            | Outcome::Evicted { .. }
            | Outcome::Kept { .. }
            | Outcome::Copied {}
            | Outcome::Measured(_)
            | Outcome::Unpinned { .. }) => Some(Err(refused(format!("{other:?} is no answer")))),
        },
    )
}

/// Forgets the pin of `path`, which is in a mount.
pub fn unpin(path: &Path) -> Result<Unpinned, Error> {
    ask(
        path,
        |path| Task::Unpin { path },
        |outcome| {
            let Outcome::Unpinned { was_pinned } = outcome else {
                let (path, reason) = (path.to_owned(), outcome.reason());
                return Some(Err(Error::NotPinned { path, reason }));
            };
            Some(Ok(if was_pinned { Unpinned::Yes } else { Unpinned::WasNot }))
        },
    )
}

/// Forgets all pins of the buckets that are mounted at `dir`.
pub fn unpin_all(dir: &Path) -> Result<Unpinned, Error> {
    ask(
        dir,
        |_| Task::UnpinAll {},
        |outcome| {
            let Outcome::Unpinned { was_pinned } = outcome else {
                let (path, reason) = (dir.to_owned(), outcome.reason());
                return Some(Err(Error::NotPinned { path, reason }));
            };
            Some(Ok(if was_pinned { Unpinned::Yes } else { Unpinned::WasNot }))
        },
    )
}

/// What is pinned in the state folder `state_dir`.
pub fn pinned(state_dir: &Path) -> Result<Vec<Listed>, Error> {
    let pins = store::pins(state_dir);
    let pins = pins.map_err(|source| Error::State { dir: state_dir.to_owned(), source })?;
    let of = |store::Pin { volume, path, files, bytes }| {
        let path = format!("/{}", base::spelled(&path));
        Listed { volume, path, files, bytes }
    };
    Ok(pins.into_iter().map(of).collect())
}

/// Whether something is there, be it that nobody may look at it, or that its daemon is gone.
fn is_there(place: &Path) -> bool {
    let is_closed = |error: io::Error| {
        matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotConnected)
    };
    place.try_exists().unwrap_or_else(is_closed)
}

fn ask<T>(
    path: &Path,
    task: impl FnOnce(Vec<u8>) -> Task,
    mut hear: impl FnMut(Outcome) -> Option<Result<T, Error>>,
) -> Result<T, Error> {
    let system = |source| Error::System { what: "cannot look at the path", source };
    let place = std::path::absolute(path).map_err(system)?;
    check_answers([&*place])?;
    // What is not there any more can still be unpinned: only what it is in has to be there.
    let there = place.ancestors().find(|place| is_there(place)).unwrap_or(&place);
    // Whoever reads what is wrong knows the path that he wrote, not what is left of it.
    let by_its_name = |error| {
        let Error::Mount(error) = error else { return error };
        let path = path.to_owned();
        if there != place && error.kind == MountErrorKind::NotMounted {
            return Error::NotLookedAt { path, source: rustix::io::Errno::NOENT.into() };
        }
        Error::Mount(MountError { path, ..error })
    };
    let entry = mount_of(there).map_err(by_its_name)?;
    let resolved = there.canonicalize().map_err(system)?;
    let rest = place.strip_prefix(there).expect("an ancestor is a beginning");
    let inner = resolved.join(rest);
    let inner = inner.strip_prefix(&entry.path).map_err(|_| Error::NotPinned {
        path: path.to_owned(),
        reason: format!("name it below {}", entry.path.display()),
    })?;
    let silent = |source: io::Error| Error::Daemon { dir: entry.path.clone(), source };
    let task = task(inner.as_os_str().as_bytes().to_vec());
    let question = serde_json::to_string(&task).map_err(|error| silent(error.into()))?;
    let mut asked = Asked::of(&entry, &question)?;
    loop {
        let Answer { outcome, .. } = asked
            .line()
            .and_then(|line| line.ok_or(io::ErrorKind::UnexpectedEof.into()))
            .map_err(silent)?;
        if let Some(done) = hear(outcome) {
            return done;
        }
    }
}
