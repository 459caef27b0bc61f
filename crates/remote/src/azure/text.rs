//! Keys, versions, conditions and metadata as Azure spells them; pure.

use std::fmt::Write as _;

use aws_smithy_types::base64;

use crate::http::Checksum;
use crate::{Condition, Key, Metadata, Version};

/// What a blob's name may have at most.
const NAME_CHARACTERS_MAX: usize = 1024;
const NAME_PARTS_MAX: usize = 254;

/// Before the names of user metadata.
const METADATA_PREFIX: &str = "x-ms-meta-";

/// The key as text, or why Azure does not take it.
///
/// Refused is what the service is known to change on the way: it would then be another key, that of
/// somebody else's object perhaps. It reads `\` as `/`, resolves `.` and `..`, drops dots at the end
/// of a part, and takes no control characters.
pub(super) fn name(key: &Key) -> Result<&str, &'static str> {
    let name =
        std::str::from_utf8(key.as_bytes()).map_err(|_| "Azure takes only keys that are UTF-8")?;
    if name.is_empty() {
        return Err("a blob needs a name");
    }
    if NAME_CHARACTERS_MAX < name.chars().count() {
        return Err("Azure takes no keys over 1,024 characters");
    }
    if name.chars().any(|letter| letter.is_control() || letter == '\\') {
        return Err("Azure takes no control characters and no backslashes in keys");
    }
    let mut parts = 0;
    for part in name.split('/') {
        parts += 1;
        if part.ends_with('.') {
            return Err("Azure takes no keys with a dot at the end of a part");
        }
    }
    if NAME_PARTS_MAX < parts {
        return Err("Azure takes no keys of more than 254 parts");
    }
    Ok(name)
}

/// An etag as a version. Listings leave out the quotes that headers have.
pub(super) fn version(etag: &str) -> Option<Version> {
    let etag = etag.trim().trim_matches('"');
    (!etag.is_empty()).then(|| Version::new(etag))
}

/// A version as a header spells it.
pub(super) fn etag(version: &Version) -> String {
    format!("\"{}\"", version.as_str().trim_matches('"'))
}

/// The header that asks for `condition`.
pub(super) fn condition(condition: &Condition) -> Option<(String, String)> {
    match condition {
        Condition::Always => None,
        Condition::Absent => Some(("if-none-match".to_owned(), "*".to_owned())),
        Condition::Is(version) => Some(("if-match".to_owned(), etag(version))),
    }
}

/// User metadata as headers.
pub(super) fn metadata_headers(metadata: &Metadata) -> impl Iterator<Item = (String, String)> {
    metadata
        .iter()
        .map(|(name, value)| (format!("{METADATA_PREFIX}{}", encode_name(name)), value.clone()))
}

/// User metadata from headers.
pub(super) fn metadata_of<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Metadata {
    let named =
        headers.filter_map(|(name, value)| Some((name.strip_prefix(METADATA_PREFIX)?, value)));
    named.map(|(name, value)| (decode_name(name), value.to_owned())).collect()
}

/// A name of metadata as an identifier of C#, which is all that Azure takes: letters, digits and
/// `_`, no digit first. Any other byte is `_xHH_`, in two hexadecimal digits, and so is a `_`
/// before an `x`: that makes it reversible. `mode` stays `mode`, `quayfs-upload` becomes
/// `quayfs_x2d_upload`.
pub(super) fn encode_name(name: &str) -> String {
    let bytes = name.as_bytes();
    let mut text = String::with_capacity(name.len());
    for (index, &byte) in bytes.iter().enumerate() {
        let plain = match byte {
            b'_' => bytes.get(index + 1) != Some(&b'x'),
            b'0'..=b'9' => 0 < index,
            _ => byte.is_ascii_alphabetic(),
        };
        if plain {
            text.push(char::from(byte));
        } else {
            write!(text, "_x{byte:02x}_").expect("a string takes all text");
        }
    }
    text
}

/// The name that [`encode_name`] made this of. Names that others chose stay as they are, but for
/// upper case, which does not survive headers everywhere.
pub(super) fn decode_name(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    let mut name = String::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(at) = rest.find("_x") {
        name.push_str(&rest[..at]);
        if let Some(letter) = escaped(&rest[at..]) {
            name.push(letter);
            rest = &rest[at + ESCAPE_BYTES..];
        } else {
            name.push_str("_x");
            rest = &rest[at + 2..];
        }
    }
    name.push_str(rest);
    name
}

/// The length of `_xHH_`.
const ESCAPE_BYTES: usize = 5;

fn escaped(text: &str) -> Option<char> {
    let text = text.as_bytes().get(..ESCAPE_BYTES)?;
    let digit = |at: usize| char::from(text[at]).to_digit(16);
    let letter = char::from_u32(digit(2)? * 16 + digit(3)?)?;
    (text[4] == b'_' && letter.is_ascii()).then_some(letter)
}

/// The CRC64 of the bytes of an answer, from a header.
pub(super) fn checksum(header: &str) -> Option<Checksum> {
    let bytes = base64::decode(header).ok()?.try_into().ok()?;
    Some(Checksum::Crc64Nvme(u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{checksum, decode_name, encode_name, etag, name, version};
    use crate::{Key, Version};

    #[test]
    fn keys_that_the_service_would_change_are_refused() {
        for good in ["a", "a//b", "/a", "a/", "a.b", ".a/..b", " a ", "ü水", "a b+%?#&"] {
            assert_eq!(name(&Key::from(good)), Ok(good));
        }
        let long = "ü".repeat(1025);
        let deep = "a/".repeat(254);
        for bad in
            ["", ".", "..", "a/../b", "./a", "a.", "a./b", "a\\b", "a\nb", "\u{7f}", &long, &deep]
        {
            assert!(name(&Key::from(bad)).is_err(), "{bad:?}");
        }
        assert!(name(&Key::from(&b"\xff"[..])).is_err());
    }

    #[test]
    fn an_etag_is_the_same_with_and_without_quotes() {
        assert_eq!(version("\"0x1\""), Some(Version::new("0x1")));
        assert_eq!(version("0x1"), Some(Version::new("0x1")));
        assert_eq!(version("\"\""), None);
        assert_eq!(etag(&Version::new("0x1")), "\"0x1\"");
    }

    #[test]
    fn metadata_names_are_identifiers() {
        for (plain, encoded) in [
            ("mode", "mode"),
            ("quayfs-upload", "quayfs_x2d_upload"),
            ("x-y.z", "x_x2d_y_x2e_z"),
            ("1a2", "_x31_a2"),
            ("a_b", "a_b"),
            ("a_x2d_b", "a_x5f_x2d_b"),
            ("_x2d-", "_x5f_x2d_x2d_"),
        ] {
            assert_eq!(encode_name(plain), encoded);
            assert_eq!(decode_name(encoded), plain);
        }
        for foreign in ["is_symlink", "hdi_isfolder", "_x", "_xzz_", "_x1", "a_x2", "__"] {
            assert_eq!(decode_name(foreign), foreign);
        }
        assert_eq!(decode_name("Mode"), "mode");
    }

    proptest! {
        #[test]
        fn any_sum_and_any_etag_is_read_without_harm(text in "[A-Za-z0-9+/=\"]{0,16}|\\PC{0,9}") {
            checksum(&text);
            version(&text);
        }

        #[test]
        fn every_metadata_name_comes_back(name in "[a-z0-9_x.-]{1,12}") {
            let encoded = encode_name(&name);
            prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
            prop_assert!(!encoded.starts_with(|letter: char| letter.is_ascii_digit()));
            prop_assert_eq!(decode_name(&encoded), name);
        }

        #[test]
        fn any_name_is_decoded_without_harm(text in "\\PC*") {
            decode_name(&text);
        }
    }
}
