//! What a staged file says of itself to whoever finds it after a crash: which object it was to
//! become, and what it replaced.
//!
//! ```text
//!   "quayfs-note-4" NUL volume NUL upload NUL condition NUL version NUL size NUL
//!   said NUL after NUL metadata NUL key
//! ```
//!
//! `upload` is the id that the upload carries, empty before there is one; `condition` is `absent`
//! or `is`; `version` is empty for `absent`; `size` is how many bytes that version of the object has,
//! if bytes that are not here are to be taken from it, else empty; `said` is what else is to be said of
//! the file, as the namespace words it, in hexadecimal digits; `after` has the ids of earlier uploads of
//! the file that may have arrived, with spaces between them: what one of them made is replaced, too;
//! `metadata` is a line `name=value` for each item. Only the key, which is last, may hold a NUL.
//!
//! Notes of versions 2 and 3 have a field behind `size` that means nothing any more, those of version 2 have
//! no `after`, and those of version 1 no `size` and no `said` either.

use remote::{Condition, Key, Metadata, Version};

const MAGIC: &[u8] = b"quayfs-note-4";
const MAGIC_3: &[u8] = b"quayfs-note-3";
const MAGIC_2: &[u8] = b"quayfs-note-2";
const MAGIC_1: &[u8] = b"quayfs-note-1";

/// Most notes are no longer, apart from what the namespace says.
const MOST_BYTES: usize = 512;

/// The origin and destination of staged bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// The endpoint and bucket it belongs to.
    pub(crate) volume: String,
    /// The id of its upload, by which a success is known whose answer was lost; empty before.
    pub(crate) upload: String,
    /// The object to write.
    pub(crate) key: Key,
    /// What it replaces: a replay never replaces anything newer.
    pub(crate) condition: Condition,
    /// The size of the version that it replaces, if it was made from that one.
    pub(crate) origin_bytes: Option<u64>,
    /// Earlier uploads of the file that may have arrived.
    pub(crate) after: Vec<String>,
    /// What goes with it.
    pub(crate) metadata: Metadata,
    /// What else is to be said of the file when it is there.
    pub(crate) said: Vec<u8>,
}

/// Where staged bytes were to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The endpoint and bucket.
    pub volume: String,
    /// The object.
    pub key: Key,
}

/// What the note of a staged file says of where its bytes were to go; `None` if it had no name any more,
/// or is of a newer program.
pub fn destination(note: &[u8]) -> Option<Destination> {
    let Note { volume, key, .. } = Note::from_bytes(note)?;
    Some(Destination { volume, key })
}

/// Whether there is nothing to be kept of a staged file of so many bytes with this note, which nobody sealed or closed.
pub fn leaves_nothing(note: &[u8], bytes: u64) -> bool {
    Note::from_bytes(note).is_some_and(|note| note.leaves_nothing(bytes))
}

impl Note {
    /// As [`leaves_nothing`]. What was sealed once and is empty now was damaged, of which people are to hear.
    pub(crate) fn leaves_nothing(&self, bytes: u64) -> bool {
        bytes == 0 && self.upload.is_empty()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (condition, version) = match &self.condition {
            // A live writer's whole overwrite wins whatever is there; its replay must not, and
            // what it knew to be there is unknown: only a free name is safe.
            Condition::Absent | Condition::Always => ("absent", ""),
            Condition::Is(version) => ("is", version.as_str()),
        };
        let size = self.origin_bytes.map(|size| size.to_string()).unwrap_or_default();
        let after = self.after.join(" ");
        let mut bytes = Vec::with_capacity(MOST_BYTES + 2 * self.said.len());
        let first = [&self.volume, &self.upload, condition, version, &size];
        for field in [MAGIC].into_iter().chain(first.map(str::as_bytes)) {
            bytes.extend_from_slice(field);
            bytes.push(0);
        }
        bytes.extend(self.said.iter().flat_map(|&byte| hex(byte)));
        bytes.push(0);
        bytes.extend_from_slice(after.as_bytes());
        bytes.push(0);
        for (name, value) in &self.metadata {
            for part in [name, "=", value, "\n"] {
                bytes.extend_from_slice(part.as_bytes());
            }
        }
        bytes.push(0);
        bytes.extend_from_slice(self.key.as_bytes());
        bytes
    }

    /// `None` if the bytes are no note that this version can read.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Note> {
        let magic = bytes.split(|&byte| byte == 0).next()?;
        let count = match magic {
            MAGIC_3 => 11,
            MAGIC | MAGIC_2 => 10,
            _ => 7,
        };
        let fields: Vec<&[u8]> = bytes.splitn(count, |&byte| byte == 0).collect();
        let (volume, upload, condition, version, newer, metadata, key) = match fields[..] {
            [MAGIC, volume, upload, condition, version, size, said, after, metadata, key] => {
                (volume, upload, condition, version, [size, said, after], metadata, key)
            }
            [MAGIC_3, volume, upload, condition, version, size, _, said, after, metadata, key] => {
                (volume, upload, condition, version, [size, said, after], metadata, key)
            }
            [MAGIC_2, volume, upload, condition, version, size, _, said, metadata, key] => {
                (volume, upload, condition, version, [size, said, b""], metadata, key)
            }
            [MAGIC_1, volume, upload, condition, version, metadata, key] => {
                (volume, upload, condition, version, [&b""[..]; 3], metadata, key)
            }
            _ => return None,
        };
        let [size, said, after] = newer;
        let after = str::from_utf8(after).ok()?.split_terminator(' ').map(str::to_owned).collect();
        let origin_bytes = match str::from_utf8(size).ok()? {
            "" => None,
            size => Some(size.parse().ok()?),
        };
        let version = str::from_utf8(version).ok()?;
        let condition = match condition {
            b"absent" => Condition::Absent,
            b"is" => Condition::Is(Version::new(version)),
            _ => return None,
        };
        let volume = str::from_utf8(volume).ok()?.to_owned();
        let upload = str::from_utf8(upload).ok()?.to_owned();
        let metadata = str::from_utf8(metadata)
            .ok()?
            .lines()
            .map(|line| line.split_once('='))
            .map(|item| item.map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect::<Option<Metadata>>()?;
        let (key, said) = (Key::from(key), unhex(said)?);
        Some(Note { volume, upload, key, condition, origin_bytes, after, metadata, said })
    }
}

fn hex(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 0xf].map(|half| b"0123456789abcdef"[usize::from(half)])
}

fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(byte).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use remote::{Condition, Key, Metadata, Version};

    use super::Note;
    fn note(condition: Condition) -> Note {
        let (volume, upload) = ("s3://b".to_owned(), "7f".to_owned());
        let metadata = [("mode", "33152"), ("uid", "7")];
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let metadata = Metadata::from(metadata);
        let key = Key::from(&b"a\0b"[..]);
        let said = b"+\0".to_vec();
        let (origin_bytes, after) = (Some(77), vec!["5a".to_owned(), "6b".to_owned()]);
        Note { volume, upload, key, condition, origin_bytes, after, metadata, said }
    }

    #[test]
    fn the_bytes_of_a_note_are_fixed() {
        let bytes = note(Condition::Is(Version::new("\"e\""))).to_bytes();
        let want =
            b"quayfs-note-4\0s3://b\x007f\0is\0\"e\"\x0077\x002b00\x005a 6b\0mode=33152\nuid=7\n\0a\0b";
        assert_eq!(bytes, want);
    }

    #[test]
    fn a_note_of_version_3_is_read() {
        let bytes = b"quayfs-note-3\0s3://b\x007f\0is\0\"e\"\x0077\08 9 u p\x002b00\x005a 6b\0mode=33152\nuid=7\n\0a\0b";
        let want = note(Condition::Is(Version::new("\"e\"")));
        assert_eq!(Note::from_bytes(bytes), Some(want));
    }

    #[test]
    fn a_note_of_version_2_is_read() {
        let bytes =
            b"quayfs-note-2\0s3://b\x007f\0is\0\"e\"\x0077\08 9 u p\x002b00\0mode=33152\nuid=7\n\0a\0b";
        let want = Note { after: Vec::new(), ..note(Condition::Is(Version::new("\"e\""))) };
        assert_eq!(Note::from_bytes(bytes), Some(want));
    }

    #[test]
    fn a_note_of_version_1_is_read() {
        let bytes = b"quayfs-note-1\0s3://b\x007f\0is\0\"e\"\0mode=33152\nuid=7\n\0a\0b";
        let want = Note {
            origin_bytes: None,
            after: Vec::new(),
            said: Vec::new(),
            ..note(Condition::Is(Version::new("\"e\"")))
        };
        assert_eq!(Note::from_bytes(bytes), Some(want));
    }

    #[test]
    fn a_note_survives_the_round_trip_and_garbage_is_none() {
        for condition in [Condition::Absent, Condition::Is(Version::new("7"))] {
            let note = note(condition);
            assert_eq!(Note::from_bytes(&note.to_bytes()), Some(note));
        }
        assert_eq!(Note::from_bytes(b""), None);
        assert_eq!(Note::from_bytes(b"quayfs-note-9\0v\0u\0is\0e\0\0k"), None);
    }
}
