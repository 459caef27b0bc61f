//! How many columns of a terminal a text takes: a wide character, as of Chinese or an emoji, takes two, a combining mark none.
//! Pure.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns of a text without control characters.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The columns of a character; a control character takes one, since another is shown for it.
pub(crate) fn columns_of(character: char) -> usize {
    character.width().unwrap_or(1)
}

/// `text` with spaces behind it up to so many columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// The beginning of `text` that takes at most so many columns.
pub(crate) fn beginning(text: &str, columns_max: usize) -> &str {
    let mut taken = 0;
    for (at, character) in text.char_indices() {
        taken += columns_of(character);
        if columns_max < taken {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{beginning, columns, padded};

    #[test]
    fn wide_character_takes_two_columns_and_a_mark_none() {
        for (text, want) in [("abc", 3), ("数据", 4), ("e\u{301}", 1), ("né", 2), ("📁x", 3)] {
            assert_eq!(columns(text), want, "{text}");
        }
        assert_eq!(padded("数", 4), "数  ");
        assert_eq!(padded("long", 2), "long");
        assert_eq!(beginning("a数据", 4), "a数", "half a character is none");
        assert_eq!(beginning("a数据", 5), "a数据");
    }
}
