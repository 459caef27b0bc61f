//! Rows of cached versions and of the pieces that are here.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Rows, Transaction, params};

use super::{Boot, Db, inode, signed, unsigned};
use crate::error::Result;
use crate::granule::{self, PIECE_GRANULES};
use crate::layout::VersionName;
use crate::piece::PieceV1;
use crate::presence::Standing;

/// What is known of a version when it is opened.
#[derive(Debug)]
pub(crate) struct VersionRow {
    /// The inode that the row speaks of; it says nothing of any other.
    pub inode: u64,
    /// When it was last used.
    pub last_use: u64,
    /// How often it was read.
    pub uses: u64,
    /// What is here, and whether it can be believed.
    pub pieces: Vec<(usize, PieceV1, Standing)>,
}

/// What is to be recorded of a version.
#[derive(Debug)]
pub(crate) struct VersionNews<'a> {
    /// The name of its backing file.
    pub name: VersionName,
    /// What the caller calls it.
    pub identity: Cow<'a, [u8]>,
    /// Its size.
    pub size: u64,
    /// The inode of the backing file that the news are of.
    pub inode: u64,
    /// When it was last used.
    pub last_use: u64,
    /// How often it was read.
    pub uses: u64,
    /// What is here and was not recorded; added to what others recorded.
    pub pieces: Vec<(usize, PieceV1)>,
}

fn piece_disk_bytes(piece: usize, row: &PieceV1, size: u64) -> u64 {
    let first = piece as u64 * PIECE_GRANULES;
    row.present().map(|(at, _)| granule::disk_bytes(first + at as u64, size)).sum()
}

/// A version that could be evicted.
#[derive(Debug)]
pub(crate) struct Idle {
    /// The name of its backing file.
    pub name: VersionName,
    /// What the caller called it.
    pub identity: Vec<u8>,
    /// Its size.
    pub size: u64,
    /// What it takes on the disk.
    pub disk_bytes: u64,
    /// Whether all of it is here.
    pub is_complete: bool,
    /// When it was last used.
    pub last_use: u64,
    /// How often it was read.
    pub uses: u64,
}

/// How far the versions that could be evicted were looked at.
#[derive(Debug)]
pub(crate) struct IdlePage {
    // The last use and the row of the last one, of those read once and of the others.
    seen_to: [(i64, i64); 2],
}

impl IdlePage {
    /// None was.
    pub(crate) fn first() -> IdlePage {
        IdlePage { seen_to: [(i64::MIN, i64::MIN); 2] }
    }
}

impl Db {
    /// Reads what is known of the version `name`.
    pub(crate) fn version(&self, name: VersionName) -> Result<Option<VersionRow>> {
        let boot = self.boot();
        self.read("look up version", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT v.inode, v.last_use, v.uses, p.piece, p.boot, p.map
                 FROM versions v LEFT JOIN pieces p ON p.version = v.id WHERE v.name = ?1",
            )?;
            collect_version(statement.query([name.to_string()])?, boot)
        })
    }

    /// Reads what is known of some pieces of the version `name`.
    pub(crate) fn pieces(
        &self,
        name: VersionName,
        pieces: RangeInclusive<usize>,
    ) -> Result<Option<VersionRow>> {
        let boot = self.boot();
        let (first, last) = (signed(*pieces.start() as u64), signed(*pieces.end() as u64));
        self.read("look up pieces", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT v.inode, v.last_use, v.uses, p.piece, p.boot, p.map
                 FROM versions v LEFT JOIN pieces p
                 ON p.version = v.id AND p.piece BETWEEN ?2 AND ?3 WHERE v.name = ?1",
            )?;
            collect_version(statement.query(params![name.to_string(), first, last])?, boot)
        })
    }

    /// Records news of several versions in one transaction.
    pub(crate) fn save_versions(&self, news: &[VersionNews<'_>]) -> Result<()> {
        let boot = self.boot();
        self.write("save versions", |transaction| {
            news.iter().try_for_each(|version| save_version(transaction, boot, version))
        })
    }

    /// Records a version in place of all that was recorded of it.
    pub(crate) fn replace_version(&self, news: &VersionNews<'_>) -> Result<()> {
        let boot = self.boot();
        self.write("replace version", |transaction| {
            forget_version(transaction, news.name)?;
            save_version(transaction, boot, news)
        })
    }

    /// Forgets that granules of the version `name` are in the file `file_inode`, before they are dropped; those of
    /// another file that it has by now stay.
    pub(crate) fn forget_granules(
        &self,
        (name, file_inode): (VersionName, u64),
        granules: &[u64],
    ) -> Result<()> {
        self.write("forget granules", |transaction| {
            let Some((id, size)) = version_in(transaction, name, file_inode)? else {
                return Ok(());
            };
            for run in granules.chunk_by(|a, b| granule::place(*a).0 == granule::place(*b).0) {
                let piece = granule::place(run[0]).0;
                let Some((mut row, boot)) = stored_piece(transaction, id, piece)? else { continue };
                for &granule in run {
                    row.remove(granule::place(granule).1);
                }
                store_piece(transaction, (id, size), boot, (piece, &row))?;
            }
            sum_up(transaction, id)
        })
    }

    /// Forgets versions by the names of their backing files, before these are removed.
    pub(crate) fn forget_versions(&self, names: &[VersionName]) -> Result<()> {
        self.write("forget versions", |transaction| {
            names.iter().try_for_each(|name| forget_version(transaction, *name))
        })
    }

    /// What all versions together take on the disk, as far as it is in the database.
    pub(crate) fn cached_disk_bytes(&self) -> Result<u64> {
        self.peek("sum up versions", |connection| {
            let mut statement = connection
                .prepare_cached("SELECT value FROM counters WHERE name = 'cached_bytes'")?;
            statement.query_row([], |row| row.get(0)).map(unsigned)
        })
    }

    /// Sums up anew what [`Db::cached_disk_bytes`] tells, which the database itself keeps.
    pub(crate) fn sum_up_versions(&self) -> Result<()> {
        self.write("sum up versions", |transaction| {
            transaction.execute(
                "UPDATE counters SET value = (SELECT COALESCE(SUM(disk_bytes), 0) FROM versions)
                 WHERE name = 'cached_bytes'",
                [],
            )?;
            Ok(())
        })
    }

    /// What the version `name` takes on the disk, as far as it is recorded.
    pub(crate) fn version_disk_bytes(&self, name: VersionName) -> Result<u64> {
        self.read("look up version", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT disk_bytes FROM versions WHERE name = ?1")?;
            let found = statement.query_row([name.to_string()], |row| row.get(0)).optional()?;
            Ok(found.map_or(0, unsigned))
        })
    }

    /// The next versions longest not used, behind those of the pages before: up to `limit` of those read
    /// once and as many of the others, but for pinned ones.
    pub(crate) fn idle_versions(&self, page: &mut IdlePage, limit: u32) -> Result<Vec<Idle>> {
        self.read("list idle versions", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT name, identity, size, disk_bytes, granules, last_use, uses, id FROM versions
                 WHERE (uses > 1) = ?1 AND disk_bytes > 0 AND (last_use, id) > (?2, ?3)
                     AND name NOT IN (SELECT name FROM pinned) ORDER BY last_use, id LIMIT ?4",
            )?;
            let mut found = Vec::new();
            for (often, (last_use, id)) in (0..).zip(&mut page.seen_to) {
                let mut rows = statement.query(params![often, *last_use, *id, limit])?;
                while let Some(row) = rows.next()? {
                    (*last_use, *id) = (row.get(5)?, row.get(7)?);
                    found.push(idle_of(row)?);
                }
            }
            Ok(found)
        })
    }

    /// Calls `each` with the name of every version that is recorded.
    pub(crate) fn each_version_name(&self, each: &mut dyn FnMut(VersionName)) -> Result<()> {
        self.read("list versions", |connection| {
            let mut statement = connection.prepare("SELECT name FROM versions")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                each(name_of(row)?);
            }
            Ok(())
        })
    }

    /// The name of the version that the staged file `file` was about to become.
    pub(crate) fn version_come_as(&self, file: &str) -> Result<Option<VersionName>> {
        self.read("look up version", |connection| {
            connection
                .query_row("SELECT name FROM versions WHERE came_as = ?1", [file], name_of)
                .optional()
        })
    }
}

/// Removes a version and its pieces.
pub(super) fn forget_version(
    transaction: &Transaction<'_>,
    name: VersionName,
) -> rusqlite::Result<()> {
    let id: Option<i64> = transaction
        .prepare_cached("SELECT id FROM versions WHERE name = ?1")?
        .query_row([name.to_string()], |row| row.get(0))
        .optional()?;
    if let Some(id) = id {
        transaction.prepare_cached("DELETE FROM pieces WHERE version = ?1")?.execute([id])?;
        transaction.prepare_cached("DELETE FROM versions WHERE id = ?1")?.execute([id])?;
    }
    Ok(())
}

/// Adds what is new of a version to what is recorded of it.
pub(super) fn save_version(
    transaction: &Transaction<'_>,
    boot: Boot,
    news: &VersionNews<'_>,
) -> rusqlite::Result<()> {
    let recorded = transaction
        .prepare_cached(
            "INSERT INTO versions (name, identity, size, inode, last_use, uses)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (name) DO UPDATE
             SET last_use = MAX(last_use, excluded.last_use), uses = MAX(uses, excluded.uses)
             RETURNING id, inode",
        )?
        .query_row(
            params![
                news.name.to_string(),
                news.identity,
                signed(news.size),
                inode(news.inode),
                signed(news.last_use),
                signed(news.uses),
            ],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        )?;
    let (id, inode_recorded) = recorded;
    if inode_recorded != inode(news.inode) {
        // The backing file was replaced while this process had it open: what is here in the old
        // one says nothing of the new one.
        return Ok(());
    }
    for (piece, row) in &news.pieces {
        let (merged, boot) = match stored_piece(transaction, id, *piece)? {
            None => (row.clone(), boot),
            Some((mut stored, stored_boot)) => {
                // Granules of an earlier boot stay in doubt until all of the piece is verified.
                let is_vouched = stored_boot == boot || stored.is_within(row);
                stored.merge(row);
                (stored, if is_vouched { boot } else { stored_boot })
            }
        };
        store_piece(transaction, (id, news.size), boot, (*piece, &merged))?;
    }
    sum_up(transaction, id)
}

fn collect_version(mut rows: Rows<'_>, boot: Boot) -> rusqlite::Result<Option<VersionRow>> {
    let mut found = None;
    while let Some(row) = rows.next()? {
        let version = match &mut found {
            Some(version) => version,
            None => found.insert(VersionRow {
                inode: row.get::<_, i64>(0)?.cast_unsigned(),
                last_use: unsigned(row.get(1)?),
                uses: unsigned(row.get(2)?),
                pieces: Vec::new(),
            }),
        };
        version.pieces.extend(piece_of(row, boot)?);
    }
    Ok(found)
}

/// Whether what is recorded of the version `name` is of another file than `file_inode`.
pub(super) fn is_of_another_file(
    connection: &Connection,
    name: VersionName,
    file_inode: u64,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM versions WHERE name = ?1 AND inode <> ?2)")?
        .query_row(params![name.to_string(), inode(file_inode)], |row| row.get(0))
}

/// The version `name` and its size, if what is recorded of it is of the file `file_inode`.
fn version_in(
    connection: &Connection,
    name: VersionName,
    file_inode: u64,
) -> rusqlite::Result<Option<(i64, u64)>> {
    connection
        .prepare_cached("SELECT id, size FROM versions WHERE name = ?1 AND inode = ?2")?
        .query_row(params![name.to_string(), inode(file_inode)], |row| {
            Ok((row.get(0)?, unsigned(row.get(1)?)))
        })
        .optional()
}

fn stored_piece(
    connection: &Connection,
    version: i64,
    piece: usize,
) -> rusqlite::Result<Option<(PieceV1, Boot)>> {
    let row = connection
        .prepare_cached("SELECT map, boot FROM pieces WHERE version = ?1 AND piece = ?2")?
        .query_row(params![version, signed(piece as u64)], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, Boot(row.get(1)?)))
        })
        .optional()?;
    Ok(row.and_then(|(map, boot)| Some((PieceV1::decode(&map)?, boot))))
}

fn store_piece(
    connection: &Connection,
    (version, size): (i64, u64),
    boot: Boot,
    (piece, row): (usize, &PieceV1),
) -> rusqlite::Result<()> {
    let disk_bytes = piece_disk_bytes(piece, row, size);
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO pieces (version, piece, boot, granules, disk_bytes, map)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            version,
            signed(piece as u64),
            boot.0,
            signed(row.present().count() as u64),
            signed(disk_bytes),
            row.encode(),
        ])?;
    Ok(())
}

fn sum_up(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE versions SET (granules, disk_bytes) =
             (SELECT COALESCE(SUM(granules), 0), COALESCE(SUM(disk_bytes), 0)
              FROM pieces WHERE version = ?1) WHERE id = ?1",
        )?
        .execute([version])?;
    Ok(())
}

fn piece_of(row: &Row<'_>, boot: Boot) -> rusqlite::Result<Option<(usize, PieceV1, Standing)>> {
    let Some(piece) = row.get::<_, Option<i64>>(3)? else { return Ok(None) };
    let standing = if Boot(row.get(4)?) == boot { Standing::Here } else { Standing::Doubtful };
    // A row that cannot be read claims nothing: its bytes are fetched again.
    let map = PieceV1::decode(&row.get::<_, Vec<u8>>(5)?);
    Ok(map.map(|map| (granule::index(unsigned(piece)), map, standing)))
}

fn idle_of(row: &Row<'_>) -> rusqlite::Result<Idle> {
    let size = unsigned(row.get(2)?);
    Ok(Idle {
        name: name_of(row)?,
        identity: row.get(1)?,
        size,
        disk_bytes: unsigned(row.get(3)?),
        is_complete: unsigned(row.get(4)?) == granule::count(size),
        last_use: unsigned(row.get(5)?),
        uses: unsigned(row.get(6)?),
    })
}

/// The name in the first column.
pub(super) fn name_of(row: &Row<'_>) -> rusqlite::Result<VersionName> {
    let text: String = row.get(0)?;
    VersionName::parse(&text).ok_or_else(|| {
        let error = format!("{text} is not the name of a version").into();
        rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error)
    })
}
