//! The tables, and how older ones become them.

use rusqlite::Connection;

/// Each entry takes the database from the version that is its index to the next one. Entries are
/// never changed, only added.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE boots (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        boot TEXT NOT NULL UNIQUE
    ) STRICT;
    CREATE TABLE counters (
        name TEXT PRIMARY KEY,
        value INTEGER NOT NULL
    ) STRICT;
    INSERT INTO counters (name, value) VALUES ('owner', 0);
    CREATE TABLE versions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        identity BLOB NOT NULL,
        size INTEGER NOT NULL,
        inode INTEGER NOT NULL,
        granules INTEGER NOT NULL DEFAULT 0,
        disk_bytes INTEGER NOT NULL DEFAULT 0,
        last_use INTEGER NOT NULL,
        uses INTEGER NOT NULL,
        came_as TEXT
    ) STRICT;
    CREATE INDEX versions_by_use ON versions (uses > 1, last_use);
    CREATE TABLE pieces (
        version INTEGER NOT NULL,
        piece INTEGER NOT NULL,
        boot INTEGER NOT NULL,
        granules INTEGER NOT NULL,
        disk_bytes INTEGER NOT NULL,
        map BLOB NOT NULL,
        PRIMARY KEY (version, piece)
    ) STRICT;
    CREATE TABLE staged (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        file TEXT NOT NULL UNIQUE,
        state INTEGER NOT NULL,
        note BLOB NOT NULL,
        identity BLOB,
        epoch INTEGER NOT NULL,
        size INTEGER NOT NULL,
        boot INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE staged_pieces (
        staged INTEGER NOT NULL,
        piece INTEGER NOT NULL,
        map BLOB NOT NULL,
        PRIMARY KEY (staged, piece)
    ) STRICT;
    CREATE TABLE journal (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        owner INTEGER NOT NULL,
        kind INTEGER NOT NULL,
        payload BLOB NOT NULL
    ) STRICT;
",
    "
    CREATE TABLE numbers (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        volume TEXT NOT NULL,
        path BLOB NOT NULL,
        number INTEGER NOT NULL,
        UNIQUE (volume, path)
    ) STRICT;
",
    // The seal of a small file changes one page: the log takes each page whole. Rows have their numbers
    // from us.
    "
    CREATE TABLE new_staged (
        id INTEGER PRIMARY KEY,
        file TEXT NOT NULL,
        state INTEGER NOT NULL,
        note BLOB NOT NULL,
        identity BLOB,
        epoch INTEGER NOT NULL,
        size INTEGER NOT NULL,
        boot INTEGER NOT NULL,
        map BLOB
    ) STRICT;
    INSERT INTO new_staged SELECT *,
        (SELECT map FROM staged_pieces WHERE staged = id AND piece = 0) FROM staged;
    DROP TABLE staged;
    ALTER TABLE new_staged RENAME TO staged;
    CREATE TABLE new_staged_pieces (
        staged INTEGER NOT NULL,
        piece INTEGER NOT NULL,
        map BLOB NOT NULL,
        PRIMARY KEY (staged, piece)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO new_staged_pieces SELECT * FROM staged_pieces WHERE piece > 0;
    DROP TABLE staged_pieces;
    ALTER TABLE new_staged_pieces RENAME TO staged_pieces;
    CREATE TABLE new_pieces (
        version INTEGER NOT NULL,
        piece INTEGER NOT NULL,
        boot INTEGER NOT NULL,
        granules INTEGER NOT NULL,
        disk_bytes INTEGER NOT NULL,
        map BLOB NOT NULL,
        PRIMARY KEY (version, piece)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO new_pieces SELECT * FROM pieces;
    DROP TABLE pieces;
    ALTER TABLE new_pieces RENAME TO pieces;
    CREATE TABLE new_journal (
        id INTEGER PRIMARY KEY,
        owner INTEGER NOT NULL,
        kind INTEGER NOT NULL,
        payload BLOB NOT NULL
    ) STRICT;
    INSERT INTO new_journal SELECT * FROM journal;
    DROP TABLE journal;
    ALTER TABLE new_journal RENAME TO journal;
",
    "
    CREATE TABLE pins (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        volume TEXT NOT NULL,
        path BLOB NOT NULL,
        UNIQUE (volume, path)
    ) STRICT;
    CREATE TABLE pinned (
        name TEXT NOT NULL,
        pin INTEGER NOT NULL,
        disk_bytes INTEGER NOT NULL,
        PRIMARY KEY (name, pin)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX pinned_by_pin ON pinned (pin);
",
    "
    CREATE TABLE facts (
        volume TEXT NOT NULL,
        name TEXT NOT NULL,
        is_so INTEGER NOT NULL,
        found_secs INTEGER NOT NULL,
        PRIMARY KEY (volume, name)
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE folders (
        volume TEXT NOT NULL,
        place INTEGER NOT NULL,
        prefix BLOB NOT NULL,
        PRIMARY KEY (volume, place)
    ) STRICT, WITHOUT ROWID;
",
    // Rows may wait in files beside the database, of which an older program knows nothing.
    "",
    // Who adds to the cache asks what all of it takes, again and again.
    "
    INSERT INTO counters (name, value)
        SELECT 'cached_bytes', COALESCE(SUM(disk_bytes), 0) FROM versions;
    CREATE TRIGGER version_came AFTER INSERT ON versions WHEN NEW.disk_bytes <> 0 BEGIN
        UPDATE counters SET value = value + NEW.disk_bytes WHERE name = 'cached_bytes';
    END;
    CREATE TRIGGER version_changed AFTER UPDATE OF disk_bytes ON versions
        WHEN NEW.disk_bytes <> OLD.disk_bytes BEGIN
        UPDATE counters SET value = value + NEW.disk_bytes - OLD.disk_bytes
            WHERE name = 'cached_bytes';
    END;
    CREATE TRIGGER version_went AFTER DELETE ON versions WHEN OLD.disk_bytes <> 0 BEGIN
        UPDATE counters SET value = value - OLD.disk_bytes WHERE name = 'cached_bytes';
    END;
",
];

/// Brings the database to the present version, inside the caller's transaction.
pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = usize::try_from(version).ok().filter(|known| *known <= MIGRATIONS.len());
    let Some(known) = known else {
        // The folder was made by a newer program.
        return Err(rusqlite::Error::IntegralValueOutOfRange(0, version));
    };
    for migration in &MIGRATIONS[known..] {
        connection.execute_batch(migration)?;
    }
    connection.pragma_update(None, "user_version", MIGRATIONS.len())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{MIGRATIONS, migrate};

    #[test]
    fn migrating_twice_changes_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection).unwrap();
        migrate(&connection).unwrap();
    }

    #[test]
    fn every_older_database_becomes_a_present_one_and_keeps_its_rows() {
        let tables = |connection: &Connection| -> Vec<String> {
            let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
            let mut rows = connection.prepare(sql).unwrap();
            rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        let present = Connection::open_in_memory().unwrap();
        migrate(&present).unwrap();
        for version in 1..MIGRATIONS.len() {
            let old = Connection::open_in_memory().unwrap();
            for migration in &MIGRATIONS[..version] {
                old.execute_batch(migration).unwrap();
            }
            old.pragma_update(None, "user_version", version).unwrap();
            let row = "INSERT INTO journal (owner, kind, payload) VALUES (1, 1, x'01')";
            old.execute(row, []).unwrap();
            let rows = "INSERT INTO staged (id, file, state, note, epoch, size, boot)
                 VALUES (7, 'f', 2, x'', 1, 9, 1);
                 INSERT INTO staged_pieces (staged, piece, map) VALUES (7, 1, x'bb');";
            old.execute_batch(rows).unwrap();
            // The first map of a file was beside the others once.
            let first = match version {
                1 | 2 => "INSERT INTO staged_pieces (staged, piece, map) VALUES (7, 0, x'aa')",
                _ => "UPDATE staged SET map = x'aa' WHERE id = 7",
            };
            old.execute(first, []).unwrap();
            migrate(&old).unwrap();
            let map = |from: &str| {
                let sql = format!("SELECT map FROM {from} = 7");
                old.query_row(&sql, [], |row| row.get::<_, Vec<u8>>(0))
            };
            assert_eq!(map("staged WHERE id"), Ok(vec![0xaa]), "from version {version}");
            assert_eq!(map("staged_pieces WHERE staged"), Ok(vec![0xbb]), "from version {version}");
            assert_eq!(tables(&old), tables(&present), "from version {version}");
            let rows = "SELECT count(*) FROM journal";
            assert_eq!(old.query_row(rows, [], |row| row.get::<_, i64>(0)), Ok(1));
        }
    }

    #[test]
    fn a_folder_of_a_newer_program_is_left_alone() {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", MIGRATIONS.len() + 1).unwrap();
        assert!(migrate(&connection).is_err());
    }
}
