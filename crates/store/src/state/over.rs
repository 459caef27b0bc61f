//! Uploads that are over, and whether the disk knows: what it does not know to be in the bucket is uploaded
//! again after a power cut, although somebody may have removed it from there.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How far the records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// How many uploads this process has recorded to be over.
    pub(super) ours: u64,
    /// A number that changes when other processes record something.
    pub(super) others: i64,
}

/// The uploads that are over.
#[derive(Debug, Default)]
pub(super) struct Over {
    ours: AtomicU64,
    // Up to where the disk has them; nothing is known of those of earlier processes.
    durable: Mutex<Option<Mark>>,
}

impl Over {
    /// One more was just recorded to be over.
    pub(super) fn add(&self) {
        self.ours.fetch_add(1, Ordering::Release);
    }

    /// How many this process has recorded.
    pub(super) fn ours(&self) -> u64 {
        self.ours.load(Ordering::Acquire)
    }

    /// Brings what was recorded up to `mark` to the disk by `sync`, unless it is there. Those who come
    /// meanwhile share one more call.
    pub(super) fn reach<E>(
        &self,
        mark: Mark,
        sync: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut durable = self.durable.lock();
        if durable.is_some_and(|there| there.others == mark.others && mark.ours <= there.ours) {
            return Ok(());
        }
        let ours = self.ours();
        sync()?;
        *durable = Some(Mark { ours, ..mark });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{Mark, Over};

    #[test]
    fn the_disk_is_waited_for_only_when_an_upload_has_ended_since() {
        let (over, syncs) = (Over::default(), Cell::new(0));
        let reach = |others| {
            let sync = || {
                syncs.set(syncs.get() + 1);
                Ok::<(), ()>(())
            };
            over.reach(Mark { ours: over.ours(), others }, sync).unwrap();
            syncs.get()
        };
        // Nobody knows what earlier processes left.
        assert_eq!([reach(1), reach(1)], [1, 1]);
        over.add();
        over.add();
        assert_eq!([reach(1), reach(1)], [2, 2]);
        // Another process has recorded something.
        assert_eq!([reach(2), reach(2)], [3, 3]);
    }

    #[test]
    fn what_could_not_be_synced_is_tried_again() {
        let over = Over::default();
        let mark = Mark { ours: 0, others: 0 };
        assert_eq!(over.reach(mark, || Err("full")), Err("full"));
        let mut synced = false;
        over.reach(mark, || {
            synced = true;
            Ok::<(), ()>(())
        })
        .unwrap();
        assert!(synced, "the disk does not have it");
    }
}
