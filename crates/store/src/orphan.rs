//! Staged files whose process died: claimed, checked, and handed to the caller.

use std::io;
use std::sync::Arc;

use crate::backing::BackingFile;
use crate::body::{Body, Recorded, View};
use crate::error::{Error, Result};
use crate::extent::{Origin, Sum};
use crate::granule::{self, PIECE_GRANULES};
use crate::ground::Ground;
use crate::lock::Mode;
use crate::piece::PieceV1;
use crate::residency::Residency;
use crate::sealed::copy_whole;
use crate::staged::Staged;
use crate::state::staged::{NewStaged, StagedRow, StagedState};
use crate::sums::Summer;

/// How many rows are looked at in one query.
const BATCH_ROWS_MAX: u32 = 256;

/// A staged file whose process died; it is ours now.
#[derive(Debug)]
pub struct Orphan {
    /// The file.
    pub staged: Arc<Staged>,
    /// What its process noted of it.
    pub note: Vec<u8>,
    /// What is known of its bytes.
    pub state: OrphanState,
}

/// What is known of an orphan's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanState {
    /// Nobody has said that they are whole: they were never closed or synced, or are damaged.
    Open,
    /// They are what was last sealed: to be uploaded on behalf of who died.
    Sealed,
}

/// Claims every staged file of the state folder that nobody holds.
pub(crate) fn claim_all(ground: &Arc<Ground>) -> Result<Vec<Orphan>> {
    let mut orphans = Vec::new();
    let mut after = None;
    loop {
        let rows = ground.db.staged_after(after, BATCH_ROWS_MAX)?;
        let Some(last) = rows.last() else { return Ok(orphans) };
        after = Some(last.id);
        for row in rows {
            if let Some(file) = claim(ground, &row)? {
                let path = ground.layout.staged(&row.file);
                let io = |error| Error::io("recover", &path, error);
                let state = check(ground, &row, &file, &mut orphans).map_err(io)?;
                orphans.extend(inherit(ground, row, file, state)?);
            }
        }
    }
}

/// What a check of an orphan's bytes found.
#[derive(Debug)]
enum Found {
    /// The bucket has them.
    Clean,
    /// See [`OrphanState::Open`].
    Open,
    /// See [`OrphanState::Sealed`]. What has no checksum is not here.
    Sealed(Vec<(usize, PieceV1)>),
}

/// Claims the file of a row; `None` if its owner lives, or if there is no file any more.
fn claim(ground: &Ground, row: &StagedRow) -> Result<Option<BackingFile>> {
    let path = ground.layout.staged(&row.file);
    let io = |error| Error::io("recover", &path, error);
    let Some(file) = ground.disk.open(&path).map_err(io)? else {
        // Its owner died, or is, between removing the file and its record.
        ground.db.remove_staged(row.id)?;
        return Ok(None);
    };
    let file = BackingFile::new(file, Arc::clone(&ground.disk)).map_err(io)?;
    let is_claimed = file.claim(Mode::Exclusive).map_err(io)?;
    let is_current = ground.disk.inode(&path).map_err(io)? == Some(file.inode());
    Ok((is_claimed && is_current).then_some(file))
}

fn check(
    ground: &Arc<Ground>,
    row: &StagedRow,
    file: &BackingFile,
    orphans: &mut Vec<Orphan>,
) -> io::Result<Found> {
    let sums = || ground.db.staged_pieces(row.id).map_err(io::Error::other);
    let is_as_sealed = |sums: &[(usize, PieceV1)]| -> io::Result<bool> {
        Ok(file.len()? == row.size && mismatches(file, row.size, sums)?.is_empty())
    };
    let found = match row.state {
        StagedState::Clean => {
            // It may have been written to through a mapping that was never synced.
            let is_clean =
                row.identity.is_none() || sums()?.map_or(Ok(false), |sums| is_as_sealed(&sums))?;
            if is_clean { Found::Clean } else { Found::Open }
        }
        StagedState::Open => Found::Open,
        // Checked even if nothing is recorded since, and in the same boot: the kernel may have
        // written to the file past us.
        StagedState::Sealed | StagedState::WrittenSince => match sums()? {
            Some(sums) if rebuild(ground, row, file, &sums, orphans)? => Found::Sealed(sums),
            Some(_) | None => Found::Open,
        },
    };
    Ok(found)
}

/// Brings back the sealed version of a file that may have been written to since, if it can be put
/// together. The newer bytes, which were never synced, become an orphan of their own.
fn rebuild(
    ground: &Arc<Ground>,
    row: &StagedRow,
    file: &BackingFile,
    sums: &[(usize, PieceV1)],
    orphans: &mut Vec<Orphan>,
) -> io::Result<bool> {
    let changed = mismatches(file, row.size, sums)?;
    let side = ground.disk.open(&ground.layout.side(&row.file))?;
    let side = side.map(|side| BackingFile::new(side, Arc::clone(&ground.disk))).transpose()?;
    let is_as_sealed = changed.is_empty() && file.len()? == row.size;
    // What of the version is in its base is nothing to compare with.
    let is_whole = granules_of(sums, row.size).count() as u64 == granule::count(row.size);
    if !(is_as_sealed && (is_whole || row.state == StagedState::Sealed)) {
        if !changed.is_empty() && !side.as_ref().is_some_and(|side| has(side, &changed, row.size)) {
            return Ok(false);
        }
        let newer = copy_of(ground, row, file)?;
        orphans.push(newer);
        let mut bytes = Vec::new();
        for (granule, _) in changed {
            let place = granule::bytes_of(granule, row.size);
            bytes.resize(granule::index(place.len()), 0);
            side.as_ref().expect("it has the old granules").read(&mut bytes, place.start())?;
            file.write(&bytes, place.start())?;
        }
        file.set_len(row.size)?;
        // The machine may die after the side file has gone and before these bytes are on the disk.
        file.sync()?;
    }
    ground.db.set_staged_state(row.id, StagedState::Sealed).map_err(io::Error::other)?;
    ground.disk.unlink(&ground.layout.side(&row.file))?;
    Ok(true)
}

/// A copy of the file as an orphan of its own.
fn copy_of(ground: &Arc<Ground>, row: &StagedRow, file: &BackingFile) -> io::Result<Orphan> {
    let name = ground.spares.name();
    let copy = ground.disk.create(&ground.layout.staged(&name))?;
    let copy = BackingFile::new(copy, Arc::clone(&ground.disk))?;
    copy.claim(Mode::Exclusive)?;
    let copy = copy_whole(file, copy)?;
    let new = NewStaged { file: &name, note: &row.note, state: StagedState::Open };
    let id = ground.db.insert_staged(&new).map_err(io::Error::other)?;
    let body = body_of(copy)?;
    let staged = Arc::new(Staged::new(ground, id, name, body));
    Ok(Orphan { staged, note: row.note.clone(), state: OrphanState::Open })
}

fn inherit(
    ground: &Arc<Ground>,
    row: StagedRow,
    file: BackingFile,
    found: Found,
) -> Result<Option<Orphan>> {
    let path = ground.layout.staged(&row.file);
    let io = |error| Error::io("recover", &path, error);
    let (mut body, state) = match found {
        Found::Clean => {
            ground.disk.unlink(&path).map_err(io)?;
            ground.disk.unlink(&ground.layout.side(&row.file)).map_err(io)?;
            ground.db.remove_staged(row.id)?;
            return Ok(None);
        }
        Found::Open => (body_of(file).map_err(io)?, OrphanState::Open),
        Found::Sealed(sums) => (sealed_body_of(file, &sums).map_err(io)?, OrphanState::Sealed),
    };
    body.epoch = row.epoch;
    let staged = Arc::new(Staged::new(ground, row.id, row.file, body));
    Ok(Some(Orphan { staged, note: row.note, state }))
}

/// A body of which only what has a checksum is in the file; the rest shows through from a version
/// that is not at hand.
fn sealed_body_of(file: BackingFile, sums: &[(usize, PieceV1)]) -> io::Result<Body> {
    let size = file.len()?;
    let mut body = Body::new(Arc::new(file), size, Residency::Dirty);
    body.recorded = Recorded::AsSealed;
    for (piece, row) in sums {
        let first = *piece as u64 * PIECE_GRANULES;
        let granules = row.present().map(|(at, _)| first + at as u64);
        for granule in granules.filter(|granule| *granule < granule::count(size)) {
            body.extents.insert(granule);
            body.extents.change(granule, body.now);
        }
    }
    if !body.extents.missing(size).is_empty() {
        body.base = Some(View { cached: None, visible: size });
        // Its note says which version it is.
        body.origin = Some(Origin { identity: Box::default(), until: size, since: 0 });
    }
    Ok(body)
}

/// A body of which nothing is known but what is in the file.
fn body_of(file: BackingFile) -> io::Result<Body> {
    let size = file.len()?;
    let mut body = Body::new(Arc::new(file), size, Residency::Dirty);
    for granule in 0..granule::count(size) {
        body.extents.insert(granule);
    }
    Ok(body)
}

/// The granules of a version of `size` bytes that have checksums, with them.
fn granules_of(sums: &[(usize, PieceV1)], size: u64) -> impl Iterator<Item = (u64, u32)> {
    let all = sums.iter().flat_map(|(piece, row)| {
        let first = *piece as u64 * PIECE_GRANULES;
        row.present().map(move |(at, sum)| (first + at as u64, sum))
    });
    all.filter(move |&(granule, _)| granule < granule::count(size))
}

/// Whether the file is what its checksums say.
pub(crate) fn is_as_summed(
    file: &BackingFile,
    size: u64,
    sums: &[(usize, PieceV1)],
) -> io::Result<bool> {
    let mut matching = Matching::of(file, size)?;
    Ok(granules_of(sums, size).all(|(granule, sum)| matching.is(granule, sum)))
}

/// The granules of the file that are not what their checksums say.
fn mismatches(
    file: &BackingFile,
    size: u64,
    sums: &[(usize, PieceV1)],
) -> io::Result<Vec<(u64, u32)>> {
    let mut matching = Matching::of(file, size)?;
    Ok(granules_of(sums, size).filter(|&(granule, sum)| !matching.is(granule, sum)).collect())
}

/// Whether all these granules of the file are what their checksums say.
fn has(file: &BackingFile, granules: &[(u64, u32)], size: u64) -> bool {
    Matching::of(file, size)
        .is_ok_and(|mut matching| granules.iter().all(|&(granule, sum)| matching.is(granule, sum)))
}

/// Compares granules with checksums, for as long as nobody changes the file.
struct Matching<'a> {
    summer: Summer<'a>,
    len: u64,
    size: u64,
}

impl Matching<'_> {
    fn of(file: &BackingFile, size: u64) -> io::Result<Matching<'_>> {
        Ok(Matching { summer: Summer::new(file), len: file.len()?, size })
    }

    /// What the disk cannot read is not what it was.
    fn is(&mut self, granule: u64, sum: u32) -> bool {
        let place = granule::bytes_of(granule, self.size);
        let found = self.summer.sum(place, Sum::default());
        place.end() <= self.len && found.is_ok_and(|found| found.crc == sum)
    }
}
