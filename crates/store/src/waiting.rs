//! What waits in a state folder for the next mount, as people ask for it. Needs no open store, so it
//! works beside mounts and without.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::backing::is_in_use;
use crate::damaged::is_damaged;
use crate::error::{Error, Result};
use crate::layout::{Layout, SIDE_SUFFIX};
use crate::state::staged::{ROWS_TOLD_MAX, StagedState, staged_rows};

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
    /// Nothing: the database is gone or cannot be read, or their process died before it recorded them.
    Unrecorded,
}

/// The staged files of the state folder `dir` that nobody has in use, in the order in which they were
/// staged, and then those of which nothing is recorded.
pub fn waiting(dir: &Path) -> Result<Vec<Waiting>> {
    let layout = Layout::new(dir.to_owned());
    let database = layout.database();
    let rows = if database.exists() {
        let rows = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(|error| Error::db("list staged files", &database, error))
            .and_then(|connection| staged_rows(&connection, &database));
        match rows {
            // The next opening of the folder sets it aside, and then nothing is recorded.
            Err(error) if is_damaged(&error) => Vec::new(),
            rows => rows?,
        }
    } else {
        Vec::new()
    };
    let recorded: HashSet<String> = rows.iter().map(|row| row.file.clone()).collect();
    let mut found = Vec::new();
    for row in rows {
        let kind = match row.state {
            StagedState::Clean => continue,
            StagedState::Open => WaitingKind::Open,
            StagedState::Sealed | StagedState::WrittenSince => WaitingKind::Sealed,
        };
        let at_rest = at_rest(layout.staged(&row.file))?;
        found.extend(at_rest.map(|(path, bytes)| Waiting { path, bytes, note: row.note, kind }));
    }
    // Of more rows than are told it is not known which files they are of.
    let names =
        if recorded.len() < ROWS_TOLD_MAX as usize { names(&layout.stage())? } else { Vec::new() };
    for name in names {
        // Empty ones lie ready for who makes many, and what belongs to a staged file goes with it.
        let is_told = recorded.contains(&name) || name.ends_with(SIDE_SUFFIX);
        let path = layout.staged(&name);
        if is_told || path.symlink_metadata().is_ok_and(|found| found.blocks() == 0) {
            continue;
        }
        let (note, kind) = (Vec::new(), WaitingKind::Unrecorded);
        found.extend(at_rest(path)?.map(|(path, bytes)| Waiting { path, bytes, note, kind }));
    }
    Ok(found)
}

/// A staged file with its size, if it is there and nobody has it in use.
fn at_rest(path: PathBuf) -> Result<Option<(PathBuf, u64)>> {
    // Gone meanwhile is as good as not there. A pipe in its place would keep us waiting.
    if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    let Ok(file) = File::open(&path) else { return Ok(None) };
    let io = |error| Error::io("list", &path, error);
    if is_in_use(&file).map_err(io)? {
        return Ok(None);
    }
    let bytes = file.metadata().map_err(io)?.len();
    Ok(Some((path, bytes)))
}

/// The names in a folder, sorted; none if there is no such folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let io = |error| Error::io("list", folder, error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        // Names of ours are text; what others put here is told by a check.
        names.extend(entry.map_err(io)?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}
