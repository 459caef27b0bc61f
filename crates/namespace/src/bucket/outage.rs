//! While the bucket cannot be reached, who looks is told what is remembered: files that are here stay
//! readable, and nobody waits for what does not answer. Now and then somebody tries. Pure.
//!
//! ```text
//!               no answer                   some time later
//!   Reachable ────────────▶ Resting ─────────────────────────▶ Tried
//!       ▲                      ▲──────── no answer ──────────────┤
//!       └────────────────────── an answer ───────────────────────┘
//! ```
//!
//! Who tries may find what he looks for without the bucket: then the next one tries.

use std::time::Duration;

/// How long nobody tries after the bucket did not answer.
const REST: Duration = Duration::from_secs(2);

/// Whoever tries for longer has perhaps given up: another one may.
const TRY_MAX: Duration = Duration::from_mins(2);

/// Whether the bucket answers, as far as is known.
#[derive(Debug, Default)]
pub(super) enum Outage {
    #[default]
    Reachable,
    /// It did not a moment ago.
    Resting { until: Duration },
    /// Somebody tries again.
    Tried { until: Duration },
}

/// What who looks is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Ask the bucket.
    Ask,
    /// Take what is remembered.
    Remember,
    /// Take what is remembered, and have somebody try.
    RememberAndTry,
}

impl Outage {
    /// Whether the bucket answers, as far as is known.
    pub(super) fn is_reachable(&self) -> bool {
        matches!(self, Outage::Reachable)
    }

    /// What who looks at `now` is to do.
    pub(super) fn advise(&mut self, now: Duration) -> Advice {
        match self {
            Outage::Reachable => Advice::Ask,
            Outage::Resting { until } | Outage::Tried { until } if now < *until => Advice::Remember,
            Outage::Resting { .. } | Outage::Tried { .. } => {
                *self = Outage::Tried { until: now + TRY_MAX };
                Advice::RememberAndTry
            }
        }
    }

    /// The bucket did not answer. Whether it did until now.
    pub(super) fn begins(&mut self, now: Duration) -> bool {
        let is_new = matches!(self, Outage::Reachable);
        *self = Outage::Resting { until: now + REST };
        is_new
    }

    /// Who tried is done. If he learnt nothing of the bucket, whoever looks at `now` or later tries.
    pub(super) fn tried(&mut self, now: Duration) {
        if let Outage::Tried { .. } = self {
            *self = Outage::Resting { until: now };
        }
    }

    /// The bucket answers. Whether it did not before.
    pub(super) fn ends(&mut self) -> bool {
        !matches!(std::mem::take(self), Outage::Reachable)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Advice, Outage, REST, TRY_MAX};

    #[test]
    fn one_tries_at_a_time_until_there_is_an_answer() {
        let mut outage = Outage::default();
        let mut now = Duration::from_secs(100);
        assert_eq!(outage.advise(now), Advice::Ask);
        assert!(outage.begins(now));
        assert_eq!(outage.advise(now), Advice::Remember);
        now += REST;
        assert_eq!(outage.advise(now), Advice::RememberAndTry);
        assert_eq!(outage.advise(now), Advice::Remember);
        assert!(!outage.begins(now), "it is known");
        now += REST;
        assert_eq!(outage.advise(now), Advice::RememberAndTry);
        now += TRY_MAX;
        assert_eq!(outage.advise(now), Advice::RememberAndTry, "the other one has given up");
        outage.tried(now);
        assert_eq!(outage.advise(now), Advice::RememberAndTry, "nothing was learnt");
        assert!(!outage.begins(now));
        outage.tried(now);
        assert_eq!(outage.advise(now), Advice::Remember, "there was no answer");
        assert!(outage.ends());
        assert!(!outage.ends());
        outage.tried(now);
        assert_eq!(outage.advise(now), Advice::Ask);
    }
}
