//! What went wrong below, before it is known for which call and key.

use rustix::io::Errno;

use crate::{Error, ErrorKind, Key};

/// The result of a step within a call.
pub(super) type Outcome<T> = Result<T, Fault>;

/// A failed step: an [`Error`] without its call and key.
#[derive(Debug)]
pub(super) struct Fault {
    kind: ErrorKind,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Fault {
    /// A failure in our own words.
    pub(super) fn new(kind: ErrorKind, words: &str) -> Fault {
        Fault { kind, source: words.into() }
    }

    /// There is no such object.
    pub(super) fn not_found() -> Fault {
        Fault::new(ErrorKind::NotFound, "no such object")
    }

    /// The condition does not hold.
    pub(super) fn changed() -> Fault {
        Fault::new(ErrorKind::Changed, "the object is another version")
    }

    /// What the caller can do about it.
    pub(super) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The error of the call `op` for `key`.
    pub(super) fn of_call(self, op: &'static str, key: &Key) -> Error {
        Error::new(self.kind, op, key).because(self.source)
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        Fault { kind: kind_of(errno), source: Box::new(std::io::Error::from(errno)) }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Fault {
        let kind = error
            .raw_os_error()
            .map_or(ErrorKind::Unavailable, |code| kind_of(Errno::from_raw_os_error(code)));
        Fault { kind, source: Box::new(error) }
    }
}

fn kind_of(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NOENT => ErrorKind::NotFound,
        Errno::NOSPC | Errno::DQUOT => ErrorKind::Full,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => ErrorKind::Denied,
        Errno::NAMETOOLONG
        | Errno::INVAL
        | Errno::ILSEQ
        | Errno::FBIG
        | Errno::XDEV
        | Errno::OPNOTSUPP
        | Errno::NOTDIR
        | Errno::ISDIR
        | Errno::LOOP => ErrorKind::Unsupported,
        Errno::AGAIN
        | Errno::INTR
        | Errno::MFILE
        | Errno::NFILE
        | Errno::NOMEM
        | Errno::TIMEDOUT
        | Errno::STALE
        | Errno::BUSY => ErrorKind::Transient { retry_after: None },
        _ => ErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::kind_of;
    use crate::ErrorKind;

    #[test]
    fn a_full_and_a_forbidden_disk_are_told_apart() {
        for (errno, want) in [
            (Errno::NOSPC, ErrorKind::Full),
            (Errno::DQUOT, ErrorKind::Full),
            (Errno::ROFS, ErrorKind::Denied),
            (Errno::ACCESS, ErrorKind::Denied),
            (Errno::IO, ErrorKind::Unavailable),
        ] {
            assert_eq!(kind_of(errno), want, "{errno}");
        }
    }
}
