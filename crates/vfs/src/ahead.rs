//! What of a file was sent to the object store before the file was whole: state, and who may touch it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use namespace::Target;
use parking_lot::Mutex;
use store::Staged;
use tokio::sync::MutexGuard;
use transfer::Begun;

/// What of a file was sent ahead.
#[derive(Debug)]
pub(crate) struct Stream {
    /// There is something to do once the file is so long; nobody looks before.
    wake_at: AtomicU64,
    /// Since when there is something to send, on the monotonic clock.
    since: Mutex<Option<Duration>>,
    /// A commit waits for the task to end.
    is_stopped: AtomicBool,
    /// The id of the upload that has begun, or is about to.
    id: Mutex<Option<String>>,
    /// Held by the task while it runs, and by who ends the upload.
    state: tokio::sync::Mutex<State>,
}

/// What is sent, and what comes next.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The upload, once there is one.
    pub(crate) begun: Option<Begun>,
    /// Where the next part begins.
    pub(crate) next: u64,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            wake_at: AtomicU64::new(0),
            since: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            id: Mutex::default(),
            state: tokio::sync::Mutex::default(),
        }
    }
}

impl Stream {
    /// Whether somebody has to look at a file that reaches to `end` now, and it `is_ripe`. True only once.
    pub(crate) fn wakes(&self, end: u64, is_ripe: impl FnOnce() -> bool) -> bool {
        let wake_at = self.wake_at.load(Ordering::Relaxed);
        wake_at <= end
            && is_ripe()
            && self
                .wake_at
                .compare_exchange(wake_at, u64::MAX, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether there has been something to send for so long at `now`. The first question is when that begins.
    pub(crate) fn is_older(&self, age: Duration, now: Duration) -> bool {
        let since = *self.since.lock().get_or_insert(now);
        age <= now.saturating_sub(since)
    }

    /// The file begins anew, and so does the time for which there has been something to send.
    pub(crate) fn restart(&self) {
        *self.since.lock() = None;
        self.wake_at(0);
    }

    /// Somebody has to look at the file once it reaches to `end`.
    pub(crate) fn wake_at(&self, end: u64) {
        self.wake_at.store(end, Ordering::Release);
    }

    /// The turn of the task.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, State> {
        self.state.lock().await
    }

    /// Whether the task is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// The upload `id` is about to begin.
    pub(crate) fn begins(&self, id: &str) {
        *self.id.lock() = Some(id.to_owned());
    }

    /// The id of the upload that has begun, or is about to.
    pub(crate) fn id(&self) -> Option<String> {
        self.id.lock().clone()
    }

    /// Stops the task, if it runs, and waits until nothing is under way any more. The task does
    /// nothing while the answer is held.
    pub(crate) async fn stop(&self) -> Stopped<'_> {
        self.is_stopped.store(true, Ordering::Release);
        let state = self.state.lock().await;
        self.is_stopped.store(false, Ordering::Release);
        Stopped { stream: self, state }
    }
}

/// A stream that stands still.
#[derive(Debug)]
pub(crate) struct Stopped<'a> {
    stream: &'a Stream,
    state: MutexGuard<'a, State>,
}

impl Stopped<'_> {
    /// Takes over what was sent, and ends it here: the caller completes it or gives it up.
    pub(crate) fn take(&mut self) -> Option<Begun> {
        *self.stream.id.lock() = None;
        self.stream.wake_at(0);
        self.state.begun.take()
    }
}

/// Whether what was sent ahead for `begun` may become `target`. Its time is told elsewhere too.
pub(crate) fn fits(begun: &Begun, staged: &Arc<Staged>, target: &Target) -> bool {
    let without_time = |metadata: &remote::Metadata| {
        let mut rest = metadata.clone();
        rest.remove("mtime");
        rest
    };
    begun.is_of(staged)
        && begun.key == target.key
        && without_time(&begun.metadata) == without_time(&target.metadata)
}
