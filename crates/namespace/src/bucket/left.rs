//! What the journal says is yet to be done, in words for people who ask. Pure.

use std::collections::{BTreeMap, BTreeSet};

use base::FileKind;
use remote::Key;

use super::attributes::record as attributes;
use super::carry::Route;
use super::foreign;
use super::journal::{Exchange, FileMove, NewObject, Object, Record};
use super::record::{Subject, read};
use super::replay::{What, gather};
use crate::RecordId;

/// A change that was made on a mount and that the bucket may not have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftChange {
    /// A file, or an empty folder, was removed.
    Removal {
        /// Its key; that of a folder ends with a slash.
        key: Key,
    },
    /// A file or a folder was given another name.
    Rename {
        /// Its old key.
        from: Key,
        /// Its new one.
        to: Key,
    },
    /// A rename failed, and what was copied for it is to go again.
    FailedRename {
        /// The key that stays.
        from: Key,
        /// The one that does not.
        to: Key,
    },
    /// Two names changed places.
    Exchange {
        /// One key.
        one: Key,
        /// The other.
        other: Key,
    },
    /// A folder, a link, a pipe, a socket or a device was made.
    Making {
        /// Its key.
        key: Key,
        /// Which of them it is.
        kind: FileKind,
    },
    /// Attributes were changed of names in a folder.
    Attributes {
        /// What the keys in the folder begin with.
        folder: Key,
        /// Of how many.
        names: u64,
    },
    /// Something that only a newer program knows.
    Unknown,
}

/// What `records` say is to be done, in the order in which it was begun, attributes last.
pub(super) fn changes(records: Vec<(RecordId, Vec<u8>)>) -> Vec<LeftChange> {
    let mut folders: BTreeMap<Key, BTreeSet<Vec<u8>>> = BTreeMap::new();
    let mut unknown = 0;
    for (_, record) in &records {
        match read(record) {
            Some((Subject::Attributes, words)) => match attributes::read(words) {
                Some((folder, label, _)) => {
                    folders.entry(folder).or_default().insert(label);
                }
                None => unknown += 1,
            },
            Some((Subject::Names, _)) if Record::from_bytes(record).is_some() => {}
            Some((Subject::Names, _)) | None => unknown += 1,
        }
    }
    let (begun, _) = gather(records);
    let changes = begun.into_values().filter_map(|begun| change(begun.what));
    let attributes = folders
        .into_iter()
        .map(|(folder, names)| LeftChange::Attributes { folder, names: names.len() as u64 });
    let unknown = std::iter::repeat_n(LeftChange::Unknown, unknown);
    changes.chain(attributes).chain(unknown).collect()
}

/// `None` if nobody but us knows of it.
fn change(what: What) -> Option<LeftChange> {
    Some(match what {
        What::File(FileMove { from, to, .. })
        | What::Renamed { planned: FileMove { from, to, .. }, .. }
        | What::Folder { route: Route { from, to }, .. } => LeftChange::Rename { from, to },
        What::Failed(Route { from, to }) => LeftChange::FailedRename { from, to },
        What::Exchange { exchange: Exchange { one, other, .. }, .. } => {
            LeftChange::Exchange { one, other }
        }
        What::Remove(Object { key, .. }) | What::RemoveFolder { prefix: key } => {
            LeftChange::Removal { key }
        }
        What::MakeFolder { marker: key, .. } => {
            LeftChange::Making { key, kind: FileKind::Directory }
        }
        What::MakeObject(NewObject { key, metadata, .. }) => {
            LeftChange::Making { key, kind: foreign::form(&metadata).kind() }
        }
        What::Unlinked(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use base::FileKind;
    use remote::{Key, Version};

    use super::super::journal::{Exchange, FileMove, NewObject, Object, Record};
    use super::super::record::Subject;
    use super::{LeftChange, changes};
    use crate::RecordId;

    #[test]
    fn each_change_is_told_once_by_its_names() {
        let key = |key: &str| Key::from(key);
        let version = Version::new("v");
        let planned =
            FileMove { from: key("a"), to: key("b"), version: version.clone(), over: None };
        let removed =
            Object { key: key("r"), version: Some(version), uploads: Vec::new(), folder: key("") };
        let object = |name| NewObject {
            key: key(name),
            over: None,
            body: b"to".to_vec(),
            said: Vec::new(),
            metadata: [("mode".to_owned(), "41471".to_owned())].into(),
        };
        let of = RecordId(2);
        let exchange = Exchange { one: key("x"), other: key("y"), between: key("z") };
        let names = [
            Record::Remove(removed),
            Record::Renamed { planned, folder: key("") },
            Record::Maker { of, upload: "u".to_owned() },
            Record::RenamedFolder { from: key("c/"), to: key("d/"), folder: key("") },
            Record::Landed { of: RecordId(4) },
            Record::MakeObject { object: object("l"), instead: None },
            Record::MakeObject { object: object("m"), instead: Some(RecordId(6)) },
            Record::MakeFolder { marker: key("f/"), metadata: [].into() },
            Record::RemoveFolder { prefix: key("g/") },
            Record::Exchange(exchange),
            Record::Unlinked { kept: key(".quayfs-kept") },
        ];
        let attributes = |folder: &str, label: &str| {
            let length = u32::try_from(folder.len()).unwrap().to_be_bytes();
            let words = [b"-", &length[..], folder.as_bytes(), label.as_bytes()].concat();
            Subject::Attributes.record(&words)
        };
        let records = names.iter().map(Record::to_bytes).chain([
            attributes("d/", "one"),
            attributes("", "top"),
            attributes("d/", "two"),
            attributes("d/", "one"),
            b"of a newer program".to_vec(),
        ]);
        let records = (1..).map(RecordId).zip(records).collect();
        let making = |name, kind| LeftChange::Making { key: key(name), kind };
        let rename = |from, to| LeftChange::Rename { from: key(from), to: key(to) };
        let removal = |name| LeftChange::Removal { key: key(name) };
        let of_folder = |folder, names| LeftChange::Attributes { folder: key(folder), names };
        assert_eq!(
            changes(records),
            [
                removal("r"),
                rename("a", "b"),
                rename("c/", "d/"),
                making("m", FileKind::Symlink),
                making("f/", FileKind::Directory),
                removal("g/"),
                LeftChange::Exchange { one: key("x"), other: key("y") },
                of_folder("", 1),
                of_folder("d/", 2),
                LeftChange::Unknown,
            ]
        );
    }
}
