//! A page of keys folded nowhere becomes what is known of the folders that lie in it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use base::{Ino, Name};
use remote::{Entry, Key, ListRequest};

use super::changes::Ticket;
use super::keys;
use super::listing::{PAGE_ENTRIES_MAX, Told};
use super::tree::Tree;
use super::window::{Range, Window};

/// A page of keys, and from where to where it tells everything.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The lines that pages of each folder would have, by the folder's prefix.
    folders: BTreeMap<Vec<u8>, Vec<Entry>>,
    start_after: Key,
    last: Option<Key>,
    pub(super) as_of: Duration,
}

/// The request for the page that begins with the folder `prefix`; `None` for the root.
pub(super) fn request(prefix: &Key) -> Option<ListRequest> {
    let folder = prefix.as_bytes().strip_suffix(b"/")?;
    Some(ListRequest {
        prefix: Key::from(""),
        delimited: false,
        // The byte before the slash, and something that little comes after.
        start_after: Some(Key::new([folder, b".~"].concat())),
        continuation: None,
        entries_max: PAGE_ENTRIES_MAX,
    })
}

impl Sweep {
    /// What the answer to `request`, asked at `as_of`, tells.
    pub(super) fn new(request: &ListRequest, page: remote::Page, as_of: Duration) -> Sweep {
        let last =
            page.next.is_some().then(|| page.entries.last().map(|entry| entry.key().clone()));
        let mut folders: BTreeMap<Vec<u8>, Vec<Entry>> = BTreeMap::new();
        for entry in page.entries {
            let key = entry.key().as_bytes().to_vec();
            let mut begins = 0;
            let slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            for (slash, _) in slashes {
                let lines = folders.entry(key[..begins].to_vec()).or_default();
                let fold = Entry::Prefix(Key::from(&key[..=slash]));
                if lines.last() != Some(&fold) {
                    lines.push(fold);
                }
                begins = slash + 1;
            }
            folders.entry(key[..begins].to_vec()).or_default().push(entry);
        }
        let start_after = request.start_after.clone().unwrap_or_else(|| Key::from(""));
        Sweep { folders, start_after, last: last.flatten(), as_of }
    }

    /// The folders of which all lines are there, and those lines.
    pub(super) fn whole_folders(&mut self) -> impl Iterator<Item = (Key, &mut Vec<Entry>)> {
        let (start_after, last) = (self.start_after.clone(), self.last.clone());
        self.folders
            .iter_mut()
            .filter(move |(prefix, _)| is_whole(prefix, &start_after, last.as_ref()))
            .map(|(prefix, lines)| (Key::from(&prefix[..]), lines))
    }

    /// The lines of the folder `prefix`, if all of them are there.
    pub(super) fn take(&mut self, prefix: &Key) -> Option<Vec<Entry>> {
        let prefix = prefix.as_bytes();
        let whole = is_whole(prefix, &self.start_after, self.last.as_ref());
        // A folder without keys was removed: who asks for it is to ask for it alone.
        if whole { self.folders.remove(prefix) } else { None }
    }
}

impl Tree {
    /// Takes in what `sweep` tells about folders that are remembered. Returns of how many it told
    /// everything.
    pub(super) fn tell_sweep(&mut self, ticket: &Ticket, mut sweep: Sweep) -> usize {
        let as_of = sweep.as_of;
        let mut inos: HashMap<Vec<u8>, Ino> = HashMap::from([(Vec::new(), Ino::ROOT)]);
        let prefixes: Vec<Vec<u8>> = sweep.folders.keys().cloned().collect();
        let mut whole = 0;
        // In key order a folder comes before those in it.
        for prefix in prefixes {
            let Some((parent, name)) = parent_and_name(&prefix) else { continue };
            let Some(&parent) = inos.get(parent) else { continue };
            self.tell_folder_exists(ticket, (parent, &name), as_of);
            let Some(ino) = self.child(parent, &name).filter(|&ino| self.is_folder(ino)) else {
                continue;
            };
            let key = Key::from(&prefix[..]);
            // What is about to move here is still elsewhere; and what moved here since the page was asked
            // for, the page shows in part, or it shows what was here before.
            if self.prefix("sweep", ino).ok().as_ref() != Some(&key) || self.has_moved(ticket, ino)
            {
                continue;
            }
            if let Some(lines) = sweep.take(&key) {
                let mut told = Told::default();
                told.add(&key, lines, as_of);
                self.tell(ticket, ino, told, Window { range: Range::All, as_of });
                if let Some(folder) = self.folder_mut(ino) {
                    folder.interest.learn_size(true);
                }
                whole += 1;
            }
            inos.insert(prefix, ino);
        }
        whole
    }
}

/// Whether all keys below `prefix` come after `start_after` and before `last`.
fn is_whole(prefix: &[u8], start_after: &Key, last: Option<&Key>) -> bool {
    let ends = |last: &Key| prefix < last.as_bytes() && !last.as_bytes().starts_with(prefix);
    start_after.as_bytes() < prefix && last.is_none_or(ends)
}

/// The prefix of the folder that the folder `prefix` is in, and its name there, if that is the part
/// of its key.
fn parent_and_name(prefix: &[u8]) -> Option<(&[u8], Name)> {
    let folder = prefix.strip_suffix(b"/")?;
    let begins = folder.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let part = &folder[begins..];
    let name = Name::new(part).ok().filter(|_| keys::is_plain(part))?;
    Some((&prefix[..begins], name))
}
