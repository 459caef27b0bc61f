//! Rows of what was found out about the stores behind volumes.

use rusqlite::params;

use super::Db;
use crate::error::Result;

impl Db {
    /// What was found out of `volume` at `since_secs` or later.
    pub(crate) fn facts(&self, volume: &str, since_secs: i64) -> Result<Vec<(String, bool)>> {
        self.read("list facts", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT name, is_so FROM facts WHERE volume = ?1 AND ?2 <= found_secs ORDER BY name",
            )?;
            let rows = statement.query_map(params![volume, since_secs], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            rows.collect()
        })
    }

    /// Notes `facts`. What is known already, since `since_secs` or later, stays as old as it is.
    pub(crate) fn note_facts(
        &self,
        volume: &str,
        facts: &[(&str, bool)],
        (now_secs, since_secs): (i64, i64),
    ) -> Result<()> {
        self.write("note facts", |transaction| {
            let mut statement = transaction.prepare_cached(
                "INSERT INTO facts (volume, name, is_so, found_secs) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (volume, name) DO UPDATE
                 SET is_so = excluded.is_so, found_secs = excluded.found_secs
                 WHERE is_so <> excluded.is_so OR found_secs < ?5",
            )?;
            for (name, is_so) in facts {
                statement.execute(params![volume, name, is_so, now_secs, since_secs])?;
            }
            Ok(())
        })
    }
}
