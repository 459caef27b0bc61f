//! Who waits for his upload, and who for room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::backlog::Backlog;
use crate::limit::{Allowance, DirtyLimit};

/// How many files may wait for their upload, in all file systems that share it: each is an open file of the process.
#[derive(Debug)]
pub struct PendingLimit {
    max: usize,
    now: AtomicUsize,
}

impl PendingLimit {
    /// So many, and none so far.
    pub fn of(max: usize) -> Arc<PendingLimit> {
        Arc::new(PendingLimit { max, now: AtomicUsize::new(0) })
    }

    /// How many wait, of those that may.
    pub(crate) fn crowd(&self) -> Crowd {
        let now = self.now.load(Ordering::Relaxed);
        if self.max <= now {
            Crowd::Full
        } else if self.max - self.max / 4 <= now {
            Crowd::Many
        } else {
            Crowd::Few
        }
    }

    fn change(&self, before: usize, after: usize) {
        if before <= after {
            self.now.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.now.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}

/// How many files wait for their upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crowd {
    Few,
    /// Three of four that may.
    Many,
    /// No more may.
    Full,
}

/// What hands out shares with those who push.
#[derive(Debug)]
pub(crate) struct Later {
    line: Mutex<Backlog>,
    limit: Arc<PendingLimit>,
    /// Somebody is due earlier than whom the task waits for, or there is a place.
    pub(crate) news: Arc<Notify>,
}

impl Later {
    /// Nobody waits yet.
    pub(crate) fn new(limit: Arc<PendingLimit>) -> Later {
        Later { line: Mutex::default(), limit, news: Arc::default() }
    }

    /// Looks at the line, or changes it.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Backlog) -> R) -> R {
        let mut line = self.line.lock();
        let before = line.len();
        let result = change(&mut line);
        self.limit.change(before, line.len());
        result
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.limit.change(self.line.get_mut().len(), 0);
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

#[cfg(test)]
mod tests {
    use super::{Crowd, PendingLimit};

    #[test]
    fn three_of_four_that_may_wait_are_many() {
        let limit = PendingLimit::of(4);
        let mut before = 0;
        for (now, want) in [
            (0, Crowd::Few),
            (1, Crowd::Few),
            (2, Crowd::Few),
            (3, Crowd::Many),
            (4, Crowd::Full),
            (5, Crowd::Full),
            (3, Crowd::Many),
            (0, Crowd::Few),
        ] {
            limit.change(before, now);
            assert_eq!(limit.crowd(), want, "{now}");
            before = now;
        }
    }
}
