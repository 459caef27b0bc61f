//! Whether the account's endpoint for paths can be reached: private networks often let only that for blobs
//! through. A file that cannot be renamed there can be copied; a folder cannot.

use std::time::Duration;

use parking_lot::Mutex;

use crate::{Error, ErrorKind, Original};

/// So many times in a row it has to be out of reach: a name that is not found, or a line that breaks, may be a matter
/// of a moment.
const FAILURES_MAX: u32 = 3;

/// For so long it is left alone then.
pub(super) const AWAY: Duration = Duration::from_mins(5);

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct PathsAway(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    until: Option<Duration>,
}

impl PathsAway {
    /// Whether it is not to be asked at `now`.
    pub(super) fn is_known(&self, now: Duration) -> bool {
        self.0.lock().until.is_some_and(|until| now < until)
    }

    /// It has answered.
    pub(super) fn answers(&self) {
        *self.0.lock() = State::default();
    }

    /// It was out of reach again. Says whether that is enough.
    pub(super) fn fails(&self) -> bool {
        let mut state = self.0.lock();
        state.failures += 1;
        FAILURES_MAX <= state.failures
    }

    pub(super) fn leave_alone(&self, until: Duration) {
        *self.0.lock() = State { failures: 0, until: Some(until) };
    }
}

/// Who asks may copy.
pub(super) fn away(original: Original<'_>) -> Error {
    let words = "the account's endpoint for paths cannot be reached";
    Error::new(ErrorKind::Unsupported, "rename", original.key).because(words)
}

/// Whether nobody answered.
pub(super) fn is_out_of_reach(error: &Error) -> bool {
    error.provider_error().is_some_and(|said| said.code == "ConnectionFailed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::PathsAway;

    #[test]
    fn it_is_left_alone_for_a_while_and_then_asked_again() {
        let away = PathsAway::default();
        assert!(!away.fails() && !away.fails() && away.fails());
        away.leave_alone(Duration::from_secs(9));
        assert!(away.is_known(Duration::from_secs(8)) && !away.is_known(Duration::from_secs(9)));
        assert!(!away.fails(), "it is counted anew");
        away.answers();
        assert!(!away.fails() && !away.fails() && away.fails());
    }
}
