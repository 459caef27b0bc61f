//! A row of a staged file, as the database has it.

use rusqlite::{Connection, params};

/// One that is to be inserted.
#[derive(Clone, Debug)]
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
        connection
            .prepare_cached(
                "INSERT INTO staged (id, file, state, note, identity, epoch, size, boot, map)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
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
