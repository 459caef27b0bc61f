//! Folders of their own, as some stores have them: an empty object of the folder's key, which is made with
//! whatever is put below it, and renamed with all of it in one step.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Object, State, Step};
use crate::{ErrorKind, Key, Metadata};

impl State {
    /// Sees to it that all folders are there which `key` is in.
    pub(super) fn make_folders_of(&mut self, key: &Key) {
        let bytes = key.as_bytes();
        let below = bytes.strip_suffix(b"/").unwrap_or(bytes);
        let slashes = below.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let folders: Vec<Key> = slashes.map(|(slash, _)| Key::from(&bytes[..=slash])).collect();
        for folder in folders {
            if !self.objects.contains_key(&folder) {
                self.write_alone(&folder, Bytes::new(), Metadata::new());
            }
        }
    }

    /// Whether `key` is of a folder that something is in.
    pub(super) fn is_full(&self, key: &Key) -> bool {
        key.as_bytes().ends_with(b"/") && self.below(key).any(|(below, _)| below != key)
    }

    fn below<'a>(&'a self, folder: &'a Key) -> impl Iterator<Item = (&'a Key, &'a Object)> {
        let all = self.objects.range(folder.clone()..);
        all.take_while(|(key, _)| key.as_bytes().starts_with(folder.as_bytes()))
    }

    pub(super) fn rename_folder(&mut self, from: &Key, to: &Key) -> Step<()> {
        if !self.objects.contains_key(from) {
            return Err(ErrorKind::NotFound);
        }
        if self.objects.contains_key(to) {
            return Err(ErrorKind::Changed);
        }
        let below: BTreeMap<Key, Object> =
            self.below(from).map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in below {
            self.objects.remove(&key);
            let rest = &key.as_bytes()[from.as_bytes().len()..];
            self.objects.insert(to.join(rest), object);
        }
        self.make_folders_of(to);
        Ok(())
    }
}
