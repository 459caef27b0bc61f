//! Who waits for his upload, and how many may be at it.

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};

use crate::backlog::Backlog;

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
