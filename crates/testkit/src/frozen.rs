//! Processes that stand still for a while.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// Even a thread that waits for a disk looks up before that.
pub(crate) const STANDS_STILL_WITHIN: Duration = Duration::from_secs(30);

/// Stops all threads of a process of ours.
pub(crate) fn freeze(pid: Pid) {
    signal(pid, Signal::STOP);
    // The signal wakes one thread, which stops the others: on a busy machine these may serve a
    // few requests more.
    wait::until("every thread to stand still", STANDS_STILL_WITHIN, || stands_still(pid));
}

/// Lets them go on.
pub(crate) fn thaw(pid: Pid) {
    signal(pid, Signal::CONT);
}

pub(crate) fn stands_still(pid: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    threads.is_ok_and(|mut threads| {
        threads.all(|thread| thread.is_ok_and(|thread| is_stopped(&thread.path())))
    })
}

fn signal(pid: Pid, signal: Signal) {
    kill_process(pid, signal).expect("nobody has reaped it");
}

/// Whether a thread is stopped by a signal. See `proc_pid_stat(5)`: the state is the word behind the
/// name, which stands in brackets and may have any character in it.
fn is_stopped(thread: &Path) -> bool {
    let stat = fs::read_to_string(thread.join("stat"));
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')))
}
