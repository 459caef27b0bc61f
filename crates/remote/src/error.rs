//! What a failed call asks of its caller.

use std::time::Duration;

use crate::Key;

/// The result of a call to an object store.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed request to the object store.
#[derive(Debug, thiserror::Error)]
#[error("{op}{}: {kind}{}", named(key), detail(source.as_deref()))]
pub struct Error {
    /// What the caller can do about it.
    pub kind: ErrorKind,
    /// The request that failed, such as `get` or `upload part`.
    pub op: &'static str,
    /// The object or prefix the request was for.
    pub key: Key,
    /// The provider's own words.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A request for the whole bucket names nothing.
fn named(key: &Key) -> String {
    if key.as_bytes().is_empty() { String::new() } else { format!(" {key}") }
}

fn detail(source: Option<&(dyn std::error::Error + Send + Sync + 'static)>) -> String {
    source.map(|source| format!(" ({source})")).unwrap_or_default()
}

/// Errors sorted by what the caller does next, not by where they came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// There is no such object, upload or bucket.
    #[error("not found")]
    NotFound,
    /// The condition does not hold: the object is not the version the caller named, or is there
    /// although it should not be. Look it up again.
    #[error("the object was changed or removed by another client")]
    Changed,
    /// Throttled, reset, or a server's passing fault: the same call may go through later, and the
    /// failed one may have been carried out all the same.
    #[error("the store did not answer well")]
    Transient {
        /// How long the store asked us to wait.
        retry_after: Option<Duration>,
    },
    /// The store could not be reached within the deadline; repeating has been tried.
    #[error("the store is unavailable")]
    Unavailable,
    /// The store says no and will keep saying no.
    #[error("access denied")]
    Denied,
    /// The bytes that came back are not the bytes that were asked for. Never serve them.
    #[error("the store sent wrong bytes")]
    Corrupt,
    /// The store does not take this key, size or call; repeating does not help.
    #[error("the store does not support this")]
    Unsupported,
    /// The object is in an archive: it is there, but cannot be read before somebody restores it, which
    /// takes minutes to days. Repeating does not help.
    #[error("archived: it can be read when it has been restored")]
    Archived,
    /// The store has no room left.
    #[error("no space left in the store")]
    Full,
}

impl Error {
    /// An error without the provider's words.
    pub fn new(kind: ErrorKind, op: &'static str, key: &Key) -> Error {
        Error { kind, op, key: key.clone(), source: None }
    }

    /// The same error with the provider's words.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        self.source = Some(source.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, ErrorKind, Key};

    #[test]
    fn an_error_names_the_object_if_there_is_one() {
        for (key, want) in [("a b", "list a b: not found"), ("", "list: not found")] {
            let error = Error::new(ErrorKind::NotFound, "list", &Key::new(key));
            assert_eq!(error.to_string(), want);
        }
    }
}
