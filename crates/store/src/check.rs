//! Looks at a state folder that nobody uses: whether the database, the backing files and the locks of
//! each other's words agree. Changes nothing; [`repair`](crate::repair) does.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use base::crc32c;
use rusqlite::{Connection, OpenFlags};

use crate::disk::{Disk, unfollowed};
use crate::error::{Error, ErrorKind, Result};
use crate::granule::{self, PIECE_GRANULES};
use crate::layout::{Layout, SIDE_SUFFIX, VersionName};
use crate::owners::{Company, Owners};
use crate::piece::PieceV1;
use crate::state::check::{CheckedVersion, each_version, stray_rows, wrong_journal_rows};
use crate::state::staged::{StagedRow, StagedState, staged_rows};
use crate::strangers::{self, Object};

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What of the state folder it is about.
    pub path: PathBuf,
    /// What is wrong.
    pub what: String,
    /// What becomes of it.
    pub weight: Weight,
    /// What would put it right.
    pub(crate) cure: Cure,
}

/// What a flaw means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The bucket has the bytes; here they are dropped and fetched again.
    Cache,
    /// Bytes that the bucket may not have, whose record is not whole: they go to the recovery folder.
    Staged,
    /// The database itself.
    Database,
    /// Nothing of ours: files go to the recovery folder, the rest stays.
    Stranger,
}

/// What puts a flaw right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cure {
    /// Forget the version and remove its file.
    DropVersion(VersionName),
    /// Remove the rows that nothing refers to.
    DropStrays,
    /// Remove the row of a staged file that is not there.
    DropStaged(String),
    /// What a mount does when it opens the folder.
    Open,
    /// Nothing that is safe.
    None,
}

/// How many words are told of a damaged database.
const INTEGRITY_ROWS: u32 = 20;

/// Nobody else, and nobody begins before this is dropped.
#[derive(Debug)]
pub(crate) struct Alone {
    _owners: Owners,
}

/// Takes the state folder `dir` for oneself; fails if anybody uses it.
pub(crate) fn alone(dir: &Path) -> Result<Alone> {
    let layout = Layout::new(dir.to_owned());
    match Owners::open(&layout, &Disk::default())? {
        (owners, Company::None) => Ok(Alone { _owners: owners }),
        (_, Company::Some) => Err(Error::new(ErrorKind::Held, "check", dir)),
    }
}

/// Whether a mount has ever had anything in the folder.
pub(crate) fn is_used(layout: &Layout) -> bool {
    [layout.database(), layout.objects(), layout.stage()].iter().any(|path| path.exists())
}

/// What is not as it should be in the state folder `dir`, which nobody may use meanwhile.
pub fn check(dir: &Path) -> Result<Vec<Flaw>> {
    let layout = Layout::new(dir.to_owned());
    if !is_used(&layout) {
        return Ok(Vec::new());
    }
    let _alone = alone(dir)?;
    flaws(&layout)
}

/// As [`check`], for who has the folder for himself.
pub(crate) fn flaws(layout: &Layout) -> Result<Vec<Flaw>> {
    let database = layout.database();
    if !database.exists() {
        // Then nothing is recorded.
        let mut flaws = unrecorded_objects(layout, &HashSet::new())?;
        check_staged(layout, Vec::new(), &mut flaws)?;
        return Ok(flaws);
    }
    let db = |error| Error::db("check", &database, error);
    let connection =
        Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(db)?;
    let mut flaws = Vec::new();
    let damage = integrity(&connection).unwrap_or_else(|error| vec![error.to_string()]);
    if !damage.is_empty() {
        // Nothing that it says can be believed.
        let of = |what| Flaw {
            path: database.clone(),
            what,
            weight: Weight::Database,
            cure: Cure::Open,
        };
        return Ok(damage.into_iter().map(of).collect());
    }
    let mut recorded = HashSet::new();
    let each = |version: CheckedVersion| {
        flaws.extend(version_flaw(layout, &version));
        recorded.extend(version.name);
    };
    each_version(&connection, each).map_err(db)?;
    flaws.extend(unrecorded_objects(layout, &recorded)?);
    let staged = staged_rows(&connection, &database)?;
    check_staged(layout, staged, &mut flaws)?;
    let told = |what, cure| {
        let (path, weight) = (database.clone(), Weight::Database);
        Flaw { path, what, weight, cure }
    };
    let strays = stray_rows(&connection).map_err(db)?;
    flaws.extend(strays.into_iter().map(|what| told(what, Cure::DropStrays)));
    let wrong = wrong_journal_rows(&connection).map_err(db)?;
    flaws.extend(wrong.into_iter().map(|what| told(what, Cure::None)));
    Ok(flaws)
}

fn integrity(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({INTEGRITY_ROWS})"))?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    rows.filter(|row| !row.as_ref().is_ok_and(|word| word == "ok")).collect()
}

/// What is wrong with a cached version, if anything is.
fn version_flaw(layout: &Layout, row: &CheckedVersion) -> Option<Flaw> {
    let path = row.name.map_or_else(|| layout.objects(), |name| layout.object(name));
    let what = match version_trouble(&path, row) {
        Ok(None) => return None,
        Ok(Some(what)) => what,
        Err(error) => error.to_string(),
    };
    let cure = row.name.map_or(Cure::None, Cure::DropVersion);
    Some(Flaw { path, what, weight: Weight::Cache, cure })
}

fn version_trouble(path: &Path, row: &CheckedVersion) -> io::Result<Option<String>> {
    let Some(name) = row.name else { return Ok(Some(format!("{} is no name", row.id))) };
    if name != VersionName::of(&row.identity, row.size) {
        return Ok(Some("its name is not that of its identity and size".to_owned()));
    }
    // Looked at before it is opened: a pipe would wait for somebody who writes.
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some("recorded, and not there".to_owned()));
        }
        metadata => metadata?,
    };
    if !metadata.is_file() {
        return Ok(Some("recorded, and not a file".to_owned()));
    }
    let file = unfollowed().read(true).open(path)?;
    if metadata.ino() != row.inode {
        return Ok(Some("the record is of another file".to_owned()));
    }
    if metadata.len() != row.size {
        return Ok(Some(format!("{} bytes long, and not {}", metadata.len(), row.size)));
    }
    let (mut granules, mut bad) = (0, 0);
    for (piece, map) in &row.pieces {
        let Some(map) = map else { return Ok(Some("a map of it cannot be read".to_owned())) };
        granules += map.present().count() as u64;
        bad += mismatches(&file, row.size, (*piece, map));
    }
    if granules != row.granules {
        let what = format!("{granules} granules are here, and {} are counted", row.granules);
        return Ok(Some(what));
    }
    Ok((0 < bad).then(|| format!("{bad} granules do not match their checksums")))
}

/// How many granules of a piece are not what their checksums say.
fn mismatches(file: &File, size: u64, (piece, map): (u64, &PieceV1)) -> u64 {
    let mut buf = Vec::new();
    let mut bad = 0;
    for (at, sum) in map.present() {
        let granule = piece * PIECE_GRANULES + at as u64;
        if granule::count(size) <= granule {
            bad += 1;
            continue;
        }
        let place = granule::bytes_of(granule, size);
        buf.resize(granule::index(place.len()), 0);
        let is_as_said = file.read_exact_at(&mut buf, place.start()).is_ok() && crc32c(&buf) == sum;
        bad += u64::from(!is_as_said);
    }
    bad
}

fn unrecorded_objects(layout: &Layout, recorded: &HashSet<VersionName>) -> Result<Vec<Flaw>> {
    let mut flaws = Vec::new();
    // What was opened and not read has a file, and no bytes to be recorded.
    let is_empty = |path: &Path| fs::symlink_metadata(path).is_ok_and(|file| file.blocks() == 0);
    let mut each = |Object { path, name, is_file }| match name {
        Some(name) if is_file && (recorded.contains(&name) || is_empty(&path)) => {}
        Some(_) if is_file => {
            let what = "cached bytes of which nothing is recorded".to_owned();
            flaws.push(Flaw { path, what, weight: Weight::Cache, cure: Cure::Open });
        }
        Some(_) | None => flaws.push(stranger(path)),
    };
    strangers::each_object(layout, &Disk::default(), &mut each)
        .map_err(|(path, error)| Error::io("check", &path, error))?;
    flaws.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(flaws)
}

fn stranger(path: PathBuf) -> Flaw {
    let what = match strangers::kind_of(&path) {
        kind @ "a file" => format!("{kind} that quayfs did not put here"),
        kind => format!("{kind} that quayfs did not put here, and leaves here"),
    };
    Flaw { path, what, weight: Weight::Stranger, cure: Cure::Open }
}

fn check_staged(layout: &Layout, rows: Vec<StagedRow>, flaws: &mut Vec<Flaw>) -> Result<()> {
    let mut recorded = HashSet::new();
    let has_side = |row: &StagedRow| fs::symlink_metadata(layout.side(&row.file)).is_ok();
    for row in rows {
        let path = layout.staged(&row.file);
        let is_sealed = row.state == StagedState::Sealed;
        let found = fs::symlink_metadata(&path);
        let what = match &found {
            // What is given up loses its file first, and its record with the next change.
            Err(_) => Some("recorded as staged, and not there".to_owned()),
            Ok(found) if !found.is_file() => Some("recorded as staged, and not a file".to_owned()),
            // A longer one was written to since, and a shorter one may have the rest beside it.
            Ok(found) if is_sealed && found.len() < row.size && !has_side(&row) => {
                Some(format!("sealed with {} bytes, and {} long", row.size, found.len()))
            }
            Ok(_) => None,
        };
        let cure = if found.is_ok_and(|found| found.is_file()) {
            Cure::Open
        } else {
            Cure::DropStaged(row.file.clone())
        };
        let weight = match row.state {
            StagedState::Clean | StagedState::Open => Weight::Cache,
            StagedState::Sealed | StagedState::WrittenSince => Weight::Staged,
        };
        flaws.extend(what.map(|what| Flaw { path, what, weight, cure }));
        recorded.insert(row.file);
    }
    for path in entries(&layout.stage())? {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if !found.is_file() {
            flaws.push(stranger(path));
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let owner = name.strip_suffix(SIDE_SUFFIX).unwrap_or(&name);
        // Empty ones lie ready for who makes many.
        if found.blocks() != 0 && !recorded.contains(owner) {
            let what = "staged bytes of which nothing is recorded".to_owned();
            flaws.push(Flaw { path, what, weight: Weight::Staged, cure: Cure::Open });
        }
    }
    Ok(())
}

/// What is in a folder; nothing if there is none.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = |error| Error::io("check", folder, error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io)?,
    };
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    if let Ok(paths) = &mut paths {
        paths.sort();
    }
    paths.map_err(io)
}
