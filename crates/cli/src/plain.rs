//! Text of others on a terminal: a name may hold what a terminal takes for a command.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::path::Path;

use base::printable;

/// `text` as it may be written to `output`: as it is to files and programs, and with control characters
/// written out, but for ends of lines and tabs, to a terminal. What of it is one name or reason within a line is
/// [`printable`] already, wherever it goes.
pub(crate) fn plain<'a>(text: &'a str, output: &impl IsTerminal) -> Cow<'a, str> {
    if output.is_terminal() { harmless(text) } else { Cow::Borrowed(text) }
}

/// `path` within a line.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

fn harmless(text: &str) -> Cow<'_, str> {
    let is_ours = |c: char| c == '\n' || c == '\t';
    if !text.contains(|c: char| c.is_control() && !is_ours(c)) {
        return Cow::Borrowed(text);
    }
    let parts = text.split_inclusive(is_ours).map(|part| {
        let inner = part.trim_end_matches(is_ours);
        format!("{}{}", printable(inner), &part[inner.len()..])
    });
    parts.collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{harmless, shown};

    #[test]
    fn a_name_cannot_command_a_terminal() {
        for (text, want) in [
            ("two\nlines\twith tabs\n", "two\nlines\twith tabs\n"),
            ("a\x1b]0;title\x07b\r\u{7f}\u{9b}2J", "a\\u{1b}]0;title\\u{7}b\\r\\u{7f}\\u{9b}2J"),
            ("a\x1b\n\n\tb\r", "a\\u{1b}\n\n\tb\\r"),
            ("naïve 名", "naïve 名"),
        ] {
            assert_eq!(harmless(text), want);
        }
        assert_eq!(shown(Path::new("/mnt/a\nb")), "/mnt/a\\nb");
    }
}
