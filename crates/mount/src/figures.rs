//! What was measured of one place, and when to stop measuring.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

/// What was measured of one place. What is `None` was not, or came to nothing in its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Bytes written each second, one after the other, until the place says that it has them.
    pub write_bytes: Option<u64>,
    /// Bytes read each second that were not here before.
    pub first_read_bytes: Option<u64>,
    /// Bytes read each second that were read before.
    pub read_bytes: Option<u64>,
    /// Reads of 4 KiB each second, here and there, 16 at a time, of what was not here before.
    pub random_reads: Option<u64>,
    /// Files of 4 KiB written each second, 16 at a time.
    pub small_writes: Option<u64>,
    /// Such files read each second that were not here before.
    pub small_reads: Option<u64>,
}

/// How long one kind of measuring may take.
pub(crate) const PHASE_TIME_MAX: Duration = Duration::from_secs(4);

/// How many small files are made, and how many places read here and there.
pub(crate) const SMALL_FILES: u64 = 400;
pub(crate) const RANDOM_READS: u64 = 2000;

/// How large a small file, and a read here and there, is.
pub(crate) const SMALL_BYTES: u64 = 4096;

/// How many of them are under way at a time.
pub(crate) const AT_A_TIME: usize = 16;

/// Somebody does not want to wait any more; or an end by time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn now(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_now(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The time of one kind of measuring.
#[derive(Debug)]
pub(crate) struct Phase {
    clock: SystemClock,
    stop: Stop,
}

impl Phase {
    pub(crate) fn begin(stop: &Stop) -> Phase {
        Phase { clock: SystemClock::new(), stop: stop.clone() }
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_now() || PHASE_TIME_MAX < self.clock.monotonic()
    }

    /// How much of `done` there was each second; `None` if there was none.
    pub(crate) fn rate(&self, done: u64) -> Option<u64> {
        let rate = u128::from(done) * 1_000_000 / self.clock.monotonic().as_micros().max(1);
        (0 < done).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}
