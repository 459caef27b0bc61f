//! Lines of a shell script as words; pure. Only what scripts that a program writes have: quotes, backslashes, and
//! commands one after the other.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The commands of `line`, each as its words. What expands is taken as it stands.
pub(super) fn commands(line: &[u8]) -> Vec<Vec<OsString>> {
    let mut reader = Reader { commands: vec![Vec::new()], word: None };
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => reader.push(bytes.next()),
            b'\'' => reader.quoted(&mut bytes, b'\''),
            b'"' => reader.quoted(&mut bytes, b'"'),
            b'#' if reader.word.is_none() => break,
            b' ' | b'\t' => reader.end_word(),
            b'&' | b';' | b'|' => reader.end_command(),
            byte => reader.push(Some(byte)),
        }
    }
    reader.end_command();
    reader.commands.retain(|words| !words.is_empty());
    reader.commands
}

struct Reader {
    commands: Vec<Vec<OsString>>,
    word: Option<Vec<u8>>,
}

impl Reader {
    fn push(&mut self, byte: Option<u8>) {
        self.word.get_or_insert_default().extend(byte);
    }

    fn quoted(&mut self, bytes: &mut impl Iterator<Item = u8>, end: u8) {
        // Also if nothing is between the quotes.
        self.push(None);
        while let Some(byte) = bytes.next() {
            match byte {
                byte if byte == end => return,
                b'\\' if end == b'"' => match bytes.next() {
                    Some(byte @ (b'"' | b'\\' | b'$' | b'`')) => self.push(Some(byte)),
                    other => {
                        self.push(Some(b'\\'));
                        self.push(other);
                    }
                },
                byte => self.push(Some(byte)),
            }
        }
    }

    fn end_word(&mut self) {
        if let (Some(word), Some(words)) = (self.word.take(), self.commands.last_mut()) {
            words.push(OsString::from_vec(word));
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.commands.push(Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::commands;

    fn check(line: &str, want: &[&[&str]]) {
        assert_eq!(commands(line.as_bytes()), want, "{line}");
    }

    #[test]
    fn words_are_what_a_shell_makes_of_them() {
        check("ln -s /a/b c", &[&["ln", "-s", "/a/b", "c"]]);
        check("mkdir -p d && ln -s a d/b", &[&["mkdir", "-p", "d"], &["ln", "-s", "a", "d/b"]]);
        check(r"ln -s odd\ name\'s\ \(a\).fq x", &[&["ln", "-s", "odd name's (a).fq", "x"]]);
        check(r#"a 'b c'"d \"e\" \n" ''"#, &[&["a", r#"b cd "e" \n"#, ""]]);
        check("  # a comment", &[]);
        check("a#b ; ; c", &[&["a#b"], &["c"]]);
        check(r"a\", &[&["a"]]);
        check("a 'b", &[&["a", "b"]]);
        check("", &[]);
    }
}
