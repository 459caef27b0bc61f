//! Bytes as text: what is UTF-8 stays readable, the rest is percent-escaped; and base64.

use std::fmt::Write as _;

/// Bytes that are UTF-8 as they are, but for `%`; others as `%XX`.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '%' { text.push_str("%25") } else { text.push(character) }
        }
        for byte in chunk.invalid() {
            write!(text, "%{byte:02X}").expect("a string takes all text");
        }
    }
    text
}

/// The bytes of such a text; `None` if it is none.
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        if byte == b'%' {
            let digits = str::from_utf8(rest.get(..2)?).ok()?;
            // `from_str_radix` takes a sign.
            bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding (RFC 4648, section 4).
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut bits = 0_u32;
        for at in 0..3 {
            bits = bits << 8 | u32::from(three.get(at).copied().unwrap_or(0));
        }
        for digit in 0..4 {
            if digit <= three.len() {
                let at = (bits >> (18 - 6 * digit)) & 63;
                text.push(char::from(DIGITS[at as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The bytes of a base64 text; `None` if it is none.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (fours, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    for (number, four) in fours.iter().enumerate() {
        let padding = four.iter().rev().take_while(|&&digit| digit == b'=').count();
        if 2 < padding || (0 < padding && number + 1 < fours.len()) {
            return None;
        }
        let mut bits = 0_u32;
        for digit in &four[..4 - padding] {
            let value = DIGITS.iter().position(|known| known == digit)?;
            bits = bits << 6 | u32::try_from(value).expect("six bits");
        }
        bits <<= 6 * padding;
        bytes.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::proptest;

    use super::{base64, bytes, from_base64, text};

    #[test]
    fn what_people_can_read_stays_readable() {
        assert_eq!(text("größe 100%".as_bytes()), "größe 100%25");
        assert_eq!(text(b"a\xff\n"), "a%FF\n");
        for wrong in ["%", "%4", "%+1", "%zz"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn base64_is_that_of_everybody_else() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(base64(plain.as_bytes()), coded);
            assert_eq!(from_base64(coded).as_deref(), Some(plain.as_bytes()));
        }
        for wrong in ["Z", "Zg=", "Zg==Zg==", "Z===", "Zm!v"] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn all_bytes_survive(raw: Vec<u8>) {
            assert_eq!(bytes(&text(&raw)), Some(raw.clone()));
            assert_eq!(from_base64(&base64(&raw)), Some(raw));
        }
    }
}
