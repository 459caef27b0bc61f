//! Rows of the folders that were used last.

use rusqlite::params;

use super::Db;
use crate::error::Result;

impl Db {
    /// The folders of `volume`, in the order in which they were noted.
    pub(crate) fn folders(&self, volume: &str) -> Result<Vec<Vec<u8>>> {
        self.read("list folders", |connection| {
            connection
                .prepare_cached("SELECT prefix FROM folders WHERE volume = ?1 ORDER BY place")?
                .query_map([volume], |row| row.get(0))?
                .collect()
        })
    }

    /// Those of `volume` are `prefixes` now, and no others.
    pub(crate) fn note_folders(&self, volume: &str, prefixes: &[&[u8]]) -> Result<()> {
        self.write("note folders", |transaction| {
            transaction
                .prepare_cached("DELETE FROM folders WHERE volume = ?1")?
                .execute([volume])?;
            let mut statement = transaction.prepare_cached(
                "INSERT INTO folders (volume, place, prefix) VALUES (?1, ?2, ?3)",
            )?;
            for (place, prefix) in (0_i64..).zip(prefixes) {
                statement.execute(params![volume, place, prefix])?;
            }
            Ok(())
        })
    }
}
