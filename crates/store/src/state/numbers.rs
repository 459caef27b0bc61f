//! Rows of inode numbers that are not what their paths say.

use base::Ino;
use rusqlite::params;

use super::{Db, inode};
use crate::error::Result;

impl Db {
    /// The last `rows_max` numbers of `volume`, oldest first. Older ones are dropped.
    pub(crate) fn numbers(&self, volume: &str, rows_max: u32) -> Result<Vec<(Vec<u8>, Ino)>> {
        self.write("read inode numbers", |transaction| {
            transaction
                .prepare_cached(
                    "DELETE FROM numbers WHERE volume = ?1 AND id <=
                     (SELECT id FROM numbers WHERE volume = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                )?
                .execute(params![volume, rows_max])?;
            transaction
                .prepare_cached("SELECT path, number FROM numbers WHERE volume = ?1 ORDER BY id")?
                .query_map([volume], |row| {
                    Ok((row.get(0)?, Ino(row.get::<_, i64>(1)?.cast_unsigned())))
                })?
                .collect()
        })
    }

    /// Sets, or removes, numbers of `volume`, in order.
    pub(crate) fn set_numbers(
        &self,
        volume: &str,
        changes: &[(Vec<u8>, Option<Ino>)],
    ) -> Result<()> {
        self.write("note inode numbers", |transaction| {
            let mut set = transaction.prepare_cached(
                "INSERT OR REPLACE INTO numbers (volume, path, number) VALUES (?1, ?2, ?3)",
            )?;
            let mut remove = transaction
                .prepare_cached("DELETE FROM numbers WHERE volume = ?1 AND path = ?2")?;
            for (path, number) in changes {
                match number {
                    Some(number) => set.execute(params![volume, path, inode(number.0)])?,
                    None => remove.execute(params![volume, path])?,
                };
            }
            Ok(())
        })
    }
}
