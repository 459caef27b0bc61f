//! A disk that fails on schedule.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

/// What goes wrong with the disk, set by a test while the store runs.
#[derive(Debug)]
pub struct Faults {
    // How many more bytes may be written before the disk is full.
    room_bytes: AtomicU64,
    // How much room it says that it has, at most.
    told_bytes: AtomicU64,
    renames_fail: AtomicBool,
    // What somebody else does before the next rename.
    meanwhile: Mutex<Option<Meanwhile>>,
    // How many bytes of files were read.
    read_bytes: AtomicU64,
}

/// What somebody else does just then.
struct Meanwhile(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl Faults {
    /// Nothing goes wrong yet.
    #[expect(clippy::new_without_default, reason = "a second way to say the same")]
    pub fn new() -> Faults {
        Faults {
            room_bytes: AtomicU64::new(u64::MAX),
            told_bytes: AtomicU64::new(u64::MAX),
            renames_fail: AtomicBool::new(false),
            meanwhile: Mutex::new(None),
            read_bytes: AtomicU64::new(0),
        }
    }

    /// The disk is full after `bytes` more bytes. The write that does not fit is cut short.
    pub fn full_after(&self, bytes: u64) {
        self.room_bytes.store(bytes, Ordering::SeqCst);
    }

    /// The disk says that it has room for so many bytes at most, whatever it takes.
    pub fn tell_room(&self, bytes: u64) {
        self.told_bytes.store(bytes, Ordering::SeqCst);
    }

    /// How much room it says that it has, at most.
    pub(crate) fn told_room(&self) -> u64 {
        self.told_bytes.load(Ordering::SeqCst)
    }

    /// So many bytes went from the disk, which may be written again.
    pub(crate) fn give_room(&self, bytes: u64) {
        let _ = self.room_bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |room| {
            Some(room.saturating_add(bytes))
        });
    }

    /// Renames fail from now on.
    pub fn fail_renames(&self) {
        self.renames_fail.store(true, Ordering::SeqCst);
    }

    /// Before the next file is renamed, `act` is done.
    pub fn before_the_next_rename(&self, act: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock() = Some(Meanwhile(Box::new(act)));
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.room_bytes.store(u64::MAX, Ordering::SeqCst);
        self.told_bytes.store(u64::MAX, Ordering::SeqCst);
        self.renames_fail.store(false, Ordering::SeqCst);
    }

    /// How many bytes of backing files were read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::SeqCst)
    }

    /// Notes a read.
    pub(crate) fn count_read(&self, len: usize) {
        self.read_bytes.fetch_add(len as u64, Ordering::SeqCst);
    }

    /// Fails if the disk does not take `len` more bytes.
    pub(crate) fn has_room(&self, len: u64) -> io::Result<()> {
        if self.room_bytes.load(Ordering::SeqCst) < len {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    /// How many of `len` bytes the disk still takes.
    pub(crate) fn take_room(&self, len: usize) -> usize {
        let mut taken = 0;
        let _ = self.room_bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |room| {
            if room == u64::MAX {
                taken = len;
                return None;
            }
            taken = usize::try_from(room).unwrap_or(usize::MAX).min(len);
            Some(room - taken as u64)
        });
        taken
    }

    /// Whether a rename goes through.
    pub(crate) fn rename(&self) -> io::Result<()> {
        let meanwhile = self.meanwhile.lock().take();
        if let Some(Meanwhile(act)) = meanwhile {
            act();
        }
        if self.renames_fail.load(Ordering::SeqCst) {
            return Err(io::Error::other("rename fails on schedule"));
        }
        Ok(())
    }
}
