//! In which folders the parts of uploads are kept: at the top of the volume, or, for who may not write there, in a
//! folder that he may write to. An upload's id says where its parts are, so that another process finds them.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::upload_id::OwnUpload;
use crate::{Key, UploadId};

/// What parts are in, in a folder.
const NAME: &[u8] = b".quayfs-parts/";

/// Between the rest of an id and how many bytes of the key are the folder; the rest has none.
const MARK: char = '#';

/// Folders that are remembered: those of long ago are found again.
const FOUND_MAX: usize = 1024;

/// An upload under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upload {
    pub(super) own: OwnUpload,
    /// The folder of the volume that its parts are kept in; `None` for the top.
    pub(super) folder: Option<Key>,
}

impl Upload {
    pub(super) fn to_id(&self) -> UploadId {
        let UploadId(text) = self.own.to_id();
        match &self.folder {
            Some(folder) => UploadId(format!("{text}{MARK}{}", folder.as_bytes().len())),
            None => UploadId(text),
        }
    }

    /// The upload of `key` with that id; `None` if it is not one of ours.
    pub(super) fn parse(id: &UploadId, key: &Key) -> Option<Upload> {
        let Some((text, bytes)) = id.0.rsplit_once(MARK) else {
            return Some(Upload { own: OwnUpload::parse(id)?, folder: None });
        };
        let folder = key.as_bytes().get(..bytes.parse().ok()?)?;
        let folder = std::str::from_utf8(folder).ok().filter(|folder| folder.ends_with('/'))?;
        let own = OwnUpload::parse(&UploadId(text.to_owned()))?;
        Some(Upload { own, folder: Some(Key::from(folder)) })
    }
}

/// Where parts may be kept.
#[derive(Debug)]
pub(super) struct Places {
    /// What all names begin with; empty, or ends in `/`.
    prefix: Key,
    /// What the names of parts at the top begin with.
    parts: Key,
    /// Folders that took some; the latest is the last. Invariant: none is in another.
    found: Mutex<VecDeque<Key>>,
}

impl Places {
    pub(super) fn new(prefix: Key, parts: Key) -> Places {
        Places { prefix, parts, found: Mutex::default() }
    }

    /// What the names of parts in `folder` begin with.
    pub(super) fn parts_in(&self, folder: Option<&Key>) -> Key {
        folder.map_or_else(|| self.parts.clone(), |folder| folder.join(NAME))
    }

    /// Where to keep the parts of an upload of `key`: in a folder that took others, or in its own, which whoever
    /// may write it may write to.
    pub(super) fn folder_for(&self, key: &Key) -> Option<Key> {
        let found = self.found.lock();
        let above = found.iter().find(|found| key.as_bytes().starts_with(found.as_bytes()));
        let own = || self.folders_above(key).pop();
        above.cloned().or_else(own).filter(|folder| *folder != self.prefix)
    }

    /// `folder` took the mark of an upload.
    pub(super) fn takes(&self, folder: Option<&Key>) {
        let folder = folder.unwrap_or(&self.prefix);
        let mut found = self.found.lock();
        if found.contains(folder) {
            return;
        }
        found.retain(|found| !found.as_bytes().starts_with(folder.as_bytes()));
        if FOUND_MAX <= found.len() {
            found.pop_front();
        }
        found.push_back(folder.clone());
    }

    /// All folders that the parts of an upload of `key` may be in.
    pub(super) fn folders_of(&self, key: &Key) -> Vec<Option<Key>> {
        if self.found.lock().contains(&self.prefix) {
            return vec![None];
        }
        let folders = self.folders_above(key).into_iter();
        folders.map(|folder| Some(folder).filter(|folder| *folder != self.prefix)).collect()
    }

    /// The folders that `key` is in, from the top.
    fn folders_above(&self, key: &Key) -> Vec<Key> {
        let top = self.prefix.as_bytes().len();
        let is_end = |&(at, byte): &(usize, &u8)| *byte == b'/' && top <= at;
        let ends = key.as_bytes().iter().enumerate().filter(is_end).map(|(at, _)| at + 1);
        let folders = ends.filter_map(|end| std::str::from_utf8(&key.as_bytes()[..end]).ok());
        std::iter::once(self.prefix.clone()).chain(folders.map(Key::from)).collect()
    }

    /// Whether `key` is of what we keep out of sight.
    pub(super) fn are_above(&self, key: &Key) -> bool {
        let key = key.as_bytes();
        let in_folder = |bytes: &[u8]| bytes[0] == b'/' && bytes[1..].starts_with(NAME);
        let below = key.get(self.prefix.as_bytes().len().saturating_sub(1)..).unwrap_or_default();
        key.starts_with(self.parts.as_bytes()) || below.windows(NAME.len() + 1).any(in_folder)
    }
}

#[cfg(test)]
mod tests {
    use super::{Places, Upload};
    use crate::upload_id::OwnUpload;
    use crate::{Key, Metadata, UploadId};

    fn places(prefix: &str) -> Places {
        let prefix = Key::from(prefix);
        let parts = prefix.join(super::NAME);
        Places::new(prefix, parts)
    }

    #[test]
    fn parts_are_in_the_highest_folder_that_took_some_and_else_beside_their_object() {
        let (places, key) = (places("p/"), Key::from("p/a/b/file"));
        let folder_for = || places.folder_for(&key).map(|folder| folder.to_string());
        assert_eq!(folder_for().as_deref(), Some("p/a/b/"));
        assert_eq!(places.folder_for(&Key::from("p/file")), None, "the top is its own");
        let all: Vec<_> = [None, Some("p/a/"), Some("p/a/b/")].map(|f| f.map(Key::from)).into();
        assert_eq!(places.folders_of(&key), all);
        places.takes(Some(&Key::from("p/a/b/")));
        places.takes(Some(&Key::from("p/a/")));
        assert_eq!(folder_for().as_deref(), Some("p/a/"));
        places.takes(None);
        assert_eq!((folder_for(), places.folders_of(&key)), (None, vec![None]));
    }

    #[test]
    fn parts_are_out_of_sight_wherever_they_are() {
        let places = places("p/");
        for hidden in ["p/.quayfs-parts/of-1/2", "p/a/.quayfs-parts/", "p/a/.quayfs-parts/1/x"] {
            assert!(places.are_above(&Key::from(hidden)), "{hidden}");
        }
        for shown in ["p/a", "p/a.quayfs-parts/x", "p/a/.quayfs-parts", "p/"] {
            assert!(!places.are_above(&Key::from(shown)), "{shown}");
        }
    }

    #[test]
    fn an_id_says_in_which_folder_of_its_key_the_parts_are() {
        let key = Key::from("a/b/file");
        let metadata: Metadata = [("mode".to_owned(), "1#2".to_owned())].into();
        for folder in [None, Some(Key::from("a/")), Some(Key::from("a/b/"))] {
            let upload =
                Upload { own: OwnUpload { number: 7, metadata: metadata.clone() }, folder };
            assert_eq!(Upload::parse(&upload.to_id(), &key), Some(upload));
        }
        let number = "0".repeat(32);
        for wrong in ["#1", "#99", "#", "#-1"] {
            assert_eq!(Upload::parse(&UploadId(format!("{number}{wrong}")), &key), None, "{wrong}");
        }
    }
}
