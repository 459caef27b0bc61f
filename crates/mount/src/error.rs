//! What goes wrong at mount and unmount, with what to do about it.

use std::path::{Path, PathBuf};

use base::printable;

use crate::advice::{Advice, not_a_folder, told};
use crate::location::Location;
use crate::missing::Missing;
use crate::recover_list::recover_command;

/// A mount or unmount that failed. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object store.
    #[error("{}", told(location, advice, failed))]
    Remote {
        /// The source that cannot be used.
        location: Location,
        /// The problem, and the remedy.
        advice: Box<Advice>,
        /// The failed request. The message has its words already, so it is not a source of this error.
        failed: Box<remote::Error>,
    },
    /// An object or a file, and nothing below it.
    #[error("{}", not_a_folder(_0))]
    NotAFolder(Location),
    /// A prefix under which there is nothing.
    #[error("nothing is in {_0}: check the bucket and the prefix")]
    NothingBelow(Location),
    /// Two folders that must be apart.
    #[error(
        "{one} ({}) must not be in {other} ({}): choose another place for one of them",
        shown(inner),
        shown(outer)
    )]
    Within {
        /// What is inside.
        one: &'static str,
        /// Where it is.
        inner: PathBuf,
        /// What it is in.
        other: &'static str,
        /// Where that is.
        outer: PathBuf,
    },
    /// The kernel or the mount point.
    #[error(transparent)]
    Mount(#[from] fuse::MountError),
    /// The state folder.
    #[error(
        "cannot use the state folder {}: {source}\n  choose another one with --cache-dir",
        shown(dir)
    )]
    State {
        /// Which folder.
        dir: PathBuf,
        /// What failed.
        source: store::Error,
    },
    /// Bytes of an earlier mount could not be brought to the bucket.
    #[error("cannot finish what an earlier mount left to upload: {0}")]
    Recovery(vfs::Error),
    /// Uploads failed, so the mount stays.
    #[error(
        "{} is still mounted: not everything could be uploaded:\n{}\n  {}",
        shown(dir),
        missing.lines(),
        missing.advice("try again, or detach with --force, which leaves them to the next mount")
    )]
    Unpublished {
        /// Which mount.
        dir: PathBuf,
        /// What the bucket lacks.
        missing: Missing,
    },
    /// Uploads failed that somebody waited for.
    #[error(
        "{}: not everything could be uploaded:\n{}\n  {}",
        shown(path), missing.lines(), missing.advice("try again")
    )]
    Unsynced {
        /// Below which path.
        path: PathBuf,
        /// What the bucket lacks.
        missing: Missing,
    },
    /// There is nothing to discard.
    #[error(
        "nothing in the recovery folder is called {name}: `quayfs recover --list` shows the names"
    )]
    NotKept {
        /// What was to be discarded.
        name: String,
    },
    /// A file of the recovery folder that was not put back.
    #[error("{name} was not restored: {why}\n  {advice}")]
    NotPutBack {
        /// Which.
        name: String,
        /// Why not.
        why: String,
        /// The remedy.
        advice: String,
    },
    /// Something is to be discarded that a program has open.
    #[error(
        "{name} stays in the recovery folder: a program still has it open in a mount, and may write to it; close it \
         first, or unmount"
    )]
    KeptInUse {
        /// What was to be discarded.
        name: String,
    },
    /// Something uses a state folder that has to be at rest.
    #[error(
        "the state folder {} is in use: unmount what uses it first, or name another one with --cache-dir",
        shown(dir)
    )]
    StateInUse {
        /// Which folder.
        dir: PathBuf,
    },
    /// A pin that leaves the cache too little.
    #[error(
        "{} is not pinned: it takes {}, {} are pinned already in this cache, and at most {} can be, which is 90 % \
         of it\n  mount with a larger --cache-size, or unpin something",
        shown(path),
        mib(*bytes),
        mib(*others_bytes),
        mib(*limit_bytes)
    )]
    PinTooLarge {
        /// What was to be pinned.
        path: PathBuf,
        /// What it takes.
        bytes: u64,
        /// What is pinned already.
        others_bytes: u64,
        /// What may be pinned.
        limit_bytes: u64,
    },
    /// Something that cannot be pinned or unpinned.
    #[error("{}: {}", shown(path), printable(reason))]
    NotPinned {
        /// What was to be.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The daemon is gone, and its mount is still there.
    #[error(
        "the daemon of {0} has died: `quayfs umount {0}` clears the mount point; mounting again finishes its \
         uploads",
        shown(dir)
    )]
    Dead {
        /// Which mount.
        dir: PathBuf,
    },
    /// The daemon answers its owner and root.
    #[error("{} is mounted by another user: only that user and root may ask about it", shown(dir))]
    Others {
        /// Which mount.
        dir: PathBuf,
    },
    /// The daemon does not answer.
    #[error("the daemon of {} does not answer: {source}", shown(dir))]
    Daemon {
        /// Which mount.
        dir: PathBuf,
        /// What failed.
        source: std::io::Error,
    },
    /// A path that was named.
    #[error("{}: {source}", shown(path))]
    NotLookedAt {
        /// Which.
        path: PathBuf,
        /// What failed.
        source: std::io::Error,
    },
    /// A mount ended before everything was uploaded.
    #[error(
        "{what} could not be uploaded before the end of the mount; the state folder {} keeps everything\n  the next mount \
         of {location} with that folder uploads it{}",
        shown(dir),
        or_recover(location, dir)
    )]
    NotUploaded {
        /// How much of what.
        what: String,
        /// Of which mount.
        location: Location,
        /// The state folder.
        dir: PathBuf,
    },
    /// The access log.
    #[error("cannot open {}, which --access-log names: {source}", shown(path))]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: std::io::Error,
    },
    /// Somebody asked us to end before we were done.
    #[error("told to end before it was done; what was begun is cleaned up")]
    Interrupted,
    /// The system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What failed.
        source: std::io::Error,
    },
}

/// The command that uploads what waits for `location`, as one more way.
fn or_recover(location: &Location, dir: &Path) -> String {
    match location {
        Location::All => String::new(),
        Location::S3 { .. }
        | Location::Gcs { .. }
        | Location::Azure { .. }
        | Location::Folder(_) => format!(", or `{}`", recover_command(location, dir)),
    }
}

fn mib(bytes: u64) -> String {
    const TENTH_BYTES: u64 = (1 << 20) / 10;
    let tenths = bytes / TENTH_BYTES;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// A path within a line.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

impl Error {
    /// Whether it is that programs use the mount.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Mount(error) if error.kind == fuse::MountErrorKind::Busy)
    }

    /// Whether it is that others hold something back, and the bucket has all else.
    pub fn is_held(&self) -> bool {
        matches!(self, Error::Unsynced { missing, .. } if missing.is_held())
    }

    /// Whether it is something that failed for good: nobody is told of that again.
    pub fn is_for_good(&self) -> bool {
        matches!(self, Error::Unsynced { missing, .. } if missing.is_for_good())
    }

    /// Whether a mount ended before everything was uploaded.
    pub fn is_not_uploaded(&self) -> bool {
        matches!(self, Error::NotUploaded { .. })
    }

    /// Whether the control socket is closed to this process: another user's, or of another mount namespace.
    pub fn is_closed(&self) -> bool {
        let is_missing = |source: &std::io::Error| source.kind() == std::io::ErrorKind::NotFound;
        matches!(self, Error::Others { .. })
            || matches!(self, Error::Daemon { source, .. } if is_missing(source))
    }

    /// Whether it is that nothing of ours is mounted there.
    pub fn is_not_mounted(&self) -> bool {
        matches!(self, Error::Mount(error) if error.is_not_mounted())
    }
}
