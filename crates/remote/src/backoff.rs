//! When to repeat a failed call; pure.
//!
//! Delays double from try to try and are drawn evenly between nothing and that ("full jitter"), so
//! that clients that failed together do not come back together.

use std::time::Duration;

use crate::ErrorKind;

/// Within which limits calls are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// How long after its first try a call may be tried again. While a body flows it is counted
    /// from the last bytes that came.
    pub deadline: Duration,
    /// The longest first delay.
    pub delay_min: Duration,
    /// The longest delay of all.
    pub delay_max: Duration,
}

impl Default for RetryOptions {
    fn default() -> RetryOptions {
        RetryOptions {
            deadline: Duration::from_mins(1),
            delay_min: Duration::from_millis(100),
            delay_max: Duration::from_secs(5),
        }
    }
}

/// How it goes on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Again, so much later.
    After(Duration),
    /// Not at all: the failure stands as it is.
    Never,
    /// Not at all: there is no time left.
    TooLate,
}

/// The tries of one call so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tries {
    pub(crate) begun: Duration,
    pub(crate) failed: u32,
}

impl RetryOptions {
    /// What to do at `now` after `tries`, the last of which failed like `kind`. `draw` gives a
    /// number below its argument.
    pub(crate) fn next(
        &self,
        tries: Tries,
        now: Duration,
        kind: ErrorKind,
        draw: impl FnOnce(u64) -> u64,
    ) -> Next {
        let ErrorKind::Transient { retry_after } = kind else { return Next::Never };
        let doublings = tries.failed.saturating_sub(1).min(31);
        let longest = self.delay_min.saturating_mul(1 << doublings).min(self.delay_max);
        let longest_us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX).max(1);
        let drawn = Duration::from_micros(draw(longest_us));
        let left = self.deadline.saturating_sub(now.saturating_sub(tries.begun));
        // The store knows best when it will have time.
        let asked = retry_after.unwrap_or_default();
        match left.checked_sub(asked) {
            // The last try is at the deadline: what is over by then goes unnoticed.
            Some(spare) if !left.is_zero() => Next::After(asked + drawn.min(spare)),
            Some(_) | None => Next::TooLate,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Next, RetryOptions, Tries};
    use crate::ErrorKind;

    const OPTIONS: RetryOptions = RetryOptions {
        deadline: Duration::from_secs(10),
        delay_min: Duration::from_millis(100),
        delay_max: Duration::from_secs(2),
    };
    const TRANSIENT: ErrorKind = ErrorKind::Transient { retry_after: None };

    #[test]
    fn delays_double_up_to_the_longest() {
        for (failed, want_ms) in [(1, 100), (2, 200), (3, 400), (5, 1600), (6, 2000), (99, 2000)] {
            assert_eq!(next(failed, 0, TRANSIENT), Next::After(Duration::from_millis(want_ms)));
        }
    }

    #[test]
    fn the_stores_own_wish_is_heeded() {
        let asked = ErrorKind::Transient { retry_after: Some(Duration::from_secs(3)) };
        assert_eq!(next(1, 0, asked), Next::After(Duration::from_millis(3100)));
        assert_eq!(next(1, 7, asked), Next::After(Duration::from_secs(3)));
        assert_eq!(next(1, 8, asked), Next::TooLate);
        // As `Retry-After: 18446744073709551615` says it.
        for longest in [Duration::from_secs(u64::MAX), Duration::MAX] {
            let asked = ErrorKind::Transient { retry_after: Some(longest) };
            assert_eq!(next(1, 8, asked), Next::TooLate);
        }
    }

    #[test]
    fn no_delay_goes_past_the_deadline_and_the_last_try_is_there() {
        assert_eq!(next(1, 9, TRANSIENT), Next::After(Duration::from_millis(100)));
        assert_eq!(next(99, 9, TRANSIENT), Next::After(Duration::from_secs(1)));
        assert_eq!(next(1, 10, TRANSIENT), Next::TooLate);
    }

    #[test]
    fn only_the_transient_is_repeated() {
        for kind in [
            ErrorKind::NotFound,
            ErrorKind::Changed,
            ErrorKind::Denied,
            ErrorKind::Archived,
            ErrorKind::Full,
        ] {
            assert_eq!(next(1, 0, kind), Next::Never);
        }
    }

    /// With the longest delay that can be drawn.
    fn next(failed: u32, now_secs: u64, kind: ErrorKind) -> Next {
        let tries = Tries { begun: Duration::ZERO, failed };
        OPTIONS.next(tries, Duration::from_secs(now_secs), kind, |limit| limit)
    }
}
