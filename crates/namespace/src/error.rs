//! What a failed operation on names asks of its caller.

use crate::LedgerFailed;
use base::{Ino, Name};
use remote::Key;

/// The result of an operation on names.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation on names.
#[derive(Debug, thiserror::Error)]
#[error("{op} {subject}: {kind}")]
pub struct Error {
    /// What the caller can do about it.
    pub kind: ErrorKind,
    /// The operation, such as `lookup`.
    pub op: &'static str,
    /// The name or node it was about.
    pub subject: String,
    /// The object store's error, where there was one.
    #[source]
    pub source: Option<Box<remote::Error>>,
}

/// Errors sorted by what the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// No node of that name.
    #[error("no such file or folder")]
    NotFound,
    /// The number is of a node that was forgotten or replaced.
    #[error("the file is not there any more")]
    Stale,
    /// There is a node of that name already.
    #[error("exists")]
    Exists,
    /// The node is no folder.
    #[error("not a folder")]
    NotDirectory,
    /// The node is a folder.
    #[error("is a folder")]
    IsDirectory,
    /// The folder has entries.
    #[error("folder not empty")]
    NotEmpty,
    /// The node has no attribute of that name.
    #[error("no such attribute")]
    NoAttribute,
    /// More attributes than a node can have.
    #[error("attributes too large")]
    AttributesTooLarge,
    /// The store takes no changes there.
    #[error("read-only")]
    ReadOnly,
    /// Something that a node of this kind, or under this name, does not allow.
    #[error("not permitted")]
    NotPermitted,
    /// A folder cannot go below itself, and what is no symlink has no target.
    #[error("invalid")]
    Invalid,
    /// What must survive a crash could not be noted.
    #[error("{0}")]
    Journal(LedgerFailed),
    /// This kind of volume cannot do this.
    #[error("not supported")]
    Unsupported,
    /// The name gives a key that the store does not take, or one too long.
    #[error("name too long")]
    NameTooLong,
    /// The object store failed; its kind says how.
    #[error(transparent)]
    Remote(remote::ErrorKind),
}

/// Stores take keys of 1,024 bytes, with the mounted prefix: one that is refused and longer than
/// this was too long.
const KEY_BYTES_SURE: usize = 768;

impl Error {
    /// An error about `name`.
    pub fn name(kind: ErrorKind, op: &'static str, name: &Name) -> Error {
        Error { kind, op, subject: name.to_string(), source: None }
    }

    /// An error about the node `ino`.
    pub fn node(kind: ErrorKind, op: &'static str, ino: Ino) -> Error {
        Error { kind, op, subject: format!("inode {ino}"), source: None }
    }

    /// An error about the folder of the keys that begin with `prefix`.
    pub(crate) fn folder(kind: ErrorKind, op: &'static str, prefix: &Key) -> Error {
        let subject =
            if prefix.as_bytes().is_empty() { "/".to_owned() } else { prefix.to_string() };
        Error { kind, op, subject, source: None }
    }

    /// An error of the object store below the operation `op`.
    pub fn remote(op: &'static str, source: remote::Error) -> Error {
        let too_long = source.kind == remote::ErrorKind::Unsupported
            && KEY_BYTES_SURE < source.key.as_bytes().len();
        Error {
            kind: if too_long { ErrorKind::NameTooLong } else { ErrorKind::Remote(source.kind) },
            op,
            subject: source.key.to_string(),
            source: Some(Box::new(source)),
        }
    }

    /// Whether the store refuses whom it knows.
    pub(crate) fn is_refusal(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.is_refusal())
    }

    /// The same error for one more of those who waited for the same answer.
    pub(crate) fn again(&self) -> Error {
        let source = self.source.as_ref().map(|source| {
            let again = remote::Error::new(source.kind, source.op, &source.key);
            Box::new(match &source.source {
                Some(words) => again.because(words.to_string()),
                None => again,
            })
        });
        Error { kind: self.kind, op: self.op, subject: self.subject.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use remote::Key;

    use super::{Error, ErrorKind};

    #[test]
    fn a_long_key_that_the_store_refuses_is_too_long() {
        let refused = |bytes: usize| {
            let key = Key::from("x".repeat(bytes).as_str());
            Error::remote("mkdir", remote::Error::new(remote::ErrorKind::Unsupported, "put", &key))
        };
        assert_eq!(refused(1100).kind, ErrorKind::NameTooLong);
        assert_eq!(refused(100).kind, ErrorKind::Remote(remote::ErrorKind::Unsupported));
    }
}
