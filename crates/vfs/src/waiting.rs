//! Who waits for his upload, and how many may be at it; and who waits for room.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::{Notify, Semaphore};

use crate::backlog::Backlog;
use crate::limit::{Allowance, DirtyLimit};

/// Files that are uploaded at a time. Small ones take a request each, and a store far away needs many
/// of those; the bytes of all together have their own limit.
const UPLOADS_MAX: usize = 64;

/// What hands out shares with those who push.
#[derive(Debug)]
pub(crate) struct Later {
    pub(crate) line: parking_lot::Mutex<Backlog>,
    /// Somebody is due earlier than whom the task waits for.
    pub(crate) news: Arc<Notify>,
    pub(crate) places: Arc<Semaphore>,
}

impl Default for Later {
    fn default() -> Later {
        let (line, news) = (parking_lot::Mutex::default(), Arc::default());
        Later { line, news, places: Arc::new(Semaphore::new(UPLOADS_MAX)) }
    }
}

impl Later {
    /// How many files wait for their upload or are at it.
    pub(crate) fn len(&self) -> usize {
        self.line.lock().len()
    }
}

/// What writers share that wait for room.
#[derive(Debug)]
pub(crate) struct Relief {
    pub(crate) allowance: Allowance,
    /// Held by who makes room.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// How often some was made.
    pub(crate) times: AtomicU64,
}

impl Relief {
    /// Nobody waits yet.
    pub(crate) fn new(limit: DirtyLimit) -> Relief {
        let allowance = Allowance::new(limit);
        Relief { allowance, turn: tokio::sync::Mutex::default(), times: AtomicU64::new(0) }
    }
}
