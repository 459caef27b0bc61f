//! The database: what is here, what is staged, what is to be done. See `docs/format.md`.

pub(crate) mod journal;
pub(crate) mod numbers;
mod schema;
pub(crate) mod staged;
pub(crate) mod versions;

use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::disk::Disk;
use crate::error::{Error, Result};

/// How long a call waits for another process to finish its transaction.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(20);

/// The open database.
#[derive(Debug)]
pub(crate) struct Db {
    path: PathBuf,
    boot: Boot,
    owner: u64,
    // One connection: no transaction lasts longer than a batch of rows takes.
    connection: Mutex<Connection>,
    // Another one to move the log into the database, which waits for the disk: the first one goes
    // on meanwhile.
    tidy: Mutex<Connection>,
}

/// The log is moved into the database when it is longer than this.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// If nobody ever tidies, the log is moved when it has so many pages of 4 KiB.
const LOG_PAGES_MAX: u32 = 16_384;

/// One run of the machine, as the database numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boot(i64);

impl Db {
    /// Opens the database `path`, which the caller has made, as the run of the machine `boot_id`.
    pub(crate) fn open(path: &Path, boot_id: &str) -> Result<Db> {
        let open = || {
            let mut connection = connect(path)?;
            connection.set_prepared_statement_cache_capacity(64);
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            schema::migrate(&transaction)?;
            transaction
                .execute("INSERT OR IGNORE INTO boots (boot) VALUES (?1)", params![boot_id])?;
            let boot = transaction.query_row(
                "SELECT id FROM boots WHERE boot = ?1",
                [boot_id],
                |row| row.get(0),
            )?;
            let owner = transaction.query_row(
                "UPDATE counters SET value = value + 1 WHERE name = 'owner' RETURNING value",
                [],
                |row| row.get(0),
            )?;
            transaction.commit()?;
            Ok((connection, connect(path)?, Boot(boot), unsigned(owner)))
        };
        let (connection, tidy, boot, owner) =
            open().map_err(|error| Error::db("open database", path, error))?;
        let (connection, tidy) = (Mutex::new(connection), Mutex::new(tidy));
        Ok(Db { path: path.to_owned(), boot, owner, connection, tidy })
    }

    /// Moves the log into the database if it has grown long. Waits for the disk, but nobody who
    /// reads or writes meanwhile does.
    pub(crate) fn tidy(&self, disk: &Disk) -> Result<()> {
        let log = self.log();
        let log_bytes = disk.len(&log).map_err(|error| Error::io("tidy", &log, error))?;
        if log_bytes <= LOG_BYTES_MAX {
            return Ok(());
        }
        // Whoever is at it already does it for us too.
        let Some(tidy) = self.tidy.try_lock() else { return Ok(()) };
        tidy.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|error| Error::db("tidy", &self.path, error))
    }

    /// Brings what was committed so far to the disk. A transaction ends when the log has it, but the
    /// log is only synced when it is moved into the database.
    pub(crate) fn sync(&self, disk: &Disk) -> Result<()> {
        let log = self.log();
        let io = |error| Error::io("sync", &log, error);
        // Without a log all is in the database.
        let Some(file) = disk.open(&log).map_err(io)? else { return Ok(()) };
        disk.sync(&file).map_err(io)
    }

    fn log(&self) -> PathBuf {
        self.path.with_extension("db-wal")
    }

    /// This run of the machine.
    pub(crate) fn boot(&self) -> Boot {
        self.boot
    }

    /// The number of this opening of the state folder; never given twice.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    fn read<T>(
        &self,
        op: &'static str,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        query(&self.connection.lock()).map_err(|error| Error::db(op, &self.path, error))
    }

    fn write<T>(
        &self,
        op: &'static str,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let mut connection = self.connection.lock();
        let run = || {
            // Immediate: a transaction that reads first and writes then cannot wait its turn.
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = change(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        run().map_err(|error| Error::db(op, &self.path, error))
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_WAIT_MAX)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX)?;
    Ok(connection)
}

/// A number of ours as the database has them.
fn signed(n: u64) -> i64 {
    i64::try_from(n).expect("sizes, times and counts stay below 2^63")
}

/// A number of the database as ours are.
fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// An inode number as the database has them; all 64 bits may be in use.
fn inode(n: u64) -> i64 {
    n.cast_signed()
}
