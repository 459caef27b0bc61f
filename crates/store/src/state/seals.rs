//! Seals that the database does not have yet.
//!
//! A transaction of its own costs more than all else that is done for a small file. Its row waits to be inserted
//! anyway; when it is sealed the row, as it is then, goes to the end of a file of this process, and waits on. The
//! transaction that inserts what waits notes up to which record of the file it has them, and the file begins anew.
//! Whoever finds the file of a process that is dead inserts what the database lacks. See `docs/format.md`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use base::{ByteRange, crc32c};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::row::NewRow;
use crate::disk::{Disk, unfollowed};
use crate::layout::SEALS_PREFIX;
use crate::lock::{self, Mode};

/// Its owner holds this byte of the file for as long as it lives.
const OWNER_BYTE: u64 = 0;

/// How many names are tried for a file: after a database was lost owners are counted anew.
const PLACES_MAX: u32 = 1000;

/// When the file is longer than this the next seals are transactions.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Length, checksum, and number of the record.
const HEAD_BYTES: usize = 4 + 4 + 8;
/// A record without what is of different length: its version, five numbers and three lengths too.
const FIXED_BYTES: usize = HEAD_BYTES + 1 + 5 * 8 + 3 * 4;

/// The version of the format of a record.
const VERSION: u8 = 1;

/// The file of this process.
#[derive(Debug)]
pub(super) struct Seals {
    path: PathBuf,
    /// `None` when it was removed: from then on seals are transactions.
    file: Option<File>,
    /// Where the next record goes.
    at: u64,
    /// The number of the last one; later ones have greater ones.
    last: u64,
}

/// The file of a process that is dead. Nobody else looks at it for as long as we have it.
#[derive(Debug)]
pub(super) struct Left {
    path: PathBuf,
    _file: File,
    records: Vec<(u64, NewRow)>,
}

/// Whose processes are taken for dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dead {
    /// Those that hold their file no longer.
    WhoLetGo,
    /// All but ours: nobody else has the state folder open. A child of a process that died may hold its file for a moment.
    Others,
}

impl Seals {
    /// A file for the process `owner` beside the database `database`, inside a transaction: who looks for those of the dead
    /// does so in one, too, and finds it claimed.
    pub(super) fn begin(database: &Path, owner: u64, disk: &Disk) -> io::Result<Seals> {
        for place in 0..PLACES_MAX {
            let path = database.with_file_name(format!("{SEALS_PREFIX}{owner}-{place}"));
            let file = match disk.create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            if lock::attempt(&file, OWNER_BYTE, Mode::Exclusive)? {
                return Ok(Seals { path, file: Some(file), at: 0, last: 0 });
            }
        }
        Err(io::Error::other("there is no name left for the file of seals"))
    }

    /// Writes down `row`; the number of the record. `None` if there is no room for it.
    pub(super) fn append(&mut self, row: &NewRow, disk: &Disk) -> io::Result<Option<u64>> {
        let Some(file) = &self.file else { return Ok(None) };
        let number = self.last + 1;
        let record = encode(number, row);
        let end = self.at + record.len() as u64;
        if FILE_BYTES_MAX < end {
            return Ok(None);
        }
        disk.write(file, &record, self.at)?;
        (self.at, self.last) = (end, number);
        Ok(Some(number))
    }

    /// Notes in a transaction that the database has all up to the record `number`.
    pub(super) fn note(&self, connection: &Connection, number: u64) -> rusqlite::Result<()> {
        note(connection, &self.path, number)
    }

    /// The database has them all.
    pub(super) fn begin_anew(&mut self) {
        self.at = 0;
    }

    /// The database has them all, and is closed. What is sealed all the same is sealed in it.
    pub(super) fn end(&mut self, disk: &Disk) -> io::Result<()> {
        self.file = None;
        disk.unlink(&self.path)
    }

    /// Inserts what the database lacks of the files of the `dead` beside ours, inside a transaction. They are to be removed
    /// when that has come to the disk.
    pub(super) fn take_in(
        &self,
        dead: Dead,
        (disk, connection): (&Disk, &Connection),
    ) -> rusqlite::Result<io::Result<Vec<Left>>> {
        let (there, left) = match self.left_by(dead, disk) {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        left.iter().try_for_each(|left| left.insert(connection))?;
        forget_all_but(connection, &there)?;
        Ok(Ok(left))
    }

    /// The files of all, and those of the dead.
    fn left_by(&self, dead: Dead, disk: &Disk) -> io::Result<(Vec<PathBuf>, Vec<Left>)> {
        let there = paths(&self.path, disk)?;
        let mut left = Vec::new();
        for path in there.iter().filter(|path| **path != self.path) {
            let Some(file) = disk.open(path)? else { continue };
            if lock::attempt(&file, OWNER_BYTE, Mode::Exclusive)? || dead == Dead::Others {
                let records = records(&file, disk)?;
                left.push(Left { path: path.clone(), _file: file, records });
            }
        }
        Ok((there, left))
    }
}

impl Left {
    /// Inserts what the database lacks of it, and notes that: until it is removed it may be found again.
    fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let known = known(connection, &self.path)?;
        for (number, row) in self.records.iter().filter(|(number, _)| known < *number) {
            row.replace(connection)?;
            note(connection, &self.path, *number)?;
        }
        Ok(())
    }

    /// What was inserted is on the disk.
    pub(super) fn remove(self, disk: &Disk) -> io::Result<()> {
        disk.unlink(&self.path)
    }
}

/// All records of all processes beside the database `database`, dead or not, each with the name of its file. Those that
/// the database has already are among them: they are to be read before the database is.
pub(super) fn written(database: &Path, disk: &Disk) -> io::Result<Vec<(PathBuf, u64, NewRow)>> {
    let mut all = Vec::new();
    for path in paths(database, disk)? {
        let file = match unfollowed().read(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let of_file = records(&file, disk)?;
        all.extend(of_file.into_iter().map(|(number, row)| (path.clone(), number, row)));
    }
    Ok(all)
}

/// Up to which record of the file the database has them.
pub(super) fn known(connection: &Connection, path: &Path) -> rusqlite::Result<u64> {
    let known: Option<i64> = connection
        .prepare_cached("SELECT value FROM counters WHERE name = ?1")?
        .query_row([name(path)], |row| row.get(0))
        .optional()?;
    Ok(known.and_then(|known| u64::try_from(known).ok()).unwrap_or(0))
}

fn note(connection: &Connection, path: &Path, number: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO counters (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![name(path), i64::try_from(number).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// Of files that are gone nothing need be known.
fn forget_all_but(connection: &Connection, there: &[PathBuf]) -> rusqlite::Result<()> {
    let there: Vec<String> = there.iter().map(|path| name(path)).collect();
    let noted: Vec<String> = connection
        .prepare("SELECT name FROM counters WHERE name LIKE ?1 || '%'")?
        .query_map([SEALS_PREFIX], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for name in noted.iter().filter(|name| !there.contains(name)) {
        connection.execute("DELETE FROM counters WHERE name = ?1", [name])?;
    }
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The files of all processes in the folder of `beside`.
fn paths(beside: &Path, disk: &Disk) -> io::Result<Vec<PathBuf>> {
    let folder = beside.parent().unwrap_or(Path::new("."));
    let mut paths = Vec::new();
    let mut each = |name: &OsStr, metadata: &std::fs::Metadata| {
        if metadata.is_file() && name.to_str().is_some_and(|name| name.starts_with(SEALS_PREFIX)) {
            paths.push(folder.join(name));
        }
    };
    disk.list(folder, &mut each)?;
    paths.sort();
    Ok(paths)
}

/// The records from the beginning of the file to the first that is none, in the order of their numbers.
fn records(file: &File, disk: &Disk) -> io::Result<Vec<(u64, NewRow)>> {
    let len = file.metadata()?.len().min(FILE_BYTES_MAX);
    let mut bytes = Vec::new();
    if let Some(all) = ByteRange::new(0, len) {
        disk.append(file, all, &mut bytes)?;
    }
    let mut rest = Fields(&bytes);
    let mut records: Vec<(u64, NewRow)> = Vec::new();
    while let Some((number, row)) = rest.record() {
        // Behind the last record there may be some of an earlier turn.
        if records.last().is_some_and(|(last, _)| number <= *last) {
            break;
        }
        records.push((number, row));
    }
    Ok(records)
}

fn encode(number: u64, row: &NewRow) -> Vec<u8> {
    // A file of which the bucket has a version has a row.
    let NewRow { id, boot, file, state, note, identity: _, epoch, size, map } = row;
    let map = map.as_deref().unwrap_or_default();
    let mut record = Vec::with_capacity(FIXED_BYTES + file.len() + note.len() + map.len());
    record.extend([0; 8]);
    record.extend(number.to_le_bytes());
    record.push(VERSION);
    for field in [id, boot, state, epoch, size] {
        record.extend(field.to_le_bytes());
    }
    for field in [file.as_bytes(), note, map] {
        // One that is longer makes a record that is too long to be written.
        record.extend(u32::try_from(field.len()).unwrap_or(u32::MAX).to_le_bytes());
        record.extend(field);
    }
    let len = u32::try_from(record.len()).unwrap_or(u32::MAX);
    let sum = crc32c(&record[8..]);
    record[..4].copy_from_slice(&len.to_le_bytes());
    record[4..8].copy_from_slice(&sum.to_le_bytes());
    record
}

/// What is still to be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn i64(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.u32()?).ok()?;
        Some(self.take(len)?.to_vec())
    }

    fn record(&mut self) -> Option<(u64, NewRow)> {
        let whole = self.0;
        let len = usize::try_from(self.u32()?).ok().filter(|len| HEAD_BYTES < *len)?;
        let sum = self.u32()?;
        let mut fields = Fields(self.take(len - 8)?);
        if crc32c(whole.get(8..len)?) != sum {
            return None;
        }
        let number = u64::from_le_bytes(fields.take(8)?.try_into().ok()?);
        if fields.take(1)? != [VERSION] {
            return None;
        }
        let [id, boot, state, epoch, size] =
            [fields.i64()?, fields.i64()?, fields.i64()?, fields.i64()?, fields.i64()?];
        let file = String::from_utf8(fields.bytes()?).ok()?;
        let (note, map) = (fields.bytes()?, fields.bytes()?);
        let map = Some(map).filter(|map| !map.is_empty());
        Some((number, NewRow { id, boot, file, state, note, identity: None, epoch, size, map }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::{any, prop, proptest};
    use tempfile::tempdir;

    use super::{Dead, Disk, Fields, Seals, encode};
    use crate::state::row::NewRow;

    fn row(id: i64) -> NewRow {
        NewRow {
            id,
            boot: 1,
            file: format!("1-{id:x}"),
            state: 2,
            note: b"note".to_vec(),
            identity: None,
            epoch: 1,
            size: 500,
            map: Some(vec![7; 11]),
        }
    }

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written_and_not_at_all_if_a_bit_is_wrong(
            id in any::<i64>(),
            note in prop::collection::vec(any::<u8>(), 0..50),
            map in prop::option::of(prop::collection::vec(any::<u8>(), 1..50)),
            wrong in any::<prop::sample::Index>(),
        ) {
            let row = NewRow { note, map, ..row(id) };
            let record = encode(9, &row);
            let (number, read) = Fields(&record).record().unwrap();
            assert_eq!((number, &read), (9, &row));
            let mut damaged = record.clone();
            let at = wrong.index(damaged.len() * 8);
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(Fields(&damaged).record().is_none());
            assert!(Fields(&record[..record.len() - 1]).record().is_none());
        }
    }

    #[test]
    fn what_is_behind_the_last_record_of_a_turn_is_of_an_earlier_one() {
        let dir = tempdir().unwrap();
        let disk = Disk::default();
        let database = dir.path().join("state.db");
        let mut seals = Seals::begin(&database, 1, &disk).unwrap();
        for id in 1..=3 {
            assert_eq!(seals.append(&row(id), &disk).unwrap(), u64::try_from(id).ok());
        }
        seals.begin_anew();
        seals.append(&row(4), &disk).unwrap();
        let ids = || -> Vec<(u64, i64)> {
            let all = super::written(&database, &disk).unwrap();
            all.iter().map(|(_, number, row)| (*number, row.id)).collect()
        };
        assert_eq!(ids(), [(4, 4)]);
        let other = Seals::begin(&database, 1, &disk).unwrap();
        let left_by = |dead| other.left_by(dead, &disk).unwrap().1.len();
        assert_eq!(left_by(Dead::WhoLetGo), 0, "its owner lives");
        assert_eq!(left_by(Dead::Others), 1);
        drop(seals);
        assert_eq!(left_by(Dead::WhoLetGo), 1);
        let file = fs::File::options().append(true).open(dir.path().join("seals-1-0")).unwrap();
        file.set_len(5).unwrap();
        assert_eq!(ids(), [], "torn");
    }
}
