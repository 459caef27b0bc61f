//! What every file of one state folder shares: the disk, the database, the books, the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Clock, Metrics};
use parking_lot::{Mutex, MutexGuard};

use crate::disk::Disk;
use crate::layout::Layout;
use crate::space::Space;
use crate::spares::Spares;
use crate::state::Db;

/// One state folder as one process has it open.
#[derive(Debug)]
pub(crate) struct Ground {
    /// Where things are.
    pub layout: Layout,
    /// The local disk.
    pub disk: Arc<Disk>,
    /// What is recorded.
    pub db: Db,
    /// The books of the cache's space.
    pub space: Space,
    /// Staged files that are nobody's yet.
    pub spares: Spares,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    // The last stamp given out.
    last_stamp: AtomicU64,
    // Held from reading what is here to recording it, and from recording that something is dropped
    // to dropping it: a record never tells of bytes that went meanwhile.
    recording: Mutex<()>,
}

/// The turn to record or to drop what is here.
pub(crate) struct Turn<'a> {
    _guard: MutexGuard<'a, ()>,
}

impl Ground {
    /// Puts the parts together.
    pub(crate) fn new(
        layout: Layout,
        disk: Arc<Disk>,
        db: Db,
        space: Space,
        (clock, metrics): (Arc<dyn Clock>, Arc<Metrics>),
    ) -> Ground {
        let spares = Spares::new(layout.clone(), Arc::clone(&disk), db.owner());
        Ground {
            layout,
            disk,
            db,
            space,
            spares,
            metrics,
            clock,
            last_stamp: AtomicU64::new(0),
            recording: Mutex::new(()),
        }
    }

    /// The time that all go by.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The time in microseconds, later than any stamp before: uses can be put in order by it.
    pub(crate) fn stamp(&self) -> u64 {
        let wall = self.clock.wall();
        let secs = u64::try_from(wall.secs).unwrap_or(0);
        let now = secs.saturating_mul(1_000_000) + u64::from(wall.nanos / 1000);
        self.last_stamp.fetch_max(now, Ordering::Relaxed);
        self.last_stamp.fetch_add(1, Ordering::Relaxed)
    }

    /// The time of day.
    pub(crate) fn wall(&self) -> base::Timestamp {
        self.clock.wall()
    }

    /// Waits for the turn to record or to drop what is here. Taken after the table's lock and
    /// before a file's.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn { _guard: self.recording.lock() }
    }
}
