//! Objects that are to be made and that the bucket does not have yet: links and the like.
//!
//! ```text
//!             begin              end
//!   Waiting ─────────▶ Sending ───────▶ (gone)
//!      │
//!      └─ take ─▶ (gone: it is never sent, or goes elsewhere)
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use base::Ino;
use parking_lot::Mutex;

use super::journal::NewObject;
use crate::RecordId;

/// What is to be made.
#[derive(Debug, Default)]
pub(super) struct Makings {
    // A leaf: no other lock is taken under it.
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    makings: HashMap<Ino, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    making: Making,
    /// Tells who is to send it from those who were before.
    number: u64,
    stage: Stage,
}

/// One object that is to be made, as the journal has it.
#[derive(Clone, Debug)]
pub(super) struct Making {
    pub(super) object: Arc<NewObject>,
    pub(super) record: RecordId,
}

/// Whether the bucket may have the object already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not.
    Waiting,
    /// It may.
    Sending,
}

impl Makings {
    /// `ino` is to be made; who sends it says this number.
    pub(super) fn add(&self, ino: Ino, making: Making) -> u64 {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let number = inner.last;
        inner.makings.insert(ino, Waiting { making, number, stage: Stage::Waiting });
        number
    }

    /// How far `ino` is, if it is to be made.
    pub(super) fn stage(&self, ino: Ino) -> Option<Stage> {
        self.inner.lock().makings.get(&ino).map(|waiting| waiting.stage)
    }

    /// What is to be made of `ino`.
    pub(super) fn get(&self, ino: Ino) -> Option<Making> {
        self.inner.lock().makings.get(&ino).map(|waiting| waiting.making.clone())
    }

    /// What is to be sent now; `None` if it is not to be any more.
    pub(super) fn begin(&self, ino: Ino, number: u64) -> Option<Making> {
        let mut inner = self.inner.lock();
        let waiting = inner.makings.get_mut(&ino).filter(|waiting| waiting.number == number)?;
        waiting.stage = Stage::Sending;
        Some(waiting.making.clone())
    }

    /// The object is not to be made where it was to be; `None` if it may be there already.
    pub(super) fn take(&self, ino: Ino) -> Option<Making> {
        let mut inner = self.inner.lock();
        inner.makings.get(&ino).filter(|waiting| waiting.stage == Stage::Waiting)?;
        inner.makings.remove(&ino).map(|waiting| waiting.making)
    }

    /// As [`Makings::take`], of all of these or none.
    pub(super) fn take_all(&self, all: &[Ino]) -> Option<Vec<Making>> {
        let mut inner = self.inner.lock();
        let waits = |ino: &Ino| inner.makings.get(ino).map(|waiting| waiting.stage);
        if !all.iter().all(|ino| waits(ino) == Some(Stage::Waiting)) {
            return None;
        }
        let taken = all.iter().filter_map(|ino| inner.makings.remove(ino));
        Some(taken.map(|waiting| waiting.making).collect())
    }

    /// The journal has something newer of `ino`; returns what it had before, or the newer itself if
    /// nothing is to be made any more.
    pub(super) fn renew(&self, ino: Ino, newer: Making) -> RecordId {
        match self.inner.lock().makings.get_mut(&ino) {
            Some(waiting) => std::mem::replace(&mut waiting.making, newer).record,
            None => newer.record,
        }
    }

    /// The object is made, or will not be; returns what the journal has of it.
    pub(super) fn end(&self, ino: Ino, number: u64) -> Option<RecordId> {
        let mut inner = self.inner.lock();
        inner.makings.get(&ino).filter(|waiting| waiting.number == number)?;
        inner.makings.remove(&ino).map(|waiting| waiting.making.record)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::Ino;
    use remote::{Key, Metadata};

    use super::{Making, Makings, Stage};
    use crate::RecordId;
    use crate::bucket::journal::NewObject;

    fn making(record: u64) -> Making {
        let (key, over, metadata) = (Key::from("a"), None, Metadata::new());
        let object = NewObject { key, over, body: Vec::new(), said: Vec::new(), metadata };
        Making { object: Arc::new(object), record: RecordId(record) }
    }

    #[test]
    fn what_is_taken_back_in_time_is_never_sent_and_what_is_sent_is_not_taken_back() {
        let (makings, ino) = (Makings::default(), Ino(7));
        let first = makings.add(ino, making(1));
        assert_eq!(makings.take(ino).map(|making| making.record), Some(RecordId(1)));
        let second = makings.add(ino, making(2));
        assert!(makings.begin(ino, first).is_none(), "it goes elsewhere");
        assert!(makings.begin(ino, second).is_some());
        assert_eq!(makings.stage(ino), Some(Stage::Sending));
        assert!(makings.take(ino).is_none());
        assert_eq!(makings.renew(ino, making(3)), RecordId(2));
        assert_eq!(makings.end(ino, first), None);
        assert_eq!(makings.end(ino, second), Some(RecordId(3)));
        assert_eq!(makings.renew(ino, making(4)), RecordId(4), "too late");
    }
}
