//! The one place where an error becomes an errno.

use base::Errno;
use remote::ErrorKind as Remote;

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation of the file system.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Names or attributes.
    #[error(transparent)]
    Namespace(#[from] namespace::Error),
    /// Bytes on their way.
    #[error(transparent)]
    Transfer(#[from] transfer::Error),
    /// The local disk.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The call itself was wrong, or is one that this file system does not have.
    #[error("{0}")]
    Call(Errno),
    /// Someone else's version is in the bucket, or what ours comes after never will be; ours is kept in the recovery
    /// folder.
    #[error("{key}: {why}; this version is kept as {kept}")]
    Conflict {
        /// The object.
        key: String,
        /// Why ours is not there.
        why: &'static str,
        /// Where our bytes are.
        kept: String,
    },
}

impl Error {
    /// Whether the same may go well later: the store was not reached, or busy, or the daemon had too many files open.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(errno(self), Errno::EIO | Errno::ENFILE)
    }

    /// Whether the store refuses it: repeats fail until a person has mended the cause. A refusal of the credentials is none:
    /// they expire, and others come by themselves.
    pub(crate) fn is_refused(&self) -> bool {
        let refusals = [
            Errno::EACCES,
            Errno::EPERM,
            Errno::EROFS,
            Errno::EFBIG,
            Errno::EOPNOTSUPP,
            Errno::ENAMETOOLONG,
            Errno::EINVAL,
        ];
        refusals.contains(&errno(self)) && !self.is_of_credentials()
    }

    /// Whether the store does not accept the credentials themselves.
    fn is_of_credentials(&self) -> bool {
        let source = match self {
            Error::Transfer(transfer::Error::Remote(source)) => Some(&**source),
            Error::Namespace(error) => error.source.as_deref(),
            Error::Transfer(transfer::Error::Store(_) | transfer::Error::Stopped)
            | Error::Store(_)
            | Error::Call(_)
            | Error::Conflict { .. } => None,
        };
        source.is_some_and(|source| source.trouble().is_of_credentials())
    }

    /// Whether the store does not take it of these credentials.
    pub(crate) fn is_denied(&self) -> bool {
        match self {
            Error::Transfer(transfer::Error::Remote(error)) => error.kind == Remote::Denied,
            Error::Transfer(transfer::Error::Store(_) | transfer::Error::Stopped)
            | Error::Namespace(_)
            | Error::Store(_)
            | Error::Call(_)
            | Error::Conflict { .. } => false,
        }
    }

    /// Whether what was asked for does not fit into the cache.
    pub fn is_beyond_cache(&self) -> bool {
        matches!(self, Error::Call(Errno::ENOSPC)) || self.is_full()
    }

    /// Whether the local disk had no room.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Error::Store(error) => error.kind == store::ErrorKind::Full,
            Error::Transfer(transfer::Error::Store(error)) => error.kind == store::ErrorKind::Full,
            Error::Transfer(transfer::Error::Remote(_) | transfer::Error::Stopped)
            | Error::Namespace(_)
            | Error::Call(_)
            | Error::Conflict { .. } => false,
        }
    }

    /// Whether what was to be said of a file has no place: not beside the names, or not on the local disk.
    pub(crate) fn is_unsayable(&self) -> bool {
        use namespace::ErrorKind as Kind;
        match self {
            Error::Namespace(error) => matches!(
                error.kind,
                Kind::Unsupported | Kind::AttributesTooLarge | Kind::Journal(_)
            ),
            Error::Store(_) | Error::Transfer(_) => self.is_full(),
            Error::Call(_) | Error::Conflict { .. } => false,
        }
    }

    /// Whether the store could not be reached within the deadline.
    pub(crate) fn is_unanswered(&self) -> bool {
        match self {
            Error::Transfer(transfer::Error::Remote(error)) => error.kind == Remote::Unavailable,
            Error::Namespace(error) => {
                error.kind == namespace::ErrorKind::Remote(Remote::Unavailable)
            }
            Error::Transfer(transfer::Error::Store(_) | transfer::Error::Stopped)
            | Error::Store(_)
            | Error::Call(_)
            | Error::Conflict { .. } => false,
        }
    }

    /// Whether others were there first, and the bytes are kept in the recovery folder.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Error::Conflict { .. })
    }

    /// Whether the version to be uploaded gave way to a newer one.
    pub(crate) fn is_overtaken(&self) -> bool {
        match self {
            Error::Transfer(transfer::Error::Store(error)) => error.kind == store::ErrorKind::Gone,
            Error::Transfer(transfer::Error::Remote(_) | transfer::Error::Stopped)
            | Error::Store(_)
            | Error::Namespace(_)
            | Error::Call(_)
            | Error::Conflict { .. } => false,
        }
    }

    /// Whether the names have none for the file any more, because it was removed here.
    pub(crate) fn is_nameless(&self) -> bool {
        match self {
            Error::Namespace(error) => error.kind == namespace::ErrorKind::NotFound,
            Error::Transfer(_) | Error::Store(_) | Error::Call(_) | Error::Conflict { .. } => false,
        }
    }

    /// Whether the object is no longer the version that was named: another one, or gone.
    pub(crate) fn is_changed(&self) -> bool {
        match self {
            Error::Transfer(transfer::Error::Remote(error)) => {
                matches!(error.kind, Remote::Changed | Remote::NotFound)
            }
            Error::Namespace(error) => error.kind == namespace::ErrorKind::Stale,
            Error::Transfer(_) | Error::Store(_) | Error::Call(_) | Error::Conflict { .. } => false,
        }
    }
}

/// What the application is told. No wildcard: a new kind must be decided here.
pub fn errno(error: &Error) -> Errno {
    match error {
        Error::Call(errno) => *errno,
        Error::Conflict { .. } => Errno::ESTALE,
        Error::Namespace(error) => of_namespace(error.kind),
        Error::Store(error) => of_store(error.kind),
        Error::Transfer(transfer::Error::Remote(error)) => of_object(error.kind),
        Error::Transfer(transfer::Error::Store(error)) => of_store(error.kind),
        Error::Transfer(transfer::Error::Stopped) => Errno::EIO,
    }
}

fn of_namespace(kind: namespace::ErrorKind) -> Errno {
    use namespace::{ErrorKind as Kind, LedgerFailed};
    match kind {
        Kind::NotFound => Errno::ENOENT,
        Kind::Stale => Errno::ESTALE,
        Kind::Exists => Errno::EEXIST,
        Kind::NotDirectory => Errno::ENOTDIR,
        Kind::IsDirectory => Errno::EISDIR,
        Kind::NotEmpty => Errno::ENOTEMPTY,
        Kind::Unsupported => Errno::EOPNOTSUPP,
        Kind::NameTooLong => Errno::ENAMETOOLONG,
        Kind::NoAttribute => Errno::ENODATA,
        Kind::AttributesTooLarge => Errno::ENOSPC,
        Kind::NotPermitted => Errno::EPERM,
        Kind::ReadOnly => Errno::EROFS,
        Kind::Invalid => Errno::EINVAL,
        Kind::Journal(LedgerFailed::Full) => Errno::ENOSPC,
        Kind::Journal(LedgerFailed::Io) => Errno::EIO,
        Kind::Remote(Remote::NotFound) => Errno::ENOENT,
        // No bytes are on their way, of which there could be too many.
        Kind::Remote(Remote::Unsupported) => Errno::EOPNOTSUPP,
        Kind::Remote(kind) => of_object(kind),
    }
}

/// An object that we knew of and that failed: that it is gone is as stale as that it changed.
fn of_object(kind: Remote) -> Errno {
    match kind {
        Remote::NotFound | Remote::Changed => Errno::ESTALE,
        Remote::Denied => Errno::EACCES,
        Remote::Full => Errno::ENOSPC,
        Remote::Archived => Errno::EBUSY,
        Remote::Unsupported => Errno::EFBIG,
        Remote::Transient { .. } | Remote::Unavailable | Remote::Corrupt => Errno::EIO,
    }
}

fn of_store(kind: store::ErrorKind) -> Errno {
    match kind {
        store::ErrorKind::Full => Errno::ENOSPC,
        store::ErrorKind::Held => Errno::ETXTBSY,
        // That of the daemon, not of the caller.
        store::ErrorKind::NoDescriptor => Errno::ENFILE,
        store::ErrorKind::Gone
        | store::ErrorKind::Missing
        | store::ErrorKind::Corrupt
        | store::ErrorKind::Io => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use base::{Errno, Ino};
    use namespace::ErrorKind as Kind;
    use remote::{ErrorKind, Key};

    use super::{Error, errno};

    #[test]
    fn what_is_archived_is_busy_whatever_is_done_with_it() {
        let archived = || remote::Error::new(ErrorKind::Archived, "get", &Key::from("key"));
        let read = Error::Transfer(transfer::Error::Remote(std::sync::Arc::new(archived())));
        let rename = Error::Namespace(namespace::Error::remote("rename", archived()));
        assert_eq!((errno(&read), errno(&rename)), (Errno::EBUSY, Errno::EBUSY));
        assert!(!read.may_pass(), "nobody waits for it to be restored");
    }

    #[test]
    fn only_bytes_can_be_too_many() {
        let refused = || remote::Error::new(ErrorKind::Unsupported, "put", &Key::from("key"));
        let upload = Error::Transfer(transfer::Error::Remote(std::sync::Arc::new(refused())));
        let names = Error::Namespace(namespace::Error::remote("rename", refused()));
        let attributes = namespace::Error::node(Kind::Unsupported, "set_attr", Ino::ROOT);
        let long = namespace::Error::node(Kind::NameTooLong, "mkdir", Ino::ROOT);
        assert_eq!(errno(&upload), Errno::EFBIG);
        assert_eq!(errno(&names), Errno::EOPNOTSUPP);
        assert_eq!(errno(&Error::Namespace(attributes)), Errno::EOPNOTSUPP);
        assert_eq!(errno(&Error::Namespace(long)), Errno::ENAMETOOLONG);
    }
}
