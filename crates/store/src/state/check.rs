//! Rows as somebody sees them who does not believe them.

use rusqlite::Connection;

use super::unsigned;
use crate::layout::VersionName;
use crate::piece::PieceV1;

/// A row of a cached version, and its pieces.
#[derive(Debug)]
pub(crate) struct CheckedVersion {
    pub(crate) id: i64,
    /// `None` if it is no name.
    pub(crate) name: Option<VersionName>,
    pub(crate) identity: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) inode: u64,
    /// How many are counted.
    pub(crate) granules: u64,
    /// By their numbers; `None` for one that cannot be read.
    pub(crate) pieces: Vec<(u64, Option<PieceV1>)>,
}

/// How many flaws of a kind are told.
const TOLD_MAX: u32 = 1000;

/// Tells of each cached version, one at a time: all maps together may be more than there is memory for.
pub(crate) fn each_version(
    connection: &Connection,
    mut tell: impl FnMut(CheckedVersion),
) -> rusqlite::Result<()> {
    let mut pieces =
        connection.prepare("SELECT piece, map FROM pieces WHERE version = ?1 ORDER BY piece")?;
    let mut versions = connection
        .prepare("SELECT id, name, identity, size, inode, granules FROM versions ORDER BY id")?;
    let mut rows = versions.query([])?;
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        let of_version = pieces.query_map([id], |row| {
            let map: Vec<u8> = row.get(1)?;
            Ok((unsigned(row.get(0)?), PieceV1::decode(&map)))
        })?;
        tell(CheckedVersion {
            id,
            name: VersionName::parse(&row.get::<_, String>(1)?),
            identity: row.get(2)?,
            size: unsigned(row.get(3)?),
            inode: row.get::<_, i64>(4)?.cast_unsigned(),
            granules: unsigned(row.get(5)?),
            pieces: of_version.collect::<rusqlite::Result<_>>()?,
        });
    }
    Ok(())
}

/// Rows that speak of others that are not there.
const STRAYS: [(&str, &str); 3] = [
    ("pieces of versions", "pieces WHERE version NOT IN (SELECT id FROM versions)"),
    ("checksums of staged files", "staged_pieces WHERE staged NOT IN (SELECT id FROM staged)"),
    ("versions of pins", "pinned WHERE pin NOT IN (SELECT id FROM pins)"),
];

/// Those of the tables that there are: what an older program made, and no newer one has opened since, lacks some.
fn strays(connection: &Connection) -> rusqlite::Result<Vec<(&'static str, &'static str)>> {
    let mut statement = connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1")?;
    let mut found = Vec::new();
    for (what, rows) in STRAYS {
        let table = rows.split(' ').next().unwrap_or(rows);
        if statement.exists([table])? {
            found.push((what, rows));
        }
    }
    Ok(found)
}

/// What rows there are that speak of others that are not there, in words.
pub(crate) fn stray_rows(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut found = Vec::new();
    for (what, rows) in strays(connection)? {
        let count: i64 =
            connection.query_row(&format!("SELECT count(*) FROM {rows}"), [], |row| row.get(0))?;
        if 0 < count {
            found.push(format!("{count} {what} that are not recorded"));
        }
    }
    Ok(found)
}

/// Removes such rows.
pub(crate) fn drop_strays(connection: &Connection) -> rusqlite::Result<()> {
    strays(connection)?
        .iter()
        .try_for_each(|(_, rows)| connection.execute(&format!("DELETE FROM {rows}"), []).map(drop))
}

/// Rows of the journal that nobody will understand, in words. Kinds of newer programs are not among them.
pub(crate) fn wrong_journal_rows(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection
        .prepare("SELECT id, kind, payload FROM journal WHERE kind IN (1, 2) LIMIT ?1")?;
    let mut rows = statement.query([TOLD_MAX])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, kind, payload): (i64, i64, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        // A version, a volume, and a zero byte.
        let is_known = payload.first() == Some(&1) && payload.contains(&0);
        if !is_known {
            found.push(format!("row {id} of the journal, of kind {kind}, cannot be read"));
        }
    }
    Ok(found)
}
