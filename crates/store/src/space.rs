//! Bytes used and promised; nobody adds to the cache without a reservation.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::dirty::DirtyBytes;
use crate::disk::{Disk, Room};
use crate::error::{Error, Result};

/// How large the cache may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLimit {
    /// At most this many bytes of clean data.
    Bytes(u64),
    /// What keeps this share of the disk free.
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

/// Frees about as many bytes as asked for, and says how many.
type Collector = Box<dyn Fn(u64) -> u64 + Send + Sync>;

/// The books of the cache's space.
pub(crate) struct Space {
    limit: CacheLimit,
    dir: PathBuf,
    disk: Arc<Disk>,
    books: Mutex<Books>,
    dirty: DirtyBytes,
    // What dirty data may take before the disk is asked again.
    dirty_allowance_bytes: Mutex<u64>,
    // Held while making room: one at a time, the others then find that there is room.
    collecting: Mutex<()>,
    collector: OnceLock<Collector>,
}

/// What is written down. Reservations are among the used bytes.
#[derive(Debug)]
struct Books {
    /// What clean data takes on the disk.
    used_bytes: u64,
    /// What may be written before the disk is asked again; only if a share of it is to stay free.
    allowance_bytes: u64,
}

/// The right to add bytes to the cache; what is not kept of it goes back on drop.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    space: &'a Space,
    bytes: u64,
}

impl Space {
    /// The books of the state folder `dir`, in which clean data takes `used_bytes`.
    pub(crate) fn new(limit: CacheLimit, dir: &Path, disk: Arc<Disk>, used_bytes: u64) -> Space {
        Space {
            limit,
            dir: dir.to_owned(),
            disk,
            books: Mutex::new(Books { used_bytes, allowance_bytes: 0 }),
            dirty: DirtyBytes::default(),
            dirty_allowance_bytes: Mutex::new(0),
            collecting: Mutex::new(()),
            collector: OnceLock::new(),
        }
    }

    /// Says how room is made. Once.
    pub(crate) fn set_collector(&self, collector: Collector) {
        assert!(self.collector.set(collector).is_ok(), "room is made in one way only");
    }

    /// What clean data takes on the disk.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.books.lock().used_bytes
    }

    /// What is taken by bytes that the bucket does not have.
    pub(crate) fn dirty(&self) -> &DirtyBytes {
        &self.dirty
    }

    /// Corrects the books by what other processes did.
    pub(crate) fn set_used_bytes(&self, bytes: u64) {
        self.books.lock().used_bytes = bytes;
    }

    /// The room on the disk.
    pub(crate) fn room(&self) -> Result<Room> {
        self.disk.room(&self.dir).map_err(|error| Error::io("statvfs", &self.dir, error))
    }

    /// The right to add `bytes` of clean data; `None` if no room can be made for them. The caller
    /// holds no lock.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reservation<'_>> {
        if !self.try_take(bytes) {
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
            CacheLimit::KeepFree { .. } => self.used_bytes().saturating_add(self.spare_bytes()),
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

    /// Data that is here already has become clean: counts it, and drops older data for it.
    pub(crate) fn add_clean(&self, bytes: u64) {
        self.books.lock().used_bytes += bytes;
        let over = match self.limit {
            CacheLimit::Bytes(limit) => self.used_bytes().saturating_sub(limit),
            CacheLimit::KeepFree { .. } => 0,
        };
        if 0 < over {
            let _turn = self.collecting.lock();
            self.collect(over);
        }
    }

    /// Clean data went from the disk.
    pub(crate) fn give_back(&self, bytes: u64) {
        let mut books = self.books.lock();
        books.used_bytes = books.used_bytes.saturating_sub(bytes);
    }

    fn take_making_room(&self, bytes: u64) -> Option<()> {
        if let CacheLimit::Bytes(limit) = self.limit
            && limit < bytes
        {
            // Would drop everything and still not fit.
            return None;
        }
        for _ in 0..ATTEMPTS_MAX {
            if self.try_take(bytes) {
                return Some(());
            }
            if self.collect(self.shortfall(bytes) + self.slack_bytes()) == 0 {
                break;
            }
        }
        self.try_take(bytes).then_some(())
    }

    fn try_take(&self, bytes: u64) -> bool {
        match self.limit {
            CacheLimit::Bytes(limit) => {
                let mut books = self.books.lock();
                let fits = books.used_bytes.saturating_add(bytes) <= limit;
                if fits {
                    books.used_bytes += bytes;
                }
                fits
            }
            CacheLimit::KeepFree { .. } => {
                let fits = self.try_allow(bytes);
                if fits {
                    self.books.lock().used_bytes += bytes;
                }
                fits
            }
        }
    }

    /// Whether `bytes` can be written without touching the share that is to stay free.
    fn try_allow(&self, bytes: u64) -> bool {
        let mut books = self.books.lock();
        if books.allowance_bytes < bytes {
            let spare = self.spare_bytes();
            if spare < bytes {
                return false;
            }
            books.allowance_bytes = spare.min(bytes + ALLOWANCE_BYTES_MAX);
        }
        books.allowance_bytes -= bytes;
        true
    }

    fn shortfall(&self, bytes: u64) -> u64 {
        match self.limit {
            CacheLimit::Bytes(limit) => (self.used_bytes() + bytes).saturating_sub(limit),
            CacheLimit::KeepFree { .. } => bytes.saturating_sub(self.spare_bytes()),
        }
    }

    /// What may be written to the disk before the share that is to stay free is touched.
    fn spare_bytes(&self) -> u64 {
        let CacheLimit::KeepFree { percent } = self.limit else { return u64::MAX };
        // A disk that cannot be asked gets nothing more of what can be had again.
        let Ok(room) = self.room() else { return 0 };
        room.free_bytes.saturating_sub(room.total_bytes / 100 * u64::from(percent.min(100)))
    }

    fn slack_bytes(&self) -> u64 {
        match self.limit {
            CacheLimit::Bytes(limit) => (limit / 16).min(SLACK_BYTES_MAX),
            CacheLimit::KeepFree { .. } => ALLOWANCE_BYTES_MAX,
        }
    }

    fn collect(&self, bytes: u64) -> u64 {
        self.collector.get().map_or(0, |collector| collector(bytes))
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
        books.used_bytes += bytes;
        books.used_bytes = books.used_bytes.saturating_sub(self.bytes);
        self.bytes = 0;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.space.give_back(self.bytes);
    }
}
