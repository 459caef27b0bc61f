//! Bytes as text that can be turned back: what is not UTF-8, NUL and `%` are written `%XX`.
//!
//! Paths and keys are shown to people and programs, who take UTF-8 only, with [`spelled`]: a part that is
//! not UTF-8 is `%%!` and its bytes, percent-encoded. So is the part of the key that such a name gets.

use std::borrow::Cow;
use std::str;

/// What a part begins with that is spelled because it is not UTF-8.
const RAW: &[u8] = b"%%!";

/// `bytes` without NUL, and as UTF-8: what that takes is percent-encoded.
pub fn percent_encode(bytes: &[u8]) -> Vec<u8> {
    units(bytes).flat_map(|unit| encode_unit(unit).into_owned()).collect()
}

/// What was encoded as `text`, or as something that is not quite it: the caller encodes it again.
pub fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        if byte == b'%' {
            let digits = str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    (!bytes.contains(&b'/')).then_some(bytes)
}

/// The characters of `bytes`, and the single bytes that belong to none.
pub fn units(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid();
        let characters = valid
            .char_indices()
            .map(move |(start, character)| &valid.as_bytes()[start..start + character.len_utf8()]);
        characters.chain(chunk.invalid().chunks(1))
    })
}

fn encode_unit(unit: &[u8]) -> Cow<'_, [u8]> {
    match unit {
        [byte @ (0 | b'%' | 0x80..)] => format!("%{byte:02X}").into_bytes().into(),
        _ => unit.into(),
    }
}

/// A path or key as text: itself if it is UTF-8, and else with the parts spelled that are not.
pub fn spelled(path: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(path) {
        return text.into();
    }
    let part = |part: &[u8]| match str::from_utf8(part) {
        Ok(_) => part.to_vec(),
        Err(_) => [RAW, &percent_encode(part)].concat(),
    };
    let parts: Vec<Vec<u8>> = path.split(|&byte| byte == b'/').map(part).collect();
    String::from_utf8_lossy(&parts.join(&b'/')).into_owned().into()
}

/// The path or key that is [`spelled`] as `text`.
pub fn unspelled(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.windows(RAW.len()).any(|window| window == RAW) {
        return text.into();
    }
    let parts: Vec<Vec<u8>> = text
        .split(|&byte| byte == b'/')
        .map(|part| unspelled_part(part).unwrap_or_else(|| part.to_vec()))
        .collect();
    parts.join(&b'/').into()
}

/// What is spelled as exactly `part`, if anything is.
fn unspelled_part(part: &[u8]) -> Option<Vec<u8>> {
    let coded = part.strip_prefix(RAW)?;
    let raw = percent_decode(coded)?;
    (str::from_utf8(&raw).is_err() && percent_encode(&raw) == coded).then_some(raw)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop_oneof, proptest};

    use super::{percent_decode, percent_encode, spelled, units, unspelled};

    #[test]
    fn what_is_utf_8_is_itself_and_the_rest_can_be_read_back() {
        for (path, want) in [
            (&b"/mnt/a b%.txt"[..], "/mnt/a b%.txt"),
            ("/mnt/é".as_bytes(), "/mnt/é"),
            (b"/mnt/caf\xe9/50%", "/mnt/%%!caf%E9/50%"),
            (b"50%\xff", "%%!50%25%FF"),
            (b"%%!a", "%%!a"),
            (b"%%!%41/x", "%%!%41/x"),
        ] {
            assert_eq!(spelled(path), want);
            assert_eq!(*unspelled(want.as_bytes()), *path, "{want}");
        }
    }

    /// Bytes in which what is odd is frequent.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => proptest::sample::select(&b"%%%.:!=~0F25a/\0\xff\xc3\xa9"[..]),
            1 => any::<u8>(),
        ];
        proptest::collection::vec(byte, 0..16)
    }

    proptest! {
        #[test]
        fn every_path_of_names_is_read_back(path in bytes()) {
            // A mount has no name that is spelled so already.
            let is_spelled = |part: &[u8]| part.starts_with(b"%%!");
            if !path.split(|&byte| byte == b'/').any(is_spelled) {
                assert_eq!(*unspelled(spelled(&path).as_bytes()), *path);
            }
        }

        #[test]
        fn units_are_all_of_it(bytes in bytes()) {
            assert_eq!(units(&bytes).collect::<Vec<_>>().concat(), bytes);
            let encoded = percent_encode(&bytes);
            let is_name = !bytes.contains(&b'/');
            assert_eq!(percent_decode(&encoded), is_name.then_some(bytes));
        }
    }
}
