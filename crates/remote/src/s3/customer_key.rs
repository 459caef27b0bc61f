//! A key that the customer keeps: the store encrypts with it and forgets it.

use std::fmt;

use aws_smithy_types::base64;
use md5::{Digest as _, Md5};

use crate::Secret;

/// The length of a key of AES-256.
const KEY_BYTES: usize = 32;

/// A key of 256 bits, as requests carry it.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomerKey {
    /// In base64.
    pub(super) key: Secret,
    /// By which the store sees that it got the key whole, and tells keys apart.
    pub(super) md5: String,
}

impl fmt::Debug for CustomerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomerKey(…)")
    }
}

/// The bytes are no key. It does not repeat them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has {KEY_BYTES} bytes: as they are, or in base64")]
pub struct CustomerKeyError;

impl CustomerKey {
    /// What a file with a key says: its 32 bytes, or these in base64.
    pub fn from_file(bytes: &[u8]) -> Result<CustomerKey, CustomerKeyError> {
        let key = if bytes.len() == KEY_BYTES {
            bytes.to_vec()
        } else {
            let text = std::str::from_utf8(bytes).map_err(|_| CustomerKeyError)?;
            base64::decode(text.trim()).map_err(|_| CustomerKeyError)?
        };
        if key.len() != KEY_BYTES {
            return Err(CustomerKeyError);
        }
        let md5 = base64::encode(Md5::digest(&key));
        Ok(CustomerKey { key: Secret::new(base64::encode(key)), md5 })
    }
}

#[cfg(test)]
mod tests {
    use super::{CustomerKey, CustomerKeyError};

    #[test]
    fn a_key_is_read_as_it_is_and_in_base64() {
        let plain = b"0123456789abcdefghijklmnopqrstuv";
        let key = CustomerKey::from_file(plain).unwrap();
        let text = "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=";
        assert_eq!(key.key.reveal(), text);
        // As `openssl md5 -binary | base64` has it.
        assert_eq!(key.md5, "qkvGcbTBx6OOKYAPUO9jRg==");
        assert_eq!(CustomerKey::from_file(format!("{text}\n").as_bytes()), Ok(key.clone()));
        assert!(!format!("{key:?}").contains(text));
        for wrong in [&b""[..], b"hush", b"\xff", &text.as_bytes()[4..], &plain[1..]] {
            assert_eq!(CustomerKey::from_file(wrong), Err(CustomerKeyError));
        }
    }
}
