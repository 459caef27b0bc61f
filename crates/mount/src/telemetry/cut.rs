//! Bounds on the text of a log line. Libraries log whole answers of servers; a name in a line of ours has a bound anyway.

use std::borrow::Cow;

/// Beginning of the targets of quayfs.
pub(super) const OURS: &str = "quayfs";

/// The target of slow calls.
pub(super) const SLOW: &str = "slow";

/// Characters of a line of ours.
const OURS_CHARS_MAX: usize = 16 << 10;

/// Characters of a line of a library, which tell the reason but not a whole answer.
const LIBRARY_CHARS_MAX: usize = 400;

/// Characters that a line of `target` may have.
pub(super) fn chars_max(target: &str) -> usize {
    if target.starts_with(OURS) || target == SLOW { OURS_CHARS_MAX } else { LIBRARY_CHARS_MAX }
}

/// The beginning of `text`, with a note of how much is missing.
pub(super) fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}… ({} more bytes)", &text[..end], text.len() - end).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{chars_max, cut};

    #[test]
    fn long_text_is_cut_at_a_character_and_says_so() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("äöü", 2), "äö… (2 more bytes)");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn library_has_less_room_than_quayfs() {
        assert_eq!(chars_max("quayfs_vfs::commit"), chars_max("slow"));
        assert!(chars_max("aws_config::imds") < chars_max("quayfs_vfs"));
    }
}
