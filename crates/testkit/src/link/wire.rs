//! Something that carries one chunk after the other, each for as long as its rate asks.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::wait;

/// How far a wire may catch up when its user was late: what a scheduler's hiccup costs.
const CATCH_UP: Duration = Duration::from_millis(5);

/// A wire and when it is free.
#[derive(Debug)]
pub(super) struct Wire {
    bytes_per_second: Option<u64>,
    free: Mutex<Instant>,
}

/// The time a chunk is on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) start: Instant,
    pub(super) end: Instant,
}

impl Wire {
    /// `None` carries everything at once.
    pub(super) fn new(bytes_per_second: Option<u64>) -> Wire {
        Wire { bytes_per_second, free: Mutex::new(wait::now()) }
    }

    /// Reserves the wire for `len` bytes.
    pub(super) fn send(&self, len: usize) -> Slot {
        let now = wait::now();
        let Some(rate) = self.bytes_per_second else {
            return Slot { start: now, end: now };
        };
        let nanos = len as u128 * 1_000_000_000 / u128::from(rate.max(1));
        let busy = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*free).max(now.checked_sub(CATCH_UP).unwrap_or(now));
        *free = start + busy;
        Slot { start, end: *free }
    }
}
