//! Parts of keys, which may be any bytes without a slash, as text that may stand in a name; pure.
//!
//! Nearly every part is its own text. The other texts, and the parts of the other names, begin with [`SIGN`]:
//!
//! | text | part |
//! |---|---|
//! | `%%:TEXT` | empty, `.`, `..`, has a NUL or bytes that are not UTF-8, or begins with `%%` or [`RESERVED`]; TEXT is percent-encoded |
//! | bytes that are not UTF-8 | `%%!TEXT`, where TEXT is the bytes, percent-encoded |
//! | begins with [`RESERVED`], or with `%%` and has no other meaning | `%%@TEXT`, where TEXT is the name, percent-encoded |
//!
//! A name made here thus gets a key that is UTF-8, which is all that stores take, and that is none of quayfs' own.
//! Only NUL, `%`, and bytes that are not UTF-8 are percent-encoded.
//!
//! Names of two more forms say what the part alone does not tell: [`BESIDE`] and [`CHUNK`]; see
//! [`keys`](super::keys).

use std::borrow::Cow;
use std::str;

use base::{Name, percent_decode as decode, percent_encode as encode, units};

/// What texts begin with that are not the part itself.
pub(super) const SIGN: &[u8] = b"%%";

/// The beginning of the parts of hidden keys.
pub(super) const RESERVED: &[u8] = b".quayfs-";

/// The beginning of the name of an object that is beside the folder of its name.
pub(super) const BESIDE: &[u8] = b"%%=";

/// The beginning of the name of a folder that is the beginning of a long part.
pub(super) const CHUNK: &[u8] = b"%%~";

const CODED: &[u8] = b"%%:";
const RAW: &[u8] = b"%%!";
const MEANT: &[u8] = b"%%@";

/// The text of `part`; it may be too long for a name.
pub(super) fn text(part: &[u8]) -> Cow<'_, [u8]> {
    if part.starts_with(SIGN) {
        return match escaped(part) {
            Some(name) => name.into(),
            None => [CODED, &encode(part)].concat().into(),
        };
    }
    let is_text = !part.contains(&0) && str::from_utf8(part).is_ok();
    if is_text && !matches!(part, b"" | b"." | b"..") && !part.starts_with(RESERVED) {
        part.into()
    } else {
        [CODED, &encode(part)].concat().into()
    }
}

/// The part whose text is `name`. `None` if that is no name, or one of the two other forms.
pub(super) fn part(name: &[u8]) -> Option<Cow<'_, [u8]>> {
    if matches!(name, b"" | b"." | b"..") || is_beside(name) || chunk(name).is_some() {
        return None;
    }
    let is_text = str::from_utf8(name).is_ok();
    if name.starts_with(SIGN) {
        let coded = name.strip_prefix(CODED).and_then(decode).filter(|part| *text(part) == *name);
        return Some(coded.unwrap_or_else(|| [MEANT, &encode(name)].concat()).into());
    }
    Some(match name {
        _ if !is_text => [RAW, &encode(name)].concat().into(),
        _ if name.starts_with(RESERVED) => [MEANT, &encode(name)].concat().into(),
        _ => name.into(),
    })
}

/// The beginning of a part that `name` stands for, if it is that of a chunk folder.
pub(super) fn chunk(name: &[u8]) -> Option<Vec<u8>> {
    let coded = name.strip_prefix(CHUNK)?;
    let chunk = decode(coded)?;
    (!chunk.is_empty() && encode(&chunk) == coded).then_some(chunk)
}

/// Whether `name` stands for an object beside the folder of its name.
pub(super) fn is_beside(name: &[u8]) -> bool {
    name.strip_prefix(BESIDE).is_some_and(|name| part(name).is_some())
}

/// The name that `part` stands for, if it is exactly what a name becomes that is no part itself.
fn escaped(part: &[u8]) -> Option<Vec<u8>> {
    let coded = part.strip_prefix(RAW).or_else(|| part.strip_prefix(MEANT))?;
    let name = decode(coded)?;
    let is_name = Name::new(&name).is_ok();
    (is_name && self::part(&name).as_deref() == Some(part)).then_some(name)
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

    use super::{RESERVED, beginning, chunk, encode, is_beside, part, text, units};

    /// Bytes in which what is odd is frequent.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => proptest::sample::select(&b"%%%.:!=~0F25a\0\xff\xc3\xa9"[..]),
            1 => any::<u8>(),
        ];
        let rest = proptest::collection::vec(byte, 0..12);
        let start = proptest::sample::select(vec![
            "",
            "%%",
            "%%!",
            "%%:",
            "%%!%FF",
            "%%@",
            "%%=",
            "%%~",
            ".quayfs-",
            "%%:.quayfs-",
            "%%@.quayfs-",
            "%%@%25%25",
            "%%:%25%25@",
        ]);
        (start, rest).prop_map(|(start, rest)| [start.as_bytes(), &rest].concat())
    }

    #[test]
    fn texts_are_as_documented() {
        for (part, want) in [
            (&b"a"[..], &b"a"[..]),
            (b"my%20file", b"my%20file"),
            (b"50%%", b"50%%"),
            (b"...", b"..."),
            (b"", b"%%:"),
            (b".", b"%%:."),
            (b"..", b"%%:.."),
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
            (b"%%@%25%25", b"%%"),
            (b"%%@%25%25.", b"%%."),
            (b"%%@%25%25a%FF", b"%%a\xff"),
            (b"%%@%25%25:a", b"%%:a"),
            (b"%%@%25%25=", b"%%="),
            (b"%%@%25%25=%25%25=a", b"%%=%%=a"),
            (b"%%@%25%25~%2561", b"%%~%61"),
            (b"%%@.quayfs-attributes", b".quayfs-attributes"),
            (b".quayfs-attributes", b"%%:.quayfs-attributes"),
            (b"%%@a", b"%%:%25%25@a"),
            (b"%%@%25%25=a", b"%%:%25%25@%2525%2525=a"),
        ] {
            assert_eq!(*text(part), *want, "{}", part.escape_ascii());
            assert_eq!(super::part(want).as_deref(), Some(part), "{}", want.escape_ascii());
        }
    }

    #[test]
    fn names_of_the_other_forms_are_no_texts() {
        for other in [&b""[..], b".", b"..", b"%%=a", b"%%=%%", b"%%=%%:", b"%%~a", b"%%~%FF"] {
            assert_eq!(part(other), None, "{}", other.escape_ascii());
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
        fn every_name_is_the_text_of_its_part(bytes in bytes()) {
            let bytes: Vec<u8> =
                bytes.into_iter().filter(|&byte| byte != b'/' && byte != 0).collect();
            if let Some(part) = part(&bytes) {
                assert_eq!(*text(&part), *bytes, "{}", part.escape_ascii());
            } else {
                let is_no_name = matches!(&bytes[..], b"" | b"." | b"..");
                assert!(is_no_name || is_beside(&bytes) || chunk(&bytes).is_some());
            }
        }

        #[test]
        fn no_name_has_a_part_of_ours_unless_it_says_so(bytes in bytes()) {
            let bytes: Vec<u8> =
                bytes.into_iter().filter(|&byte| byte != b'/' && byte != 0).collect();
            if let Some(part) = part(&bytes) {
                assert!(!part.starts_with(RESERVED) || bytes.starts_with(b"%%:.quayfs-"));
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
