//! Parts of keys, which may be any bytes without a slash, as text that may stand in a name; pure.
//!
//! Nearly every part is its own text. The other texts begin with [`SIGN`]:
//!
//! | text | part |
//! |---|---|
//! | `%%` | empty |
//! | `%%.` `%%..` | `.` `..` |
//! | `%%:TEXT` | has a NUL, or bytes that are not UTF-8, or begins with `%%`; TEXT is percent-encoded |
//! | bytes that are not UTF-8 | `%%!TEXT`, where TEXT is the bytes, percent-encoded |
//!
//! A name made here that is not UTF-8 thus gets a key that is, which is all that stores take. Only
//! NUL, `%`, and bytes that are not UTF-8 are percent-encoded.

use std::borrow::Cow;
use std::str;

use base::{Name, percent_decode as decode, percent_encode as encode, units};

/// What texts begin with that are not the part itself.
pub(super) const SIGN: &[u8] = b"%%";

const CODED: &[u8] = b"%%:";
const RAW: &[u8] = b"%%!";
const DOT: &[u8] = b"%%.";
const DOTS: &[u8] = b"%%..";

/// The text of `part`; it may be too long for a name.
pub(super) fn text(part: &[u8]) -> Cow<'_, [u8]> {
    match part {
        b"" => SIGN.into(),
        b"." => DOT.into(),
        b".." => DOTS.into(),
        _ if part.starts_with(SIGN) => match raw(part) {
            Some(raw) => raw.into(),
            None => [CODED, &encode(part)].concat().into(),
        },
        _ if part.contains(&0) || str::from_utf8(part).is_err() => {
            [CODED, &encode(part)].concat().into()
        }
        _ => part.into(),
    }
}

/// The part whose text is `name`; `None` if there is none.
pub(super) fn part(name: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !name.starts_with(SIGN) {
        return Some(match str::from_utf8(name) {
            Ok(_) => name.into(),
            Err(_) => [RAW, &encode(name)].concat().into(),
        });
    }
    match name {
        SIGN => Some(b"".into()),
        DOT => Some(b".".into()),
        DOTS => Some(b"..".into()),
        _ => {
            let part = decode(name.strip_prefix(CODED)?)?;
            (*text(&part) == *name).then(|| part.into())
        }
    }
}

/// The bytes that `part` stands for, if it is exactly what a name that is not UTF-8 becomes.
fn raw(part: &[u8]) -> Option<Vec<u8>> {
    let coded = part.strip_prefix(RAW)?;
    let raw = decode(coded)?;
    let is_name = raw.len() <= Name::BYTES_MAX && !raw.starts_with(SIGN) && !raw.contains(&0);
    (is_name && str::from_utf8(&raw).is_err() && encode(&raw) == coded).then_some(raw)
}

/// The longest beginning of `bytes`, but never all of it, that encoded takes at most `bytes_max`.
/// No character is cut.
pub(super) fn beginning(bytes: &[u8], bytes_max: usize) -> &[u8] {
    let (mut end, mut encoded) = (0, 0);
    for unit in units(bytes) {
        encoded += encode(unit).len();
        if bytes_max < encoded || end + unit.len() == bytes.len() {
            break;
        }
        end += unit.len();
    }
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop_oneof, proptest};

    use super::{beginning, encode, part, text, units};

    /// Bytes in which what is odd is frequent.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => proptest::sample::select(&b"%%%.:!=~0F25a\0\xff\xc3\xa9"[..]),
            1 => any::<u8>(),
        ];
        let rest = proptest::collection::vec(byte, 0..12);
        let start = proptest::sample::select(vec!["", "%%", "%%!", "%%:", "%%!%FF"]);
        (start, rest).prop_map(|(start, rest)| [start.as_bytes(), &rest].concat())
    }

    #[test]
    fn texts_are_as_documented() {
        for (part, want) in [
            (&b"a"[..], &b"a"[..]),
            (b"my%20file", b"my%20file"),
            (b"50%%", b"50%%"),
            (b"...", b"..."),
            (b"", b"%%"),
            (b".", b"%%."),
            (b"..", b"%%.."),
            (b"a\0b", b"%%:a%00b"),
            (b"%%", b"%%:%25%25"),
            (b"%%.", b"%%:%25%25."),
            (b"%\0", b"%%:%25%00"),
            (b"\xff", b"%%:%FF"),
            (b"%%!caf%E9", b"caf\xe9"),
            (b"%%!%25%E9", b"%\xe9"),
            (b"%%!cafe", b"%%:%25%25!cafe"),
            (b"%%!caf%e9", b"%%:%25%25!caf%25e9"),
            (b"%%!%25%25%E9", b"%%:%25%25!%2525%2525%25E9"),
            (b"\x01\t", b"\x01\t"),
        ] {
            assert_eq!(*text(part), *want, "{}", part.escape_ascii());
            assert_eq!(super::part(want).as_deref(), Some(part), "{}", want.escape_ascii());
        }
    }

    #[test]
    fn texts_that_no_part_has_are_refused() {
        for wrong in [
            &b"%%a"[..],
            b"%%...",
            b"%%:",
            b"%%:a",
            b"%%:%61\0",
            b"%%:%2",
            b"%%:%2F%00",
            b"%%:a%0",
            b"%%:%ff",
            b"%%:caf\xe9",
            b"%%!%FF",
            b"%%\xff",
            b"%%=a",
            b"%%~a",
        ] {
            assert_eq!(part(wrong), None, "{}", wrong.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn every_part_is_read_back_from_its_text(bytes in bytes()) {
            let bytes: Vec<u8> = bytes.into_iter().filter(|&byte| byte != b'/').collect();
            let text = text(&bytes).into_owned();
            assert_eq!(part(&text).as_deref(), Some(&bytes[..]), "{}", text.escape_ascii());
        }

        #[test]
        fn every_text_that_has_a_part_is_that_parts_text(bytes in bytes()) {
            let bytes: Vec<u8> =
                bytes.into_iter().filter(|&byte| byte != b'/' && byte != 0).collect();
            if !bytes.is_empty() && bytes != b"." && bytes != b".."
                && let Some(part) = part(&bytes)
            {
                assert_eq!(*text(&part), *bytes, "{}", part.escape_ascii());
            }
        }

        #[test]
        fn a_beginning_is_as_long_as_it_may_be(bytes in bytes(), bytes_max in 12..20_usize) {
            let beginning = beginning(&bytes, bytes_max);
            assert!(bytes.starts_with(beginning));
            assert!(beginning.len() < bytes.len() || bytes.is_empty());
            assert!(encode(beginning).len() <= bytes_max);
            let next = units(&bytes[beginning.len()..]).next().unwrap_or_default();
            let more = [beginning, next].concat();
            assert!(bytes_max < encode(&more).len() || more == bytes);
        }
    }
}
