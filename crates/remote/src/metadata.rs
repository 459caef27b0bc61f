//! What user metadata may look like, so that every store can keep it.

use crate::Metadata;

/// Why no store of ours takes this metadata; `Ok` if all do, as far as names go.
///
/// Names travel as HTTP headers, which lose their case on the way: only lower case comes back.
pub(crate) fn check_names(metadata: &Metadata) -> Result<(), String> {
    let wrong = metadata.keys().find(|name| !is_name(name));
    wrong.map_or(Ok(()), |name| Err(format!("metadata name {name:?} is not in a-z, 0-9, - _ .")))
}

/// As [`check_names`], and values that survive as an HTTP header.
pub(crate) fn check_header_values(metadata: &Metadata) -> Result<(), String> {
    check_names(metadata)?;
    let wrong = metadata.iter().find(|(_, value)| !is_header_value(value));
    wrong.map_or(Ok(()), |(name, value)| {
        Err(format!("metadata {name}: {value:?} is not plain ASCII text"))
    })
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.')
    };
    !name.is_empty() && name.bytes().all(allowed)
}

/// Servers trim spaces at the ends and disagree on how to spell what is not ASCII.
fn is_header_value(value: &str) -> bool {
    value.trim() == value && value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::{check_header_values, check_names};
    use crate::Metadata;

    #[test]
    fn only_what_comes_back_as_it_was_sent_is_taken() {
        for (name, value, as_name, as_header) in [
            ("mode", "33188", true, true),
            ("x-y_z.1", "", true, true),
            ("a", "two words", true, true),
            ("a", " edge", true, false),
            ("a", "grün", true, false),
            ("a", "a\nb", true, false),
            ("Mode", "1", false, false),
            ("", "1", false, false),
            ("a b", "1", false, false),
        ] {
            let metadata = Metadata::from([(name.to_owned(), value.to_owned())]);
            assert_eq!(check_names(&metadata).is_ok(), as_name, "{name}");
            assert_eq!(check_header_values(&metadata).is_ok(), as_header, "{name}={value}");
        }
    }
}
