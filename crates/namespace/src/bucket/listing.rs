//! Folders from paged delimiter listings.
//!
//! A key may be an object and, with a slash behind it, the prefix of others: such a name is shown
//! as the folder, and the object below it is counted, not shown. A key that has no name is counted.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Name, Timestamp};
use remote::{Entry, Key, ListRequest, Meta, Metadata, Version};

use super::keys::{self, Line};

/// The most entries that stores put on one page.
pub(super) const PAGE_ENTRIES_MAX: u16 = 1000;

/// An object as the bucket described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) size: u64,
    pub(super) version: Version,
    pub(super) modified: Timestamp,
    /// `None` from a listing, which does not tell.
    pub(super) metadata: Option<Metadata>,
}

/// What the bucket has of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum There {
    /// Nothing.
    Nothing,
    /// An object.
    File(Seen),
    /// Objects whose keys go on with a slash.
    Folder,
}

/// What pages told about a folder.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What was mentioned, and when that was asked for.
    pub(super) names: BTreeMap<Name, (There, Duration)>,
    /// Whether the folder has a marker of its own.
    pub(super) marker: bool,
    /// How many keys have no name.
    pub(super) nameless: usize,
    /// How many objects have the name of a folder beside them.
    pub(super) shadowed: usize,
}

impl Told {
    /// Adds a page of the folder `prefix`, asked for at `as_of`.
    pub(super) fn add(&mut self, prefix: &Key, entries: Vec<Entry>, as_of: Duration) {
        for entry in entries {
            match (keys::line(prefix, entry.key()), entry) {
                (Line::Marker, _) => self.marker = true,
                (Line::Nameless, _) => self.nameless += 1,
                (Line::Named(name), Entry::Prefix(_)) => {
                    if self.names.insert(name, (There::Folder, as_of)).is_some() {
                        self.shadowed += 1;
                    }
                }
                (Line::Named(name), Entry::Object(_, meta)) => {
                    let seen = Seen::listed(meta);
                    self.names.insert(name, (There::File(seen), as_of));
                }
            }
        }
    }
}

impl Seen {
    /// As a listing describes it.
    fn listed(meta: Meta) -> Seen {
        let Meta { size, version, modified, metadata: _ } = meta;
        Seen { size, version, modified, metadata: None }
    }

    /// As a HEAD describes it.
    pub(super) fn headed(meta: Meta) -> Seen {
        let Meta { size, version, modified, metadata } = meta;
        Seen { size, version, modified, metadata: Some(metadata) }
    }
}

/// The request for a page of the folder `prefix`.
pub(super) fn page(prefix: &Key, start_after: Option<Key>) -> ListRequest {
    ListRequest {
        prefix: prefix.clone(),
        delimited: true,
        start_after,
        continuation: None,
        entries_max: PAGE_ENTRIES_MAX,
    }
}

/// The request for the first `entries_max` keys below `prefix`, in whatever folder.
pub(super) fn below(prefix: &Key, entries_max: u16) -> ListRequest {
    ListRequest {
        prefix: prefix.clone(),
        delimited: false,
        start_after: None,
        continuation: None,
        entries_max,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::Timestamp;
    use remote::{Entry, Key, Meta, Metadata, Version};

    use super::{There, Told};

    fn object(key: &str) -> Entry {
        let version = Version::new("v");
        let modified = Timestamp::default();
        Entry::Object(
            Key::from(key),
            Meta { size: 1, version, modified, metadata: Metadata::new() },
        )
    }

    fn told(prefix: &str, pages: Vec<Vec<Entry>>) -> Told {
        let mut told = Told::default();
        for page in pages {
            told.add(&Key::from(prefix), page, Duration::ZERO);
        }
        told
    }

    #[test]
    fn the_marker_is_no_entry_and_odd_keys_are_counted() {
        let odd = Entry::Prefix(Key::from("d//"));
        let told = told("d/", vec![vec![object("d/"), odd, object("d/.."), object("d/a")]]);
        assert!(told.marker);
        assert_eq!(told.nameless, 2);
        assert_eq!(told.names.keys().map(ToString::to_string).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_key_that_is_also_a_folder_shows_as_the_folder_across_pages_too() {
        let second = vec![Entry::Prefix(Key::from("a/"))];
        let told = told("", vec![vec![object("a"), object("a.txt")], second]);
        assert_eq!(told.shadowed, 1);
        assert_eq!(told.names[&b"a"[..]].0, There::Folder);
        assert_eq!(told.names.len(), 2);
    }
}
