//! Which process a thread belongs to, and whether it is to end.

use std::fs;

/// The bit of SIGKILL in a set of signals.
const KILL_BIT: u64 = 1 << (9 - 1);

/// The process of the thread `thread`. A thread that is gone, or of another process namespace, is
/// taken for a process of its own.
///
/// FUSE requests carry the number of the calling thread; who opens in one thread and closes in
/// another is still one process.
pub(crate) fn process_of(thread: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    field(&status, "Tgid:").and_then(|number| number.parse().ok()).unwrap_or(thread)
}

/// Whether a signal waits for `thread` that ends it at once; the kernel makes one of every signal that
/// ends a program. Of a thread of another process namespace that is not known.
pub(crate) fn is_killed(thread: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let pending = field(&status, "SigPnd:").and_then(|bits| u64::from_str_radix(bits, 16).ok());
    pending.is_some_and(|bits| bits & KILL_BIT != 0)
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::{is_killed, process_of};

    #[test]
    fn a_thread_belongs_to_its_process() {
        let thread = std::thread::spawn(|| {
            let id = rustix::thread::gettid().as_raw_nonzero().get();
            process_of(u32::try_from(id).unwrap())
        });
        assert_eq!(thread.join().unwrap(), std::process::id());
    }

    #[test]
    fn an_unknown_thread_is_its_own_process_and_lives() {
        assert_eq!((process_of(0), is_killed(0)), (0, false));
    }
}
