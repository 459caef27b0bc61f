//! Questions about a path, asked by extended attributes: see [`Query`].

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::Deserialize;

use crate::entry::{mount_around, mount_of};
use crate::error::Error;
use crate::missing::Missing;
use crate::query::{ANSWER_BYTES_MAX, BriefStatus, Info, Query, Wait};
use crate::umount::Progress;

/// Returns the mount that `path` is in, and as much of its state as each user that may read the path may see.
pub fn brief_status(path: &Path) -> Result<(PathBuf, BriefStatus), Error> {
    let dir = mount_around(path)?.path;
    Ok((dir, ask(path, Query::Status).map_err(not_looked_at(path))?))
}

/// Returns the state of the file or directory `path`.
pub fn info(path: &Path) -> Result<Info, Error> {
    mount_of(path)?;
    ask(path, Query::Info).map_err(not_looked_at(path))
}

/// Waits until everything at or below `path` is uploaded; returns what could not be.
pub(crate) fn sync(path: &Path, tell: &mut impl FnMut(Progress)) -> io::Result<Missing> {
    let mut query = Query::Sync;
    loop {
        let Wait { ticket, pending_uploads, pending_bytes, done, missing } = ask(path, query)?;
        if done {
            return Ok(missing);
        }
        tell(Progress::Waiting { files: pending_uploads, bytes: pending_bytes });
        query = Query::SyncOf(ticket);
    }
}

fn not_looked_at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    |source| Error::NotLookedAt { path: path.to_owned(), source }
}

fn ask<T: for<'a> Deserialize<'a>>(path: &Path, query: Query) -> io::Result<T> {
    let mut value = vec![0; ANSWER_BYTES_MAX as usize];
    let length = match rustix::fs::getxattr(path, query.name(), &mut value[..]) {
        // Daemons of earlier versions have no such attribute, nor has the top of a mount of all buckets.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => {
            let words = "the mount has no answer for this path";
            return Err(io::Error::new(io::ErrorKind::Unsupported, words));
        }
        Err(Errno::BUSY) => {
            let words = "too many processes wait for uploads of this mount: try again later";
            return Err(io::Error::other(words));
        }
        length => length?,
    };
    Ok(serde_json::from_slice(&value[..length])?)
}
