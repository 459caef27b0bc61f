//! What waits in a state folder for the next mount, as people ask for it. Needs no open store, so it
//! works beside mounts and without.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::backing::is_in_use;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::state::staged::{StagedState, staged_rows};

/// Bytes that a process left when it died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Where they are.
    pub path: PathBuf,
    /// How many there are.
    pub bytes: u64,
    /// What their process noted of them.
    pub note: Vec<u8>,
    /// What is known of them.
    pub kind: WaitingKind,
}

/// What is known of bytes that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingKind {
    /// Somebody was promised them.
    Sealed,
    /// They were neither closed nor synced.
    Open,
}

/// The staged files of the state folder `dir` that nobody has in use, in the order in which they were
/// staged.
pub fn waiting(dir: &Path) -> Result<Vec<Waiting>> {
    let layout = Layout::new(dir.to_owned());
    let database = layout.database();
    if !database.exists() {
        return Ok(Vec::new());
    }
    let rows = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .and_then(|connection| staged_rows(&connection));
    let rows = rows.map_err(|error| Error::db("list staged files", &database, error))?;
    let mut found = Vec::new();
    for row in rows {
        let kind = match row.state {
            StagedState::Clean => continue,
            StagedState::Open => WaitingKind::Open,
            StagedState::Sealed | StagedState::WrittenSince => WaitingKind::Sealed,
        };
        let path = layout.staged(&row.file);
        // Gone meanwhile is as good as not there. A pipe in its place would keep us waiting.
        if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        let io = |error| Error::io("list", &path, error);
        if is_in_use(&file).map_err(io)? {
            continue;
        }
        let bytes = file.metadata().map_err(io)?.len();
        found.push(Waiting { path, bytes, note: row.note, kind });
    }
    Ok(found)
}
