//! What a staged file says of itself to whoever finds it after a crash: which object it was to
//! become, and what it replaced.
//!
//! ```text
//!   "quayfs-note-1" NUL volume NUL upload NUL condition NUL version NUL metadata NUL key
//! ```
//!
//! `upload` is the id that the upload carries, empty before there is one; `condition` is `absent`
//! or `is`; `version` is empty for `absent`; `metadata` is a line
//! `name=value` for each item. Only the key, which is last, may hold a NUL.

use remote::{Condition, Key, Metadata, Version};

const MAGIC: &[u8] = b"quayfs-note-1";

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
    /// What goes with it.
    pub(crate) metadata: Metadata,
}

impl Note {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (condition, version) = match &self.condition {
            // A live writer's whole overwrite wins whatever is there; its replay must not, and
            // what it knew to be there is unknown: only a free name is safe.
            Condition::Absent | Condition::Always => ("absent", ""),
            Condition::Is(version) => ("is", version.as_str()),
        };
        let mut metadata = String::new();
        for (name, value) in &self.metadata {
            metadata.extend([name, "=", value, "\n"]);
        }
        let fields = [&self.volume, &self.upload, condition, version, &metadata];
        let fields = [&[MAGIC][..], &fields.map(str::as_bytes)].concat();
        let mut bytes = fields.join(&0);
        bytes.push(0);
        bytes.extend_from_slice(self.key.as_bytes());
        bytes
    }

    /// `None` if the bytes are no note that this version can read.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Note> {
        let fields: Vec<&[u8]> = bytes.splitn(7, |&byte| byte == 0).collect();
        let [MAGIC, volume, upload, condition, version, metadata, key] = fields[..] else {
            return None;
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
        Some(Note { volume, upload, key: Key::from(key), condition, metadata })
    }
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
        Note { volume, upload, key: Key::from(&b"a\0b"[..]), condition, metadata }
    }

    #[test]
    fn the_bytes_of_a_note_are_fixed() {
        let bytes = note(Condition::Is(Version::new("\"e\""))).to_bytes();
        assert_eq!(bytes, b"quayfs-note-1\0s3://b\x007f\0is\0\"e\"\0mode=33152\nuid=7\n\0a\0b");
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
