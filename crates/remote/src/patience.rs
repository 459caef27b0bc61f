//! How long to wait for an answer before asking a second time; pure.
//!
//! One answer in a hundred takes many times as long as the others, for no reason that a second request would
//! share (Dean and Barroso, "The tail at scale", 2013). Who asks again when the slowest hundredth begins halves
//! that tail for one request more in a hundred.

use std::collections::VecDeque;
use std::time::Duration;

/// Answers that are remembered: enough for a hundredth to be more than one of them.
const ANSWERS_MAX: usize = 256;

/// Fewer say nothing of the slowest hundredth.
const ANSWERS_MIN: usize = 100;

/// The slowest hundredth is looked for again after so many answers.
const LOOK_AFTER: u32 = 16;

/// Nobody feels less.
const LATE_MIN: Duration = Duration::from_millis(10);

/// An answer is late, too, only if it takes so many times as long as most.
const MEDIANS: u32 = 2;

/// Two second requests for each hundred first ones, so that a store that becomes slow is not asked twice as
/// often for it; and so many that are saved up.
const EARNED: u32 = 2;
const COST: u32 = 100;
const SAVED_MAX: u32 = 10 * COST;

/// What is known of the answers so far.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    // Invariant: at most `ANSWERS_MAX`, oldest first.
    answers: VecDeque<Duration>,
    since_look: u32,
    late: Option<Duration>,
    saved: u32,
}

impl Patience {
    /// An answer took so long.
    pub(crate) fn learn(&mut self, took: Duration) {
        if self.answers.len() == ANSWERS_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back(took);
        self.saved = (self.saved + EARNED).min(SAVED_MAX);
        self.since_look += 1;
        if ANSWERS_MIN <= self.answers.len()
            && (self.late.is_none() || LOOK_AFTER <= self.since_look)
        {
            self.since_look = 0;
            self.late = Some(late(self.answers.iter().copied().collect()));
        }
    }

    /// After what time an answer is late; `None` while nobody can tell.
    pub(crate) fn late(&self) -> Option<Duration> {
        self.late
    }

    /// Whether a second request may be sent now; if so it counts.
    pub(crate) fn ask_again(&mut self) -> bool {
        let is_saved = COST <= self.saved;
        if is_saved {
            self.saved -= COST;
        }
        is_saved
    }
}

/// When the slowest hundredth of `answers` begins.
fn late(mut answers: Vec<Duration>) -> Duration {
    answers.sort_unstable();
    let median = answers[answers.len() / 2];
    let slow = answers[answers.len() - 1 - answers.len() / 100];
    slow.max(median * MEDIANS).max(LATE_MIN)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ANSWERS_MIN, Patience};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_is_late_before_the_usual_is_known() {
        let mut patience = Patience::default();
        for _ in 1..ANSWERS_MIN {
            patience.learn(20 * MS);
            assert_eq!(patience.late(), None);
        }
        patience.learn(20 * MS);
        assert_eq!(patience.late(), Some(40 * MS), "twice the median where all are alike");
    }

    #[test]
    fn late_is_what_the_slowest_hundredth_takes_and_follows_the_store() {
        let mut patience = Patience::default();
        for answer in 0..300 {
            patience.learn(if answer % 50 == 0 { 500 * MS } else { 20 * MS });
        }
        assert_eq!(patience.late(), Some(500 * MS));
        for _ in 0..300 {
            patience.learn(MS);
        }
        assert_eq!(patience.late(), Some(10 * MS));
    }

    #[test]
    fn of_a_hundred_requests_two_are_sent_twice_and_few_are_saved_up() {
        let mut patience = Patience::default();
        assert!(!patience.ask_again());
        for _ in 0..100 {
            patience.learn(MS);
        }
        assert_eq!([(); 3].map(|()| patience.ask_again()), [true, true, false]);
        for _ in 0..10_000 {
            patience.learn(MS);
        }
        assert_eq!((0..100).filter(|_| patience.ask_again()).count(), 10);
    }
}
