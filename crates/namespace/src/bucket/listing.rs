//! Folders from paged delimiter listings.
//!
//! A key may be an object and, with a slash behind it, the prefix of others: the folder has the name,
//! and the object one that says that it is beside a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{Name, Timestamp};
use remote::{Entry, Key, ListRequest, Meta, Metadata, Version};

use super::foreign;
use super::keys::{self, Company, Line};

/// The most entries that stores put on one page.
pub(super) const PAGE_ENTRIES_MAX: u16 = 1000;

/// What is beside the metadata of an object in a listing that was asked for it; no store takes such a
/// name.
const ASKED: &str = "";

/// `metadata`, asked for, as that of a line of a listing, which has none of its own.
pub(super) fn asked(mut metadata: Metadata) -> Metadata {
    metadata.insert(ASKED.to_owned(), String::new());
    metadata
}

/// An object as the bucket described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) size: u64,
    pub(super) version: Version,
    pub(super) modified: Timestamp,
    /// `None` from a listing that does not tell.
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
    /// Nobody may look: there may be a way to what is below it.
    OnTheWay,
}

/// What pages told about a folder.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What was mentioned, and when that was asked for.
    pub(super) names: BTreeMap<Name, (There, Duration)>,
    /// Whether the folder has a marker of its own.
    pub(super) marker: bool,
    // Of parts that are shown elsewhere while only one of the two is there, and here once both are.
    objects_elsewhere: BTreeMap<Vec<u8>, (Seen, Duration)>,
    folders_elsewhere: BTreeSet<Vec<u8>>,
}

impl Told {
    /// Adds a page of the folder `prefix`, asked for at `as_of`.
    pub(super) fn add(&mut self, prefix: &Key, entries: Vec<Entry>, as_of: Duration) {
        for entry in entries {
            let (key, seen) = match entry {
                Entry::Object(key, meta) => (key, Some(Seen::listed(meta))),
                Entry::Prefix(key) => (key, None),
            };
            match (keys::line(prefix, &key), seen) {
                (Line::Own, Some(seen)) if 0 < seen.size => {
                    // The object whose key is the mounted prefix has no name.
                    if !prefix.as_bytes().is_empty() {
                        self.add_object(prefix, b"", (seen, as_of));
                    }
                }
                (Line::Own, Some(_)) => self.marker = true,
                (Line::Object(part), Some(seen)) if seen.is_stub() => {
                    self.add_folder(prefix, part, as_of);
                }
                (Line::Object(part), Some(seen)) => self.add_object(prefix, part, (seen, as_of)),
                (Line::Folder(part), _) => self.add_folder(prefix, part, as_of),
                (Line::Hidden | Line::Own | Line::Object(_), _) => {}
            }
        }
    }

    fn add_object(&mut self, prefix: &Key, part: &[u8], (seen, as_of): (Seen, Duration)) {
        let Some(name) = keys::name(prefix, part, Company::Alone) else {
            if self.folders_elsewhere.contains(part) {
                self.add_beside(prefix, part, (seen, as_of));
            } else if keys::name(prefix, part, Company::Folder).is_some() {
                self.objects_elsewhere.insert(part.to_vec(), (seen, as_of));
            }
            return;
        };
        let folder = matches!(self.names.get(&name), Some((There::Folder, _)));
        if keys::is_chunk_name(&name) {
            self.names.insert(name, (There::Folder, as_of));
        } else if folder {
            self.add_beside(prefix, part, (seen, as_of));
        } else {
            self.names.insert(name, (There::File(seen), as_of));
        }
    }

    fn add_folder(&mut self, prefix: &Key, part: &[u8], as_of: Duration) {
        let object = if let Some(name) = keys::name(prefix, part, Company::Alone) {
            match self.names.insert(name, (There::Folder, as_of)) {
                Some((There::File(seen), as_of)) => Some((seen, as_of)),
                Some((There::Folder | There::OnTheWay | There::Nothing, _)) | None => None,
            }
        } else {
            if keys::name(prefix, part, Company::Folder).is_some() {
                self.folders_elsewhere.insert(part.to_vec());
            }
            self.objects_elsewhere.remove(part)
        };
        if let Some(object) = object {
            self.add_beside(prefix, part, object);
        }
    }

    /// Adds the object that has the name of a folder.
    fn add_beside(&mut self, prefix: &Key, part: &[u8], (seen, as_of): (Seen, Duration)) {
        let Some(name) = keys::name(prefix, part, Company::Folder) else { return };
        let chunk = keys::is_chunk_name(&name);
        let there = if chunk { There::Folder } else { There::File(seen) };
        self.names.insert(name, (there, as_of));
    }
}

impl Seen {
    /// As a listing describes it, and what was asked of the object beside it. A listing that tells some
    /// metadata tells all of them.
    fn listed(meta: Meta) -> Seen {
        let Meta { size, version, modified, mut metadata } = meta;
        let asked = metadata.remove(ASKED).is_some();
        let told = asked || !metadata.is_empty();
        Seen { size, version, modified, metadata: told.then_some(metadata) }
    }

    /// Whether it stands for a folder of its name.
    pub(super) fn is_stub(&self) -> bool {
        self.size == 0 && self.metadata.as_ref().is_some_and(foreign::is_stub)
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

/// Makes of the request for a page the one for the page after it, which begins at `next`.
pub(super) fn turn(request: &mut ListRequest, next: Option<String>) -> remote::Result<()> {
    // A store that hands out the same mark again would be listed for ever.
    if request.continuation == next {
        return Err(remote::Error::new(remote::ErrorKind::Corrupt, "list", &request.prefix));
    }
    request.continuation = next;
    Ok(())
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

    fn names(told: &Told) -> Vec<String> {
        told.names.keys().map(ToString::to_string).collect()
    }

    fn marker(key: &str) -> Entry {
        let Entry::Object(key, meta) = object(key) else { unreachable!("it is one") };
        Entry::Object(key, Meta { size: 0, ..meta })
    }

    fn folder(key: &str) -> Entry {
        Entry::Prefix(Key::from(key))
    }

    #[test]
    fn the_marker_is_no_entry_and_what_is_ours_is_hidden() {
        let hidden = [object("d/.quayfs-attributes"), folder("d/.quayfs-x/")];
        let page = [marker("d/"), folder("d//"), object("d/.."), object("d/a")];
        let told = told("d/", vec![hidden.to_vec(), page.to_vec()]);
        assert!(told.marker);
        assert_eq!(names(&told), ["%%:", "%%:..", "a"]);
    }

    #[test]
    fn an_object_that_stands_for_a_folder_is_one_with_and_without_others_below_it() {
        let stub = |key, size| {
            let Entry::Object(key, meta) = object(key) else { unreachable!("it is one") };
            let metadata = [("hdi_isfolder".to_owned(), "true".to_owned())].into();
            Entry::Object(key, Meta { size, metadata, ..meta })
        };
        for page in [vec![stub("a", 0)], vec![stub("a", 0), object("a.txt"), folder("a/")]] {
            let told = told("", vec![page]);
            assert_eq!(told.names[&b"a"[..]].0, There::Folder);
            assert!(!names(&told).contains(&"%%=a".to_owned()));
        }
        let full = told("", vec![vec![stub("a", 1)]]);
        assert!(matches!(full.names[&b"a"[..]].0, There::File(_)), "it has something in it");
    }

    #[test]
    fn a_folders_own_object_with_something_in_it_is_a_file_without_a_name() {
        let own = told("d/", vec![vec![object("d/"), object("d/a")]]);
        assert!(!own.marker);
        assert_eq!(names(&own), ["%%:", "a"]);
        let both = told("d/", vec![vec![object("d/"), folder("d//")]]);
        assert_eq!(names(&both), ["%%:", "%%=%%:"]);
        assert_eq!(both.names[&b"%%:"[..]].0, There::Folder);
        assert_eq!(names(&told("", vec![vec![object("")]])), [""; 0]);
    }

    #[test]
    fn a_key_that_is_also_a_folder_is_shown_beside_it_across_pages_too() {
        let second = vec![folder("a/")];
        for pages in [
            vec![vec![object("a"), object("a.txt")], second.clone()],
            vec![second, vec![object("a"), object("a.txt")]],
        ] {
            let told = told("", pages);
            assert_eq!(names(&told), ["%%=a", "a", "a.txt"]);
            assert_eq!(told.names[&b"a"[..]].0, There::Folder);
            assert!(matches!(told.names[&b"%%=a"[..]].0, There::File(_)));
        }
    }

    #[test]
    fn a_name_too_long_to_be_shown_beside_a_folder_is_cut() {
        let part = "x".repeat(255);
        let page = vec![object(&part), folder(&format!("{part}/"))];
        let above = told("", vec![page.clone()]);
        let chunk = "x".repeat(252);
        assert_eq!(names(&above), [format!("%%~{chunk}"), part.clone()]);
        let within = told(&chunk, vec![page]);
        assert_eq!(names(&within), ["%%=xxx"]);
        assert_eq!(names(&told(&chunk, vec![vec![object(&part)]])), [""; 0]);
    }
}
