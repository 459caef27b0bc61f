//! Rows of the journal: operations that are to be carried out whatever happens.

use rusqlite::{Connection, Transaction, params};

use super::later::Later;
use super::{Db, signed, unsigned};
use crate::error::Result;

/// An operation as recorded.
#[derive(Debug)]
pub(crate) struct JournalRow {
    /// Its number; later operations have greater ones.
    pub id: u64,
    /// Which opening of the state folder it belongs to.
    pub owner: u64,
    /// What kind it is.
    pub kind: i64,
    /// What the caller wrote of it.
    pub payload: Vec<u8>,
}

/// How many operations are told of at most to who has not opened the state folder.
const ROWS_TOLD_MAX: u32 = 100_000;

/// Who has operations in the journal, for who has not opened the state folder.
pub(crate) fn owners_of_rows(connection: &Connection) -> rusqlite::Result<Vec<u64>> {
    connection
        .prepare("SELECT DISTINCT owner FROM journal")?
        .query_map([], |row| row.get(0).map(unsigned))?
        .collect()
}

/// The operations in the journal, the first ones if there are very many, for who has not opened the state folder.
pub(crate) fn told_rows(connection: &Connection) -> rusqlite::Result<Vec<JournalRow>> {
    next_rows(connection, 0, ROWS_TOLD_MAX)
}

impl Db {
    /// Adds an operation of ours.
    pub(crate) fn append(&self, kind: i64, payload: &[u8]) -> Result<u64> {
        let (id, owner) = (self.new_row(), self.owner());
        self.write("append to journal", |transaction| {
            insert(transaction, (id, owner), kind, payload).map(|()| unsigned(id))
        })
    }

    /// Adds an operation of ours, and what `more` says beside it for its number: all or none.
    pub(crate) fn append_with(
        &self,
        kind: i64,
        payload: &[u8],
        more: impl FnOnce(u64) -> Vec<Vec<u8>>,
    ) -> Result<Vec<u64>> {
        let (first, owner) = (self.new_row(), self.owner());
        let more = more(unsigned(first));
        let beside = more.iter().map(|payload| (self.new_row(), &payload[..]));
        let rows: Vec<(i64, &[u8])> = [(first, payload)].into_iter().chain(beside).collect();
        self.write("append to journal", |transaction| {
            rows.iter()
                .try_for_each(|&(id, payload)| insert(transaction, (id, owner), kind, payload))
        })?;
        Ok(rows.into_iter().map(|(id, _)| unsigned(id)).collect())
    }

    /// Adds an operation of ours, later.
    pub(crate) fn append_later(&self, kind: i64, payload: Vec<u8>) -> Result<u64> {
        let (id, owner) = (self.new_row(), self.owner());
        let insert =
            move |transaction: &Transaction<'_>| insert(transaction, (id, owner), kind, &payload);
        self.write_later("append to journal", Later::new(insert))?;
        Ok(unsigned(id))
    }

    /// Removes operations that are done, later: what is done twice does no harm.
    pub(crate) fn remove_ops(&self, ids: Vec<u64>) -> Result<()> {
        let remove = move |transaction: &Transaction<'_>| {
            let mut remove = transaction.prepare_cached("DELETE FROM journal WHERE id = ?1")?;
            for &id in &ids {
                remove.execute([signed(id)])?;
            }
            Ok(())
        };
        self.write_later("remove from journal", Later::new(remove))
    }

    /// Makes the operations among the next `limit` after `after` ours that are `wanted` and whose
    /// owner `is_dead`; returns them, and the number of the last one looked at.
    pub(crate) fn inherit_ops(
        &self,
        after: u64,
        limit: u32,
        wanted: &dyn Fn(&JournalRow) -> bool,
        is_dead: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(Vec<JournalRow>, Option<u64>)> {
        let owner = self.owner();
        self.write("inherit from journal", |transaction| {
            let rows = next_rows(transaction, after, limit)?;
            let last = rows.last().map(|row| row.id);
            let mut inherited = Vec::new();
            for row in rows {
                if row.owner != owner && wanted(&row) && is_dead(row.owner) {
                    transaction
                        .prepare_cached("UPDATE journal SET owner = ?2 WHERE id = ?1")?
                        .execute(params![signed(row.id), signed(owner)])?;
                    inherited.push(row);
                }
            }
            Ok((inherited, last))
        })
    }

    /// The next `limit` operations after `after`, whoever has them.
    pub(crate) fn ops_after(&self, after: u64, limit: u32) -> Result<Vec<JournalRow>> {
        self.read("look at journal", |connection| next_rows(connection, after, limit))
    }
}

fn insert(
    transaction: &Transaction<'_>,
    (id, owner): (i64, u64),
    kind: i64,
    payload: &[u8],
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT INTO journal (id, owner, kind, payload) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, signed(owner), kind, payload])?;
    Ok(())
}

fn next_rows(connection: &Connection, after: u64, limit: u32) -> rusqlite::Result<Vec<JournalRow>> {
    connection
        .prepare_cached(
            "SELECT id, owner, kind, payload FROM journal WHERE id > ?1 ORDER BY id LIMIT ?2",
        )?
        .query_map(params![signed(after), limit], |row| {
            Ok(JournalRow {
                id: unsigned(row.get(0)?),
                owner: unsigned(row.get(1)?),
                kind: row.get(2)?,
                payload: row.get(3)?,
            })
        })?
        .collect()
}
