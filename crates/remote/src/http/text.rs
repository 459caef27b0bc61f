//! How HTTP spells keys, ranges and dates; pure.

use std::fmt::Write as _;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use base::{ByteRange, Timestamp};

/// `bytes` for a part of a URL: everything is escaped that could mean something there.
pub(crate) fn encode(bytes: &[u8]) -> String {
    escaped(bytes, is_plain)
}

/// As [`encode`], but slashes stay.
pub(crate) fn encode_path(bytes: &[u8]) -> String {
    escaped(bytes, |byte| is_plain(byte) || byte == b'/')
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~')
}

fn escaped(bytes: &[u8], plain: impl Fn(u8) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if plain(byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a string takes all text");
        }
    }
    text
}

/// The bytes that [`encode`] or another of its kind spelt; `None` if an escape is broken.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        if byte == b'%' {
            let digits = rest.get(..2)?;
            let high = char::from(digits[0]).to_digit(16)?;
            let low = char::from(digits[1]).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

/// The part of a URL behind the path: nothing, or `?` and all of `pairs`.
pub(crate) fn query(pairs: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        text.push_str(&encode(value.as_bytes()));
    }
    text
}

/// `range` as a request header.
pub(crate) fn range_header(range: ByteRange) -> String {
    format!("bytes={}-{}", range.start(), range.end() - 1)
}

/// The bytes and the object's size that a `Content-Range` header speaks of. No bytes where it
/// speaks of none: some servers answer so at the end of an object.
pub(super) fn parse_content_range(header: &str) -> Option<(Option<ByteRange>, u64)> {
    let (range, size) = header.strip_prefix("bytes ")?.split_once('/')?;
    let bytes = || {
        let (first, last) = range.split_once('-')?;
        let end = last.parse::<u64>().ok()?.checked_add(1)?;
        ByteRange::new(first.parse().ok()?, end)
    };
    Some((bytes(), size.parse().ok()?))
}

/// A moment as headers spell it.
pub(crate) fn http_date(time: Timestamp) -> String {
    // Only years before 1 and after 9999 have no spelling.
    DateTime::from_secs(time.secs).fmt(Format::HttpDate).unwrap_or_default()
}

/// The moment that a header speaks of.
pub(crate) fn parse_http_date(text: &str) -> Option<Timestamp> {
    let time = DateTime::from_str(text.trim(), Format::HttpDate).ok()?;
    Some(Timestamp { secs: time.secs(), nanos: 0 })
}

#[cfg(test)]
mod tests {
    use base::{ByteRange, Timestamp};
    use proptest::prelude::*;

    use super::{
        decode, encode, encode_path, http_date, parse_content_range, parse_http_date, query,
    };

    proptest! {
        #[test]
        fn any_key_survives_a_url(key: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&key)), Some(key.clone()));
            prop_assert_eq!(decode(&encode_path(&key)), Some(key));
        }

        #[test]
        fn any_escape_is_read_without_harm(text in "(%[0-9a-f+]{0,2}|\\PC){0,9}") {
            // Nothing becomes longer by being read.
            prop_assert!(decode(&text).is_none_or(|bytes| bytes.len() <= text.len()));
        }

        #[test]
        fn any_content_range_is_read_without_harm(text in "(bytes )?[0-9*/ -]{0,40}|\\PC{0,30}") {
            if let Some((Some(range), _)) = parse_content_range(&text) {
                prop_assert!(range.start() < range.end());
            }
        }

        #[test]
        fn any_date_is_read_without_harm(
            text in "([A-Z][a-z]{2}, )?[0-9]{1,3} [A-Z][a-z]{2} [0-9]{1,20} [0-9:.]{0,12} GMT|\\PC{0,30}",
        ) {
            if let Some(time) = parse_http_date(&text) {
                prop_assert_eq!(parse_http_date(&http_date(time)), Some(time));
            }
        }

        #[test]
        fn every_date_of_ours_is_read_as_it_was(secs in -60_000_000_000..250_000_000_000_i64) {
            let time = Timestamp { secs, nanos: 0 };
            prop_assert_eq!(parse_http_date(&http_date(time)), Some(time));
        }
    }

    #[test]
    fn every_byte_of_a_key_survives_a_url() {
        assert_eq!(encode_path("a//b/./ü +%?#&".as_bytes()), "a//b/./%C3%BC%20%2B%25%3F%23%26");
        assert_eq!(encode(b"a/b"), "a%2Fb");
        assert_eq!(
            query(&[("prefix", "a b".to_owned()), ("n", "1".to_owned())]),
            "?prefix=a%20b&n=1"
        );
        assert_eq!(query(&[]), "");
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        for broken in ["%", "%1", "%+1", "%zz"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }

    #[test]
    fn only_a_whole_content_range_is_understood() {
        let range = ByteRange::new(5, 10);
        assert_eq!(parse_content_range("bytes 5-9/100"), Some((range, 100)));
        for none in ["bytes */5", "bytes 5-4/5", "bytes 0--1/5"] {
            assert_eq!(parse_content_range(none), Some((None, 5)), "{none}");
        }
        for wrong in ["bytes 5-9/*", "5-9/100", "bytes 5-9", ""] {
            assert_eq!(parse_content_range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn dates_go_there_and_back() {
        let time = Timestamp { secs: 784_111_777, nanos: 0 };
        assert_eq!(http_date(time), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(parse_http_date(&http_date(time)), Some(time));
        assert_eq!(parse_http_date("yesterday"), None);
    }
}
