//! Locks of open file descriptions, on single bytes of a file.
//!
//! The kernel frees them when the last descriptor is closed, at a crash too, and they hold between
//! containers and between two opens of one process. The bytes need not exist in the file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How long it takes until a lock that somebody has is looked at again, at first and later.
const LOOK_DELAY_MIN: Duration = Duration::from_micros(50);
const LOOK_DELAY_MAX: Duration = Duration::from_millis(5);

/// What a lock lets others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Others may hold it shared too.
    Shared,
    /// Nobody else holds it.
    Exclusive,
}

/// Takes or converts the lock on `byte` if that is possible now. A lock held already stays as it
/// was when this returns false.
pub(crate) fn attempt(file: &File, byte: u64, mode: Mode) -> io::Result<bool> {
    match set(file, libc::F_OFD_SETLK, kind(mode), byte) {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            _ => Err(error),
        },
    }
}

/// Takes or converts the lock on `byte`, waiting for others to let go, about as long as `patience`: who has it may be
/// frozen. The kernel waits without a limit only, so this looks again and again.
pub(crate) fn wait(file: &File, byte: u64, mode: Mode, patience: Duration) -> io::Result<()> {
    let (mut waited, mut delay) = (Duration::ZERO, LOOK_DELAY_MIN);
    while !attempt(file, byte, mode)? {
        if patience <= waited {
            let words = "another process has a lock of it and does not go on: it may be frozen";
            return Err(io::Error::new(io::ErrorKind::TimedOut, words));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "no event says that a file is not locked any more"
        )]
        std::thread::sleep(delay);
        waited += delay;
        delay = (2 * delay).min(LOOK_DELAY_MAX);
    }
    Ok(())
}

/// Lets go of the lock on `byte`.
pub(crate) fn release(file: &File, byte: u64) -> io::Result<()> {
    set(file, libc::F_OFD_SETLK, libc::F_UNLCK, byte)
}

/// As [`attempt`], exclusive, on `count` bytes from `first` on.
pub(crate) fn attempt_run(file: &File, first: u64, count: u64) -> io::Result<bool> {
    match set_run(file, (libc::F_OFD_SETLK, libc::F_WRLCK), (first, count)) {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            _ => Err(error),
        },
    }
}

/// As [`release`], on `count` bytes from `first` on.
pub(crate) fn release_run(file: &File, first: u64, count: u64) -> io::Result<()> {
    set_run(file, (libc::F_OFD_SETLK, libc::F_UNLCK), (first, count))
}

/// `F_SETSIG` of `linux/fcntl.h`, the same on every architecture.
const F_SETSIG: i32 = 10;

/// Whether nobody else has the file open, not even through a mapping that outlived its descriptor.
///
/// A write lease (fcntl(2), `F_SETLEASE`) is granted only then. It is given back at once.
pub(crate) fn is_alone(file: &File) -> io::Result<bool> {
    // Who opens the file just now makes the kernel tell us; the usual signal for that would end us.
    command(file, F_SETSIG, libc::SIGURG)?;
    match command(file, libc::F_SETLEASE, libc::F_WRLCK) {
        Ok(()) => command(file, libc::F_SETLEASE, libc::F_UNLCK).map(|()| true),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(false),
        Err(error) => Err(error),
    }
}

fn command(file: &File, command: i32, argument: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and these commands take a
    // number and no pointer.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn kind(mode: Mode) -> i32 {
    match mode {
        Mode::Shared => libc::F_RDLCK,
        Mode::Exclusive => libc::F_WRLCK,
    }
}

/// Whether somebody else holds the lock on `byte`, shared or not.
pub(crate) fn is_held(file: &File, byte: u64) -> io::Result<bool> {
    let mut lock = lock_of(libc::F_WRLCK, (byte, 1));
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and `lock` is a whole
    // `flock` that is ours alone to be written to.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}

fn lock_of(kind: i32, (first, count): (u64, u64)) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).expect("lock kinds are small"),
        l_whence: i16::try_from(libc::SEEK_SET).expect("zero"),
        l_start: i64::try_from(first).expect("lock bytes are counted from zero"),
        l_len: i64::try_from(count).expect("there are no more bytes than granules"),
        // Must be zero for locks of open file descriptions.
        l_pid: 0,
    }
}

fn set(file: &File, command: i32, kind: i32, byte: u64) -> io::Result<()> {
    set_run(file, (command, kind), (byte, 1))
}

fn set_run(file: &File, (command, kind): (i32, i32), run: (u64, u64)) -> io::Result<()> {
    let lock = lock_of(kind, run);
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and `lock` is a whole
    // `flock` that the kernel only reads.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::Duration;

    use super::{Mode, attempt, is_alone, release, wait};

    #[test]
    fn a_file_that_someone_else_has_open_is_not_ours_alone() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let ours = std::fs::File::options().read(true).write(true).open(path.path()).unwrap();
        assert!(!is_alone(&ours).unwrap(), "the temporary file itself is open");
        let path = path.into_temp_path();
        assert!(is_alone(&ours).unwrap());
        let reader = std::fs::File::open(&path).unwrap();
        assert!(!is_alone(&ours).unwrap());
        drop(reader);
        assert!(is_alone(&ours).unwrap());
    }

    #[test]
    fn two_opens_of_one_process_exclude_each_other() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let (a, b) = (path.reopen().unwrap(), path.reopen().unwrap());
        assert!(attempt(&a, 7, Mode::Shared).unwrap());
        assert!(attempt(&b, 7, Mode::Shared).unwrap());
        assert!(!attempt(&b, 7, Mode::Exclusive).unwrap());
        // The refused conversion has not cost `b` its shared lock.
        assert!(!attempt(&a, 7, Mode::Exclusive).unwrap());
        release(&b, 7).unwrap();
        assert!(attempt(&a, 7, Mode::Exclusive).unwrap());
        assert!(attempt(&b, 8, Mode::Exclusive).unwrap());
        drop(a);
        assert!(attempt(&b, 7, Mode::Exclusive).unwrap());
    }

    #[test]
    fn a_lock_that_somebody_keeps_is_not_waited_for_without_an_end() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let (a, b) = (path.reopen().unwrap(), path.reopen().unwrap());
        assert!(attempt(&a, 7, Mode::Exclusive).unwrap());
        let waited = |patience| wait(&b, 7, Mode::Shared, patience);
        assert_eq!(waited(Duration::from_millis(1)).unwrap_err().kind(), ErrorKind::TimedOut);
        let waiting = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| waited(Duration::from_mins(1)));
            release(&a, 7).unwrap();
            waiting.join().unwrap()
        });
        waiting.unwrap();
    }
}
