//! Rows of staged files: bytes that the bucket may not have.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rusqlite::{Connection, Row, Transaction, params};

use super::later::Later;
use super::row::NewRow;
use super::seals::Dead;
use super::versions::{VersionNews, forget_version, is_of_another_file, save_version};
use super::{Db, seals, signed, unsigned};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::granule;
use crate::layout::VersionName;
use crate::piece::PieceV1;

/// What is known of a staged file's bytes after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StagedState {
    /// The bucket has them.
    Clean,
    /// Nobody has said that they are whole.
    Open,
    /// They were sealed, and are as they were then.
    Sealed,
    /// They were sealed, and newer ones were written since, as earlier versions of this program recorded: it is looked
    /// in any case.
    WrittenSince,
}

impl StagedState {
    fn code(self) -> i64 {
        match self {
            StagedState::Clean => 0,
            StagedState::Open => 1,
            StagedState::Sealed => 2,
            StagedState::WrittenSince => 3,
        }
    }

    /// A code of a newer program is read as `Open`: such bytes are kept, and not uploaded.
    fn of(code: i64) -> StagedState {
        match code {
            0 => StagedState::Clean,
            2 => StagedState::Sealed,
            3 => StagedState::WrittenSince,
            _ => StagedState::Open,
        }
    }
}

/// The number of a staged file's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StagedId(i64);

/// A staged file as recorded.
#[derive(Debug)]
pub(crate) struct StagedRow {
    /// Its number.
    pub id: StagedId,
    /// The name of its backing file.
    pub file: String,
    /// What is known of its bytes.
    pub state: StagedState,
    /// The caller's note.
    pub note: Vec<u8>,
    /// The version that the bucket has of it, if it is clean.
    pub identity: Option<Vec<u8>>,
    /// The last seal.
    pub epoch: u64,
    /// The size at the last seal.
    pub size: u64,
}

/// A new row.
#[derive(Debug)]
pub(crate) struct NewStaged<'a> {
    /// The name of its backing file.
    pub file: &'a str,
    /// The caller's note.
    pub note: &'a [u8],
    /// What is known of its bytes.
    pub state: StagedState,
}

/// How many staged files are told of at most.
pub(crate) const ROWS_TOLD_MAX: u32 = 100_000;

/// The rows of staged files, for who has not opened the state folder.
pub(crate) fn staged_rows(connection: &Connection, database: &Path) -> Result<Vec<StagedRow>> {
    let db = |error| Error::db("list staged files", database, error);
    // First: what the database takes in meanwhile is found there.
    let written = seals::written(database, &Disk::default());
    let written = written.map_err(|error| Error::io("list staged files", database, error))?;
    let query = || {
        let transaction = connection.unchecked_transaction()?;
        let mut rows: BTreeMap<StagedId, StagedRow> = transaction
            .prepare(
                "SELECT id, file, state, note, identity, epoch, size FROM staged ORDER BY id LIMIT ?1",
            )?
            .query_map([ROWS_TOLD_MAX], row_of)?
            .map(|row| row.map(|row| (row.id, row)))
            .collect::<rusqlite::Result<_>>()?;
        for (path, record, row) in written {
            if seals::known(&transaction, &path)? < record {
                rows.insert(StagedId(row.id), StagedRow::of(row));
            }
        }
        Ok(rows.into_values().collect())
    };
    query().map_err(db)
}

/// The rows of the files that were sealed last, where the database is missing or damaged: the next process that opens the
/// folder takes them into a new one.
pub(crate) fn sealed_rows(database: &Path) -> Result<Vec<StagedRow>> {
    let written = seals::written(database, &Disk::default());
    let written = written.map_err(|error| Error::io("list staged files", database, error))?;
    let rows = written.into_iter().map(|(_, _, row)| (StagedId(row.id), StagedRow::of(row)));
    Ok(rows.collect::<BTreeMap<_, _>>().into_values().collect())
}

/// The checksums of the last seal of a staged file, for who has not opened the state folder; `None` if they cannot be
/// read.
pub(crate) fn staged_sums(
    connection: &Connection,
    database: &Path,
    id: StagedId,
) -> Result<Option<Vec<(usize, PieceV1)>>> {
    let db = |error| Error::db("read checksums", database, error);
    let written = seals::written(database, &Disk::default());
    let written = written.map_err(|error| Error::io("read checksums", database, error))?;
    let mut newest = None;
    for (path, record, row) in written.into_iter().filter(|(_, _, row)| row.id == id.0) {
        if seals::known(connection, &path).map_err(db)? < record {
            newest = Some(row.map);
        }
    }
    match newest {
        Some(Some(map)) => Ok(PieceV1::decode(&map).map(|map| vec![(0, map)])),
        Some(None) => Ok(Some(Vec::new())),
        None => pieces_of(connection, id).map_err(db),
    }
}

impl StagedRow {
    fn of(row: NewRow) -> StagedRow {
        let NewRow { id, boot: _, file, state, note, identity, epoch, size, map: _ } = row;
        let (epoch, size) = (unsigned(epoch), unsigned(size));
        StagedRow {
            id: StagedId(id),
            file,
            state: StagedState::of(state),
            note,
            identity,
            epoch,
            size,
        }
    }
}

impl Db {
    /// Records a new staged file, later: at the latest with its first seal. What nobody was promised
    /// may lose its name.
    pub(crate) fn insert_staged(&self, new: &NewStaged<'_>) -> Result<StagedId> {
        let row = self.row_of_new(new);
        let id = StagedId(row.id);
        self.write_later("stage", Later::insert(row))?;
        Ok(id)
    }

    /// Turns the version `name`, whose file is `file_inode`, into a staged file: the whole of it, checksums included.
    /// `None`, and nothing is changed, if what is recorded of the version is of another file by now.
    pub(crate) fn take_version(
        &self,
        (name, file_inode): (VersionName, u64),
        new: &NewStaged<'_>,
        (identity, size): (&[u8], u64),
        pieces: &[(usize, PieceV1)],
    ) -> Result<Option<StagedId>> {
        let row = self.row_of_new(new);
        let row = NewRow { identity: Some(identity.to_vec()), size: signed(size), ..row };
        let id = StagedId(row.id);
        self.write("take version", |transaction| {
            if is_of_another_file(transaction, name, file_inode)? {
                return Ok(None);
            }
            forget_version(transaction, name)?;
            row.insert(transaction)?;
            store_pieces(transaction, id, pieces)?;
            Ok(Some(id))
        })
    }

    /// Turns a staged file into the complete version `news`, later; `then` gives it its place. Until
    /// that is done it is found as what it was. The row of the version remembers the staged file, for
    /// the case that we die between the two.
    pub(crate) fn adopt_staged(
        &self,
        id: StagedId,
        file: &str,
        news: VersionNews<'static>,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let (boot, file) = (self.boot(), file.to_owned());
        let adopt = move |transaction: &Transaction<'_>| {
            forget_version(transaction, news.name)?;
            save_version(transaction, boot, &news)?;
            transaction
                .prepare_cached("UPDATE versions SET came_as = ?2 WHERE name = ?1")?
                .execute(params![news.name.to_string(), file])?;
            remove(transaction, id)
        };
        self.write_later("adopt", Later::new(adopt).then(then))?;
        self.over.add();
        self.settle_many();
        Ok(())
    }

    /// Records a seal with the checksums that changed since the last one, and the note of what it
    /// is to become, if there is a new one.
    pub(crate) fn seal_staged(
        &self,
        id: StagedId,
        (epoch, size): (u64, u64),
        note: Option<&[u8]>,
        pieces: &[(usize, PieceV1)],
    ) -> Result<()> {
        let (first, further) = split_first(pieces);
        if further.is_empty() {
            let is_recorded = self.record_ahead(id, |row| NewRow {
                id: row.id,
                boot: row.boot,
                file: row.file.clone(),
                state: StagedState::Sealed.code(),
                identity: row.identity.clone(),
                note: note.map_or_else(|| row.note.clone(), <[u8]>::to_vec),
                epoch: signed(epoch),
                size: signed(size),
                // What was not changed since an earlier seal is as it was then.
                map: first.map(PieceV1::encode).or_else(|| row.map.clone()).filter(|_| size > 0),
            });
            if is_recorded {
                return Ok(());
            }
        }
        let boot = self.boot();
        self.write("seal", |transaction| {
            let rows = transaction
                .prepare_cached(
                    "UPDATE staged SET state = ?2, epoch = ?3, size = ?4, boot = ?5, identity = NULL,
                     note = COALESCE(?6, note), map = CASE ?4 WHEN 0 THEN NULL ELSE COALESCE(?7, map) END
                     WHERE id = ?1",
                )?
                .execute(params![
                    id.0,
                    StagedState::Sealed.code(),
                    signed(epoch),
                    signed(size),
                    boot.0,
                    note,
                    first.map(PieceV1::encode),
                ])?;
            if rows != 1 {
                // Nobody would find it again.
                return Err(rusqlite::Error::StatementChangedRows(rows));
            }
            let first_beyond = granule::count(size).div_ceil(granule::PIECE_GRANULES);
            transaction
                .prepare_cached("DELETE FROM staged_pieces WHERE staged = ?1 AND piece >= ?2")?
                .execute(params![id.0, signed(first_beyond)])?;
            store_further(transaction, id, further)
        })
    }

    fn row_of_new(&self, new: &NewStaged<'_>) -> NewRow {
        NewRow {
            id: self.new_row(),
            boot: self.boot().0,
            file: new.file.to_owned(),
            state: new.state.code(),
            note: new.note.to_vec(),
            identity: None,
            epoch: 0,
            size: 0,
            map: None,
        }
    }

    /// Writes a staged file down, as `grown` says, if it waits to be recorded; it waits on, with the others. Whether
    /// that was done.
    fn record_ahead(&self, id: StagedId, grown: impl FnOnce(&NewRow) -> NewRow) -> bool {
        let mut waiting = self.later.lock();
        let is_it = |later: &Later| later.staged().is_some_and(|row| row.id == id.0);
        let Some(at) = waiting.iter().rposition(is_it) else { return false };
        let grown = grown(waiting[at].staged().expect("it is the one"));
        match self.seals.lock().append(&grown, &self.disk) {
            Ok(Some(record)) => {
                waiting[at] = Later::insert_recorded(grown, record);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::debug!(%error, "a seal is recorded in the database");
                false
            }
        }
    }

    /// Records what is known of a staged file's bytes.
    pub(crate) fn set_staged_state(&self, id: StagedId, state: StagedState) -> Result<()> {
        self.write("record staged state", |transaction| {
            transaction
                .prepare_cached("UPDATE staged SET state = ?2, identity = NULL WHERE id = ?1")?
                .execute(params![id.0, state.code()])?;
            Ok(())
        })?;
        self.over.add();
        Ok(())
    }

    /// Records that the bucket has the bytes of a staged file as the version `identity`.
    pub(crate) fn set_staged_clean(&self, id: StagedId, identity: &[u8]) -> Result<()> {
        self.write("record staged state", |transaction| {
            transaction
                .prepare_cached("UPDATE staged SET state = ?2, identity = ?3 WHERE id = ?1")?
                .execute(params![id.0, StagedState::Clean.code(), identity])?;
            Ok(())
        })?;
        self.over.add();
        Ok(())
    }

    /// Replaces the caller's note.
    pub(crate) fn set_staged_note(&self, id: StagedId, note: &[u8]) -> Result<()> {
        self.set_staged_notes(&[(id, note)])
    }

    /// Notes this of all of them, or of none.
    pub(crate) fn set_staged_notes(&self, notes: &[(StagedId, &[u8])]) -> Result<()> {
        for (_, note) in notes {
            self.die_if_empty(note);
        }
        self.write("set notes", |transaction| {
            notes.iter().try_for_each(|(id, note)| set_note(transaction, *id, note))
        })?;
        if notes.iter().any(|(_, note)| note.is_empty()) {
            // Nobody uploads it any more.
            self.over.add();
        }
        Ok(())
    }

    /// Whoever is about to write an empty note panics from here on, as if the process died there.
    #[cfg(feature = "testing")]
    pub(crate) fn die_at_an_empty_note(&self) {
        self.dies_at_an_empty_note.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    #[cfg(feature = "testing")]
    fn die_if_empty(&self, note: &[u8]) {
        let dies = self.dies_at_an_empty_note.load(std::sync::atomic::Ordering::Relaxed);
        assert!(!dies || !note.is_empty(), "the process dies here");
    }

    #[cfg(not(feature = "testing"))]
    fn die_if_empty(&self, _note: &[u8]) {}

    /// Forgets a staged file, later: a row without a file means nothing.
    pub(crate) fn remove_staged(&self, id: StagedId) -> Result<()> {
        self.write_later("discard", Later::new(move |transaction| remove(transaction, id)))?;
        self.over.add();
        Ok(())
    }

    /// At most `limit` staged files with numbers above `after`, in order.
    pub(crate) fn staged_after(
        &self,
        after: Option<StagedId>,
        limit: u32,
    ) -> Result<Vec<StagedRow>> {
        if after.is_none() {
            self.take_in_seals(Dead::WhoLetGo)?;
        }
        self.read("list staged files", |connection| {
            connection
                .prepare_cached(
                    "SELECT id, file, state, note, identity, epoch, size FROM staged
                     WHERE id > ?1 ORDER BY id LIMIT ?2",
                )?
                .query_map(params![after.map_or(0, |id| id.0), limit], row_of)?
                .collect()
        })
    }

    /// The names of all staged files. For who is alone in the state folder.
    pub(crate) fn staged_files(&self) -> Result<HashSet<String>> {
        self.take_in_seals(Dead::Others)?;
        self.read("list staged files", |connection| {
            connection
                .prepare_cached("SELECT file FROM staged")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
    }

    /// The checksums of the last seal; `None` if they cannot be read.
    pub(crate) fn staged_pieces(&self, id: StagedId) -> Result<Option<Vec<(usize, PieceV1)>>> {
        self.read("read checksums", |connection| pieces_of(connection, id))
    }
}

fn pieces_of(
    connection: &Connection,
    id: StagedId,
) -> rusqlite::Result<Option<Vec<(usize, PieceV1)>>> {
    let mut statement = connection.prepare_cached(
        "SELECT piece, map FROM staged_pieces WHERE staged = ?1
         UNION ALL SELECT 0, map FROM staged WHERE id = ?1 AND map IS NOT NULL",
    )?;
    let mut rows = statement.query([id.0])?;
    let mut pieces = Vec::new();
    while let Some(row) = rows.next()? {
        // What is not in a map is taken from elsewhere: one that is lost must not say so.
        let Some(map) = PieceV1::decode(&row.get::<_, Vec<u8>>(1)?) else { return Ok(None) };
        pieces.push((granule::index(unsigned(row.get(0)?)), map));
    }
    Ok(Some(pieces))
}

fn set_note(transaction: &Transaction<'_>, id: StagedId, note: &[u8]) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE staged SET note = ?2 WHERE id = ?1")?
        .execute(params![id.0, note])?;
    Ok(())
}

fn remove(transaction: &Transaction<'_>, id: StagedId) -> rusqlite::Result<()> {
    transaction.prepare_cached("DELETE FROM staged_pieces WHERE staged = ?1")?.execute([id.0])?;
    transaction.prepare_cached("DELETE FROM staged WHERE id = ?1")?.execute([id.0])?;
    Ok(())
}

/// The first piece, which is kept in the row of its file, and the others.
fn split_first(pieces: &[(usize, PieceV1)]) -> (Option<&PieceV1>, &[(usize, PieceV1)]) {
    match pieces {
        [(0, first), further @ ..] => (Some(first), further),
        further => (None, further),
    }
}

fn store_pieces(
    transaction: &Transaction<'_>,
    id: StagedId,
    pieces: &[(usize, PieceV1)],
) -> rusqlite::Result<()> {
    let (first, further) = split_first(pieces);
    if let Some(first) = first {
        transaction
            .prepare_cached("UPDATE staged SET map = ?2 WHERE id = ?1")?
            .execute(params![id.0, first.encode()])?;
    }
    store_further(transaction, id, further)
}

fn store_further(
    transaction: &Transaction<'_>,
    id: StagedId,
    pieces: &[(usize, PieceV1)],
) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached(
        "INSERT OR REPLACE INTO staged_pieces (staged, piece, map) VALUES (?1, ?2, ?3)",
    )?;
    for (piece, map) in pieces {
        statement.execute(params![id.0, signed(*piece as u64), map.encode()])?;
    }
    Ok(())
}

fn row_of(row: &Row<'_>) -> rusqlite::Result<StagedRow> {
    Ok(StagedRow {
        id: StagedId(row.get(0)?),
        file: row.get(1)?,
        state: StagedState::of(row.get(2)?),
        note: row.get(3)?,
        identity: row.get(4)?,
        epoch: unsigned(row.get(5)?),
        size: unsigned(row.get(6)?),
    })
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::{NewStaged, StagedState};
    use crate::piece::PieceV1;
    use crate::state::Db;

    fn piece(sum: u32) -> PieceV1 {
        let mut piece = PieceV1::empty(1);
        piece.insert(0, sum);
        piece
    }

    fn new(file: &str) -> NewStaged<'_> {
        NewStaged { file, note: b"first", state: StagedState::Open }
    }

    #[test]
    fn the_first_seal_is_no_transaction() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        let other = db.insert_staged(&new("other")).unwrap();
        let id = db.insert_staged(&new("file")).unwrap();
        db.seal_staged(id, (1, 500), Some(b"note"), &[(0, piece(7))]).unwrap();
        assert_eq!(db.later.lock().len(), 2, "both wait");
        let rows = db.staged_after(None, 10).unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.id, row.state, row.size)).collect();
        assert_eq!(found, [(other, StagedState::Open, 0), (id, StagedState::Sealed, 500)]);
        assert_eq!((rows[1].file.as_str(), &rows[1].note[..]), ("file", &b"note"[..]));
        assert_eq!(db.staged_pieces(id).unwrap(), Some(vec![(0, piece(7))]));
    }

    #[test]
    fn a_later_seal_has_the_pieces_of_both_and_none_beyond_its_end() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        let id = db.insert_staged(&new("file")).unwrap();
        let long = 200 << 20;
        db.seal_staged(id, (1, long), None, &[(0, piece(7)), (1, piece(8))]).unwrap();
        db.seal_staged(id, (2, long), Some(b"note"), &[(1, piece(9))]).unwrap();
        let mut pieces = db.staged_pieces(id).unwrap().unwrap();
        pieces.sort_by_key(|(at, _)| *at);
        assert_eq!(pieces, [(0, piece(7)), (1, piece(9))]);
        db.seal_staged(id, (3, 500), None, &[(0, piece(5))]).unwrap();
        assert_eq!(db.staged_pieces(id).unwrap(), Some(vec![(0, piece(5))]));
        db.seal_staged(id, (4, 0), None, &[]).unwrap();
        assert_eq!(db.staged_pieces(id).unwrap(), Some(Vec::new()));
        assert_eq!(db.staged_after(None, 10).unwrap()[0].note, b"note");
    }

    #[test]
    fn a_file_whose_first_seal_failed_is_recorded_all_the_same() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        let id = db.insert_staged(&new("file")).unwrap();
        let trigger =
            "CREATE TRIGGER full BEFORE UPDATE ON staged BEGIN SELECT RAISE(ABORT, 'full'); END";
        db.write("test", |transaction| transaction.execute_batch("SELECT 1")).unwrap();
        let again = db.insert_staged(&new("again")).unwrap();
        db.connection.lock().execute_batch(trigger).unwrap();
        // For which the file of seals has no room.
        let long = vec![b'n'; 2 << 20];
        db.seal_staged(again, (1, 500), Some(&long), &[(0, piece(7))]).unwrap_err();
        db.connection.lock().execute_batch("DROP TRIGGER full").unwrap();
        db.settle().unwrap();
        let ids: Vec<_> = db.staged_after(None, 10).unwrap().iter().map(|row| row.id).collect();
        assert_eq!(ids, [id, again]);
    }

    fn die_and_open_again(db: Db, dir: &std::path::Path) -> Db {
        drop(db);
        Db::of_test(dir)
    }

    #[test]
    fn a_seal_survives_the_death_of_its_process_before_the_database_has_it() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("state.db");
        let db = Db::of_test(dir.path());
        let (sealed, again, open) = (
            db.insert_staged(&new("a")).unwrap(),
            db.insert_staged(&new("b")).unwrap(),
            db.insert_staged(&new("c")).unwrap(),
        );
        db.seal_staged(sealed, (1, 5), Some(b"note"), &[(0, piece(7))]).unwrap();
        db.seal_staged(again, (1, 5), None, &[(0, piece(1))]).unwrap();
        db.seal_staged(again, (2, 6), None, &[(0, piece(2))]).unwrap();
        db.seal_staged(again, (3, 6), None, &[]).unwrap();
        // Who has not opened the folder sees them, and so does who has, though they are not theirs yet.
        let read_only = rusqlite::Connection::open(&path).unwrap();
        assert_eq!(super::staged_rows(&read_only, &path).unwrap().len(), 2);
        // Nor is the database needed for that.
        let without: Vec<_> = super::sealed_rows(&path).unwrap();
        let without: Vec<_> = without.iter().map(|row| (row.id, row.state, row.epoch)).collect();
        assert_eq!(without, [(sealed, StagedState::Sealed, 1), (again, StagedState::Sealed, 3)]);
        let other = Db::of_test(dir.path());
        assert_eq!(other.staged_after(None, 10).unwrap().len(), 0, "its process lives");

        let db = die_and_open_again(db, dir.path());
        let rows = db.staged_after(None, 10).unwrap();
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.id, row.state, row.epoch, row.size, &row.note[..]))
            .collect();
        assert_eq!(
            found,
            [
                (sealed, StagedState::Sealed, 1, 5, &b"note"[..]),
                (again, StagedState::Sealed, 3, 6, &b"first"[..]),
            ]
        );
        assert!(!rows.iter().any(|row| row.id == open), "nobody was promised that");
        assert_eq!(db.staged_pieces(again).unwrap().unwrap(), [(0, piece(2))]);
        assert!(!dir.path().join("seals-1-0").exists(), "it was taken in");
        assert_eq!(super::staged_rows(&read_only, &path).unwrap().len(), 2);
    }

    #[test]
    fn what_happened_to_a_sealed_file_since_is_not_undone() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        let (written, gone, last) = (
            db.insert_staged(&new("a")).unwrap(),
            db.insert_staged(&new("b")).unwrap(),
            db.insert_staged(&new("c")).unwrap(),
        );
        for id in [written, gone] {
            db.seal_staged(id, (1, 5), None, &[(0, piece(7))]).unwrap();
        }
        db.set_staged_state(written, StagedState::WrittenSince).unwrap();
        db.remove_staged(gone).unwrap();
        db.settle().unwrap();
        // Behind it in the file are records of what is over.
        db.seal_staged(last, (1, 5), None, &[]).unwrap();

        let db = die_and_open_again(db, dir.path());
        let rows = db.staged_after(None, 10).unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.id, row.state)).collect();
        assert_eq!(found, [(written, StagedState::WrittenSince), (last, StagedState::Sealed)]);
    }

    #[test]
    fn who_dies_between_taking_seals_in_and_removing_their_file_undoes_nothing_later() {
        let dir = tempdir().unwrap();
        let (seals, copy) = (dir.path().join("seals-1-0"), dir.path().join("copy"));
        let db = Db::of_test(dir.path());
        let id = db.insert_staged(&new("a")).unwrap();
        db.seal_staged(id, (1, 5), None, &[(0, piece(7))]).unwrap();
        std::fs::copy(&seals, &copy).unwrap();
        let db = die_and_open_again(db, dir.path());
        assert_eq!(db.staged_after(None, 10).unwrap().len(), 1);
        db.set_staged_state(id, StagedState::WrittenSince).unwrap();
        std::fs::rename(&copy, &seals).unwrap();
        let db = die_and_open_again(db, dir.path());
        assert_eq!(db.staged_after(None, 10).unwrap()[0].state, StagedState::WrittenSince);
    }

    #[test]
    fn after_an_orderly_end_there_is_no_file_of_seals_and_what_is_sealed_is_in_the_database() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        let (sealed, late) =
            (db.insert_staged(&new("a")).unwrap(), db.insert_staged(&new("b")).unwrap());
        db.seal_staged(sealed, (1, 5), None, &[(0, piece(7))]).unwrap();
        db.end().unwrap();
        assert!(!dir.path().join("seals-1-0").exists());
        let last = db.insert_staged(&new("c")).unwrap();
        for id in [late, last] {
            db.seal_staged(id, (1, 5), None, &[(0, piece(7))]).unwrap();
        }
        let db = die_and_open_again(db, dir.path());
        let rows = db.staged_after(None, 10).unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.id, row.state)).collect();
        assert_eq!(found, [sealed, late, last].map(|id| (id, StagedState::Sealed)));
        // Nothing is left of the first file.
        let noted = db.read("test", |connection| {
            connection.query_row(
                "SELECT count(*) FROM counters WHERE name = 'seals-1-0'",
                [],
                |row| row.get::<_, i64>(0),
            )
        });
        assert_eq!(noted.unwrap(), 0);
    }

    #[test]
    fn more_seals_than_the_file_has_room_for_are_in_the_database() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        let long = vec![b'n'; 300 << 10];
        let ids: Vec<_> =
            (0..5).map(|file| db.insert_staged(&new(&file.to_string())).unwrap()).collect();
        for id in &ids {
            db.seal_staged(*id, (1, 5), Some(&long), &[]).unwrap();
        }
        let db = die_and_open_again(db, dir.path());
        let rows = db.staged_after(None, 10).unwrap();
        assert_eq!(rows.len(), ids.len());
        assert!(rows.iter().all(|row| row.state == StagedState::Sealed && row.note == long));
    }
}
