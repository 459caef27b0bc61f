//! What waits in a state folder for the next mount, as people ask for it. Needs no open store, so it
//! works beside mounts and without.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backing::{BackingFile, is_in_use};
use crate::disk::{Disk, unfollowed};
use crate::error::{Error, Result};
use crate::layout::{Layout, SIDE_SUFFIX};
use crate::look::look_at;
use crate::orphan::is_as_summed;
use crate::state::staged::{
    ROWS_TOLD_MAX, StagedRow, StagedState, sealed_rows, staged_rows, staged_sums,
};

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
    /// They were written after somebody was promised what the file was then, and neither closed nor synced
    /// since.
    Newer,
    /// They were neither closed nor synced.
    Open,
    /// Nothing: the database is gone or cannot be read, or their process died before it recorded them.
    Unrecorded,
}

/// The staged files of a state folder with bytes that no bucket has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StagedFiles {
    /// Those that nobody has in use.
    pub waiting: Vec<Waiting>,
    /// How many others there are: processes that live work on them.
    pub in_use: u64,
}

/// The staged files of the state folder `dir` with what becomes of them, in the order in which they were
/// staged, and then those of which nothing is recorded.
pub fn waiting(dir: &Path) -> Result<StagedFiles> {
    let layout = Layout::new(dir.to_owned());
    let database = layout.database();
    let rows = look_at(&database, |connection| staged_rows(connection, &database))?;
    let rows = rows.map_or_else(|| sealed_rows(&database), Ok)?;
    let recorded: HashSet<String> = rows.iter().map(|row| row.file.clone()).collect();
    let mut found = StagedFiles::default();
    for row in rows.into_iter().filter(|row| row.state != StagedState::Clean) {
        match at_rest(&layout.staged(&row.file))? {
            Whereabouts::AtRest(file, bytes) => {
                found.waiting.extend(fates(&layout, &row, (file, bytes))?);
            }
            Whereabouts::InUse => found.in_use += 1,
            Whereabouts::Gone => {}
        }
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
        if let Whereabouts::AtRest(_, bytes) = at_rest(&path)? {
            let (note, kind) = (Vec::new(), WaitingKind::Unrecorded);
            found.waiting.push(Waiting { path, bytes, note, kind });
        }
    }
    Ok(found)
}

/// What becomes of the file of `row`, which has so many bytes: what [`crate::orphan`] does with it. Without a side
/// file nothing of the version was overwritten but by the kernel, past us: whoever looks does not read all files for that.
fn fates(layout: &Layout, row: &StagedRow, (file, bytes): (File, u64)) -> Result<Vec<Waiting>> {
    let path = layout.staged(&row.file);
    let (sealed, side) = (row.size, layout.side(&row.file));
    let of = |bytes, kind| Waiting { path: path.clone(), bytes, note: row.note.clone(), kind };
    let is_sealed = match row.state {
        StagedState::Clean | StagedState::Open => false,
        // What was cut off is in the side file, or nowhere.
        StagedState::Sealed | StagedState::WrittenSince => sealed <= bytes || side.exists(),
    };
    if !is_sealed {
        return Ok(vec![of(bytes, WaitingKind::Open)]);
    }
    let is_newer = sealed != bytes || side.exists() && is_overwritten(layout, row, file)?;
    let newer = is_newer.then(|| of(bytes, WaitingKind::Newer));
    Ok(std::iter::once(of(sealed, WaitingKind::Sealed)).chain(newer).collect())
}

/// Whether some of the version of `row` is not in its file any more.
fn is_overwritten(layout: &Layout, row: &StagedRow, file: File) -> Result<bool> {
    let database = layout.database();
    let sums = look_at(&database, |connection| staged_sums(connection, &database, row.id))?;
    let Some(sums) = sums.flatten() else { return Ok(true) };
    let as_summed = BackingFile::new(file, Arc::new(Disk::default()))
        .and_then(|file| is_as_summed(&file, row.size, &sums));
    as_summed
        .map(|is_as_sealed| !is_as_sealed)
        .map_err(|error| Error::io("list", &layout.staged(&row.file), error))
}

/// A staged file as who has not opened the state folder finds it.
enum Whereabouts {
    /// Nobody has it in use, and it has so many bytes.
    AtRest(File, u64),
    InUse,
    Gone,
}

fn at_rest(path: &Path) -> Result<Whereabouts> {
    // A pipe in its place would keep us waiting.
    if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return Ok(Whereabouts::Gone);
    }
    let Ok(file) = unfollowed().read(true).open(path) else { return Ok(Whereabouts::Gone) };
    let io = |error| Error::io("list", path, error);
    if is_in_use(&file).map_err(io)? {
        return Ok(Whereabouts::InUse);
    }
    let bytes = file.metadata().map_err(io)?.len();
    Ok(Whereabouts::AtRest(file, bytes))
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
