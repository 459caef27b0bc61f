//! An object's name.

use std::fmt;

use bytes::Bytes;

/// An object's name: any bytes. S3 asks for UTF-8; what a provider cannot take it refuses.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Bytes);

impl Key {
    /// A key of these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Key {
        Key(bytes.into())
    }

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// This key with `suffix` behind it.
    #[must_use]
    pub fn join(&self, suffix: &[u8]) -> Key {
        Key([self.as_bytes(), suffix].concat().into())
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Key {
        Key(Bytes::copy_from_slice(bytes))
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Key {
        Key::from(text.as_bytes())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base::spelled(&self.0))
    }
}
