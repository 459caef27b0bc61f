//! Whether it is worth while to try one more file when the store does not answer. Pure.
//!
//! Each try takes a deadline then, so thousands of files would take as many rounds of it.

/// What is known of the store from the tries of many files, so many at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hope {
    at_a_time: usize,
    /// Tries that ended without an answer since the last answer.
    unanswered: usize,
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// The store did or refused what was asked for.
    Answered,
    /// It could not be reached within the deadline.
    Unanswered,
    /// It was not asked.
    Unasked,
}

impl Hope {
    /// Nothing was tried yet of what is tried `at_a_time`.
    pub(crate) fn of(at_a_time: usize) -> Hope {
        Hope { at_a_time, unanswered: 0 }
    }

    /// Accounts for the end of a try.
    pub(crate) fn ended(&mut self, tried: Tried) {
        match tried {
            Tried::Answered => self.unanswered = 0,
            Tried::Unanswered => self.unanswered += 1,
            Tried::Unasked => {}
        }
    }

    /// Whether a whole round ended without an answer: what was not begun yet is not tried.
    pub(crate) fn is_gone(&self) -> bool {
        self.at_a_time <= self.unanswered
    }
}

#[cfg(test)]
mod tests {
    use super::{Hope, Tried};

    #[test]
    fn hope_is_gone_when_as_many_as_are_tried_at_a_time_had_no_answer_and_none_had_one() {
        use Tried::{Answered, Unanswered, Unasked};
        for (tries, want) in [
            (&[][..], false),
            (&[Unanswered, Unanswered], false),
            (&[Unanswered, Unanswered, Unanswered], true),
            (&[Unanswered, Unasked, Unanswered, Unasked, Unanswered], true),
            (&[Unanswered, Unanswered, Answered, Unanswered, Unanswered], false),
            (&[Answered, Unanswered, Unanswered, Unanswered], true),
            (&[Unanswered, Unanswered, Unanswered, Answered], false),
        ] {
            let mut hope = Hope::of(3);
            for tried in tries {
                hope.ended(*tried);
            }
            assert_eq!(hope.is_gone(), want, "{tries:?}");
        }
    }
}
