//! Bandwidth limit of one direction: requests with file data wait until the bytes before them were paid for.
//!
//! A request begins when the debt of the earlier ones is repaid, and then runs at the speed of the line. So no request
//! stands still in the middle, which stores and the detection of stalls would take for a broken connection, and its
//! deadline begins when it is sent. The price is that the line is busy for one request, then idle.
//!
//! Small requests of programs do not stand behind large ones: up to half of the limit they go at once, and only later
//! requests pay for them.
//!
//! ```text
//!   debt   │\      \              \
//!          │ \      \              \         slope: the limit
//!          │  \      \              \
//!   ───────┴───┴──────┴───────────────────▶ time
//!         8 MiB  8 MiB  nothing asked for: at most CREDIT of idle time counts
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// A limit that transfers share and that can change at any time.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    // Invariant: tickets below `served` have begun or were dropped.
    line: Mutex<Line>,
    changed: Notify,
}

/// Requests that wait, and what they wait for.
#[derive(Debug, Default)]
struct Line {
    /// The debt of all requests.
    bucket: Bucket,
    /// The debt of small requests, at half of the limit.
    small: Bucket,
    /// Tickets of transfers that a program waits for, in order of asking.
    urgent: BTreeSet<u64>,
    /// The same of guesses.
    guesses: BTreeSet<u64>,
    next: u64,
}

/// How a transfer stands to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A program waits for it.
    Urgent,
    /// A guess, which goes after all that is urgent.
    Guess,
}

/// Pure arithmetic of a limit: when the next bytes may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bucket {
    bytes_per_sec: Option<u64>,
    /// When all bytes that have gone are paid for.
    free_at: Duration,
}

/// A request of so many bytes is small.
const SMALL_BYTES_MAX: u64 = 256 << 10;

/// Part of the limit that small requests may take before the others.
const SMALL_PART: u64 = 2;

/// Idle time that counts: after a pause this much more may go at once.
const CREDIT: Duration = Duration::from_millis(500);

/// The longest sleep of a waiting transfer, after which it looks again.
const LOOK_DELAY: Duration = Duration::from_secs(1);

/// The longest debt: a limit that was too low for a moment holds nothing up for ever.
const DEBT_MAX: Duration = Duration::from_hours(1);

impl Bandwidth {
    /// A limit, or none.
    pub fn new(bytes_per_sec: Option<u64>, clock: Arc<dyn Clock>) -> Bandwidth {
        let mut line = Line::default();
        line.set(clock.monotonic(), bytes_per_sec);
        let shared = Shared { clock, line: Mutex::new(line), changed: Notify::new() };
        Bandwidth { shared: Arc::new(shared) }
    }

    /// The limit now.
    pub fn bytes_per_sec(&self) -> Option<u64> {
        self.shared.line.lock().bucket.bytes_per_sec
    }

    /// Changes the limit for all that has not begun.
    pub fn set(&self, bytes_per_sec: Option<u64>) {
        let now = self.shared.clock.monotonic();
        self.shared.line.lock().set(now, bytes_per_sec);
        self.shared.changed.notify_waiters();
    }

    /// Whether a request waits.
    pub fn holds_up(&self) -> bool {
        let line = self.shared.line.lock();
        !line.urgent.is_empty() || !line.guesses.is_empty()
    }

    /// Waits until `bytes` may go. A transfer that is dropped while it waits costs nothing.
    pub(crate) async fn take(&self, bytes: u64, urgency: Urgency) {
        let mut ticket = None;
        loop {
            // Before the look, so that no change is missed.
            let changed = self.shared.changed.notified();
            let pause = {
                let now = self.shared.clock.monotonic();
                let mut line = self.shared.line.lock();
                let number = ticket.as_ref().map(|Ticket { number, .. }| *number);
                let number = number.unwrap_or(line.next);
                let pause = line.pause(now, (number, bytes), urgency);
                if pause.is_zero() {
                    line.charge(now, bytes, urgency);
                    break;
                }
                if ticket.is_none() {
                    line.next += 1;
                    line.waiting(urgency).insert(number);
                    ticket = Some(Ticket { number, urgency, shared: Arc::clone(&self.shared) });
                }
                pause
            };
            tokio::select! {
                () = changed => {}
                () = self.shared.clock.sleep(pause.min(LOOK_DELAY)) => {}
            }
        }
    }
}

impl Line {
    fn waiting(&mut self, urgency: Urgency) -> &mut BTreeSet<u64> {
        match urgency {
            Urgency::Urgent => &mut self.urgent,
            Urgency::Guess => &mut self.guesses,
        }
    }

    /// Changes the limit at `now`.
    fn set(&mut self, now: Duration, bytes_per_sec: Option<u64>) {
        self.bucket.set(now, bytes_per_sec);
        self.small.set(now, bytes_per_sec.map(|bytes| bytes / SMALL_PART));
    }

    /// Lets a request of `bytes` go at `now`.
    fn charge(&mut self, now: Duration, bytes: u64, urgency: Urgency) {
        self.bucket.charge(now, bytes);
        if goes_before(bytes, urgency) {
            self.small.charge(now, bytes);
        }
    }

    /// How long the transfer of this ticket and of so many bytes waits at least; nothing if it may go.
    fn pause(&self, now: Duration, (ticket, bytes): (u64, u64), urgency: Urgency) -> Duration {
        let pause = self.pause_in_turn(now, ticket, urgency);
        if goes_before(bytes, urgency) { pause.min(self.small.pause(now)) } else { pause }
    }

    fn pause_in_turn(&self, now: Duration, ticket: u64, urgency: Urgency) -> Duration {
        let first = |waiting: &BTreeSet<u64>| waiting.first().is_none_or(|first| ticket <= *first);
        let is_next = match urgency {
            Urgency::Urgent => first(&self.urgent),
            Urgency::Guess => self.urgent.is_empty() && first(&self.guesses),
        };
        let pause = self.bucket.pause(now);
        if is_next || self.bucket.bytes_per_sec.is_none() { pause } else { pause.max(LOOK_DELAY) }
    }
}

/// Whether a request may go before larger ones.
fn goes_before(bytes: u64, urgency: Urgency) -> bool {
    bytes <= SMALL_BYTES_MAX && urgency == Urgency::Urgent
}

/// A place in the line, given up on drop.
struct Ticket {
    number: u64,
    urgency: Urgency,
    shared: Arc<Shared>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.line.lock().waiting(self.urgency).remove(&self.number);
        self.shared.changed.notify_waiters();
    }
}

impl Bucket {
    /// How long nothing may go.
    fn pause(self, now: Duration) -> Duration {
        self.bytes_per_sec.map_or(Duration::ZERO, |_| self.free_at.saturating_sub(now))
    }

    /// Lets `bytes` go at `now`.
    fn charge(&mut self, now: Duration, bytes: u64) {
        let Some(bytes_per_sec) = self.bytes_per_sec else { return };
        let from = self.free_at.max(now.saturating_sub(CREDIT));
        self.free_at = (from + at_rate(bytes, bytes_per_sec)).min(now + DEBT_MAX);
    }

    /// Changes the limit at `now`; the debt stays the same number of bytes.
    fn set(&mut self, now: Duration, bytes_per_sec: Option<u64>) {
        let debt = self.pause(now);
        let debt = match (self.bytes_per_sec, bytes_per_sec) {
            (Some(was), Some(is)) => at_rate(
                u64::try_from(debt.as_millis() * u128::from(was) / 1000).unwrap_or(u64::MAX),
                is,
            ),
            (None, _) | (_, None) => Duration::ZERO,
        };
        *self = Bucket { bytes_per_sec, free_at: now + debt.min(DEBT_MAX) };
    }
}

fn at_rate(bytes: u64, bytes_per_sec: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_sec.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(DEBT_MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use base::ManualClock;
    use futures::FutureExt as _;
    use proptest::prelude::*;

    use super::{Bandwidth, Bucket, CREDIT, Urgency, at_rate};

    const MIB: u64 = 1 << 20;

    proptest! {
        #[test]
        fn bytes_of_a_window_stay_within_the_limit(
            rate in 1_000_u64..100_000_000,
            requests in prop::collection::vec((0_u64..5_000, 1_u64..4_000_000), 1..60),
        ) {
            let mut bucket = Bucket { bytes_per_sec: Some(rate), ..Bucket::default() };
            let mut now = Duration::from_secs(10);
            let mut gone = Vec::new();
            for (idle_ms, bytes) in requests {
                // So that no debt is cut.
                let bytes = bytes.min(rate * 60);
                now += Duration::from_millis(idle_ms);
                now += bucket.pause(now);
                prop_assert!(bucket.pause(now).is_zero());
                bucket.charge(now, bytes);
                gone.push((now, bytes));
            }
            // What rounding leaves out of each request.
            let slack = Duration::from_micros(1);
            for (first, (begin, _)) in gone.iter().enumerate() {
                let mut sum = 0_u64;
                for (end, bytes) in &gone[first..] {
                    // All but the last one are paid for, or were covered by the idle time before.
                    let paid = end.saturating_sub(*begin) + CREDIT + slack;
                    prop_assert!(at_rate(sum, rate) <= paid, "{sum} in {paid:?}");
                    sum += bytes;
                }
            }
        }

        #[test]
        fn a_steady_demand_gets_all_of_the_limit(rate in 10_000_u64..100_000_000, bytes in 1_000_u64..1_000_000) {
            let mut bucket = Bucket { bytes_per_sec: Some(rate), ..Bucket::default() };
            let begin = Duration::from_secs(10);
            let mut now = begin;
            for _ in 0..100 {
                now += bucket.pause(now);
                bucket.charge(now, bytes);
            }
            let took = now.saturating_sub(begin);
            prop_assert!(took <= at_rate(99 * bytes, rate), "{took:?} for {bytes} at {rate}");
        }
    }

    #[test]
    fn debt_keeps_its_bytes_when_the_limit_changes() {
        let now = Duration::from_secs(10);
        let check = |was: Option<u64>, is: Option<u64>, want: Duration| {
            let mut bucket = Bucket { bytes_per_sec: was, free_at: now };
            bucket.charge(now, 8 * MIB);
            bucket.set(now, is);
            assert_eq!(bucket.pause(now), want, "{was:?} {is:?}");
        };
        let debt = Duration::from_secs(8);
        check(Some(MIB), Some(MIB), debt);
        check(Some(MIB), Some(2 * MIB), debt / 2);
        check(Some(MIB), Some(MIB / 2), debt * 2);
        check(Some(MIB), None, Duration::ZERO);
        check(None, Some(MIB), Duration::ZERO);
    }

    #[test]
    fn guess_waits_for_all_that_is_urgent() {
        let clock = Arc::new(Still(ManualClock::default()));
        clock.0.advance(Duration::from_secs(10));
        let bandwidth = Bandwidth::new(Some(MIB), Arc::clone(&clock) as _);
        bandwidth.take(2 * MIB, Urgency::Urgent).now_or_never().unwrap();
        let mut guess = Box::pin(bandwidth.take(MIB, Urgency::Guess));
        let mut first = Box::pin(bandwidth.take(MIB, Urgency::Urgent));
        let mut second = Box::pin(bandwidth.take(MIB, Urgency::Urgent));
        assert!((&mut guess).now_or_never().is_none());
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        clock.0.advance(Duration::from_secs(2));
        bandwidth.shared.changed.notify_waiters();
        assert!((&mut guess).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut first).now_or_never().is_some());
        // One that nobody waits for any more lets the next one go.
        drop(second);
        clock.0.advance(Duration::from_secs(1));
        bandwidth.shared.changed.notify_waiters();
        assert!((&mut guess).now_or_never().is_some());
    }

    #[test]
    fn small_request_goes_before_large_ones_within_half_of_the_limit() {
        let clock = Arc::new(Still(ManualClock::default()));
        clock.0.advance(Duration::from_secs(10));
        let bandwidth = Bandwidth::new(Some(MIB), Arc::clone(&clock) as _);
        bandwidth.take(100 * MIB, Urgency::Urgent).now_or_never().unwrap();
        let mut large = Box::pin(bandwidth.take(MIB, Urgency::Urgent));
        assert!((&mut large).now_or_never().is_none());
        let mut gone = 0;
        for _ in 0..100 {
            while bandwidth.take(10_000, Urgency::Urgent).now_or_never().is_some() {
                gone += 10_000;
            }
            clock.0.advance(Duration::from_millis(100));
        }
        let half = 99 * MIB / 20;
        assert!((half..half + 20_000).contains(&gone), "{gone} in 9.9 s");
        assert!(bandwidth.take(10_000, Urgency::Guess).now_or_never().is_none());
        // The large one waits for its turn, and for what the small ones took of it.
        clock.0.advance(Duration::from_secs(90));
        bandwidth.shared.changed.notify_waiters();
        assert!((&mut large).now_or_never().is_none());
        clock.0.advance(Duration::from_secs(6));
        bandwidth.shared.changed.notify_waiters();
        assert!((&mut large).now_or_never().is_some());
    }

    #[test]
    fn transfer_that_waits_hears_of_a_new_limit() {
        let clock = Arc::new(Still(ManualClock::default()));
        let bandwidth = Bandwidth::new(Some(1), Arc::clone(&clock) as _);
        bandwidth.take(MIB, Urgency::Urgent).now_or_never().unwrap();
        let mut waits = Box::pin(bandwidth.take(MIB, Urgency::Urgent));
        assert!((&mut waits).now_or_never().is_none());
        bandwidth.set(None);
        assert!((&mut waits).now_or_never().is_some());
        assert_eq!(bandwidth.bytes_per_sec(), None);
    }

    /// A clock that moves only when told to, and of which no sleep ends.
    #[derive(Debug)]
    struct Still(ManualClock);

    impl base::Clock for Still {
        fn wall(&self) -> base::Timestamp {
            self.0.wall()
        }

        fn monotonic(&self) -> Duration {
            self.0.monotonic()
        }

        fn sleep(&self, _: Duration) -> futures::future::BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }
}
