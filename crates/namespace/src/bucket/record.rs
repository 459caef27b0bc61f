//! What a record of the ledger is about: one byte of version, one of subject, and its own words.

/// The version of this framing.
const VERSION: u8 = 1;

/// Who wrote a record, and is to replay it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Attributes that are to get into an attribute object.
    Attributes,
    /// Names that are being changed.
    Names,
}

impl Subject {
    fn code(self) -> u8 {
        match self {
            Subject::Attributes => b'a',
            Subject::Names => b'n',
        }
    }

    /// A record of `words`.
    pub(super) fn record(self, words: &[u8]) -> Vec<u8> {
        [&[VERSION, self.code()], words].concat()
    }
}

/// The subject and the words of a record; `None` if it is of a newer program.
pub(super) fn read(record: &[u8]) -> Option<(Subject, &[u8])> {
    let (&[version, code], words) = record.split_first_chunk()?;
    let subject =
        [Subject::Attributes, Subject::Names].into_iter().find(|subject| subject.code() == code)?;
    (version == VERSION).then_some((subject, words))
}

#[cfg(test)]
mod tests {
    use super::{Subject, read};

    #[test]
    fn a_record_says_whose_it_is_and_those_of_newer_programs_are_nobodys() {
        let record = Subject::Names.record(b"words");
        assert_eq!(record, b"\x01nwords");
        assert_eq!(read(&record), Some((Subject::Names, &b"words"[..])));
        assert_eq!(read(b"\x01a"), Some((Subject::Attributes, &b""[..])));
        for alien in [&b""[..], b"\x01", b"\x01x", b"\x02a"] {
            assert_eq!(read(alien), None);
        }
    }
}
