//! A row of a staged file, as the database has it.

use rusqlite::{Connection, params};

/// One that is to be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewRow {
    pub(super) id: i64,
    pub(super) boot: i64,
    pub(super) file: String,
    pub(super) state: i64,
    pub(super) note: Vec<u8>,
    pub(super) identity: Option<Vec<u8>>,
    pub(super) epoch: i64,
    pub(super) size: i64,
    pub(super) map: Option<Vec<u8>>,
}

impl NewRow {
    /// Inserts it, in one statement.
    pub(super) fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.bring_in(
            connection,
            "INSERT INTO staged (id, file, state, note, identity, epoch, size, boot, map)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )
    }

    /// Inserts it in the place of an earlier state of it.
    pub(super) fn replace(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.bring_in(
            connection,
            "INSERT OR REPLACE INTO staged (id, file, state, note, identity, epoch, size, boot, map)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )
    }

    fn bring_in(&self, connection: &Connection, statement: &str) -> rusqlite::Result<()> {
        connection.prepare_cached(statement)?.execute(params![
            self.id,
            self.file,
            self.state,
            self.note,
            self.identity,
            self.epoch,
            self.size,
            self.boot,
            self.map,
        ])?;
        Ok(())
    }
}
