//! A clock for tests that goes, from 2023-11-14T22:13:20Z, and can be put on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{Clock, SystemClock, Timestamp};
use futures::future::BoxFuture;

/// The clock.
#[derive(Debug)]
pub(super) struct Movable {
    real: SystemClock,
    ahead_secs: AtomicU64,
}

impl Movable {
    pub(super) fn new() -> Arc<Movable> {
        Arc::new(Movable { real: SystemClock::new(), ahead_secs: AtomicU64::new(0) })
    }

    pub(super) fn advance(&self, time: Duration) {
        self.ahead_secs.fetch_add(time.as_secs(), Ordering::Relaxed);
    }
}

impl Clock for Movable {
    fn wall(&self) -> Timestamp {
        let ahead = i64::try_from(self.ahead_secs.load(Ordering::Relaxed)).unwrap();
        Timestamp { secs: 1_700_000_000 + ahead, nanos: 0 }
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic() + Duration::from_secs(self.ahead_secs.load(Ordering::Relaxed))
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        self.real.sleep(delay)
    }
}
