//! How long a change waits for others, so that many are written together.

use std::time::Duration;

/// What is changed is in the bucket within twice this, if the store answers.
const CHANGE_DELAY: Duration = Duration::from_secs(1);

/// How long the times of what was written wait.
const TIME_DELAY: Duration = Duration::from_secs(4);

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bucket) enum What {
    /// Attributes, by a program.
    Attributes,
    /// The time, by what was written.
    Time,
}

impl What {
    /// How long it waits.
    pub(in crate::bucket) fn delay(self) -> Duration {
        match self {
            What::Attributes => CHANGE_DELAY,
            What::Time => TIME_DELAY,
        }
    }
}
