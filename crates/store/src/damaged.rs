//! A database that cannot be read is set aside, and a new one is begun.
//!
//! What it spoke of is in the folders still: cached files are fetched again, and staged ones of
//! which nothing is recorded go to the recovery folder. A folder that is refused for ever would keep
//! its bytes from their owner, and nobody would be safer for it.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::recovery::{NAMES_MAX, NOTE_SUFFIX};

/// What `SQLite` puts beside a database.
const LOG_SUFFIX: &str = "-wal";
const SHARED_MEMORY_SUFFIX: &str = "-shm";

/// Whether it is the database that makes the state folder unreadable.
pub(crate) fn is_damaged(error: &Error) -> bool {
    let is_of_database = error
        .source
        .as_ref()
        .is_some_and(|source| source.downcast_ref::<rusqlite::Error>().is_some());
    is_of_database && error.kind == ErrorKind::Corrupt
}

/// Moves the database, which nobody has open, to the recovery folder; returns where it is.
pub(crate) fn set_aside(layout: &Layout, disk: &Disk, reason: &Error) -> Result<PathBuf> {
    let database = layout.database();
    let folder = layout.recovery();
    let beside = |path: &Path, suffix: &str| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(suffix);
        path.with_file_name(name)
    };
    let io = |error| Error::io("set aside", &database, error);
    for number in 0..NAMES_MAX {
        let name = if number == 0 { "state.db".to_owned() } else { format!("state.db.{number}") };
        let path = folder.join(name);
        // A note first keeps the name ours.
        let note = match disk.create(&beside(&path, NOTE_SUFFIX)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            note => note.map_err(io)?,
        };
        let words = format!("the database of the state folder could not be read: {reason}\n");
        disk.write(&note, words.as_bytes(), 0).map_err(io)?;
        let log = beside(&database, LOG_SUFFIX);
        if disk.inode(&log).map_err(io)?.is_some() {
            disk.rename(&log, &beside(&path, LOG_SUFFIX)).map_err(io)?;
        }
        disk.unlink(&beside(&database, SHARED_MEMORY_SUFFIX)).map_err(io)?;
        disk.rename(&database, &path).map_err(io)?;
        tracing::error!(error = %reason, path = %path.display(), "a damaged database is set aside");
        return Ok(path);
    }
    Err(io(io::Error::other("too many databases were set aside")))
}
