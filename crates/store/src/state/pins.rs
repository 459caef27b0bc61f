//! Rows of pins, and of the versions that each keeps.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::versions::name_of;
use super::{Db, signed, unsigned};
use crate::error::Result;
use crate::layout::VersionName;

/// What came of a wish to keep versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// They are kept from now on.
    Yes {
        /// What they take on the disk, but for those that another pin keeps too.
        bytes: u64,
    },
    /// They would leave the cache too little.
    TooLarge {
        /// What they take.
        bytes: u64,
        /// What other pins keep already.
        others_bytes: u64,
        /// What all pins together may take.
        limit_bytes: u64,
    },
}

/// A pin as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The endpoint and bucket.
    pub volume: String,
    /// What its maker called it: a path in the volume.
    pub path: Vec<u8>,
    /// How many versions it keeps.
    pub files: u64,
    /// What they take when they are whole.
    pub bytes: u64,
}

/// A version that a pin is to keep, and what it takes on the disk.
pub(crate) type Wanted = (VersionName, u64);

/// How many pins are told of at most.
const PINS_TOLD_MAX: u32 = 100_000;

/// The pins of all volumes, for who has not opened the state folder.
pub(crate) fn pin_rows(connection: &Connection) -> rusqlite::Result<Vec<Pin>> {
    connection
        .prepare(
            "SELECT p.volume, p.path, COUNT(k.name), COALESCE(SUM(k.disk_bytes), 0)
             FROM pins p LEFT JOIN pinned k ON k.pin = p.id
             GROUP BY p.id ORDER BY p.volume, p.path LIMIT ?1",
        )?
        .query_map([PINS_TOLD_MAX], |row| {
            let (volume, path) = (row.get(0)?, row.get(1)?);
            let (files, bytes) = (unsigned(row.get(2)?), unsigned(row.get(3)?));
            Ok(Pin { volume, path, files, bytes })
        })?
        .collect()
}

impl Db {
    /// The paths that are pinned in `volume`.
    pub(crate) fn pinned_paths(&self, volume: &str) -> Result<Vec<Vec<u8>>> {
        self.read("list pins", |connection| {
            connection
                .prepare_cached("SELECT path FROM pins WHERE volume = ?1 ORDER BY path")?
                .query_map([volume], |row| row.get(0))?
                .collect()
        })
    }

    /// The pin of `path` keeps just these versions from now on, if all pins together then take at most
    /// `limit_bytes`; else all stays as it was.
    pub(crate) fn pin(
        &self,
        (volume, path): (&str, &[u8]),
        wanted: &[Wanted],
        limit_bytes: u64,
    ) -> Result<Held> {
        self.write("pin", |transaction| {
            let pin = pin_id(transaction, volume, path)?;
            hold(transaction, pin, (volume, path), wanted, limit_bytes)
        })
    }

    /// As [`Db::pin`], if there is such a pin still.
    pub(crate) fn renew_pin(
        &self,
        (volume, path): (&str, &[u8]),
        wanted: &[Wanted],
        limit_bytes: u64,
    ) -> Result<Option<Held>> {
        self.write("renew a pin", |transaction| {
            let Some(pin) = pin_id(transaction, volume, path)? else { return Ok(None) };
            hold(transaction, Some(pin), (volume, path), wanted, limit_bytes).map(Some)
        })
    }

    /// Forgets the pin of `path` in `volume`; returns whether there was one.
    pub(crate) fn unpin(&self, volume: &str, path: &[u8]) -> Result<bool> {
        self.write("unpin", |transaction| {
            let Some(pin) = pin_id(transaction, volume, path)? else { return Ok(false) };
            transaction.prepare_cached("DELETE FROM pinned WHERE pin = ?1")?.execute([pin])?;
            transaction.prepare_cached("DELETE FROM pins WHERE id = ?1")?.execute([pin])?;
            Ok(true)
        })
    }

    /// What all pinned versions take together, each counted once.
    pub(crate) fn pinned_bytes(&self) -> Result<u64> {
        self.read("sum up pins", |connection| pinned_bytes(connection, None))
    }

    /// The names of all pinned versions.
    pub(crate) fn pinned_names(&self) -> Result<HashSet<VersionName>> {
        self.read("list pins", |connection| {
            let mut statement = connection.prepare_cached("SELECT DISTINCT name FROM pinned")?;
            statement.query_map([], name_of)?.collect()
        })
    }

    /// Whether a pin keeps the version `name`.
    pub(crate) fn is_pinned(&self, name: VersionName) -> Result<bool> {
        self.read("look up pins", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT 1 FROM pinned WHERE name = ?1 LIMIT 1")?;
            statement.exists([name.to_string()])
        })
    }
}

/// Has the pin keep just the versions `wanted`, if they fit. Makes it if there is none.
fn hold(
    transaction: &Transaction<'_>,
    pin: Option<i64>,
    (volume, path): (&str, &[u8]),
    wanted: &[Wanted],
    limit_bytes: u64,
) -> rusqlite::Result<Held> {
    let others_bytes = pinned_bytes(transaction, pin)?;
    let bytes = added_bytes(transaction, pin.unwrap_or(0), wanted)?;
    if limit_bytes < others_bytes + bytes {
        return Ok(Held::TooLarge { bytes, others_bytes, limit_bytes });
    }
    let pin = if let Some(pin) = pin {
        pin
    } else {
        transaction
            .prepare_cached("INSERT INTO pins (volume, path) VALUES (?1, ?2)")?
            .execute(params![volume, path])?;
        transaction.last_insert_rowid()
    };
    // Most of it is as it was: only what differs is written.
    let kept: HashSet<VersionName> = transaction
        .prepare_cached("SELECT name FROM pinned WHERE pin = ?1")?
        .query_map([pin], name_of)?
        .collect::<rusqlite::Result<_>>()?;
    let wanted: HashMap<VersionName, u64> = wanted.iter().copied().collect();
    let mut delete =
        transaction.prepare_cached("DELETE FROM pinned WHERE name = ?1 AND pin = ?2")?;
    for name in kept.iter().filter(|name| !wanted.contains_key(name)) {
        delete.execute(params![name.to_string(), pin])?;
    }
    let mut insert = transaction
        .prepare_cached("INSERT INTO pinned (name, pin, disk_bytes) VALUES (?1, ?2, ?3)")?;
    for (name, disk_bytes) in wanted.iter().filter(|(name, _)| !kept.contains(name)) {
        insert.execute(params![name.to_string(), pin, signed(*disk_bytes)])?;
    }
    Ok(Held::Yes { bytes })
}

fn pin_id(
    transaction: &Transaction<'_>,
    volume: &str,
    path: &[u8],
) -> rusqlite::Result<Option<i64>> {
    transaction
        .prepare_cached("SELECT id FROM pins WHERE volume = ?1 AND path = ?2")?
        .query_row(params![volume, path], |row| row.get(0))
        .optional()
}

/// What pinned versions take, each counted once, without those that only the pin `but` keeps.
fn pinned_bytes(connection: &Connection, but: Option<i64>) -> rusqlite::Result<u64> {
    connection
        .prepare_cached(
            "SELECT COALESCE(SUM(disk_bytes), 0) FROM
             (SELECT MAX(disk_bytes) AS disk_bytes FROM pinned WHERE pin != ?1 GROUP BY name)",
        )?
        .query_row([but.unwrap_or(0)], |row| row.get(0))
        .map(unsigned)
}

/// What the versions `wanted` take that no other pin than `pin` keeps already.
fn added_bytes(
    transaction: &Transaction<'_>,
    pin: i64,
    wanted: &[Wanted],
) -> rusqlite::Result<u64> {
    let mut elsewhere =
        transaction.prepare_cached("SELECT 1 FROM pinned WHERE name = ?1 AND pin != ?2 LIMIT 1")?;
    let mut seen = HashSet::new();
    let mut bytes: u64 = 0;
    for (name, disk_bytes) in wanted {
        if seen.insert(*name) && !elsewhere.exists(params![name.to_string(), pin])? {
            bytes = bytes.saturating_add(*disk_bytes);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::Held;
    use crate::layout::VersionName;
    use crate::state::Db;

    #[test]
    fn a_version_that_two_pins_keep_counts_once_and_stays_until_both_are_gone() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        let [a, b] = [b"a", b"b"].map(|identity| VersionName::of(identity, 8192));
        let held = db.pin(("v", b"one"), &[(a, 8192)], 16384).unwrap();
        assert_eq!(held, Held::Yes { bytes: 8192 });
        let held = db.pin(("v", b"both"), &[(a, 8192), (b, 8192)], 16384).unwrap();
        assert_eq!(held, Held::Yes { bytes: 8192 }, "the first is pinned already");
        assert_eq!(db.pinned_bytes().unwrap(), 16384);
        assert!(db.unpin("v", b"both").unwrap());
        assert!(db.is_pinned(a).unwrap() && !db.is_pinned(b).unwrap());
        assert!(!db.unpin("other", b"one").unwrap(), "each volume has its own");
        assert!(db.unpin("v", b"one").unwrap());
        assert_eq!(db.pinned_bytes().unwrap(), 0);
    }

    #[test]
    fn a_pin_that_does_not_fit_changes_nothing() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        let [a, b] = [b"a", b"b"].map(|identity| VersionName::of(identity, 8192));
        db.pin(("v", b"one"), &[(a, 8192)], 16383).unwrap();
        let refused = Held::TooLarge { bytes: 8192, others_bytes: 8192, limit_bytes: 16383 };
        assert_eq!(db.pin(("v", b"two"), &[(b, 8192)], 16383).unwrap(), refused);
        assert_eq!(db.pinned_paths("v").unwrap(), [b"one"]);
        let held = db.pin(("v", b"one"), &[(b, 8192)], 16383).unwrap();
        assert_eq!(held, Held::Yes { bytes: 8192 }, "one version takes the other's place");
        assert!(!db.is_pinned(a).unwrap());
    }

    #[test]
    fn a_pin_that_is_gone_is_not_renewed() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        let [a, b] = [b"a", b"b"].map(|identity| VersionName::of(identity, 8192));
        db.pin(("v", b"one"), &[(a, 8192)], 1 << 20).unwrap();
        let renewed = db.renew_pin(("v", b"one"), &[(a, 8192), (b, 8192)], 1 << 20).unwrap();
        assert_eq!(renewed, Some(Held::Yes { bytes: 16384 }));
        assert!(db.is_pinned(a).unwrap() && db.is_pinned(b).unwrap());
        db.unpin("v", b"one").unwrap();
        assert_eq!(db.renew_pin(("v", b"one"), &[(a, 8192)], 1 << 20).unwrap(), None);
        assert!(!db.is_pinned(a).unwrap());
    }
}
