//! The recovery folder as people ask for it: what is in it and why, and that it may go. Needs no open
//! store, so it works beside mounts and without.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::ByteRange;

use crate::backing::is_in_use;
use crate::disk::unfollowed;
use crate::error::{Error, Result};
use crate::kept_note::{self, KeptNote};
use crate::layout::Layout;
use crate::recovery::NOTE_SUFFIX;
use crate::strangers;

/// A note is a few lines; of a longer one only so much is read.
const NOTE_BYTES_MAX: u64 = 1 << 20;

/// Bytes that could not be brought to the bucket, or what others put beside them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// The name of the file in the recovery folder.
    pub name: OsString,
    /// Where it is.
    pub path: PathBuf,
    /// How large it is.
    pub bytes: u64,
    /// Why it is there.
    pub reason: String,
    /// When it came there, in seconds since 1970, if its note says so.
    pub kept_secs: Option<i64>,
    /// The note of the staged file that it was, if there is one.
    pub origin: Option<Vec<u8>>,
}

/// A file of the recovery folder, open for reading.
#[derive(Debug)]
pub struct KeptFile {
    path: PathBuf,
    file: File,
    size: u64,
    origin: Option<Vec<u8>>,
    missing: Option<Vec<ByteRange>>,
}

impl KeptFile {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The note of the staged file that it was, if there is one.
    pub fn origin(&self) -> Option<&[u8]> {
        self.origin.as_deref()
    }

    /// The runs of bytes that are zeros here because they were never on this machine; `None` if the note does not list
    /// them all.
    pub fn missing(&self) -> Option<&[ByteRange]> {
        self.missing.as_deref()
    }

    /// Fills `buffer` with the bytes from `offset` on.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|error| Error::io("read", &self.path, error))
    }
}

/// The result of opening a file of the recovery folder.
#[derive(Debug)]
pub enum KeptOpened {
    /// It is open.
    File(KeptFile),
    /// There is no file of that name.
    Unknown,
    /// A process has it in use: a program that had it open when it came here may write to it still.
    InUse,
}

/// What a person's request to remove something came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// It is gone.
    Yes,
    /// There is nothing of that name.
    Unknown,
    /// A process has it in use: a program that had it open when it came here may write to it still.
    InUse,
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
        let (name, path) = (entry.file_name(), entry.path());
        // A file that went meanwhile is as good as not listed.
        let Ok(metadata) = entry.metadata() else { continue };
        if is_note(&name) {
            continue;
        }
        let KeptNote { reason, kept_secs, origin, .. } = if metadata.is_file() {
            note(&beside(&folder, &name))
        } else {
            without_note(format!("{} that quayfs did not put here", strangers::kind_of(&path)))
        };
        found.push(Kept { name, path, bytes: metadata.len(), reason, kept_secs, origin });
    }
    found.sort();
    Ok(found)
}

/// The path of the file `name` of the recovery folder of the state folder `dir`.
pub fn kept_path(dir: &Path, name: &OsStr) -> PathBuf {
    Layout::new(dir.to_owned()).recovery().join(name)
}

/// Opens the file `name` of the recovery folder of the state folder `dir`.
pub fn open_kept(dir: &Path, name: &OsStr) -> Result<KeptOpened> {
    let folder = Layout::new(dir.to_owned()).recovery();
    if Path::new(name).file_name() != Some(name) || is_note(name) {
        return Ok(KeptOpened::Unknown);
    }
    let path = folder.join(name);
    let io = |error| Error::io("open", &path, error);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KeptOpened::Unknown),
        Ok(metadata) if !metadata.is_file() => return Ok(KeptOpened::Unknown),
        metadata => metadata.map_err(io)?,
    };
    let file = unfollowed().read(true).open(&path).map_err(io)?;
    if is_in_use(&file).map_err(io)? {
        return Ok(KeptOpened::InUse);
    }
    let size = file.metadata().map_err(io)?.len();
    let KeptNote { origin, missing, .. } = note(&beside(&folder, name));
    Ok(KeptOpened::File(KeptFile { path, file, size, origin, missing }))
}

/// Removes what is called `name` from the recovery folder of the state folder `dir`, with its note: a file,
/// or what others put there, with all that is in it.
pub fn discard_kept(dir: &Path, name: &OsStr) -> Result<Discarded> {
    let folder = Layout::new(dir.to_owned()).recovery();
    let is_name = Path::new(name).file_name() == Some(name) && !is_note(name);
    if !is_name {
        return Ok(Discarded::Unknown);
    }
    let path = folder.join(name);
    let io = |error| Error::io("discard", &path, error);
    let metadata = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Discarded::Unknown),
        metadata => metadata.map_err(io)?,
    };
    if metadata.is_file()
        && is_in_use(&unfollowed().read(true).open(&path).map_err(io)?).map_err(io)?
    {
        return Ok(Discarded::InUse);
    }
    // The bytes first: a note that stands alone does no harm.
    if metadata.is_dir() {
        fs::remove_dir_all(&path).map_err(io)?;
    } else {
        fs::remove_file(&path).map_err(io)?;
    }
    match fs::remove_file(beside(&folder, name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound && metadata.is_file() => {
            Err(io(error))
        }
        Ok(()) | Err(_) => Ok(Discarded::Yes),
    }
}

fn is_note(name: &OsStr) -> bool {
    name.as_bytes().ends_with(NOTE_SUFFIX.as_bytes())
}

/// Where the note of `name` is.
fn beside(folder: &Path, name: &OsStr) -> PathBuf {
    let mut note = name.to_owned();
    note.push(NOTE_SUFFIX);
    folder.join(note)
}

/// The note at `path`; that there is none to be read is its reason.
fn note(path: &Path) -> KeptNote {
    // A pipe of this name would wait for a writer.
    if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return without_note("there is no note of why it is here".to_owned());
    }
    let mut text = Vec::new();
    let read = unfollowed()
        .read(true)
        .open(path)
        .and_then(|note| note.take(NOTE_BYTES_MAX).read_to_end(&mut text));
    match read {
        Ok(_) => kept_note::parse(&String::from_utf8_lossy(&text)),
        Err(error) => without_note(format!("the note of why it is here cannot be read: {error}")),
    }
}

fn without_note(reason: String) -> KeptNote {
    KeptNote { reason, ..KeptNote::default() }
}
