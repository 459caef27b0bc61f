//! Which process a thread belongs to.

use std::fs;

/// The process of the thread `thread`. A thread that is gone, or of another process namespace, is
/// taken for a process of its own.
///
/// FUSE requests carry the number of the calling thread; who opens in one thread and closes in
/// another is still one process.
pub(crate) fn process_of(thread: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:"))
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(thread)
}

#[cfg(test)]
mod tests {
    use super::process_of;

    #[test]
    fn a_thread_belongs_to_its_process() {
        let thread = std::thread::spawn(|| {
            let id = rustix::thread::gettid().as_raw_nonzero().get();
            process_of(u32::try_from(id).unwrap())
        });
        assert_eq!(thread.join().unwrap(), std::process::id());
    }

    #[test]
    fn an_unknown_thread_is_its_own_process() {
        assert_eq!(process_of(0), 0);
    }
}
