//! How long an answer is waited for while a request goes out and the store works; pure.
//!
//! ```text
//!   the body goes out            the socket's buffers drain, the store works        the answer begins
//!   ├── may not stand still ──▶  ├── patience, and more for more bytes ──────────▶
//! ```
//!
//! Several MB fit into the buffers of a socket: a body that was handed over is not there yet.

use std::time::Duration;

/// How long an answer may take to begin to which nothing but patience applies.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long any answer may take, sending the request included.
const WORK_MAX: Duration = Duration::from_mins(15);

/// How long a stream may stand still, in either direction, before it is given up: on a line that many
/// share, pieces take their time even for who is in a hurry.
const STALL_MIN: Duration = Duration::from_secs(5);
const STALL_MAX: Duration = Duration::from_secs(20);

/// Up to here a body has no more time than any other request: a line that is slower is down.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// A line that is slower is down, once all of a body is in the buffers.
const DRAINED_BYTES_PER_SEC: u64 = 1 << 20;

/// No store copies more slowly.
const WORKED_BYTES_PER_SEC: u64 = 8 << 20;

/// What a part has, as far as anybody knows when they are put together.
const PART_BYTES: u64 = 16 << 20;

/// How often it is looked whether a body moves.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long whoever asks has the patience to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    patience: Duration,
}

impl Limits {
    pub(super) fn new(patience: Duration) -> Limits {
        Limits { patience: patience.min(ANSWER_MAX) }
    }

    /// How long a stream may stand still.
    pub(super) fn stall(self) -> Duration {
        self.patience.clamp(STALL_MIN, STALL_MAX)
    }

    /// How long the answer may take to a few words that make the store work on so many bytes.
    pub(super) fn work(self, bytes: u64) -> Duration {
        (self.patience + at_rate(bytes, WORKED_BYTES_PER_SEC)).min(WORK_MAX)
    }
}

/// What the store works on when it puts so many parts together.
pub(crate) fn bytes_of_parts(parts: usize) -> u64 {
    PART_BYTES.saturating_mul(parts as u64)
}

fn at_rate(bytes: u64, bytes_per_sec: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1000) / bytes_per_sec)
}

/// One request on its way.
#[derive(Debug)]
pub(super) struct Waiting {
    limits: Limits,
    begun: Duration,
    length: u64,
    work_bytes: u64,
    sent: u64,
    /// When bytes of the body were last seen to leave.
    moved: Duration,
}

impl Waiting {
    /// A request that begins at `now`, with a body of so many bytes.
    pub(super) fn new(limits: Limits, now: Duration, length: u64, work_bytes: u64) -> Waiting {
        Waiting { limits, begun: now, length, work_bytes, sent: 0, moved: now }
    }

    /// For how long to wait before the next step, now that so much of the body was handed to the
    /// connection; or why the request is given up.
    pub(super) fn step(&mut self, now: Duration, sent: u64) -> Result<Duration, &'static str> {
        if self.sent < sent {
            (self.sent, self.moved) = (sent, now);
        }
        let is_small = self.length <= SMALL_BYTES_MAX;
        let is_going_out = !is_small && self.sent < self.length;
        let work = self.limits.work(self.work_bytes);
        let until = if is_small {
            self.begun + work
        } else if is_going_out {
            self.moved + self.limits.stall()
        } else {
            // A line on which it took long to hand the body over takes long for what it has of it.
            let took = self.moved.saturating_sub(self.begun);
            self.moved + work + at_rate(self.length, DRAINED_BYTES_PER_SEC) + took
        };
        let left = until.min(self.begun + WORK_MAX).saturating_sub(now);
        match (left.is_zero(), is_going_out) {
            (false, true) => Ok(left.min(LOOK_EVERY)),
            (false, false) => Ok(left),
            (true, true) => Err("the upload stands still"),
            (true, false) => Err("no answer in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Limits, Waiting, bytes_of_parts};

    const MIB: u64 = 1 << 20;

    /// After how many seconds a request is given up of whose body `sent` gives what has left by then.
    fn given_up(
        patience_secs: u64,
        (length, work): (u64, u64),
        sent: impl Fn(u64) -> u64,
    ) -> (u64, &'static str) {
        let limits = Limits::new(Duration::from_secs(patience_secs));
        let mut now = Duration::from_secs(1000);
        let begun = now;
        let mut waiting = Waiting::new(limits, now, length, work);
        loop {
            match waiting.step(now, sent(now.saturating_sub(begun).as_secs()).min(length)) {
                Ok(pause) => now += pause,
                Err(words) => return (now.saturating_sub(begun).as_secs(), words),
            }
        }
    }

    #[test]
    fn a_store_that_is_silent_from_some_point_on_is_given_up() {
        let (late, stands) = ("no answer in time", "the upload stands still");
        for (patience, sizes, buffered, want) in [
            (3, (0, 0), 0, (3, late)),
            (3, (MIB, 0), MIB, (3, late)),
            (60, (MIB, 0), 0, (30, late)),
            // All of it is in the buffers.
            (3, (2 * MIB, 0), 4 * MIB, (5, late)),
            (60, (2 * MIB, 0), 4 * MIB, (32, late)),
            (60, (64 * MIB, 0), 64 * MIB, (94, late)),
            // Some of it.
            (3, (9 * MIB, 0), 4 * MIB, (5, stands)),
            (10, (9 * MIB, 0), 4 * MIB, (10, stands)),
            (60, (64 * MIB, 0), 4 * MIB, (20, stands)),
            // Copies and what is put together.
            (3, (0, 2 * MIB), 0, (3, late)),
            (3, (1000, 800 * MIB), 1000, (103, late)),
            (60, (1000, bytes_of_parts(10_000)), 1000, (900, late)),
        ] {
            assert_eq!(given_up(patience, sizes, |_| buffered), want, "{patience} s, {sizes:?}");
        }
    }

    #[test]
    fn a_body_that_moves_has_time_and_what_it_left_in_the_buffers_too() {
        // 64 MiB at 256 KiB/s are handed over after 256 s.
        let slow = |secs| secs * (256 << 10);
        assert_eq!(given_up(3, (64 * MIB, 0), slow), (256 + 3 + 64 + 256, "no answer in time"));
        // And some bytes now and then are not enough for ever.
        assert_eq!(given_up(60, (1024 * MIB, 0), |secs| secs * 1000).0, 900);
    }
}
