//! Waiting for something to become true, within a bound; never for a time to pass.
#![expect(clippy::disallowed_methods, reason = "tests and links of real servers run in real time")]

use std::time::{Duration, Instant};

/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Looks until `condition` holds.
///
/// # Panics
///
/// When it does not within `limit`; the message names `what` was waited for.
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    until_some(what, limit, || condition().then_some(()));
}

/// Looks until `probe` finds something, and returns it.
///
/// # Panics
///
/// When it finds nothing within `limit`.
pub fn until_some<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    if let Some(found) = try_until_some(limit, &mut probe) {
        return found;
    }
    panic!("after {limit:?} still waiting for {what}");
}

/// Looks until `probe` finds something or `limit` has passed.
pub fn try_until_some<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(found) = probe() {
            return Some(found);
        }
        if limit <= started.elapsed() {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What `body` gives, and how long it took.
pub fn timed<T>(body: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    (body(), started.elapsed())
}

/// Runs `body` in a thread of its own, and returns what it does.
///
/// # Panics
///
/// When it has not ended within `limit`. The thread is left behind then: a call that hangs in the
/// kernel ends when the test's mounts are taken away, which the panic sees to.
pub fn within<T: Send + 'static>(
    what: &str,
    limit: Duration,
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Nobody listens any more when this took too long.
        let _ = done.send(body());
    });
    let Ok(result) = result.recv_timeout(limit) else {
        panic!("after {limit:?} there was no end of {what}");
    };
    result
}

/// Lets `length` pass, for what is to happen at a moment of chance. Never to let something else
/// happen first.
pub fn moment(length: Duration) {
    std::thread::sleep(length);
}

/// The time, for measuring how long something took.
pub fn now() -> Instant {
    Instant::now()
}

/// Returns at `due`, or at once when that is past.
pub(crate) fn sleep_until(due: Instant) {
    let delay = due.saturating_duration_since(Instant::now());
    if !delay.is_zero() {
        std::thread::sleep(delay);
    }
}
