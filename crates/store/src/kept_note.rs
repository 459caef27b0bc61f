//! The text of a note in the recovery folder: written beside the bytes, and read again. Pure.
//!
//! ```text
//!   reason, one paragraph
//!
//!   kept at N (seconds since 1970)
//!   restore: NOTE               the note of the staged file; without it the bytes cannot be put back
//!   a sentence, and the runs of bytes that are missing, START..END, one a line
//!   and more from N on          if there are too many
//! ```

use std::fmt::Write as _;
use std::str;

use base::{ByteRange, printable};

/// How many missing runs of bytes a note tells one by one.
pub(crate) const RUNS_MAX: usize = 1000;

/// The start of the line with the note of the staged file.
const RESTORE: &str = "restore: ";

/// The start of the line before runs of which some may be zeros of the file itself.
pub(crate) const UNSURE: &str =
    "these bytes are not on this machine, and are zeros here; the bucket has them";

/// The start of the line that ends a list of runs that is not whole.
const AND_MORE: &str = "and more from ";

const KEPT_AT: &str = "kept at ";

/// The content of a note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptNote {
    /// The first paragraph.
    pub(crate) reason: String,
    /// When the bytes came here, in seconds since 1970.
    pub(crate) kept_secs: Option<i64>,
    /// The note of the staged file.
    pub(crate) origin: Option<Vec<u8>>,
    /// Runs of bytes that are missing, and are zeros here; `None` if the note does not list them all, or lists zeros of
    /// the file among them.
    pub(crate) missing: Option<Vec<ByteRange>>,
}

/// The beginning of a note, up to the runs that are missing.
pub(crate) fn head(reason: &str, kept_secs: i64, origin: &[u8]) -> String {
    // A name in it must not look like lines of the note.
    let reason = printable(reason);
    let mut note = format!("{reason}\n\n{KEPT_AT}{kept_secs} (seconds since 1970)\n");
    if !origin.is_empty() {
        note.push_str(RESTORE);
        note.push_str(&encode(origin));
        note.push('\n');
    }
    note
}

/// Adds a list of runs.
pub(crate) fn list(note: &mut String, runs: &[ByteRange]) {
    for run in runs.iter().take(RUNS_MAX) {
        note.extend([run.to_string(), "\n".to_owned()]);
    }
    if let Some(more) = runs.get(RUNS_MAX) {
        note.extend([format!("{AND_MORE}{} on\n", more.start())]);
    }
}

/// Reads a note. A line that ends with the text may have been cut, and counts for nothing.
pub(crate) fn parse(text: &str) -> KeptNote {
    let (reason, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut note = KeptNote {
        reason: reason.trim().to_owned(),
        missing: Some(Vec::new()),
        ..KeptNote::default()
    };
    let lines = rest.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    for line in lines {
        if let Some(rest) = line.strip_prefix(KEPT_AT) {
            note.kept_secs = rest.split(' ').next().and_then(|secs| secs.parse().ok());
        } else if let Some(rest) = line.strip_prefix(RESTORE) {
            note.origin = decode(rest);
        } else if line.starts_with(AND_MORE) || line.starts_with(UNSURE) {
            note.missing = None;
        } else if let (Some(run), Some(runs)) = (run(line), &mut note.missing) {
            runs.push(run);
        }
    }
    if !rest.is_empty() && !rest.ends_with('\n') {
        note.missing = None;
    }
    note
}

fn run(line: &str) -> Option<ByteRange> {
    let (start, end) = line.split_once("..")?;
    ByteRange::new(start.parse().ok()?, end.parse().ok()?)
}

/// `bytes` as one word of printable ASCII: all else, and `%`, are written `%XX`.
fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'!'..=b'~' if byte != b'%' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
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
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use base::ByteRange;
    use proptest::prelude::*;

    use super::{KeptNote, decode, encode, head, list, parse};

    fn run(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    #[test]
    fn text_of_a_note_is_fixed_and_read_again() {
        let mut text = head("it was lost", 7, b"quayfs-note-4\0v\0a b%");
        text.push_str("these bytes are missing:\n");
        list(&mut text, &[run(0, 5), run(9, 11)]);
        let want = "it was lost\n\nkept at 7 (seconds since 1970)\n\
                    restore: quayfs-note-4%00v%00a%20b%25\n\
                    these bytes are missing:\n0..5\n9..11\n";
        assert_eq!(text, want);
        let want = KeptNote {
            reason: "it was lost".to_owned(),
            kept_secs: Some(7),
            origin: Some(b"quayfs-note-4\0v\0a b%".to_vec()),
            missing: Some(vec![run(0, 5), run(9, 11)]),
        };
        assert_eq!(parse(&text), want);
    }

    #[test]
    fn old_note_has_no_origin() {
        let note = parse("why\n\nkept at 7 (seconds since 1970)\n");
        assert_eq!((note.origin, note.missing), (None, Some(Vec::new())));
        assert_eq!(parse("why").reason, "why");
    }

    #[test]
    fn note_that_is_cut_short_does_not_tell_what_is_missing() {
        let mut text = head("why", 7, b"note");
        let runs: Vec<_> = (0..1001).map(|at| run(2 * at, 2 * at + 1)).collect();
        list(&mut text, &runs);
        assert_eq!(parse(&text).missing, None);
        assert_eq!(parse("why\n\nkept at 7 (seconds since 1970)\nrestore: no").origin, None);
        assert_eq!(parse("why\n\nkept at 7 (seconds since 1970)\n0..1\n5..1").missing, None);
    }

    proptest! {
        #[test]
        fn all_bytes_survive_the_line(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let text = encode(&bytes);
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(decode(&text), Some(bytes));
        }
    }
}
