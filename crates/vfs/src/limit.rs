//! How much may be written that the bucket does not have yet before writers wait: arithmetic.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How many bytes that the bucket does not have may be on the local disk before writers wait for
/// uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyLimit {
    /// So many.
    Bytes(u64),
    /// A share of what they could take if the disk had nothing else of ours.
    OfRoom {
        /// Of that.
        percent: u8,
    },
}

/// How much may be written before the disk is asked again how much room there is.
const LOOK_BYTES: u64 = 16 << 20;

/// By so much the limit yields at a time, if nothing can be uploaded: a sixteenth of it, within these.
const STEP_BYTES_MIN: u64 = 1 << 20;
const STEP_BYTES_MAX: u64 = 64 << 20;

/// The limit, as it was last found to be.
#[derive(Debug)]
pub(crate) struct Allowance {
    limit: DirtyLimit,
    /// With fewer bytes nobody has to look.
    look_at: AtomicU64,
    found: Mutex<Found>,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    limit_bytes: u64,
    /// So far the limit has yielded, because nothing could be uploaded; 0 if it has not.
    yielded_to: u64,
}

impl Default for DirtyLimit {
    fn default() -> DirtyLimit {
        DirtyLimit::OfRoom { percent: 50 }
    }
}

impl DirtyLimit {
    /// The limit where there is room for `room_bytes`.
    fn bytes(self, room_bytes: u64) -> u64 {
        match self {
            DirtyLimit::Bytes(bytes) => bytes,
            DirtyLimit::OfRoom { percent } => room_bytes / 100 * u64::from(percent.min(100)),
        }
    }
}

impl Allowance {
    /// The allowance under `limit`.
    pub(crate) fn new(limit: DirtyLimit) -> Allowance {
        Allowance { limit, look_at: AtomicU64::new(0), found: Mutex::default() }
    }

    /// Whether writers may go on with `dirty_bytes` on the disk. `room_bytes` says for how many there
    /// would be room, if it can.
    pub(crate) fn admits(
        &self,
        dirty_bytes: u64,
        room_bytes: impl FnOnce() -> Option<u64>,
    ) -> bool {
        if dirty_bytes < self.look_at.load(Ordering::Relaxed) {
            return true;
        }
        let mut found = self.found.lock();
        // Of a disk that cannot be asked, the first write that fails tells.
        found.limit_bytes = self.limit.bytes(room_bytes().unwrap_or(u64::MAX));
        if dirty_bytes < found.limit_bytes {
            found.yielded_to = 0;
        }
        // A limit that has yielded is looked at until it counts again.
        let look_at = match found.yielded_to {
            0 => found.limit_bytes.min(dirty_bytes.saturating_add(LOOK_BYTES)),
            _ => 0,
        };
        self.look_at.store(look_at, Ordering::Relaxed);
        dirty_bytes < found.limit_bytes.max(found.yielded_to)
    }

    /// Nothing can be uploaded of `dirty_bytes`: a limit that kept everybody waiting for nothing would
    /// keep them for ever.
    pub(crate) fn yields(&self, dirty_bytes: u64) {
        let mut found = self.found.lock();
        let step = (found.limit_bytes / 16).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
        found.yielded_to = dirty_bytes.saturating_add(step);
        self.look_at.store(0, Ordering::Relaxed);
    }

    /// The limit, where there is room for `room_bytes`.
    pub(crate) fn limit_bytes(&self, room_bytes: u64) -> u64 {
        self.limit.bytes(room_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowance, DirtyLimit, LOOK_BYTES, STEP_BYTES_MIN};

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_limit_follows_the_room_on_the_disk() {
        let allowance = Allowance::new(DirtyLimit::OfRoom { percent: 50 });
        assert!(allowance.admits(0, || Some(200 * MIB)));
        // Not asked again at every write.
        assert!(allowance.admits(LOOK_BYTES - 1, || panic!("asked too early")));
        assert!(!allowance.admits(LOOK_BYTES, || Some(20 * MIB)));
        assert!(allowance.admits(LOOK_BYTES, || Some(200 * MIB)));
    }

    #[test]
    fn a_limit_yields_step_by_step_until_something_is_uploaded() {
        let allowance = Allowance::new(DirtyLimit::Bytes(10));
        let admits = |bytes| allowance.admits(bytes, || None);
        assert!(admits(9) && !admits(10));
        allowance.yields(10);
        assert!(admits(10) && admits(9 + STEP_BYTES_MIN) && !admits(10 + STEP_BYTES_MIN));
        // Below the limit it counts again.
        assert!(admits(0) && !admits(10));
    }
}
