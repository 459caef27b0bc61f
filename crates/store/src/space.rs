//! Bytes used and promised; nobody adds to the cache without a reservation.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::books::{Answer, Books, free_to_keep};
use crate::dirty::DirtyBytes;
use crate::disk::{Disk, Room};
use crate::error::{Error, Result};
use crate::quota::Quota;

/// How large the cache may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLimit {
    /// At most this many bytes of clean data, of all processes that share the folder together.
    Bytes(u64),
    /// What keeps this share of the disk free, or five times this share of what would be free without the
    /// cache where that is less: on a disk that others have nearly filled there is a cache, too.
    KeepFree {
        /// Of the whole disk.
        percent: u8,
    },
}

impl Default for CacheLimit {
    fn default() -> CacheLimit {
        CacheLimit::KeepFree { percent: 10 }
    }
}

/// How much may be written before the disk is asked again how much is free.
const ALLOWANCE_BYTES_MAX: u64 = 64 << 20;

/// More than what is needed is freed at a time, so that not every fill has to: at most this much.
const SLACK_BYTES_MAX: u64 = 256 << 20;

/// What dirty data leaves free for the database, without which nothing of it could be recorded as
/// uploaded: a sixteenth of the disk, at most this much.
const KEPT_BYTES_MAX: u64 = 16 << 20;

/// How often one reservation makes room before it gives up.
const ATTEMPTS_MAX: usize = 3;

/// Who knows what is in the cache.
pub(crate) trait Keeper: Send + Sync {
    /// Records all that is here.
    fn record(&self) -> Result<()>;

    /// What is recorded to be here, by all processes.
    fn recorded_bytes(&self) -> Result<u64>;

    /// Frees about so many bytes, and says how many.
    fn collect(&self, bytes: u64) -> u64;
}

/// The books of the cache's space.
pub(crate) struct Space {
    limit: CacheLimit,
    dir: PathBuf,
    disk: Arc<Disk>,
    books: Mutex<Books>,
    // What others have, and are told that we have.
    quota: Quota,
    dirty: DirtyBytes,
    // What dirty data may take before the disk is asked again.
    dirty_allowance_bytes: Mutex<u64>,
    // Held while making room: one at a time, the others then find that there is room.
    collecting: Mutex<()>,
    keeper: OnceLock<Box<dyn Keeper>>,
}

/// The right to add bytes to the cache; what is not kept of it goes back on drop.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    space: &'a Space,
    bytes: u64,
}

impl Space {
    /// The books of the state folder `dir`. They are of use when there is a keeper.
    pub(crate) fn new(limit: CacheLimit, dir: &Path, disk: Arc<Disk>, quota: Quota) -> Space {
        Space {
            limit,
            dir: dir.to_owned(),
            disk,
            books: Mutex::default(),
            quota,
            dirty: DirtyBytes::default(),
            dirty_allowance_bytes: Mutex::new(0),
            collecting: Mutex::new(()),
            keeper: OnceLock::new(),
        }
    }

    /// Says who knows what is here. Once.
    pub(crate) fn set_keeper(&self, keeper: Box<dyn Keeper>) {
        assert!(self.keeper.set(keeper).is_ok(), "what is here is known by one only");
    }

    /// What clean data takes on the disk, as far as is known without asking.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.books.lock().used
    }

    /// What clean data takes on the disk: what is recorded, by whichever process, and what has come here since. What
    /// came and went again before it was recorded counts until the next [`Space::tally`].
    pub(crate) fn held_bytes(&self) -> Result<u64> {
        let before = self.books.lock().unrecorded();
        let Some(keeper) = self.keeper.get() else { return Ok(self.used_bytes()) };
        let recorded = keeper.recorded_bytes()?;
        Ok(recorded.saturating_add(self.books.lock().unrecorded_since(before)))
    }

    /// What is taken by bytes that the bucket does not have.
    pub(crate) fn dirty(&self) -> &DirtyBytes {
        &self.dirty
    }

    /// Records all that is here, corrects the books by that and by what other processes did, and drops what is too
    /// much. The caller holds no lock.
    pub(crate) fn balance(&self) -> Result<()> {
        let _turn = self.collecting.lock();
        self.tally()?;
        let CacheLimit::Bytes(limit) = self.limit else { return Ok(()) };
        let mut excess_bytes = 0;
        self.quota.exchange(|others| {
            let books = self.books.lock();
            excess_bytes = books.used.saturating_add(others).saturating_sub(limit);
            self.claimed_bytes(&books)
        })?;
        if 0 < excess_bytes {
            self.collect(excess_bytes);
        }
        Ok(())
    }

    /// Whether another process has found no room since this was asked last.
    pub(crate) fn is_room_wanted(&self) -> bool {
        self.quota.is_room_wanted().unwrap_or(false)
    }

    /// Asks other processes to let go of what they do not use.
    pub(crate) fn want_room(&self) {
        if let Err(error) = self.quota.want_room() {
            tracing::debug!(%error, "others are not told that there is no room");
        }
    }

    /// The room on the disk.
    pub(crate) fn room(&self) -> Result<Room> {
        self.disk.room(&self.dir).map_err(|error| Error::io("statvfs", &self.dir, error))
    }

    /// The right to add `bytes` of clean data; `None` if no room can be made for them. The caller
    /// holds no lock.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reservation<'_>> {
        if !self.books.lock().take(bytes) && self.ask(bytes) != Answer::Granted {
            let _turn = self.collecting.lock();
            self.take_making_room(bytes)?;
        }
        Some(Reservation { space: self, bytes })
    }

    /// Makes room for `bytes` of dirty data, as far as that is possible. The caller holds no lock
    /// of a cached file.
    pub(crate) fn make_way(&self, bytes: u64) {
        if let CacheLimit::KeepFree { .. } = self.limit
            && !self.try_allow(bytes)
        {
            let _turn = self.collecting.lock();
            if !self.try_allow(bytes) {
                self.collect(bytes + self.slack_bytes());
            }
        }
    }

    /// Whether there is room for `bytes` of dirty data that nothing else can do without, or can be made.
    /// The caller holds no lock of a cached file.
    pub(crate) fn admits(&self, bytes: u64) -> bool {
        self.make_way(bytes);
        self.try_admit(bytes) || (self.relieve(bytes) && self.try_admit(bytes))
    }

    /// Whether there is room for `bytes` that can be had again, in a file of dirty data, and for as much
    /// as is kept besides.
    pub(crate) fn can_spare(&self, bytes: u64) -> bool {
        self.make_way(bytes);
        self.room().is_ok_and(|room| bytes + 2 * kept_bytes(room) <= room.free_bytes)
    }

    /// What clean data may take on the disk altogether, as things are.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        match self.limit {
            CacheLimit::Bytes(limit) => limit,
            CacheLimit::KeepFree { .. } => {
                let used_bytes = self.used_bytes();
                used_bytes.saturating_add(self.spare_bytes(used_bytes))
            }
        }
    }

    /// Whether `bytes` of clean data would fit with nothing of the cache going for it.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.shortfall(bytes) == 0
    }

    fn try_admit(&self, bytes: u64) -> bool {
        let mut allowance_bytes = self.dirty_allowance_bytes.lock();
        if *allowance_bytes < bytes {
            // A disk that cannot be asked says when it is full.
            let Ok(room) = self.room() else { return true };
            let left = room.free_bytes.saturating_sub(kept_bytes(room));
            if left < bytes {
                return false;
            }
            // Others write, too.
            *allowance_bytes = bytes + (left - bytes).min(ALLOWANCE_BYTES_MAX) / 4;
        }
        *allowance_bytes -= bytes;
        true
    }

    /// The disk itself is full: frees `bytes` whatever the limit says. Whether that helped.
    pub(crate) fn relieve(&self, bytes: u64) -> bool {
        let _turn = self.collecting.lock();
        0 < self.collect(bytes + self.slack_bytes())
    }

    /// Data that is here already becomes clean, as will be recorded.
    pub(crate) fn add_clean(&self, bytes: u64) {
        self.books.lock().come(bytes);
    }

    /// Drops older data for `bytes` that have become clean, if there is too much. The caller holds no lock.
    pub(crate) fn make_room_after(&self, bytes: u64) {
        let CacheLimit::Bytes(_) = self.limit else { return };
        {
            let mut books = self.books.lock();
            let left = books.allowance.checked_sub(bytes);
            books.allowance = left.unwrap_or(0);
            if left.is_some() {
                return;
            }
        }
        if let Answer::Short(_) = self.ask(0)
            && let Err(error) = self.balance()
        {
            tracing::warn!(%error, "cannot record what is in the cache");
        }
    }

    /// So much of what has come is recorded now. Others learn it when they are told next.
    pub(crate) fn recorded(&self, bytes: u64) {
        let mut books = self.books.lock();
        books.settled = books.settled.saturating_sub(bytes);
    }

    /// Others are told what we have.
    pub(crate) fn tell(&self) {
        if let Err(error) = self.quota.exchange(|_| self.claimed_bytes(&self.books.lock())) {
            tracing::debug!(%error, "other mounts do not know what we have in the cache");
        }
    }

    /// What others have recorded is known now.
    pub(crate) fn learned(&self, bytes: u64) {
        let mut books = self.books.lock();
        books.used = books.used.saturating_add(bytes);
    }

    /// Clean data went from the disk.
    pub(crate) fn give_back(&self, bytes: u64) {
        let mut books = self.books.lock();
        books.used = books.used.saturating_sub(bytes);
    }

    fn take_making_room(&self, bytes: u64) -> Option<()> {
        if let CacheLimit::Bytes(limit) = self.limit
            && limit < bytes
        {
            // Would drop everything and still not fit.
            return None;
        }
        if self.ask(bytes) == Answer::Granted {
            return Some(());
        }
        // What was recorded since the last time counted twice.
        if let Err(error) = self.tally() {
            tracing::warn!(%error, "cannot record what is in the cache");
        }
        for _ in 0..ATTEMPTS_MAX {
            match self.ask(bytes) {
                Answer::Granted => return Some(()),
                Answer::Short(short) => {
                    if self.collect(short.saturating_add(self.slack_bytes())) == 0 {
                        break;
                    }
                }
            }
        }
        if self.ask(bytes) == Answer::Granted {
            return Some(());
        }
        self.want_room();
        None
    }

    /// Records all that is here, and corrects the books by that. The caller holds no lock.
    pub(crate) fn tally(&self) -> Result<()> {
        let Some(keeper) = self.keeper.get() else { return Ok(()) };
        let come_bytes = self.books.lock().come;
        keeper.record()?;
        let recorded_bytes = keeper.recorded_bytes()?;
        self.quota.exchange(|_| {
            let mut books = self.books.lock();
            // Only what has come meanwhile may not be.
            books.settled = books.settled.min(books.come - come_bytes);
            books.allowance = 0;
            books.used = recorded_bytes + books.unrecorded_bytes();
            self.claimed_bytes(&books)
        })
    }

    /// Reserves `bytes` if there is room.
    fn ask(&self, bytes: u64) -> Answer {
        let CacheLimit::Bytes(limit) = self.limit else { return self.ask_disk(bytes) };
        let mut answer = None;
        let exchanged = self.quota.exchange(|others| {
            let before = self.books.lock().unrecorded();
            // Later than both: what is recorded meanwhile, here or there, counts twice, rather than not at all.
            let recorded = self.keeper.get().map(|keeper| keeper.recorded_bytes());
            let mut books = self.books.lock();
            let held_bytes = match recorded {
                Some(Ok(recorded)) => {
                    recorded.saturating_add(others) + books.unrecorded_since(before)
                }
                Some(Err(_)) | None => books.used,
            };
            answer = Some(books.grant((held_bytes, limit), bytes));
            self.claimed_bytes(&books)
        });
        if let Err(error) = exchanged {
            tracing::debug!(%error, "what other mounts have in the cache is not known");
        }
        answer.unwrap_or_else(|| {
            let mut books = self.books.lock();
            let used_bytes = books.used;
            books.grant((used_bytes, limit), bytes)
        })
    }

    fn ask_disk(&self, bytes: u64) -> Answer {
        if !self.try_allow(bytes) {
            return Answer::Short(self.shortfall(bytes));
        }
        self.books.lock().reserve(bytes);
        Answer::Granted
    }

    /// What others are told that we have: what we may still write, too, where there is a limit for all.
    fn claimed_bytes(&self, books: &Books) -> u64 {
        let ahead_bytes = match self.limit {
            CacheLimit::Bytes(_) => books.allowance,
            CacheLimit::KeepFree { .. } => 0,
        };
        books.unrecorded_bytes() + ahead_bytes
    }

    /// Whether `bytes` can be written without touching the share that is to stay free.
    fn try_allow(&self, bytes: u64) -> bool {
        let mut books = self.books.lock();
        if books.allowance < bytes {
            let spare = self.spare_bytes(books.used);
            if spare < bytes {
                return false;
            }
            books.allowance = spare.min(bytes + ALLOWANCE_BYTES_MAX);
            drop(books);
            // Others may have a limit in bytes.
            self.tell();
            books = self.books.lock();
        }
        let left = books.allowance.checked_sub(bytes);
        books.allowance = left.unwrap_or(books.allowance);
        left.is_some()
    }

    fn shortfall(&self, bytes: u64) -> u64 {
        match self.limit {
            CacheLimit::Bytes(limit) => (self.used_bytes() + bytes).saturating_sub(limit),
            CacheLimit::KeepFree { .. } => {
                bytes.saturating_sub(self.spare_bytes(self.used_bytes()))
            }
        }
    }

    /// What may be written to the disk before the share that is to stay free is touched.
    fn spare_bytes(&self, used_bytes: u64) -> u64 {
        let CacheLimit::KeepFree { percent } = self.limit else { return u64::MAX };
        // A disk that cannot be asked gets nothing more of what can be had again.
        let Ok(room) = self.room() else { return 0 };
        room.free_bytes.saturating_sub(free_to_keep(room, used_bytes, percent))
    }

    fn slack_bytes(&self) -> u64 {
        match self.limit {
            CacheLimit::Bytes(limit) => (limit / 16).min(SLACK_BYTES_MAX),
            CacheLimit::KeepFree { .. } => ALLOWANCE_BYTES_MAX,
        }
    }

    fn collect(&self, bytes: u64) -> u64 {
        self.keeper.get().map_or(0, |keeper| keeper.collect(bytes))
    }
}

/// What is not for dirty data.
fn kept_bytes(room: Room) -> u64 {
    (room.total_bytes / 16).min(KEPT_BYTES_MAX)
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Space").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Reservation<'_> {
    /// The bytes were written, and took `bytes` in the end: less than was reserved where someone
    /// else was faster, more where granules were dropped after they were counted.
    pub(crate) fn settle(mut self, bytes: u64) {
        let mut books = self.space.books.lock();
        books.come(bytes);
        books.used = books.used.saturating_sub(self.bytes);
        self.return_to(&mut books, self.bytes.saturating_sub(bytes));
        self.bytes = 0;
    }

    /// It is over, and so much of it was not needed.
    fn return_to(&self, books: &mut Books, unused_bytes: u64) {
        books.reserved -= self.bytes;
        if let CacheLimit::Bytes(_) = self.space.limit {
            books.allowance += unused_bytes;
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut books = self.space.books.lock();
        books.used = books.used.saturating_sub(self.bytes);
        self.return_to(&mut books, self.bytes);
    }
}
