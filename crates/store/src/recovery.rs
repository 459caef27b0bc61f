//! The recovery folder, and the sweep at the start of the only process: what the last ones left is
//! put in order. Both are idempotent.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::ByteRange;

use crate::backing::BackingFile;
use crate::body::Home;
use crate::error::{Error, ErrorKind, Result};
use crate::granule::GRANULE_BYTES;
use crate::ground::Ground;
use crate::kept_note::{self, RUNS_MAX};
use crate::layout::{SIDE_SUFFIX, VersionName};
use crate::spares;
use crate::staged::Staged;
use crate::strangers::{self, Object};

/// How the name of a note for people ends.
pub(crate) const NOTE_SUFFIX: &str = ".quayfs-note";

/// Longest name of a recovered file: leaves room for a number and the note's suffix.
const NAME_BYTES_MAX: usize = 200;

/// How many names are tried for one file.
pub(crate) const NAMES_MAX: u32 = 10_000;

/// How many records are removed in one transaction.
const BATCH_ROWS_MAX: usize = 256;

/// What is known of where a file's bytes are that are not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest<'a> {
    /// In the base, if there is one.
    Base,
    /// In this object, as people name it: what takes no place on the disk was never here, or was
    /// dropped when the bucket had it.
    Object(&'a str),
}

/// Description of bytes that go to the recovery folder.
#[derive(Clone, Copy, Debug)]
pub struct Keeping<'a> {
    /// The name that theirs is like.
    pub name: &'a str,
    /// Why they go there, for people.
    pub reason: &'a str,
    /// Where the bytes are that are not here.
    pub rest: Rest<'a>,
    /// The note of the staged file, by which the bytes can be put back; empty if there is none.
    pub origin: &'a [u8],
}

/// Moves the bytes of a staged file to the recovery folder, with a note; returns where they are.
pub(crate) fn keep(staged: &Staged, keeping: Keeping<'_>) -> Result<PathBuf> {
    let Keeping { name, rest, .. } = keeping;
    let ground = staged.ground();
    // What of the base is at hand makes the file whole; what is not is told.
    let holes = draw_what_is_there(staged)?;
    let mut guard = staged.guard("recover")?;
    if guard.body().home == Home::Recovery {
        return Err(staged.error(ErrorKind::Gone, "recover"));
    }
    let mut text = note(ground, keeping, &holes);
    if let (Rest::Object(object), true) = (rest, holes.is_empty()) {
        let file = &guard.body().file;
        let empty = empty_runs(file).map_err(|error| staged.io("recover", error))?;
        if !empty.is_empty() {
            text.extend([
                kept_note::UNSURE,
                ", as far as it reaches, in the object ",
                object,
                ":\n",
            ]);
            kept_note::list(&mut text, &empty);
        }
    }
    let path = reserve(ground, name, &text)?;
    let io = |error| Error::io("recover", &path, error);
    ground.disk.rename(&staged.path(), &path).map_err(io)?;
    ground.disk.unlink(&ground.layout.side(staged.file_name())).map_err(io)?;
    ground.db.remove_staged(staged.id())?;
    guard.body().home = Home::Recovery;
    staged.count(guard.body());
    Ok(path)
}

/// Takes over what is at hand of the base; returns the runs of bytes that are not.
fn draw_what_is_there(staged: &Staged) -> Result<Vec<ByteRange>> {
    let mut holes: Vec<ByteRange> = Vec::new();
    let mut from = 0;
    while let Some(rest) = ByteRange::new(from, staged.size()) {
        let Some(missing) = staged.missing(rest) else { break };
        from = missing.end();
        for part in missing.pieces(GRANULE_BYTES) {
            if staged.draw_from_base(part)?.is_none() {
                continue;
            }
            match holes.last_mut() {
                Some(last) if last.end() == part.start() => {
                    *last = ByteRange::new(last.start(), part.end()).expect("it grows");
                }
                Some(_) | None => holes.push(part),
            }
        }
    }
    Ok(holes)
}

fn note(ground: &Ground, keeping: Keeping<'_>, holes: &[ByteRange]) -> String {
    let mut note = kept_note::head(keeping.reason, ground.wall().secs, keeping.origin);
    if !holes.is_empty() {
        note.push_str(
            "these bytes were not changed and were not on this machine; they are zeros here:\n",
        );
        kept_note::list(&mut note, holes);
    }
    note
}

/// What of the file takes no place on the disk; one run more than is told at most.
fn empty_runs(file: &BackingFile) -> io::Result<Vec<ByteRange>> {
    let (mut runs, mut from, size) = (Vec::new(), 0, file.len()?);
    while let Some(rest) = ByteRange::new(from, size)
        && runs.len() <= RUNS_MAX
    {
        let data = file.data(rest)?;
        runs.extend(ByteRange::new(from, data.map_or(size, ByteRange::start)));
        from = data.map_or(size, ByteRange::end);
    }
    Ok(runs)
}

/// A free path in the recovery folder; writing its note first keeps it ours.
fn reserve(ground: &Ground, name: &str, note: &str) -> Result<PathBuf> {
    let folder = ground.layout.recovery();
    let stem = file_stem(name);
    for number in 0..NAMES_MAX {
        let name = if number == 0 { stem.clone() } else { format!("{stem}.{number}") };
        let path = folder.join(&name);
        let note_path = folder.join(format!("{name}{NOTE_SUFFIX}"));
        let io = |error| Error::io("recover", &note_path, error);
        if ground.disk.inode(&path).map_err(io)?.is_some() {
            continue;
        }
        match ground.disk.create(&note_path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => {
                let file = file.map_err(io)?;
                ground.disk.write(&file, note.as_bytes(), 0).map_err(io)?;
                // Before the bytes get their name there: by a part of it they would be put back wrongly.
                ground.disk.sync(&file).map_err(io)?;
                return Ok(path);
            }
        }
    }
    Err(Error::io("recover", &folder, io::Error::other("too many files of one name")))
}

/// Where it is said of `kept` what it is.
fn note_of(kept: &Path) -> PathBuf {
    let mut name = kept.as_os_str().to_owned();
    name.push(NOTE_SUFFIX);
    name.into()
}

/// `name` as one path component that people recognise.
fn file_stem(name: &str) -> String {
    let mut stem: String =
        name.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
    while NAME_BYTES_MAX < stem.len() {
        stem.pop();
    }
    if stem.is_empty() || stem.starts_with('.') || stem.ends_with(NOTE_SUFFIX) {
        stem.insert(0, '_');
        stem.push('_');
    }
    stem
}

/// Puts in order what earlier processes left. Nobody else has the state folder open.
pub(crate) fn sweep(ground: &Arc<Ground>) -> Result<()> {
    // Staging first: a file whose adoption was cut short is finished, not swept.
    sweep_staged(ground)?;
    sweep_objects(ground)
}

/// Cached files without a record go, and records without a file. Other files are kept.
fn sweep_objects(ground: &Ground) -> Result<()> {
    let mut recorded = HashSet::new();
    ground.db.each_version_name(&mut |name| {
        recorded.insert(name);
    })?;
    let (mut unknown, mut others) = (Vec::new(), Vec::new());
    let mut each = |object: Object| match object {
        Object { name: Some(name), is_file: true, path } => {
            if !recorded.remove(&name) {
                unknown.push(path);
            }
        }
        other => others.push(other),
    };
    strangers::each_object(&ground.layout, &ground.disk, &mut each)
        .map_err(|(path, error)| Error::io("sweep", &path, error))?;
    for path in unknown {
        ground.disk.unlink(&path).map_err(|error| Error::io("sweep", &path, error))?;
    }
    for Object { path, is_file, .. } in others {
        take_in(ground, &path, is_file, "a file that quayfs did not put where it was found");
    }
    let gone: Vec<VersionName> = recorded.into_iter().collect();
    gone.chunks(BATCH_ROWS_MAX).try_for_each(|names| ground.db.forget_versions(names))
}

/// Staged files without a record are finished, kept or removed. Records without a file are left to
/// those who look for orphans.
fn sweep_staged(ground: &Ground) -> Result<()> {
    let folder = ground.layout.stage();
    let mut files = Vec::new();
    let mut each = |name: &OsStr, metadata: &Metadata| {
        use std::os::unix::fs::MetadataExt;
        files.push((name.to_owned(), metadata.is_file(), metadata.blocks() != 0));
    };
    ground.disk.list(&folder, &mut each).map_err(|error| Error::io("sweep", &folder, error))?;
    let recorded = ground.db.staged_files()?;
    for (name, is_file, has_bytes) in files {
        let path = folder.join(&name);
        let Some(name) = name.to_str().filter(|_| is_file) else {
            take_in(ground, &path, is_file, UNKNOWN_STAGED);
            continue;
        };
        if let Some(owner) = name.strip_suffix(SIDE_SUFFIX).filter(|owner| spares::is_name(owner)) {
            if !recorded.contains(owner) {
                ground.disk.unlink(&path).map_err(|error| Error::io("sweep", &path, error))?;
            }
        } else if !recorded.contains(name) {
            sweep_staged_file(ground, name, &path, has_bytes)?;
        }
    }
    Ok(())
}

fn sweep_staged_file(ground: &Ground, name: &str, path: &Path, has_bytes: bool) -> Result<()> {
    let io = |error| Error::io("sweep", path, error);
    if let Some(version) = ground.db.version_come_as(name)? {
        // The record of the adoption reached the disk, the rename did not.
        let to = ground.layout.object(version);
        if ground.disk.inode(&to).map_err(io)?.is_none() {
            ground.disk.make_folder_in(to.parent().expect("objects are in folders")).map_err(io)?;
            return ground.disk.rename(path, &to).map_err(io);
        }
        return ground.disk.unlink(path).map_err(io);
    }
    if !has_bytes {
        return ground.disk.unlink(path).map_err(io);
    }
    // After a power failure the bytes may be on the disk and their record not.
    take_in(ground, path, true, UNKNOWN_STAGED);
    Ok(())
}

const UNKNOWN_STAGED: &str = "bytes found in staging of which nothing is recorded";

/// Moves a file of which nothing is known to the recovery folder. What is no file stays.
fn take_in(ground: &Ground, path: &Path, is_file: bool, reason: &str) {
    if is_file {
        move_away(ground, path, reason);
    } else {
        let kind = strangers::kind_of(path);
        tracing::warn!(path = %path.display(), "quayfs did not put {kind} here, and leaves it");
    }
}

/// Frees the place of a version, if what stands there is no file.
pub(crate) fn clear(ground: &Ground, place: &Path) {
    if strangers::is_stranger(place) {
        let kind = strangers::kind_of(place);
        move_away(ground, place, &format!("{kind} that stood where a cached file belongs"));
    }
}

/// Moves what is at `path` to the recovery folder.
fn move_away(ground: &Ground, path: &Path, reason: &str) {
    let io = |error| Error::io("keep", path, error);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let kept = reserve(
        ground,
        &format!("unknown-{name}"),
        &kept_note::head(reason, ground.wall().secs, b""),
    );
    let moved = kept.and_then(|kept| {
        let moved = ground.disk.rename(path, &kept).map_err(io);
        if moved.is_err() {
            // It would tell of what is not there.
            let _ = ground.disk.unlink(&note_of(&kept));
        }
        moved.map(|()| kept)
    });
    match moved {
        Ok(kept) => tracing::warn!(path = %kept.display(), "{reason}"),
        // Of another disk, or this one is full: no reason not to mount.
        Err(error) => tracing::warn!(path = %path.display(), %error, "{reason}; it stays there"),
    }
}

#[cfg(test)]
mod tests {
    use super::file_stem;

    #[test]
    fn every_name_becomes_one_component() {
        assert_eq!(file_stem("a/b\nc"), "a_b_c");
        assert_eq!(file_stem(""), "__");
        assert_eq!(file_stem(".."), "_.._");
        assert_eq!(file_stem("x.quayfs-note"), "_x.quayfs-note_");
        assert_eq!(file_stem(&"é".repeat(300)).len(), 200);
    }
}
