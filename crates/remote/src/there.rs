//! What time it is at the server, told by its answers: it refuses what is signed at another time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base::{Clock, Timestamp};

use crate::http::parse_http_date;

/// Clocks that differ by less are the same.
const SKEW_SECS_MIN: i64 = 60;

/// The clock of the server.
#[derive(Debug)]
pub(crate) struct There {
    here: Arc<dyn Clock>,
    /// By so many seconds it is before ours.
    skew_secs: AtomicI64,
}

/// Whether the clocks differ otherwise than was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skew {
    Same,
    Other,
}

impl There {
    pub(crate) fn new(here: Arc<dyn Clock>) -> There {
        There { here, skew_secs: AtomicI64::new(0) }
    }

    /// The time to sign with.
    pub(crate) fn wall(&self) -> Timestamp {
        let here = self.here.wall();
        Timestamp { secs: here.secs.saturating_add(self.skew_secs.load(Ordering::Relaxed)), ..here }
    }

    /// What is said of a moment there, by the clock here.
    pub(crate) fn here_secs(&self, there_secs: i64) -> i64 {
        there_secs.saturating_sub(self.skew_secs.load(Ordering::Relaxed))
    }

    /// Takes note of the `Date` of an answer that has just come.
    pub(crate) fn learn(&self, date: Option<&str>) -> Skew {
        let Some(there) = date.and_then(parse_http_date) else { return Skew::Same };
        let skew = there.secs.saturating_sub(self.here.wall().secs);
        let known = self.skew_secs.load(Ordering::Relaxed);
        if skew.saturating_sub(known).saturating_abs() < SKEW_SECS_MIN {
            return Skew::Same;
        }
        self.skew_secs.store(skew, Ordering::Relaxed);
        Skew::Other
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::{Clock as _, ManualClock, Timestamp};

    use super::{Skew, There};
    use crate::http::http_date;

    #[test]
    fn the_time_there_follows_the_answers_from_there() {
        let clock = Arc::new(ManualClock::default());
        let there = There::new(Arc::clone(&clock) as _);
        let here = clock.wall();
        let date = |ahead_secs| http_date(Timestamp { secs: here.secs + ahead_secs, nanos: 0 });
        for (ahead_secs, skew, want_secs) in [
            (59, Skew::Same, 0),
            (3600, Skew::Other, 3600),
            (3650, Skew::Same, 3600),
            (-3600, Skew::Other, -3600),
        ] {
            assert_eq!(there.learn(Some(&date(ahead_secs))), skew, "{ahead_secs}");
            assert_eq!(there.wall().secs - here.secs, want_secs, "{ahead_secs}");
        }
        assert_eq!(there.learn(Some("soon")), Skew::Same);
        assert_eq!(there.learn(None), Skew::Same);
    }
}
