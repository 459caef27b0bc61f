//! Text of others on a terminal: a name may hold what a terminal takes for a command.

use std::borrow::Cow;
use std::io::IsTerminal;

/// `text` as it may be written to `output`: as it is to files and programs, and without control characters
/// but for ends of lines and tabs to a terminal.
pub(crate) fn plain<'a>(text: &'a str, output: &impl IsTerminal) -> Cow<'a, str> {
    if output.is_terminal() { harmless(text) } else { Cow::Borrowed(text) }
}

fn harmless(text: &str) -> Cow<'_, str> {
    let is_command = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(is_command) {
        text.replace(is_command, "?").into()
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn a_name_cannot_command_a_terminal() {
        for (text, want) in [
            ("two\nlines\twith tabs", "two\nlines\twith tabs"),
            ("a\x1b]0;title\x07b\r\u{7f}\u{9b}2J", "a?]0;title?b???2J"),
            ("naïve 名", "naïve 名"),
        ] {
            assert_eq!(harmless(text), want);
        }
    }
}
