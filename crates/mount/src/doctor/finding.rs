//! What was found of one thing, and what to do about it.

use serde::Serialize;

/// What was found of one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub subject: &'static str,
    /// Whether it is as it should be.
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
    /// What to do, if there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Whether something is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is.
    Ok,
    /// A mount works, but not as well as it could.
    Warn,
    /// A mount does not work, or not for long.
    Fail,
}

impl Finding {
    pub(super) fn ok(subject: &'static str, seen: impl Into<String>) -> Finding {
        Finding { subject, verdict: Verdict::Ok, seen: seen.into(), advice: None }
    }

    pub(super) fn warn(
        subject: &'static str,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding { advice: Some(advice.into()), ..Finding::of(subject, Verdict::Warn, seen) }
    }

    pub(super) fn fail(
        subject: &'static str,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding { advice: Some(advice.into()), ..Finding::of(subject, Verdict::Fail, seen) }
    }

    fn of(subject: &'static str, verdict: Verdict, seen: impl Into<String>) -> Finding {
        Finding { verdict, ..Finding::ok(subject, seen) }
    }
}
