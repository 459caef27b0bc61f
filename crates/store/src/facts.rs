//! What was found out about the store behind a volume, so that the next mount need not ask again.
//!
//! A store changes now and then, so whoever asks says how old a fact may be.

use std::sync::Arc;

use base::Clock;

use crate::error::Result;
use crate::ground::Ground;

/// Such facts of one volume: yes or no, by name.
#[derive(Clone, Debug)]
pub struct Facts {
    ground: Arc<Ground>,
    volume: String,
}

/// Facts are believed for so long.
const BELIEVED_SECS: i64 = 7 * 24 * 60 * 60;

impl Facts {
    /// Those of `volume`.
    pub(crate) fn new(ground: &Arc<Ground>, volume: &str) -> Facts {
        Facts { ground: Arc::clone(ground), volume: volume.to_owned() }
    }

    /// Those that are believed still.
    pub fn believed(&self, clock: &dyn Clock) -> Result<Vec<(String, bool)>> {
        self.ground.db.facts(&self.volume, clock.wall().secs - BELIEVED_SECS)
    }

    /// Notes what is known now. What was known as well, and is believed still, becomes no younger: else
    /// nobody would ever ask again.
    pub fn note(&self, facts: &[(&str, bool)], clock: &dyn Clock) -> Result<()> {
        let now_secs = clock.wall().secs;
        self.ground.db.note_facts(&self.volume, facts, (now_secs, now_secs - BELIEVED_SECS))
    }
}
