//! Text of others within a line of ours: a name may hold what ends the line, or what a terminal takes for a
//! command. Pure.

use std::borrow::Cow;

/// `text` with its control characters written out: an end of line is `\n`, an escape `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            written.extend(character.escape_default());
        } else {
            written.push(character);
        }
    }
    written.into()
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_name_cannot_command_a_terminal_nor_begin_a_line() {
        for (text, want) in [
            ("naïve 名 \\n", "naïve 名 \\n"),
            ("a\x1b]0;title\x07b", "a\\u{1b}]0;title\\u{7}b"),
            ("two\nlines\r\t\u{7f}\u{9b}2J", "two\\nlines\\r\\t\\u{7f}\\u{9b}2J"),
            ("", ""),
        ] {
            assert_eq!(printable(text), want);
        }
    }
}
