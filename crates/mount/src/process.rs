//! Which process a thread belongs to, and whether it is to end.

use std::collections::HashMap;
use std::fs;
use std::io;

use parking_lot::Mutex;
use rustix::process::Pid;

/// The bit of SIGKILL in a set of signals.
const KILL_BIT: u64 = 1 << (9 - 1);

/// Threads whose process is remembered.
const THREADS_MAX: usize = 1024;

/// The processes of threads that called.
///
/// FUSE requests carry the number of the calling thread; who opens in one thread and closes in
/// another is still one process. The kernel tells the process of a thread only among fifty other lines,
/// which takes longer than making a file does: it is asked for them once.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    // Of threads that are not their process's first.
    known: Mutex<HashMap<u32, u32>>,
}

impl Processes {
    /// The process of the thread `thread`. A thread that is gone, or of another process namespace, is
    /// taken for a process of its own.
    pub(crate) fn of(&self, thread: u32) -> u32 {
        let known = self.known.lock().get(&thread).copied();
        match known {
            // The number may be another thread's by now.
            Some(process) if is_in(process, thread) => process,
            Some(_) | None if is_in(thread, thread) => thread,
            Some(_) | None => self.ask(thread),
        }
    }

    fn ask(&self, thread: u32) -> u32 {
        let number = field(&status(thread), "Tgid:").and_then(|number| number.parse().ok());
        let Some(process) = number else { return thread };
        let mut known = self.known.lock();
        if THREADS_MAX <= known.len() {
            known.clear();
        }
        known.insert(thread, process);
        process
    }
}

/// Whether the first thread of `process` has ended, which a daemon's never does by itself.
pub(crate) fn is_zombie(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| state(&stat) == Some("Z"))
}

/// The state in a `stat` file, behind the name, which may have spaces and parentheses in it.
fn state(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().next()
}

/// Whether `thread` is one of `process`; the first of a process has its number. Asked twice for each small file
/// that is written: by the one call that looks nothing up in /proc and opens nothing.
fn is_in(process: u32, thread: u32) -> bool {
    // SAFETY: no signal is sent, it is only looked whether one could be.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) };
    // It is there even if we may not send it any.
    result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// Whether a signal waits for `thread` that ends it at once; the kernel makes one of every signal that
/// ends a program. Of a thread of another process namespace that is not known.
pub(crate) fn is_killed(thread: u32) -> bool {
    let status = status(thread);
    let pending = field(&status, "SigPnd:").and_then(|bits| u64::from_str_radix(bits, 16).ok());
    pending.is_some_and(|bits| bits & KILL_BIT != 0)
}

fn status(thread: u32) -> String {
    fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Closes what this process has been given beside its standard input and outputs: a shell hands on what it has open, and
/// a file of another mount among that would keep that one busy.
///
/// To be called before anything is opened: whatever has a descriptor then finds it closed.
pub fn close_inherited() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the caller says that nothing here has such a descriptor; the call takes numbers only.
    let result = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};

    use super::{Processes, THREADS_MAX, is_killed, is_zombie, state};

    fn own_thread() -> u32 {
        u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap()
    }

    #[test]
    fn zombie_is_told_from_a_process_that_lives() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let number = Pid::from_child(&child);
        // It stays until it is waited for without this option.
        waitid(WaitId::Pid(number), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(is_zombie(number));
        assert!(!is_zombie(getpid()));
        child.wait().unwrap();
        assert!(!is_zombie(number));
        assert_eq!(state("7 (a) Z (b) S 1 7"), Some("S"));
    }

    #[test]
    fn a_thread_belongs_to_its_process_asked_for_once_or_twice() {
        let thread = std::thread::spawn(|| {
            let (processes, thread) = (Processes::default(), own_thread());
            (processes.of(thread), processes.of(thread), thread)
        });
        let (first, second, thread) = thread.join().unwrap();
        assert_ne!(thread, std::process::id());
        assert_eq!((first, second), (std::process::id(), std::process::id()));
    }

    #[test]
    fn the_first_thread_of_a_process_is_known_without_looking() {
        let processes = Processes::default();
        assert_eq!(processes.of(std::process::id()), std::process::id());
        assert!(processes.known.lock().is_empty());
    }

    #[test]
    fn a_number_that_was_given_to_another_thread_is_asked_for_again() {
        let thread = std::thread::spawn(|| {
            let (processes, thread) = (Processes::default(), own_thread());
            // The process 1 has no thread of this number.
            processes.known.lock().insert(thread, 1);
            processes.of(thread)
        });
        assert_eq!(thread.join().unwrap(), std::process::id());
    }

    #[test]
    fn no_more_threads_are_remembered_than_are_allowed_to() {
        let thread = std::thread::spawn(|| {
            let (processes, thread) = (Processes::default(), own_thread());
            let others = (1 << 30..).map(|other| (other, 1)).take(THREADS_MAX);
            processes.known.lock().extend(others);
            processes.of(thread);
            processes.known.into_inner().len()
        });
        assert_eq!(thread.join().unwrap(), 1);
    }

    #[test]
    fn an_unknown_thread_is_its_own_process_and_lives() {
        assert_eq!((Processes::default().of(0), is_killed(0)), (0, false));
    }
}
