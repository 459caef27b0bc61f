//! Paths of the entries of a listing, as a mount shows them, without a tree of names; pure.
//!
//! A name depends on what is beside it: an object beside a folder of the same name has another one. In the order of
//! keys the folder `a/` comes after `a`, and what lies between them begins with `a`: so an object is *held* until a key
//! comes that is behind its folder. The held ones are prefixes of one another, so they are no more than a key has bytes.

use base::Name;
use remote::{Entry, Key, Meta};

use super::foreign;
use super::keys::{self, Company};

/// Something that a mount shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its path.
    pub(super) path: Vec<u8>,
    /// The prefix of the folder that it is in.
    pub(super) folder: Key,
    /// The rest of its key; that of a folder ends in a slash.
    pub(super) label: Vec<u8>,
    /// The object; `None` for a folder.
    pub(super) object: Option<Meta>,
}

/// The folders above the last entry, and the objects that wait for what comes after them.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    folders: Vec<Open>,
    held: Vec<(Key, Meta)>,
    /// The beginning of a long part of a key, which a mount shows as a folder.
    chunk: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Open {
    prefix: Key,
    path: Vec<u8>,
}

impl Inventory {
    /// Begins the listing of one folder only, whose keys begin with `prefix`.
    pub(super) fn begin(&mut self, prefix: &Key) {
        self.folders.clear();
        self.enter(prefix, &mut |_| {});
    }

    /// Takes the next entry, in the order of keys.
    pub(super) fn entry(&mut self, entry: Entry, tell: &mut dyn FnMut(Found)) {
        let key = entry.key().clone();
        if keys::is_hidden(&Key::from(""), &key) || key.as_bytes().is_empty() {
            return;
        }
        self.release(&key, tell);
        match entry {
            Entry::Prefix(prefix) => {
                self.enter(&parent(&prefix), tell);
                self.tell_folder(&prefix, tell);
            }
            Entry::Object(key, meta) if key.as_bytes().ends_with(b"/") => {
                self.enter(&key, tell);
                // A marker with bytes is a file in its folder; an empty one stands for the folder only.
                if 0 < meta.size {
                    self.tell_object(&key, meta, Company::Alone, tell);
                }
            }
            Entry::Object(key, meta) => {
                self.enter(&parent(&key), tell);
                self.held.push((key, meta));
            }
        }
    }

    /// Ends the listing.
    pub(super) fn end(&mut self, tell: &mut dyn FnMut(Found)) {
        while let Some((key, meta)) = self.held.pop() {
            self.tell_object(&key, meta, Company::Alone, tell);
        }
    }

    /// Tells the objects that `key` is behind.
    fn release(&mut self, key: &Key, tell: &mut dyn FnMut(Found)) {
        while let Some((held, _)) = self.held.last() {
            let rest = key.as_bytes().strip_prefix(held.as_bytes());
            let company = match rest.and_then(<[u8]>::first) {
                Some(b'/') => Company::Folder,
                Some(byte) if *byte < b'/' => return,
                Some(_) | None => Company::Alone,
            };
            let Some((held, meta)) = self.held.pop() else { return };
            let is_stub = meta.size == 0 && foreign::is_stub(&meta.metadata);
            if company == Company::Alone || !is_stub {
                self.tell_object(&held, meta, company, tell);
            }
        }
    }

    /// Goes to the folder `prefix`; tells the folders on the way down.
    fn enter(&mut self, prefix: &Key, tell: &mut dyn FnMut(Found)) {
        while let Some(open) = self.folders.last() {
            if prefix.as_bytes().starts_with(open.prefix.as_bytes()) {
                break;
            }
            self.folders.pop();
        }
        if self.folders.is_empty() {
            self.folders.push(Open { prefix: Key::from(""), path: Vec::new() });
        }
        let known = self.folders.last().map_or(0, |open| open.prefix.as_bytes().len());
        for at in known..prefix.as_bytes().len() {
            if prefix.as_bytes()[at] == b'/' {
                let folder = Key::from(&prefix.as_bytes()[..=at]);
                self.tell_folder(&folder, tell);
                let path = self.path(&folder.as_bytes()[..at], Company::Alone);
                self.folders.push(Open { prefix: folder, path: path.join(&b'/') });
            }
        }
    }

    fn tell_folder(&mut self, prefix: &Key, tell: &mut dyn FnMut(Found)) {
        let key = prefix.as_bytes().strip_suffix(b"/").unwrap_or_default();
        self.tell(key, None, Company::Alone, tell);
    }

    fn tell_object(
        &mut self,
        key: &Key,
        meta: Meta,
        company: Company,
        tell: &mut dyn FnMut(Found),
    ) {
        self.tell(key.as_bytes(), Some(meta), company, tell);
    }

    fn tell(
        &mut self,
        key: &[u8],
        object: Option<Meta>,
        company: Company,
        tell: &mut dyn FnMut(Found),
    ) {
        let path = self.path(key, company);
        let Some(open) = self.open_for(key) else { return };
        let folder = open.prefix.clone();
        let mut label = key[folder.as_bytes().len()..].to_vec();
        let above = path[..path.len().saturating_sub(1)].join(&b'/');
        if open.path.len() < above.len() && self.chunk.as_ref() != Some(&above) {
            // A long part: its beginning is a folder, once for all that begin so.
            self.chunk = Some(above.clone());
            tell(Found { path: above, folder: folder.clone(), label: Vec::new(), object: None });
        }
        if object.is_none() {
            label.push(b'/');
        }
        tell(Found { path: path.join(&b'/'), folder, label, object });
    }

    /// The folder of `key` among those that are open.
    fn open_for(&self, key: &[u8]) -> Option<&Open> {
        let prefix = parent(&Key::from(key));
        // A marker is the file of an empty part in its own folder.
        let prefix = if key.ends_with(b"/") { Key::from(key) } else { prefix };
        self.folders.iter().rev().find(|open| open.prefix == prefix)
    }

    /// The path of `key`, name by name.
    fn path(&self, key: &[u8], company: Company) -> Vec<Vec<u8>> {
        let Some(open) = self.open_for(key) else { return Vec::new() };
        let part = key.get(open.prefix.as_bytes().len()..).unwrap_or_default();
        let mut path: Vec<Vec<u8>> = Vec::new();
        if !open.path.is_empty() {
            path.push(open.path.clone());
        }
        path.extend(keys::names(part, company).iter().map(|name: &Name| name.as_bytes().to_vec()));
        path
    }
}

/// The prefix of the folder that `key` is in, be it an object or a folder.
fn parent(key: &Key) -> Key {
    let bytes = key.as_bytes();
    let part = bytes.strip_suffix(b"/").unwrap_or(bytes);
    let end = part.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    Key::from(&bytes[..end])
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use remote::{Entry, Key, Meta, Metadata, Version};

    use super::Inventory;

    fn entry(key: &str, size: u64) -> Entry {
        let meta = Meta {
            size,
            version: Version::new("1"),
            modified: Timestamp { secs: 0, nanos: 0 },
            metadata: Metadata::new(),
        };
        Entry::Object(Key::from(key), meta)
    }

    /// The paths of `keys`, in the order in which they are told; folders end in a slash.
    fn paths(entries: Vec<Entry>) -> Vec<String> {
        let (mut inventory, mut paths) = (Inventory::default(), Vec::new());
        let mut tell = |found: super::Found| {
            let slash = if found.object.is_none() { "/" } else { "" };
            paths.push(format!("{}{slash}", String::from_utf8(found.path).unwrap()));
        };
        for entry in entries {
            inventory.entry(entry, &mut tell);
        }
        inventory.end(&mut tell);
        paths
    }

    fn check(keys: &[&str], want: &[&str]) {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        assert_eq!(paths(keys.iter().map(|key| entry(key, 1)).collect()), want, "{keys:?}");
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        check(&["a", "d/e/x", "d/y", "z"], &["a", "d/", "d/e/", "d/e/x", "d/y", "z"]);
    }

    #[test]
    fn object_beside_its_folder_has_another_name() {
        check(&["a", "a-1", "a.txt", "a/x", "b"], &["a-1", "a.txt", "%%=a", "a/", "a/x", "b"]);
        check(&["a", "a-1/x", "a-2"], &["a-1/", "a-1/x", "a-2", "a"]);
        check(&["a", "a!", "a!!", "a!/x", "b"], &["a!!", "%%=a!", "a!/", "a!/x", "a", "b"]);
        check(&["d/a", "d/a/x"], &["d/", "d/%%=a", "d/a/", "d/a/x"]);
    }

    #[test]
    fn hidden_keys_are_left_out_and_odd_ones_escaped() {
        check(
            &[".quayfs-attributes", "d/.quayfs-x/y", "e//x", "%%"],
            &["%%:%25%25", "e/", "e/%%:/", "e/%%:/x"],
        );
    }

    #[test]
    fn marker_is_its_folder_or_a_file_in_it() {
        assert_eq!(paths(vec![entry("d/", 0)]), ["d/"]);
        assert_eq!(paths(vec![entry("d/", 0), entry("d/x", 1)]), ["d/", "d/x"]);
        assert_eq!(paths(vec![entry("d/", 5), entry("d/x", 1)]), ["d/", "d/%%:", "d/x"]);
    }

    #[test]
    fn beginning_of_a_long_part_is_a_folder_once() {
        let long = "x".repeat(300);
        let keys = [format!("{long}1"), format!("{long}2")];
        let paths = paths(keys.iter().map(|key| entry(key, 1)).collect());
        assert_eq!(paths.len(), 3, "{paths:?}");
        assert!(paths[0].starts_with("%%~xxx") && paths[0].ends_with("x/"), "{paths:?}");
        assert!(paths[1].starts_with(&paths[0]) && paths[2].starts_with(&paths[0]), "{paths:?}");
    }

    #[test]
    fn listing_of_one_folder_folds_the_others() {
        let (mut inventory, mut paths) = (Inventory::default(), Vec::new());
        let mut tell = |found: super::Found| paths.push(String::from_utf8(found.path).unwrap());
        inventory.begin(&Key::from("d/"));
        for entry in [entry("d/", 0), entry("d/a", 1), Entry::Prefix(Key::from("d/a/"))] {
            inventory.entry(entry, &mut tell);
        }
        inventory.end(&mut tell);
        assert_eq!(paths, ["d/%%=a", "d/a"]);
    }
}
