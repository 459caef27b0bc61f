//! Why bytes could not be moved.

use std::sync::Arc;

/// The result of moving bytes.
pub type Result<T> = std::result::Result<T, Error>;

/// Why bytes could not be moved. Cheap to clone: everyone who waited for a fetch gets it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The object store failed; the kind says how.
    #[error(transparent)]
    Remote(Arc<remote::Error>),
    /// The local disk failed or is full; the kind says how.
    #[error(transparent)]
    Store(Arc<store::Error>),
    /// The mount is ending.
    #[error("the transfer was given up because the mount ends")]
    Stopped,
}

impl Error {
    /// Whether the object store cannot do what was asked of it.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(self, Error::Remote(error) if error.kind == remote::ErrorKind::Unsupported)
    }

    /// Whether what was spoken of is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Error::Remote(error) if error.kind == remote::ErrorKind::NotFound)
    }

    /// Whether the bytes that came are not those that were asked for.
    pub(crate) fn is_corrupt(&self) -> bool {
        matches!(self, Error::Remote(error) if error.kind == remote::ErrorKind::Corrupt)
    }

    /// Whether the local disk had no room, so that reading past the cache may still work.
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Store(error) if error.kind == store::ErrorKind::Full)
    }
}

impl From<remote::Error> for Error {
    fn from(error: remote::Error) -> Error {
        Error::Remote(Arc::new(error))
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Error {
        Error::Store(Arc::new(error))
    }
}
