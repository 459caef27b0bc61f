//! The database: what is here, what is staged, what is to be done. See `docs/format.md`.

pub(crate) mod check;
mod facts;
mod folders;
pub(crate) mod journal;
mod later;
pub(crate) mod numbers;
mod over;
pub(crate) mod pins;
mod row;
mod schema;
mod seals;
pub(crate) mod staged;
pub(crate) mod versions;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base::ByteRange;
use parking_lot::Mutex;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use self::later::{Later, Outcome};
use self::over::{Mark, Over};
use self::seals::{Dead, Seals};
use crate::disk::Disk;
use crate::error::{Error, Result};

/// How long a call waits for another process to finish its transaction.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(20);

/// The open database.
#[derive(Debug)]
pub(crate) struct Db {
    path: PathBuf,
    disk: Arc<Disk>,
    boot: Boot,
    owner: u64,
    // The last number that was given to a row.
    last_row: AtomicI64,
    // One connection: no transaction lasts longer than a batch of rows takes.
    connection: Mutex<Connection>,
    // What the next transaction does first. Locked after the connection.
    later: Mutex<Vec<Later>>,
    // What of that survives our death. Locked after `later`.
    seals: Mutex<Seals>,
    over: Over,
    // Another one to move the log into the database, which waits for the disk: the first one goes
    // on meanwhile.
    tidy: Mutex<Connection>,
    // For a test that wants to see what is found then.
    #[cfg(feature = "testing")]
    dies_at_an_empty_note: std::sync::atomic::AtomicBool,
}

/// The log is moved into the database when it is longer than this.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// The log has so much of the disk from the start, also when others fill that: then it can still be recorded what is
/// done, and what was removed from the bucket is not uploaded again. Less than that is one transaction too large.
const LOG_KEPT_BYTES: u64 = 2 * LOG_BYTES_MAX;

/// If nobody ever tidies, the log is moved when it has so many pages of 4 KiB.
const LOG_PAGES_MAX: u32 = 16_384;

/// How many changes wait for the next one that is waited for. Twice as many while the database fails.
const LATER_MAX: usize = 256;

/// With so many waiting, who brought the last one and is not waited for makes them: whoever makes files
/// does not have to.
const LATER_MANY: usize = 32;

/// The rows that one opening of the state folder makes have numbers from its own shifted by this on:
/// who makes one knows its number before anybody else can, and later openings have greater ones.
const OWNER_SHIFT: u32 = 40;

/// One run of the machine, as the database numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boot(i64);

impl Db {
    /// Opens the database `path`, which the caller has made, as the run of the machine `boot_id`.
    pub(crate) fn open(path: &Path, boot_id: &str, disk: &Arc<Disk>) -> Result<Db> {
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
            let owner = unsigned(owner);
            let seals = Seals::begin(path, owner, disk);
            transaction.commit()?;
            Ok((connection, connect(path)?, Boot(boot), owner, seals))
        };
        let (connection, tidy, boot, owner, seals) =
            open().map_err(|error| Error::db("open database", path, error))?;
        let seals = seals.map_err(|error| Error::io("open database", path, error))?;
        let last_row = AtomicI64::new(signed(owner << OWNER_SHIFT));
        let (connection, tidy) = (Mutex::new(connection), Mutex::new(tidy));
        let (later, seals) = (Mutex::default(), Mutex::new(seals));
        let db = Db {
            path: path.to_owned(),
            disk: Arc::clone(disk),
            boot,
            owner,
            last_row,
            connection,
            later,
            seals,
            over: Over::default(),
            tidy,
            #[cfg(feature = "testing")]
            dies_at_an_empty_note: std::sync::atomic::AtomicBool::new(false),
        };
        db.keep_room_for_log();
        Ok(db)
    }

    /// Takes room on the disk for the log beyond its end. Without it, a full disk is one for the records, too.
    fn keep_room_for_log(&self) {
        let log = self.log();
        let kept =
            self.disk.open(&log).and_then(|file| match (file, ByteRange::new(0, LOG_KEPT_BYTES)) {
                (Some(file), Some(all)) => self.disk.allocate(&file, all),
                (None, _) | (_, None) => Ok(()),
            });
        if let Err(error) = kept {
            tracing::debug!(%error, "no room is kept for the log of the database");
        }
    }

    /// Moves the log into the database if it has grown long. Waits for the disk, but nobody who
    /// reads or writes meanwhile does.
    pub(crate) fn tidy(&self) -> Result<()> {
        let log = self.log();
        let log_bytes = self.disk.len(&log).map_err(|error| Error::io("tidy", &log, error))?;
        if log_bytes <= LOG_BYTES_MAX {
            return Ok(());
        }
        // Whoever is at it already does it for us too.
        let Some(tidy) = self.tidy.try_lock() else { return Ok(()) };
        tidy.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|error| Error::db("tidy", &self.path, error))?;
        self.keep_room_for_log();
        Ok(())
    }

    /// Brings what was committed so far to the disk. A transaction ends when the log has it, but the
    /// log is only synced when it is moved into the database.
    pub(crate) fn sync(&self) -> Result<()> {
        self.settle()?;
        let log = self.log();
        let io = |error| Error::io("sync", &log, error);
        // Without a log all is in the database.
        let Some(file) = self.disk.open(&log).map_err(io)? else { return Ok(()) };
        self.disk.sync(&file).map_err(io)
    }

    /// Brings it to the disk that the uploads are over that were recorded to be so far. Waits for the
    /// disk only if some were since the last call.
    pub(crate) fn sync_over(&self) -> Result<()> {
        let ours = self.over.ours();
        let others = self.peek("sync", |connection| {
            connection.query_row("PRAGMA data_version", [], |row| row.get(0))
        })?;
        self.over.reach(Mark { ours, others }, || self.sync())
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

    /// A number for a new row; greater than those that this process gave before.
    fn new_row(&self) -> i64 {
        1 + self.last_row.fetch_add(1, Ordering::Relaxed)
    }

    fn read<T>(
        &self,
        op: &'static str,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let mut connection = self.connection.lock();
        self.catch_up(&mut connection).map_err(|error| Error::db(op, &self.path, error))?;
        query(&connection).map_err(|error| Error::db(op, &self.path, error))
    }

    /// As [`Db::read`], without what waits to be written.
    fn peek<T>(
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
        let written = self.write_all(&mut connection, change);
        written.map_err(|error| Error::db(op, &self.path, error))
    }

    /// Makes a change with the next one that somebody waits for, before it: until then it does not
    /// survive the death of this process.
    fn write_later(&self, op: &'static str, later: Later) -> Result<()> {
        let mut waiting = self.later.lock();
        if waiting.len() < LATER_MAX {
            waiting.push(later);
            return Ok(());
        }
        drop(waiting);
        let mut connection = self.connection.lock();
        let caught_up = self.catch_up(&mut connection);
        let mut waiting = self.later.lock();
        match caught_up {
            Err(error) if LATER_MAX * 2 <= waiting.len() => Err(Error::db(op, &self.path, error)),
            Err(_) | Ok(()) => {
                waiting.push(later);
                Ok(())
            }
        }
    }

    /// Makes the changes that wait, if they are many. For who has time.
    fn settle_many(&self) {
        if LATER_MANY <= self.later.lock().len()
            && let Err(error) = self.settle()
        {
            // They go on waiting.
            tracing::warn!(%error, "what happened to files cannot be recorded");
        }
    }

    /// Makes the changes that wait.
    pub(crate) fn settle(&self) -> Result<()> {
        let caught_up = self.catch_up(&mut self.connection.lock());
        caught_up.map_err(|error| Error::db("record", &self.path, error))
    }

    /// Inserts what processes that are dead now had sealed, and the database does not have.
    fn take_in_seals(&self, dead: Dead) -> Result<()> {
        let io = |error| Error::io("take in seals", &self.path, error);
        let left = self.write("take in seals", |transaction| {
            self.seals.lock().take_in(dead, (&self.disk, transaction))
        })?;
        let left = left.map_err(io)?;
        if !left.is_empty() {
            // They may have come to the disk themselves meanwhile.
            self.sync()?;
        }
        left.into_iter().try_for_each(|left| left.remove(&self.disk)).map_err(io)
    }

    /// Records all that waits, for the last time.
    pub(crate) fn end(&self) -> Result<()> {
        self.settle()?;
        let later = self.later.lock();
        if later.is_empty() {
            let ended = self.seals.lock().end(&self.disk);
            ended.map_err(|error| Error::io("record", &self.path, error))?;
        }
        Ok(())
    }

    fn catch_up(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        if self.later.lock().is_empty() {
            return Ok(());
        }
        self.write_all(connection, |_| Ok(()))
    }

    /// What waits and `change`, in one transaction.
    fn write_all<T>(
        &self,
        connection: &mut Connection,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut waiting = std::mem::take(&mut *self.later.lock());
        let written = loop {
            // Immediate: a transaction that reads first and writes then cannot wait its turn.
            let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
            let transaction = match begun {
                Ok(transaction) => transaction,
                Err(error) => break Err(error),
            };
            match later::write(&waiting, &transaction) {
                Outcome::Written => {
                    let recorded = waiting.iter().filter_map(Later::record).max();
                    let noted = recorded
                        .map_or(Ok(()), |record| self.seals.lock().note(&transaction, record));
                    let value = noted.and_then(|()| change(&transaction));
                    break value.and_then(|value| transaction.commit().map(|()| value));
                }
                Outcome::Failed(error) => break Err(error),
                // It would stand in everybody's way for ever.
                Outcome::Impossible(at, error) => {
                    tracing::error!(%error, "a change of the records is left out");
                    waiting.remove(at);
                }
            }
        };
        match written {
            Ok(value) => {
                if waiting.iter().any(|later| later.record().is_some()) {
                    let later = self.later.lock();
                    if later.iter().all(|later| later.record().is_none()) {
                        self.seals.lock().begin_anew();
                    }
                }
                waiting.into_iter().for_each(Later::done);
                Ok(value)
            }
            Err(error) => {
                self.later.lock().splice(0..0, waiting);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
impl Db {
    /// That of the folder `dir`, for a test.
    fn of_test(dir: &Path) -> Db {
        Db::open(&dir.join("state.db"), "boot", &Arc::default()).unwrap()
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_WAIT_MAX)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX)?;
    // What the log takes beyond that goes back to the disk when it begins anew.
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_MAX)?;
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
