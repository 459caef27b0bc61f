//! `Clock`: the only way to ask for the time or to wait.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;

use crate::Timestamp;

/// Where time comes from.
pub trait Clock: Debug + Send + Sync {
    /// The time of day, as files carry it.
    fn wall(&self) -> Timestamp;
    /// Time that never goes back, for intervals; its zero means nothing.
    fn monotonic(&self) -> Duration;
    /// Resolves `delay` later.
    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()>;
    /// Resolves when [`monotonic`](Clock::monotonic) time is `due`, also if it got there since the caller looked at it.
    fn sleep_until(&self, due: Duration) -> BoxFuture<'static, ()> {
        self.sleep(due.saturating_sub(self.monotonic()))
    }
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock whose [`monotonic`](Clock::monotonic) time starts now.
    #[expect(clippy::disallowed_methods, clippy::new_without_default, reason = "this is the door")]
    pub fn new() -> SystemClock {
        SystemClock { start: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp {
            secs: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: since.subsec_nanos(),
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(delay))
    }
}

/// A clock that moves only when told to; sleeping moves it.
#[cfg(feature = "testing")]
#[derive(Debug, Default)]
pub struct ManualClock {
    now: parking_lot::Mutex<Duration>,
}

#[cfg(feature = "testing")]
impl ManualClock {
    /// Moves time on.
    pub fn advance(&self, by: Duration) {
        *self.now.lock() += by;
    }
}

#[cfg(feature = "testing")]
impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        let now = self.monotonic();
        Timestamp {
            secs: 1_700_000_000 + i64::try_from(now.as_secs()).unwrap_or(i64::MAX / 2),
            nanos: now.subsec_nanos(),
        }
    }

    fn monotonic(&self) -> Duration {
        *self.now.lock()
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        self.advance(delay);
        Box::pin(std::future::ready(()))
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::time::Duration;

    use super::{Clock, ManualClock};

    #[test]
    fn a_sleep_until_a_time_ends_at_that_time_or_at_once() {
        let clock = ManualClock::default();
        let (early, late) = (Duration::from_secs(3), Duration::from_secs(5));
        for due in [late, early] {
            // Such a clock moves when the sleep is asked for.
            drop(clock.sleep_until(due));
            assert_eq!(clock.monotonic(), late);
        }
    }
}
