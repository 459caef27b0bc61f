//! Processors: how many there can be, and which of them a thread runs on.

use std::fs;

use rustix::thread::{CpuSet, sched_setaffinity};

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// The calling thread stays on one processor, if that is possible.
pub(crate) fn stay_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::debug!(cpu, %error, "a session thread has no processor of its own");
    }
}

/// How many processors the kernel is prepared for, which may be more than there are.
pub(crate) fn possible() -> Option<usize> {
    count(fs::read_to_string(POSSIBLE).ok()?.trim())
}

/// Of a list such as `0-3,8`.
fn count(list: &str) -> Option<usize> {
    list.split(',').try_fold(0usize, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?)?.checked_add(1)
    })
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn processors_are_counted_as_the_kernel_lists_them() {
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-1"), Some(2));
        assert_eq!(count("0-3,8,10-11"), Some(7));
        assert_eq!(count("3-1"), None);
        assert_eq!(count(""), None);
    }
}
