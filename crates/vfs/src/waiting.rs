//! Who waits for his upload, and who waits for room.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::Notify;

use crate::backlog::Backlog;
use crate::limit::{Allowance, DirtyLimit};

/// What hands out shares with those who push.
#[derive(Debug, Default)]
pub(crate) struct Later {
    pub(crate) line: parking_lot::Mutex<Backlog>,
    /// Somebody is due earlier than whom the task waits for, or there is a place.
    pub(crate) news: Arc<Notify>,
}

impl Later {
    /// How many files wait for their upload or are at it.
    pub(crate) fn len(&self) -> usize {
        self.line.lock().len()
    }

    /// How many small files are uploaded at a time, now.
    pub(crate) fn pace(&self) -> u32 {
        self.line.lock().pace()
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
