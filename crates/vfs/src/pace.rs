//! How many requests of one kind run at a time: as many as make them faster, and no more. Pure.
//!
//! A store that is far away takes as long for one as for sixty, so that sixty are sixty times as fast. One
//! that is busy, or that shares the machine with us, takes longer for each the more there are: more of
//! them only make all late, and take the processor from others. In between, the best number is
//! the one with the most *power*, the rate divided by the time that each takes (Kleinrock, "Power and
//! deterministic rules of thumb for probabilistic problems in computer communications", 1979). By Little's
//! law that time is the number divided by the rate, so that no single request has to be timed.
//!
//! ```text
//!             a while                    more power
//!   ┌─ home ───────────▶ twice, or half ────────────▶ that is home; the same step once more
//!   │    ▲                     │
//!   └────┘                     │ less power
//!        ◀─────────────────────┘ the other direction is next
//! ```

use std::time::Duration;

/// A number is judged by at least this many requests for each that is under way,
const ROUNDS: u32 = 2;
/// and over at least this time.
const WINDOW_MIN: Duration = Duration::from_millis(25);
/// So many windows it stays where neither more nor fewer were better.
const REST: u32 = 16;

/// The number, and what was learnt of it.
#[derive(Debug)]
pub(crate) struct Pace {
    home: u32,
    most: u32,
    /// Requests per second at home, when it was last measured.
    rate: f64,
    stage: Stage,
    direction: Direction,
    /// Steps in a row that were no better.
    vain: u32,
    window: Option<Window>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// At home for so many windows more.
    Home(u32),
    /// A step away from it.
    Away,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// A time in which as many were under way as may be.
#[derive(Debug)]
struct Window {
    since: Duration,
    ended: u32,
}

impl Pace {
    /// Begins with `start` at a time, and never has more than `most`; both are powers of two.
    pub(crate) fn new(start: u32, most: u32) -> Pace {
        let (stage, direction) = (Stage::Home(1), Direction::Up);
        Pace { home: start, most, rate: 0.0, stage, direction, vain: 0, window: None }
    }

    /// How many may be under way.
    pub(crate) fn number(&self) -> u32 {
        match (self.stage, self.direction) {
            (Stage::Home(_), _) => self.home,
            (Stage::Away, Direction::Up) => self.home * 2,
            (Stage::Away, Direction::Down) => self.home / 2,
        }
    }

    /// A request ended well at `now`, and another one took its place.
    pub(crate) fn ended(&mut self, now: Duration) {
        let number = self.number();
        let Some(window) = &mut self.window else {
            self.window = Some(Window { since: now, ended: 0 });
            return;
        };
        window.ended += 1;
        let took = now.saturating_sub(window.since);
        if window.ended < ROUNDS * number || took < WINDOW_MIN {
            return;
        }
        let rate = f64::from(window.ended) / took.as_secs_f64();
        // The first to end after a step may have begun before it.
        self.window = None;
        self.judge(rate);
    }

    /// Nobody waits for a place: nothing is to be learnt now.
    pub(crate) fn idle(&mut self) {
        self.window = None;
    }

    fn judge(&mut self, rate: f64) {
        match self.stage {
            Stage::Home(windows) => {
                self.rate = rate;
                match windows {
                    0 | 1 => self.step(),
                    more => self.stage = Stage::Home(more - 1),
                }
            }
            Stage::Away if power(self.rate, self.home) < power(rate, self.number()) => {
                (self.home, self.rate, self.vain) = (self.number(), rate, 0);
                self.step();
            }
            Stage::Away => self.turn(),
        }
    }

    fn step(&mut self) {
        let end = match self.direction {
            Direction::Up => self.most,
            Direction::Down => 1,
        };
        if self.home == end { self.turn() } else { self.stage = Stage::Away }
    }

    /// Back home; the other direction is next.
    fn turn(&mut self) {
        self.direction = match self.direction {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        };
        self.vain += 1;
        self.stage = Stage::Home(if self.vain < 2 { 1 } else { REST });
    }
}

/// The rate divided by the time that each takes.
fn power(rate: f64, number: u32) -> f64 {
    rate * rate / f64::from(number)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Pace;

    const MOST: u32 = 64;

    fn begun() -> Pace {
        Pace::new(4, MOST)
    }

    /// Lets requests end as fast as `rate` says of the number of them, for a while.
    fn run(pace: &mut Pace, from: Duration, rate: impl Fn(u32) -> f64) -> Duration {
        let mut now = from;
        while now < from + Duration::from_secs(20) {
            now += Duration::from_secs_f64(1.0 / rate(pace.number()));
            pace.ended(now);
        }
        now
    }

    /// Each takes `latency` seconds, and all together are no faster than `most` per second.
    fn store(latency: f64, most: f64) -> impl Fn(u32) -> f64 {
        move |number| (f64::from(number) / latency).min(most)
    }

    #[test]
    fn a_store_that_is_far_away_is_asked_for_as_much_as_may_be() {
        let mut pace = begun();
        let mut now = Duration::ZERO;
        while pace.number() < MOST {
            now += Duration::from_secs_f64(0.02 / f64::from(pace.number()));
            pace.ended(now);
        }
        assert!(now < Duration::from_millis(500), "{now:?}");
    }

    #[test]
    fn a_store_that_is_no_faster_with_more_is_asked_for_few() {
        for (latency, most, want) in [(0.001, 1000.0, 1), (0.004, 1000.0, 4), (0.02, 800.0, 16)] {
            let mut pace = begun();
            run(&mut pace, Duration::ZERO, store(latency, most));
            assert_eq!(pace.home, want, "{latency} {most}");
        }
    }

    #[test]
    fn a_store_that_changes_is_followed() {
        let mut pace = begun();
        let now = run(&mut pace, Duration::ZERO, store(0.02, 1e9));
        assert_eq!(pace.home, MOST);
        let now = run(&mut pace, now, store(0.02, 200.0));
        assert_eq!(pace.home, 4);
        run(&mut pace, now, store(0.02, 1e9));
        assert_eq!(pace.home, MOST);
    }

    #[test]
    fn nothing_is_learnt_while_there_is_not_enough_to_do() {
        let mut pace = begun();
        let before = pace.number();
        for second in 0..1000 {
            pace.ended(Duration::from_secs(second));
            pace.idle();
        }
        assert_eq!(pace.number(), before);
    }
}
