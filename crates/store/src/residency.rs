//! Where the newest bytes of a staged file live, and what moves them.
//!
//! ```text
//!            write              seal               acked
//!   Clean ─────────▶ Dirty ───────────▶ Sealed ───────────▶ Clean, or Dirty if written since
//!     │                ▲                  ▲ │
//!     │                └──── rejected ────┼─┘
//!     └─────────────── seal ──────────────┘
//! ```
//!
//! A sealed version that nobody uploads yet gives way to a newer one.
//!
//! [`Residency::step`] is the whole machine. It does no I/O and takes no lock: it returns the next
//! state and the one thing to do about it, and the caller, who holds the file's lock, does it.

/// A version of the file's bytes; grows by one at every seal.
pub(crate) type Epoch = u64;

/// Where the newest bytes of one staged file live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residency {
    /// The bucket has them.
    Clean,
    /// Only the local store has them, and they are still changing.
    Dirty,
    /// Only the local store has them; they are frozen and on their way to the bucket.
    Sealed {
        /// The version being uploaded.
        epoch: Epoch,
        /// Whether newer bytes were written since the seal.
        written_since: bool,
    },
}

/// Something that happened to the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Bytes or size changed.
    Write,
    /// A version of it is to be uploaded.
    Seal(Epoch),
    /// A version of it is to be uploaded instead of an earlier one that nobody has begun to upload.
    SealAnew {
        /// The earlier one.
        earlier: Epoch,
        /// The new one.
        epoch: Epoch,
    },
    /// The bucket has the sealed version.
    Acked(Epoch),
    /// The bucket has not taken the sealed version.
    Rejected(Epoch),
}

/// What the caller must do about a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    None,
    /// Record that the file has bytes that exist nowhere else, before they are written.
    RecordDirty,
    /// Record that the file has bytes newer than the sealed ones, before they are written, unless the checksums of
    /// those will tell.
    RecordWrittenSince,
    /// Record the frozen version.
    RecordSealed(Epoch),
    /// Let go of what kept the sealed version frozen.
    Thaw(Epoch),
}

impl Residency {
    /// Advances the machine by one event.
    ///
    /// # Panics
    ///
    /// On a second seal while one is out, and on an answer to a version that was never sealed: the
    /// caller has lost track, and going on would let go of bytes that exist nowhere else.
    #[must_use]
    pub(crate) fn step(self, event: Event) -> (Residency, Action) {
        match (self, event) {
            (Residency::Clean, Event::Write) => (Residency::Dirty, Action::RecordDirty),
            (Residency::Dirty, Event::Write) => (Residency::Dirty, Action::None),
            (Residency::Sealed { epoch, written_since: false }, Event::Write) => {
                (Residency::Sealed { epoch, written_since: true }, Action::RecordWrittenSince)
            }
            (Residency::Sealed { written_since: true, .. }, Event::Write) => (self, Action::None),

            (Residency::Clean | Residency::Dirty, Event::Seal(epoch)) => {
                (Residency::Sealed { epoch, written_since: false }, Action::RecordSealed(epoch))
            }

            (Residency::Sealed { epoch: sealed, .. }, Event::SealAnew { earlier, epoch })
                if sealed == earlier =>
            {
                (Residency::Sealed { epoch, written_since: false }, Action::RecordSealed(epoch))
            }

            (Residency::Sealed { epoch, written_since }, Event::Acked(acked)) if epoch == acked => {
                let next = if written_since { Residency::Dirty } else { Residency::Clean };
                (next, Action::Thaw(epoch))
            }
            // The bytes stay: a rejected upload may fail an fsync, it may not lose a write.
            (Residency::Sealed { epoch, .. }, Event::Rejected(rejected)) if epoch == rejected => {
                (Residency::Dirty, Action::Thaw(epoch))
            }

            (Residency::Sealed { .. }, Event::Seal(_))
            | (
                Residency::Clean | Residency::Dirty | Residency::Sealed { .. },
                Event::SealAnew { .. } | Event::Acked(_) | Event::Rejected(_),
            ) => panic!("{event:?} in state {self:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Event, Residency};

    #[test]
    fn a_write_during_upload_is_not_lost() {
        check(
            &[Event::Write, Event::Seal(1), Event::Write, Event::Write, Event::Acked(1)],
            Residency::Dirty,
            &[
                Action::RecordDirty,
                Action::RecordSealed(1),
                Action::RecordWrittenSince,
                Action::Thaw(1),
            ],
        );
    }

    #[test]
    fn a_rejected_upload_keeps_the_bytes() {
        check(
            &[Event::Write, Event::Seal(1), Event::Rejected(1)],
            Residency::Dirty,
            &[Action::RecordDirty, Action::RecordSealed(1), Action::Thaw(1)],
        );
    }

    #[test]
    fn a_published_file_is_clean_until_written_again() {
        check(
            &[Event::Write, Event::Seal(1), Event::Acked(1), Event::Write],
            Residency::Dirty,
            &[Action::RecordDirty, Action::RecordSealed(1), Action::Thaw(1), Action::RecordDirty],
        );
    }

    #[test]
    fn a_newer_seal_takes_the_place_of_one_that_waits() {
        check(
            &[
                Event::Write,
                Event::Seal(1),
                Event::Write,
                Event::SealAnew { earlier: 1, epoch: 2 },
                Event::Acked(2),
            ],
            Residency::Clean,
            &[
                Action::RecordDirty,
                Action::RecordSealed(1),
                Action::RecordWrittenSince,
                Action::RecordSealed(2),
                Action::Thaw(2),
            ],
        );
    }

    #[test]
    #[should_panic(expected = "Seal(2) in state Sealed")]
    fn a_second_seal_while_one_is_out_is_a_bug() {
        check(&[Event::Seal(1), Event::Seal(2)], Residency::Clean, &[]);
    }

    #[test]
    #[should_panic(expected = "Acked(2) in state Sealed")]
    fn an_answer_to_another_version_is_a_bug() {
        check(&[Event::Seal(1), Event::Acked(2)], Residency::Clean, &[]);
    }

    /// Runs `events` on a clean file and compares the final state and all actions that matter.
    fn check(events: &[Event], want: Residency, want_actions: &[Action]) {
        let mut state = Residency::Clean;
        let mut actions = Vec::new();
        for &event in events {
            let (next, action) = state.step(event);
            state = next;
            if action != Action::None {
                actions.push(action);
            }
        }
        assert_eq!((state, actions.as_slice()), (want, want_actions));
    }
}
