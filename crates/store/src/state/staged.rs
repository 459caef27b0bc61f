//! Rows of staged files: bytes that the bucket may not have.

use std::collections::HashSet;

use rusqlite::{Row, Transaction, params};

use super::later::Later;
use super::versions::{VersionNews, forget_version, save_version};
use super::{Boot, Db, signed, unsigned};
use crate::error::Result;
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
    /// They were sealed, and newer ones were written since.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl Db {
    /// Records a new staged file, later: at the latest with its first seal. What nobody was promised
    /// may lose its name.
    pub(crate) fn insert_staged(&self, new: &NewStaged<'_>) -> Result<StagedId> {
        let (id, boot) = (StagedId(self.new_row()), self.boot());
        let (file, note, state) = (new.file.to_owned(), new.note.to_vec(), new.state);
        let insert = move |transaction: &Transaction<'_>| {
            let new = NewStaged { file: &file, note: &note, state };
            insert(transaction, (id, boot), &new, (None, 0))
        };
        self.write_later("stage", Later::new(insert))?;
        Ok(id)
    }

    /// Turns the version `name` into a staged file: the whole of it, checksums included.
    pub(crate) fn take_version(
        &self,
        name: VersionName,
        new: &NewStaged<'_>,
        (identity, size): (&[u8], u64),
        pieces: &[(usize, PieceV1)],
    ) -> Result<StagedId> {
        let (id, boot) = (StagedId(self.new_row()), self.boot());
        self.write("take version", |transaction| {
            forget_version(transaction, name)?;
            insert(transaction, (id, boot), new, (Some(identity), size))?;
            store_pieces(transaction, id, pieces)?;
            Ok(id)
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
        self.write_later("adopt", Later::new(adopt).then(then))
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
        let boot = self.boot();
        self.write("seal", |transaction| {
            if let Some(note) = note {
                set_note(transaction, id, note)?;
            }
            let rows = transaction
                .prepare_cached(
                    "UPDATE staged SET state = ?2, epoch = ?3, size = ?4, boot = ?5, identity = NULL
                     WHERE id = ?1",
                )?
                .execute(params![
                    id.0,
                    StagedState::Sealed.code(),
                    signed(epoch),
                    signed(size),
                    boot.0
                ])?;
            if rows != 1 {
                // Nobody would find it again.
                return Err(rusqlite::Error::StatementChangedRows(rows));
            }
            let first_beyond = granule::count(size).div_ceil(granule::PIECE_GRANULES);
            transaction
                .prepare_cached("DELETE FROM staged_pieces WHERE staged = ?1 AND piece >= ?2")?
                .execute(params![id.0, signed(first_beyond)])?;
            store_pieces(transaction, id, pieces)
        })
    }

    /// Records what is known of a staged file's bytes.
    pub(crate) fn set_staged_state(&self, id: StagedId, state: StagedState) -> Result<()> {
        self.write("record staged state", |transaction| {
            transaction
                .prepare_cached("UPDATE staged SET state = ?2, identity = NULL WHERE id = ?1")?
                .execute(params![id.0, state.code()])?;
            Ok(())
        })
    }

    /// Records that the bucket has the bytes of a staged file as the version `identity`.
    pub(crate) fn set_staged_clean(&self, id: StagedId, identity: &[u8]) -> Result<()> {
        self.write("record staged state", |transaction| {
            transaction
                .prepare_cached("UPDATE staged SET state = ?2, identity = ?3 WHERE id = ?1")?
                .execute(params![id.0, StagedState::Clean.code(), identity])?;
            Ok(())
        })
    }

    /// Replaces the caller's note.
    pub(crate) fn set_staged_note(&self, id: StagedId, note: &[u8]) -> Result<()> {
        self.write("set note", |transaction| set_note(transaction, id, note))
    }

    /// Forgets a staged file, later: a row without a file means nothing.
    pub(crate) fn remove_staged(&self, id: StagedId) -> Result<()> {
        self.write_later("discard", Later::new(move |transaction| remove(transaction, id)))
    }

    /// At most `limit` staged files with numbers above `after`, in order.
    pub(crate) fn staged_after(
        &self,
        after: Option<StagedId>,
        limit: u32,
    ) -> Result<Vec<StagedRow>> {
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

    /// The names of all staged files.
    pub(crate) fn staged_files(&self) -> Result<HashSet<String>> {
        self.read("list staged files", |connection| {
            connection
                .prepare_cached("SELECT file FROM staged")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
    }

    /// The checksums of the last seal; `None` if they cannot be read.
    pub(crate) fn staged_pieces(&self, id: StagedId) -> Result<Option<Vec<(usize, PieceV1)>>> {
        self.read("read checksums", |connection| {
            let mut statement = connection
                .prepare_cached("SELECT piece, map FROM staged_pieces WHERE staged = ?1")?;
            let mut rows = statement.query([id.0])?;
            let mut pieces = Vec::new();
            while let Some(row) = rows.next()? {
                // What is not in a map is taken from elsewhere: one that is lost must not say so.
                let Some(map) = PieceV1::decode(&row.get::<_, Vec<u8>>(1)?) else {
                    return Ok(None);
                };
                pieces.push((granule::index(unsigned(row.get(0)?)), map));
            }
            Ok(Some(pieces))
        })
    }
}

fn insert(
    transaction: &Transaction<'_>,
    (id, boot): (StagedId, Boot),
    new: &NewStaged<'_>,
    (identity, size): (Option<&[u8]>, u64),
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO staged (id, file, state, note, identity, epoch, size, boot)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7)",
        )?
        .execute(params![
            id.0,
            new.file,
            new.state.code(),
            new.note,
            identity,
            signed(size),
            boot.0
        ])?;
    Ok(())
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

fn store_pieces(
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
