//! `Name`: one path component, checked once, bytes not text.

use std::fmt;
use std::sync::Arc;

use crate::percent::spelled;

/// One path component: 1 to 255 bytes, no `/`, no NUL, neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<[u8]>);

/// Why some bytes are not a [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Longer than [`Name::BYTES_MAX`].
    #[error("name longer than 255 bytes")]
    TooLong,
    /// Empty, `.`, `..`, or with a `/` or NUL in it.
    #[error("not a file name")]
    Invalid,
}

impl Name {
    /// The longest name the kernel passes on.
    pub const BYTES_MAX: usize = 255;

    /// Checks `bytes` and takes a copy.
    pub fn new(bytes: &[u8]) -> Result<Name, NameError> {
        if bytes.len() > Name::BYTES_MAX {
            return Err(NameError::TooLong);
        }
        let reserved = bytes.is_empty() || bytes == b"." || bytes == b"..";
        if reserved || bytes.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return Err(NameError::Invalid);
        }
        Ok(Name(bytes.into()))
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::borrow::Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&spelled(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Name, NameError};

    #[test]
    fn only_what_the_kernel_can_pass_is_a_name() {
        for (bytes, want) in [
            (&b"a"[..], Ok(())),
            (b"...", Ok(())),
            (b"\xff\xfe", Ok(())),
            (b"", Err(NameError::Invalid)),
            (b".", Err(NameError::Invalid)),
            (b"..", Err(NameError::Invalid)),
            (b"a/b", Err(NameError::Invalid)),
            (b"a\0b", Err(NameError::Invalid)),
        ] {
            assert_eq!(Name::new(bytes).map(|_| ()), want, "{}", bytes.escape_ascii());
        }
        assert!(Name::new(&[b'x'; 255]).is_ok());
        assert_eq!(Name::new(&[b'x'; 256]), Err(NameError::TooLong));
    }
}
