//! Who waits for his upload, and who for room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::backlog::Backlog;
use crate::limit::{Allowance, DirtyLimit};

/// How many files may wait for their upload, in all file systems that share it: each is an open file of the process, and
/// may be up to three, with the version that it is an edit of, and what is kept of the version that is to be uploaded.
#[derive(Debug)]
pub struct PendingLimit {
    max: usize,
    open_max: usize,
    now: AtomicUsize,
}

impl PendingLimit {
    /// So many, and none so far; no more are added while the store they share has `open_max` files open.
    pub fn of(max: usize, open_max: usize) -> Arc<PendingLimit> {
        Arc::new(PendingLimit { max, open_max, now: AtomicUsize::new(0) })
    }

    /// How many wait, of those that may, where the store has `open` files open.
    pub(crate) fn crowd(&self, open: usize) -> Crowd {
        let now = self.now.load(Ordering::Relaxed);
        Crowd::of(now, self.max).max(Crowd::of(open, self.open_max))
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Crowd {
    Few,
    /// Three of four that may.
    Many,
    /// No more may.
    Full,
}

impl Crowd {
    fn of(now: usize, max: usize) -> Crowd {
        if max <= now {
            Crowd::Full
        } else if max - max / 4 <= now {
            Crowd::Many
        } else {
            Crowd::Few
        }
    }
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
        let limit = PendingLimit::of(4, usize::MAX);
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
            assert_eq!(limit.crowd(0), want, "{now}");
            before = now;
        }
    }

    #[test]
    fn few_that_wait_are_many_where_nearly_as_many_files_are_open_as_may_be() {
        let limit = PendingLimit::of(4, 100);
        limit.change(0, 1);
        for (open, want) in [(74, Crowd::Few), (75, Crowd::Many), (100, Crowd::Full)] {
            assert_eq!(limit.crowd(open), want, "{open}");
        }
        limit.change(1, 4);
        assert_eq!(limit.crowd(0), Crowd::Full);
    }
}
