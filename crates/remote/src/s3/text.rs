//! Keys, conditions, ranges and checksums as S3 spells them; pure.

use std::fmt::Write as _;

use aws_sdk_s3::primitives::DateTime;
use aws_smithy_types::base64;
use base::Timestamp;

use crate::PartTag;
use crate::http::{Checksum, decode};

/// What `x-amz-copy-source` names an object by.
pub(super) fn copy_source(bucket: &str, key: &str) -> String {
    // The ARN of an access point has slashes itself, so it has a word between.
    let between = if bucket.starts_with("arn:") { "/object/" } else { "/" };
    let mut source = format!("{bucket}{between}");
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
    // The only escape that is not one of every URL.
    decode(&text.replace('+', " "))
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

/// What the headers of an answer say that the whole object comes to. Sums of the sums of parts, which an
/// object has that was uploaded in parts, say nothing of the bytes.
pub(super) fn checksum<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<Checksum> {
    if header("x-amz-checksum-type").is_some_and(|kind| kind != "FULL_OBJECT") {
        return None;
    }
    // What is not base64 of the right length is such a sum of sums, and says so by `-` and a number.
    let sum = |name| base64::decode(header(name)?).ok();
    let crc64 = sum("x-amz-checksum-crc64nvme").and_then(|sum| sum.try_into().ok());
    let crc32c = || sum("x-amz-checksum-crc32c").and_then(|sum| sum.try_into().ok());
    crc64
        .map(|sum| Checksum::Crc64Nvme(u64::from_be_bytes(sum)))
        .or_else(|| crc32c().map(|sum| Checksum::Crc32c(u32::from_be_bytes(sum))))
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
    use proptest::prelude::*;

    use super::{checksum, copy_source, crc32c, decode_listed, parse_part_tag, part_tag};
    use crate::http::{Checksum, encode};

    proptest! {
        #[test]
        fn any_listed_key_is_read_as_it_is_spelt(key: Vec<u8>) {
            let spelt = encode(&key);
            prop_assert_eq!(decode_listed(&spelt.replace("%20", "+")), Some(key.clone()));
            prop_assert_eq!(decode_listed(&spelt), Some(key));
        }

        #[test]
        fn any_text_in_a_listing_is_read_without_harm(text in "(%[0-9a-f+]{0,2}|\\PC){0,9}") {
            prop_assert!(decode_listed(&text).is_none_or(|key| key.len() <= text.len()));
        }

        #[test]
        fn any_sum_is_read_without_harm(sum in "[A-Za-z0-9+/=-]{0,16}|\\PC{0,9}") {
            checksum(|name| (name != "x-amz-checksum-type").then_some(&sum));
        }

        #[test]
        fn a_receipt_tells_what_it_was_given(etag in "[!-~]{0,40}", sum in "([A-Za-z0-9+/]{6}==)?") {
            let sum = (!sum.is_empty()).then_some(&sum[..]);
            let receipt = part_tag(&etag, sum);
            prop_assert_eq!(parse_part_tag(&receipt), (&etag[..], sum));
        }
    }

    #[test]
    fn only_sums_of_the_whole_object_count() {
        let (crc32c, crc64) = ("x-amz-checksum-crc32c", "x-amz-checksum-crc64nvme");
        let kind = "x-amz-checksum-type";
        for (headers, want) in [
            (&[(crc32c, "4waSgw==")][..], Some(Checksum::Crc32c(0xe306_9283))),
            (&[(crc32c, "4waSgw=="), (kind, "FULL_OBJECT")], Some(Checksum::Crc32c(0xe306_9283))),
            (&[(crc64, "rosUhgp5mIg=")], Some(Checksum::Crc64Nvme(0xae8b_1486_0a79_9888))),
            (&[(crc32c, "4waSgw=="), (kind, "COMPOSITE")], None),
            (&[(crc32c, "4waSgw==-3")], None),
            (&[(crc64, "4waSgw==")], None),
            (&[(crc32c, "page")], None),
            (&[], None),
        ] {
            let header = |name: &str| {
                headers.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
            };
            assert_eq!(checksum(header), want, "{headers:?}");
        }
    }

    #[test]
    fn a_copy_source_keeps_every_byte_of_the_key() {
        assert_eq!(copy_source("b", "a//b/./c"), "b/a//b/./c");
        let access_point = "arn:aws:s3:eu-west-1:1:accesspoint/lab";
        assert_eq!(copy_source(access_point, "a/b"), format!("{access_point}/object/a/b"));
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
            ("%+1", None),
        ] {
            assert_eq!(decode_listed(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn the_checksum_is_spelt_as_documented() {
        assert_eq!(crc32c(b"123456789"), "4waSgw==");
    }
}
