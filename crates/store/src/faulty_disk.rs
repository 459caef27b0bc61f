//! A disk that fails on schedule.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What goes wrong with the disk, set by a test while the store runs.
#[derive(Debug)]
pub struct Faults {
    // How many more bytes may be written before the disk is full.
    room_bytes: AtomicU64,
    renames_fail: AtomicBool,
}

impl Faults {
    /// Nothing goes wrong yet.
    #[expect(clippy::new_without_default, reason = "a second way to say the same")]
    pub fn new() -> Faults {
        Faults { room_bytes: AtomicU64::new(u64::MAX), renames_fail: AtomicBool::new(false) }
    }

    /// The disk is full after `bytes` more bytes. The write that does not fit is cut short.
    pub fn full_after(&self, bytes: u64) {
        self.room_bytes.store(bytes, Ordering::SeqCst);
    }

    /// Renames fail from now on.
    pub fn fail_renames(&self) {
        self.renames_fail.store(true, Ordering::SeqCst);
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.room_bytes.store(u64::MAX, Ordering::SeqCst);
        self.renames_fail.store(false, Ordering::SeqCst);
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
        if self.renames_fail.load(Ordering::SeqCst) {
            return Err(io::Error::other("rename fails on schedule"));
        }
        Ok(())
    }
}
