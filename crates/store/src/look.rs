//! The database as who has not opened the state folder reads it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::damaged::is_damaged;
use crate::error::{Error, Result};

/// What `look` finds in the database `path`, for who has not opened the state folder: neither is anything changed
/// nor does anybody wait. `None` if there is none, or none that can be read: the next opening of the folder sets
/// that aside, and then nothing is recorded.
pub(crate) fn look_at<T>(
    path: &Path,
    look: impl FnOnce(&Connection) -> Result<T>,
) -> Result<Option<T>> {
    if !path.exists() {
        return Ok(None);
    }
    let found = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|error| Error::db("look at database", path, error))
        .and_then(|connection| look(&connection));
    match found {
        Err(error) if is_damaged(&error) => Ok(None),
        found => found.map(Some),
    }
}
