//! Keys, conditions, ranges and checksums as S3 spells them; pure.

use std::fmt::Write as _;

use aws_sdk_s3::primitives::DateTime;
use aws_smithy_types::base64;
use base::Timestamp;

use crate::PartTag;

/// What `x-amz-copy-source` names an object by.
pub(super) fn copy_source(bucket: &str, key: &str) -> String {
    let mut source = format!("{bucket}/");
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                source.push(char::from(byte));
            }
            _ => write!(source, "%{byte:02X}").expect("a string takes all text"),
        }
    }
    source
}

/// The bytes of a key that a listing spelt as `encoding-type=url`; `None` if it is not that.
pub(super) fn decode_listed(text: &str) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        match byte {
            b'+' => key.push(b' '),
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                key.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            _ => key.push(byte),
        }
    }
    Some(key)
}

/// When an object was taken in, in whole seconds: some listings know more than a HEAD says, and the
/// time of a file must not depend on how it was found.
pub(super) fn timestamp(time: Option<&DateTime>) -> Timestamp {
    time.map_or_else(Timestamp::default, |time| Timestamp { secs: time.secs(), nanos: 0 })
}

/// The CRC32C of `bytes` as S3 spells it.
pub(super) fn crc32c(bytes: &[u8]) -> String {
    base64::encode(base::crc32c(bytes).to_be_bytes())
}

/// A part's receipt: its etag, and its checksum, which completing the upload asks for; not every
/// store tells that of a part that it copied.
pub(super) fn part_tag(etag: &str, crc32c: Option<&str>) -> PartTag {
    match crc32c {
        Some(crc32c) => PartTag(format!("{etag} {crc32c}")),
        None => PartTag(etag.to_owned()),
    }
}

/// The etag and the checksum of a receipt.
pub(super) fn parse_part_tag(tag: &PartTag) -> (&str, Option<&str>) {
    match tag.0.rsplit_once(' ') {
        Some((etag, crc32c)) => (etag, Some(crc32c)),
        None => (&tag.0, None),
    }
}

#[cfg(test)]
mod tests {
    use super::{copy_source, crc32c, decode_listed};

    #[test]
    fn a_copy_source_keeps_every_byte_of_the_key() {
        assert_eq!(copy_source("b", "a//b/./c"), "b/a//b/./c");
        assert_eq!(copy_source("b", "ü +%?"), "b/%C3%BC%20%2B%25%3F");
    }

    #[test]
    fn listed_keys_are_decoded_to_their_bytes() {
        for (text, want) in [
            ("a/b", Some(&b"a/b"[..])),
            ("a+b%2B%20", Some(b"a b+ ")),
            ("%C3%BC%01", Some(b"\xc3\xbc\x01")),
            ("%", None),
            ("%zz", None),
        ] {
            assert_eq!(decode_listed(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn the_checksum_is_spelt_as_documented() {
        assert_eq!(crc32c(b"123456789"), "4waSgw==");
    }
}
