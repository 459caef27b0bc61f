//! What the journal says of changes of names that take more than one request.
//!
//! ```text
//!   kind  fields
//! ```
//!
//! The first byte of the words of such a record is its kind. A field is its length in four bytes
//! and then its bytes; numbers are eight bytes. All numbers are big-endian. A kind that is not known
//! is left for who knows it.

use remote::{Key, Metadata, Version};

use super::record::{Subject, read};
use crate::RecordId;

/// A change under way, or how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// A file is to move: it is copied, then removed under its old name.
    MoveFile(FileMove),
    /// Everything that begins with a prefix is to move.
    MoveFolder {
        /// The old prefix.
        from: Key,
        /// The new one.
        to: Key,
    },
    /// These objects of the move were copied.
    Copied {
        /// The move.
        of: RecordId,
        /// See `Marks`.
        marks: Vec<u64>,
    },
    /// All is copied, and the new names count: what was copied is to be removed under its old name.
    Landed {
        /// The move.
        of: RecordId,
    },
    /// The move failed and whoever asked for it knows: what was copied is to be removed again.
    Undone {
        /// The move.
        of: RecordId,
    },
    /// An object that only open handles of a removed file need.
    Unlinked {
        /// The object.
        kept: Key,
    },
    /// Two names are to change places, by three moves.
    Exchange(Exchange),
    /// That many moves of the exchange are done.
    Stage {
        /// The exchange.
        of: RecordId,
        /// How many.
        done: u64,
    },
    /// A file was removed: its object is to go, if it is still that one.
    Remove(Object),
    /// A folder was made: its marker is to be there.
    MakeFolder {
        /// The marker.
        marker: Key,
        /// What goes with it.
        metadata: Metadata,
    },
    /// An empty folder was removed: its marker is to go.
    RemoveFolder {
        /// What its keys begin with.
        prefix: Key,
    },
    /// A link, a pipe, a socket or a device was made: its object is to be there.
    MakeObject {
        /// The object.
        object: NewObject,
        /// An earlier record of it, which this one stands for.
        instead: Option<RecordId>,
    },
    /// A folder was given another name: everything that begins with its prefix is to move.
    RenamedFolder {
        /// The old prefix.
        from: Key,
        /// The new one.
        to: Key,
        /// What the keys of the folder begin with that is to outlive it; empty if that need not be
        /// looked after.
        folder: Key,
    },
    /// Bytes that were promised to be uploaded below the old name of a move belong below the new one.
    Carries {
        /// The move.
        of: RecordId,
        /// The ids of their uploads.
        uploads: Vec<String>,
    },
    /// The object that a move of a file takes along was made by this upload: that tells it from any other
    /// under its new name.
    Maker {
        /// The move.
        of: RecordId,
        /// The upload's id.
        upload: String,
    },
    /// A file was given another name: its object is to move there.
    Renamed {
        /// What moves.
        planned: FileMove,
        /// What the keys of the folder begin with that is to outlive it; empty if that need not be
        /// looked after.
        folder: Key,
    },
}

/// An object that stands for something besides bytes, and that is yet to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewObject {
    pub(super) key: Key,
    /// What has the key until then.
    pub(super) over: Option<Version>,
    pub(super) body: Vec<u8>,
    /// What is to be said of it in the words of the attributes; empty if nothing is.
    pub(super) said: Vec<u8>,
    /// What goes with it; the id of the upload is in it.
    pub(super) metadata: Metadata,
}

/// An object as far as it is known, and the folder that is to outlive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) key: Key,
    /// The version that is there, or was before one of `uploads` arrived; `None` if there was none.
    pub(super) version: Option<Version>,
    /// The ids of uploads that may have made it since, or may yet.
    pub(super) uploads: Vec<String>,
    /// What the keys of the folder begin with.
    pub(super) folder: Key,
}

/// The move of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileMove {
    pub(super) from: Key,
    pub(super) to: Key,
    /// What is copied.
    pub(super) version: Version,
    /// What has the new name until then.
    pub(super) over: Option<Version>,
}

/// Two files or folders that change places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// The key of one, a prefix if it is a folder.
    pub(super) one: Key,
    /// The key of the other.
    pub(super) other: Key,
    /// Where the one waits until its place is free.
    pub(super) between: Key,
}

impl Record {
    /// As the journal keeps it.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let words = match self {
            Record::MoveFile(FileMove { from, to, version, over }) => {
                let words = Words::of(1).key(from).key(to).version(version);
                over.iter().fold(words, Words::version)
            }
            Record::MoveFolder { from, to } => Words::of(2).key(from).key(to),
            Record::Copied { of, marks } => {
                let words = Words::of(3).number(of.0);
                marks.iter().fold(words, |words, &mark| words.number(mark))
            }
            Record::Landed { of } => Words::of(4).number(of.0),
            Record::Undone { of } => Words::of(5).number(of.0),
            Record::Unlinked { kept } => Words::of(6).key(kept),
            Record::Exchange(Exchange { one, other, between }) => {
                Words::of(7).key(one).key(other).key(between)
            }
            Record::Stage { of, done } => Words::of(8).number(of.0).number(*done),
            Record::Remove(Object { key, version: Some(version), uploads, folder })
                if uploads.is_empty() =>
            {
                Words::of(9).key(key).version(version).key(folder)
            }
            Record::Remove(Object { key, version, uploads, folder }) => {
                let words = Words::of(14).key(key).some_version(version.as_ref()).key(folder);
                uploads.iter().fold(words, |words, upload| words.field(upload.as_bytes()))
            }
            Record::MakeFolder { marker, metadata } => Words::of(10).key(marker).metadata(metadata),
            Record::RemoveFolder { prefix } => Words::of(11).key(prefix),
            Record::MakeObject { object, instead } => {
                let NewObject { key, over, body, said, metadata } = object;
                let instead = instead.map_or(0, |instead| instead.0);
                let words = Words::of(12).number(instead).key(key).some_version(over.as_ref());
                words.field(body).field(said).metadata(metadata)
            }
            Record::Renamed { planned: FileMove { from, to, version, over }, folder } => {
                let words = Words::of(13).key(from).key(to).key(folder);
                words.version(version).some_version(over.as_ref())
            }
            Record::RenamedFolder { from, to, folder } => {
                Words::of(15).key(from).key(to).key(folder)
            }
            Record::Carries { of, uploads } => {
                let words = Words::of(16).number(of.0);
                uploads.iter().fold(words, |words, upload| words.field(upload.as_bytes()))
            }
            Record::Maker { of, upload } => Words::of(17).number(of.0).field(upload.as_bytes()),
        };
        Subject::Names.record(&words.0)
    }

    /// `None` if it is of another subject, or of a kind that only a newer program knows.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Record> {
        let (Subject::Names, words) = read(bytes)? else { return None };
        let (&kind, mut rest) = words.split_first()?;
        let rest = &mut rest;
        let record = match kind {
            1 => Record::MoveFile(FileMove {
                from: key(rest)?,
                to: key(rest)?,
                version: version(rest)?,
                over: if rest.is_empty() { None } else { Some(version(rest)?) },
            }),
            2 => Record::MoveFolder { from: key(rest)?, to: key(rest)? },
            3 => {
                let of = RecordId(number(rest)?);
                let mut marks = Vec::with_capacity(rest.len() / 8);
                while !rest.is_empty() {
                    marks.push(number(rest)?);
                }
                Record::Copied { of, marks }
            }
            4 => Record::Landed { of: RecordId(number(rest)?) },
            5 => Record::Undone { of: RecordId(number(rest)?) },
            6 => Record::Unlinked { kept: key(rest)? },
            7 => Record::Exchange(Exchange {
                one: key(rest)?,
                other: key(rest)?,
                between: key(rest)?,
            }),
            8 => Record::Stage { of: RecordId(number(rest)?), done: number(rest)? },
            9 => Record::Remove(Object {
                key: key(rest)?,
                version: Some(version(rest)?),
                folder: key(rest)?,
                uploads: Vec::new(),
            }),
            10 => Record::MakeFolder { marker: key(rest)?, metadata: metadata(rest)? },
            11 => Record::RemoveFolder { prefix: key(rest)? },
            12 => {
                let instead = Some(number(rest)?).filter(|&number| number != 0).map(RecordId);
                let object = NewObject {
                    key: key(rest)?,
                    over: some(version(rest)?),
                    body: field(rest)?.to_vec(),
                    said: field(rest)?.to_vec(),
                    metadata: metadata(rest)?,
                };
                Record::MakeObject { object, instead }
            }
            13 => {
                let (from, to, folder) = (key(rest)?, key(rest)?, key(rest)?);
                let (version, over) = (version(rest)?, some(version(rest)?));
                Record::Renamed { planned: FileMove { from, to, version, over }, folder }
            }
            14 => {
                let (key, version, folder) = (key(rest)?, some(version(rest)?), key(rest)?);
                let uploads = texts(rest)?;
                if uploads.is_empty() {
                    return None;
                }
                Record::Remove(Object { key, version, uploads, folder })
            }
            15 => Record::RenamedFolder { from: key(rest)?, to: key(rest)?, folder: key(rest)? },
            16 => Record::Carries { of: RecordId(number(rest)?), uploads: texts(rest)? },
            17 => Record::Maker { of: RecordId(number(rest)?), upload: text(rest)? },
            _ => return None,
        };
        rest.is_empty().then_some(record)
    }
}

/// The words of a record, as they are put together.
struct Words(Vec<u8>);

impl Words {
    fn of(kind: u8) -> Words {
        Words(vec![kind])
    }

    fn number(mut self, number: u64) -> Words {
        self.0.extend(number.to_be_bytes());
        self
    }

    fn field(mut self, field: &[u8]) -> Words {
        let bytes = u32::try_from(field.len()).expect("keys and versions are short");
        self.0.extend(bytes.to_be_bytes());
        self.0.extend(field);
        self
    }

    fn key(self, key: &Key) -> Words {
        self.field(key.as_bytes())
    }

    fn version(self, version: &Version) -> Words {
        self.field(version.as_str().as_bytes())
    }

    fn some_version(self, version: Option<&Version>) -> Words {
        self.field(version.map_or(&[], |version| version.as_str().as_bytes()))
    }

    fn metadata(self, metadata: &Metadata) -> Words {
        metadata
            .iter()
            .fold(self, |words, (name, value)| words.field(name.as_bytes()).field(value.as_bytes()))
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_first_chunk::<4>()?;
    let bytes = usize::try_from(u32::from_be_bytes(*bytes)).ok()?;
    let (field, after) = after.split_at_checked(bytes)?;
    *rest = after;
    Some(field)
}

fn key(rest: &mut &[u8]) -> Option<Key> {
    field(rest).map(Key::from)
}

fn version(rest: &mut &[u8]) -> Option<Version> {
    Some(Version::new(str::from_utf8(field(rest)?).ok()?))
}

/// What an empty field says is none.
fn some(version: Version) -> Option<Version> {
    Some(version).filter(|version| !version.as_str().is_empty())
}

/// All that is left: names and values.
fn metadata(rest: &mut &[u8]) -> Option<Metadata> {
    let mut metadata = Metadata::new();
    while !rest.is_empty() {
        let (name, value) = (text(rest)?, text(rest)?);
        // They are written in their order, each once.
        if metadata.last_key_value().is_some_and(|(last, _)| name <= *last) {
            return None;
        }
        metadata.insert(name, value);
    }
    Some(metadata)
}

/// All that is left.
fn texts(rest: &mut &[u8]) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    while !rest.is_empty() {
        texts.push(text(rest)?);
    }
    Some(texts)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(field(rest)?.to_vec()).ok()
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use remote::{Key, Version};

    use super::{Exchange, FileMove, NewObject, Object, Record};
    use crate::RecordId;

    fn all() -> Vec<Record> {
        let (a, b) = (Key::from("a"), Key::from(&b"b\0\xff"[..]));
        let version = Version::new("\"e\"");
        let moved = |over| {
            let (from, to, version) = (a.clone(), b.clone(), version.clone());
            Record::MoveFile(FileMove { from, to, version, over })
        };
        let object = |over| NewObject {
            key: Key::from("l"),
            over,
            body: b"../x".to_vec(),
            said: b"+".to_vec(),
            metadata: [("mode".to_owned(), "41471".to_owned())].into(),
        };
        let renamed = |over| {
            let (from, to, version) = (Key::from("d/a"), Key::from("b"), Version::new("v"));
            let folder = Key::from("d/");
            Record::Renamed { planned: FileMove { from, to, version, over }, folder }
        };
        vec![
            moved(None),
            moved(Some(Version::new("v"))),
            Record::MoveFolder { from: Key::from("d/"), to: Key::from("e/") },
            Record::Copied { of: RecordId(7), marks: vec![1, u64::MAX] },
            Record::Landed { of: RecordId(7) },
            Record::Undone { of: RecordId(7) },
            Record::Unlinked { kept: Key::from(".quayfs-unlinked/x") },
            Record::Exchange(Exchange { one: a, other: b, between: Key::from("c") }),
            Record::Stage { of: RecordId(9), done: 2 },
            Record::Remove(Object {
                key: Key::from("d/f"),
                version: Some(Version::new("v")),
                uploads: Vec::new(),
                folder: Key::from("d/"),
            }),
            Record::MakeFolder {
                marker: Key::from("d/"),
                metadata: [("mode", "16877"), ("uid", "7")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            },
            Record::RemoveFolder { prefix: Key::from("d/") },
            Record::MakeObject { object: object(None), instead: None },
            Record::MakeObject {
                object: object(Some(Version::new("o"))),
                instead: Some(RecordId(6)),
            },
            renamed(None),
            renamed(Some(Version::new("o"))),
            Record::Remove(Object {
                key: Key::from("f"),
                version: None,
                uploads: vec!["7f".to_owned(), "80".to_owned()],
                folder: Key::from(""),
            }),
            Record::RenamedFolder {
                from: Key::from("a/d/"),
                to: Key::from("e/"),
                folder: Key::from("a/"),
            },
            Record::Carries { of: RecordId(7), uploads: vec!["7f".to_owned()] },
        ]
    }

    #[test]
    fn the_bytes_of_records_are_fixed() {
        let bytes: Vec<Vec<u8>> = all().iter().map(Record::to_bytes).collect();
        assert_eq!(bytes[1], b"\x01n\x01\0\0\0\x01a\0\0\0\x03b\0\xff\0\0\0\x03\"e\"\0\0\0\x01v");
        assert_eq!(bytes[2], b"\x01n\x02\0\0\0\x02d/\0\0\0\x02e/");
        assert_eq!(bytes[4], b"\x01n\x04\0\0\0\0\0\0\0\x07");
        assert_eq!(bytes[8], b"\x01n\x08\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x02");
        let made: &[u8] = b"\x01n\x0c\0\0\0\0\0\0\0\x06\0\0\0\x01l\0\0\0\x01o\0\0\0\x04../x\
            \0\0\0\x01+\0\0\0\x04mode\0\0\0\x0541471";
        assert_eq!(bytes[13], made);
        let renamed = b"\x01n\x0d\0\0\0\x03d/a\0\0\0\x01b\0\0\0\x02d/\0\0\0\x01v\0\0\0\0";
        assert_eq!(bytes[14], renamed);
        let removed = b"\x01n\x0e\0\0\0\x01f\0\0\0\0\0\0\0\0\0\0\0\x027f\0\0\0\x0280";
        assert_eq!(bytes[16], removed);
        assert_eq!(bytes[17], b"\x01n\x0f\0\0\0\x04a/d/\0\0\0\x02e/\0\0\0\x02a/");
        assert_eq!(bytes[18], b"\x01n\x10\0\0\0\0\0\0\0\x07\0\0\0\x027f");
    }

    #[test]
    fn records_survive_the_round_trip_and_what_is_cut_short_is_none() {
        for record in all() {
            let bytes = record.to_bytes();
            assert_eq!(Record::from_bytes(&bytes), Some(record.clone()));
            assert_eq!(Record::from_bytes(&bytes[..bytes.len() - 1]), None, "{record:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_that_is_written_so_or_none(bytes: Vec<u8>) {
            if let Some(record) = Record::from_bytes(&bytes) {
                prop_assert_eq!(record.to_bytes(), bytes);
            }
        }
    }
}
