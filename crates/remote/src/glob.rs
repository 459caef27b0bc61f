//! Patterns of names with `*` and `?`; pure.

/// Whether `text` is as `pattern` says: `*` is any bytes, also none, and `?` any one byte.
///
/// In time of the product of their lengths at most, whatever they are.
pub(crate) fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Where the last star is, and up to where of the text it reaches so far.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                star = Some((at, read));
                at += 1;
            }
            (Some(&byte), _) if byte == b'?' || byte == text[read] => {
                at += 1;
                read += 1;
            }
            (Some(_) | None, Some((place, reached))) => {
                star = Some((place, reached + 1));
                at = place + 1;
                read = reached + 1;
            }
            (Some(_) | None, None) => return false,
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fits;

    #[test]
    fn stars_and_question_marks_stand_for_others() {
        for (pattern, text, want) in [
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("*.bam", "a.bam", true),
            ("*.bam", "a.bam.bai", false),
            ("*.bam*", "a.bam.bai", true),
            ("a*b*c", "abbbc", true),
            ("a*b*c", "abbb", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("raw/*", "raw/a/b", true),
            ("[ab]", "a", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), want, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn a_text_with_parts_replaced_by_stars_fits(
            parts in prop::collection::vec(("[ab]{0,4}", "[ab*?]{0,3}"), 0..6),
        ) {
            let of_pattern = parts.iter().flat_map(|(plain, _)| [&plain[..], "*"]);
            let of_text = parts.iter().flat_map(|(plain, any)| [&plain[..], &any[..]]);
            let (pattern, text): (String, String) = (of_pattern.collect(), of_text.collect());
            prop_assert!(fits(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
