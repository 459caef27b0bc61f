//! The recovery folder as people ask for it: what is in it and why, and that it may go. Needs no open
//! store, so it works beside mounts and without.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::recovery::NOTE_SUFFIX;

/// A note is a few lines; of a longer one only so much is read.
const NOTE_BYTES_MAX: u64 = 64 << 10;

/// Bytes that could not be brought to the bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// The name of the file in the recovery folder.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// How large it is.
    pub bytes: u64,
    /// Why it is there.
    pub reason: String,
}

/// What a person's request to remove something came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// It is gone.
    Yes,
    /// There is nothing of that name.
    Unknown,
}

/// What is in the recovery folder of the state folder `dir`, by name.
pub fn kept(dir: &Path) -> Result<Vec<Kept>> {
    let folder = Layout::new(dir.to_owned()).recovery();
    let io = |error| Error::io("list", &folder, error);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // A file that went meanwhile is as good as not listed.
        let Ok(metadata) = entry.metadata() else { continue };
        if name.ends_with(NOTE_SUFFIX) || !metadata.is_file() {
            continue;
        }
        let reason = reason(&folder.join(format!("{name}{NOTE_SUFFIX}"))).map_err(io)?;
        found.push(Kept { path: entry.path(), bytes: metadata.len(), reason, name });
    }
    found.sort();
    Ok(found)
}

/// Removes the file `name` from the recovery folder of the state folder `dir`, with its note.
pub fn discard_kept(dir: &Path, name: &str) -> Result<Discarded> {
    let folder = Layout::new(dir.to_owned()).recovery();
    let is_name =
        !name.contains('/') && name != "." && name != ".." && !name.ends_with(NOTE_SUFFIX);
    if !is_name || name.is_empty() {
        return Ok(Discarded::Unknown);
    }
    let path = folder.join(name);
    // The bytes first: a note that stands alone does no harm.
    for (path, unknown) in
        [(path, Discarded::Unknown), (folder.join(format!("{name}{NOTE_SUFFIX}")), Discarded::Yes)]
    {
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(unknown),
            Err(error) => return Err(Error::io("discard", &path, error)),
        }
    }
    Ok(Discarded::Yes)
}

/// The first paragraph of a note; empty if there is none.
fn reason(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let note = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        note => note?,
    };
    let mut text = Vec::new();
    note.take(NOTE_BYTES_MAX).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.split("\n\n").next().unwrap_or_default().trim().to_owned())
}
