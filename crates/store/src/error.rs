//! What a failed call to the local store asks of its caller.

use std::io;
use std::path::{Path, PathBuf};

/// The result of a call to the local store.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call to the local store.
#[derive(Debug, thiserror::Error)]
#[error("{op} {}: {kind}{}", path.display(), detail(source.as_deref()))]
pub struct Error {
    /// What the caller can do about it.
    pub kind: ErrorKind,
    /// The call that failed, such as `fill` or `seal`.
    pub op: &'static str,
    /// The local file it was about.
    pub path: PathBuf,
    /// The words of the disk or of the database.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

fn detail(source: Option<&(dyn std::error::Error + Send + Sync + 'static)>) -> String {
    source.map(|source| format!(" ({source})")).unwrap_or_default()
}

/// Errors sorted by what the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// No room can be made. Reads go past the cache; writes wait for uploads, then fail.
    #[error("no space left on the local disk")]
    Full,
    /// Another process or file, or the kernel, holds the file. Try again later or do without it.
    #[error("the file is held by someone else")]
    Held,
    /// The file went to the other side, of cache and staging, or was given up. Look it up again.
    #[error("the file is not here any more")]
    Gone,
    /// Bytes of the base are not here yet. Fill them in and try again.
    #[error("not all bytes are here")]
    Missing,
    /// Local bytes or records are not what they should be.
    #[error("the local copy is damaged")]
    Corrupt,
    /// This process, or the machine, has no file descriptor left. Files that are closed give theirs back.
    #[error("no file descriptor is left")]
    NoDescriptor,
    /// The local disk or the database failed.
    #[error("the local disk failed")]
    Io,
}

impl Error {
    /// An error that the disk had no part in.
    pub(crate) fn new(kind: ErrorKind, op: &'static str, path: &Path) -> Error {
        Error { kind, op, path: path.to_owned(), source: None }
    }

    /// An error of the disk.
    pub(crate) fn io(op: &'static str, path: &Path, source: io::Error) -> Error {
        let kind = if Error::is_full(&source) {
            ErrorKind::Full
        } else if source.kind() == io::ErrorKind::UnexpectedEof {
            ErrorKind::Corrupt
        } else if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
            ErrorKind::NoDescriptor
        } else {
            ErrorKind::Io
        };
        Error { kind, op, path: path.to_owned(), source: Some(Box::new(source)) }
    }

    /// Whether the disk has no room left.
    pub(crate) fn is_full(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// An error of the database.
    pub(crate) fn db(op: &'static str, path: &Path, source: rusqlite::Error) -> Error {
        use rusqlite::ErrorCode;
        let kind = match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => ErrorKind::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorKind::Corrupt,
            Some(_) | None => ErrorKind::Io,
        };
        Error { kind, op, path: path.to_owned(), source: Some(Box::new(source)) }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::{Error, ErrorKind};

    #[test]
    fn error_of_the_disk_is_sorted_by_what_helps() {
        for (code, want) in [
            (libc::ENOSPC, ErrorKind::Full),
            (libc::EDQUOT, ErrorKind::Full),
            (libc::EMFILE, ErrorKind::NoDescriptor),
            (libc::ENFILE, ErrorKind::NoDescriptor),
            (libc::EIO, ErrorKind::Io),
        ] {
            let error = Error::io("open", Path::new("file"), io::Error::from_raw_os_error(code));
            assert_eq!(error.kind, want, "{code}");
        }
    }
}
