//! The tables, and how older ones become them.

use rusqlite::Connection;

/// Each entry takes the database from the version that is its index to the next one. Entries are
/// never changed, only added.
const MIGRATIONS: &[&str] = &["
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
"];

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
    fn a_folder_of_a_newer_program_is_left_alone() {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", MIGRATIONS.len() + 1).unwrap();
        assert!(migrate(&connection).is_err());
    }
}
