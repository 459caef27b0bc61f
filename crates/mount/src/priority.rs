//! A mount's share of the processors.
//!
//! Where Linux groups processes by session (sched(7), autogroup), all that a session runs has together as
//! much as any other session: a build of a hundred processes as much as the mount that each of them waits for.
//! So the group of a daemon gets more, as kernel threads of other file systems have it by nature. What has
//! nothing to do it does not take from anybody.

use std::fs;

use rustix::process::{geteuid, getpid};

/// Nine times the weight of a usual group.
const GROUP_NICE: &str = "-10";

/// Raises the share of this process, if it may and if its session is its own.
pub(crate) fn raise() {
    if session() != getpid().as_raw_nonzero().get() || !geteuid().is_root() {
        return;
    }
    if let Err(error) = fs::write("/proc/self/autogroup", GROUP_NICE) {
        // There are no such groups, or a container may not.
        tracing::debug!(%error, "the share of the processors stays as it is");
    }
}

/// The session of this process; in a namespace of processes that was entered without one, it is 0. The safe
/// wrapper takes for granted that it never is.
fn session() -> i32 {
    // SAFETY: it only reads a number, and fails for no process but a foreign one.
    unsafe { libc::getsid(0) }
}
