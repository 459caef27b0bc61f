//! The names and files of a disk that forgets, and what a power cut leaves of them.
//!
//! Names are journaled as `ext4` and XFS do it: a cut keeps the changes of names up to some moment,
//! at the earliest that of the last sync of anything. The bytes of files come to the disk in any
//! order, or not at all, but for what was synced.

use std::collections::BTreeMap;

use base::{Attr, Errno, FileKind, Ino, Timestamp};

use super::bytes::{Bytes, Draw};

/// A folder and a name in it.
type Place = (Ino, Vec<u8>);

/// All that is on the disk.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<Ino, Node>,
    names: BTreeMap<Place, Ino>,
    durable_names: BTreeMap<Place, Ino>,
    /// What happened to `names` and not yet to `durable_names`, in order; each all or nothing.
    changes: Vec<Vec<(Place, Option<Ino>)>>,
    last: u64,
}

#[derive(Debug)]
struct Node {
    attr: Attr,
    bytes: Bytes,
    /// How often the kernel was told of it.
    references: u64,
}

impl Tree {
    pub(super) fn new() -> Tree {
        let mut nodes = BTreeMap::new();
        nodes.insert(Ino::ROOT, Node::new(attr(Ino::ROOT, FileKind::Directory, 0o700)));
        let (names, durable_names) = (BTreeMap::new(), BTreeMap::new());
        Tree { nodes, names, durable_names, changes: Vec::new(), last: Ino::ROOT.0 }
    }

    pub(super) fn attr(&self, ino: Ino) -> Result<Attr, Errno> {
        let node = self.nodes.get(&ino).ok_or(Errno::ESTALE)?;
        Ok(Attr { size: node.bytes.size(), ..node.attr })
    }

    pub(super) fn set_mode(&mut self, ino: Ino, mode: u16) -> Result<(), Errno> {
        self.node(ino)?.attr.mode = mode;
        Ok(())
    }

    pub(super) fn bytes(&mut self, ino: Ino) -> Result<&mut Bytes, Errno> {
        Ok(&mut self.node(ino)?.bytes)
    }

    /// A name of which the kernel is told.
    pub(super) fn lookup(&mut self, parent: Ino, name: &[u8]) -> Result<Attr, Errno> {
        let ino = *self.names.get(&(parent, name.to_vec())).ok_or(Errno::ENOENT)?;
        self.node(ino)?.references += 1;
        self.attr(ino)
    }

    /// A node of which the kernel is told, by an entry of a listing.
    pub(super) fn refer(&mut self, ino: Ino) -> Option<Attr> {
        self.node(ino).ok()?.references += 1;
        self.attr(ino).ok()
    }

    /// The kernel gives references back.
    pub(super) fn forget(&mut self, ino: Ino, count: u64) {
        if let Ok(node) = self.node(ino) {
            node.references = node.references.saturating_sub(count);
        }
        self.collect(ino);
    }

    /// A new node, of which the kernel is told.
    pub(super) fn make(
        &mut self,
        (parent, name): (Ino, &[u8]),
        kind: FileKind,
        mode: u16,
    ) -> Result<Attr, Errno> {
        let place = (parent, name.to_vec());
        if self.names.contains_key(&place) {
            return Err(Errno::EEXIST);
        }
        self.last += 1;
        let ino = Ino(self.last);
        let node = Node { references: 1, ..Node::new(attr(ino, kind, mode)) };
        self.nodes.insert(ino, node);
        self.change(vec![(place, Some(ino))]);
        self.attr(ino)
    }

    pub(super) fn remove(&mut self, parent: Ino, name: &[u8]) -> Result<(), Errno> {
        let place = (parent, name.to_vec());
        let ino = *self.names.get(&place).ok_or(Errno::ENOENT)?;
        if self.inside(ino).next().is_some() {
            return Err(Errno::ENOTEMPTY);
        }
        self.change(vec![(place, None)]);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8])) -> Result<(), Errno> {
        let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        let ino = *self.names.get(&from).ok_or(Errno::ENOENT)?;
        if let Some(&there) = self.names.get(&to)
            && self.inside(there).next().is_some()
        {
            return Err(Errno::ENOTEMPTY);
        }
        self.change(vec![(from, None), (to, Some(ino))]);
        Ok(())
    }

    /// What is in a folder: names, numbers, kinds.
    pub(super) fn list(&self, parent: Ino) -> Vec<(Vec<u8>, Ino, FileKind)> {
        let kind = |ino: Ino| self.nodes.get(&ino).map_or(FileKind::File, |node| node.attr.kind);
        self.inside(parent).map(|(name, ino)| (name.clone(), ino, kind(ino))).collect()
    }

    /// The file and all names are on the disk from now on.
    pub(super) fn sync(&mut self, ino: Ino) -> Result<(), Errno> {
        self.node(ino)?.bytes.sync();
        for change in std::mem::take(&mut self.changes) {
            apply(&mut self.durable_names, change);
        }
        let known: Vec<Ino> = self.nodes.keys().copied().collect();
        for ino in known {
            self.collect(ino);
        }
        Ok(())
    }

    /// What is left after a power cut.
    pub(super) fn after_cut(&self, draw: Draw<'_>) -> Tree {
        let mut names = self.durable_names.clone();
        let kept = draw(self.changes.len() as u64 + 1);
        for change in self.changes.iter().zip(0..kept).map(|(change, _)| change) {
            apply(&mut names, change.clone());
        }
        let mut nodes = BTreeMap::new();
        for ino in std::iter::once(&Ino::ROOT).chain(names.values()) {
            let node = &self.nodes[ino];
            let bytes = node.bytes.after_cut(draw);
            nodes.insert(*ino, Node { attr: node.attr, bytes, references: 0 });
        }
        let durable_names = names.clone();
        Tree { nodes, names, durable_names, changes: Vec::new(), last: self.last }
    }

    fn inside(&self, parent: Ino) -> impl Iterator<Item = (&Vec<u8>, Ino)> {
        let from = self.names.range((parent, Vec::new())..);
        from.take_while(move |((folder, _), _)| *folder == parent)
            .map(|((_, name), ino)| (name, *ino))
    }

    fn node(&mut self, ino: Ino) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&ino).ok_or(Errno::ESTALE)
    }

    fn change(&mut self, change: Vec<(Place, Option<Ino>)>) {
        apply(&mut self.names, change.clone());
        self.changes.push(change);
    }

    /// Drops a node that neither a name nor the kernel leads to, now or after a cut.
    fn collect(&mut self, ino: Ino) {
        let is_held = self.nodes.get(&ino).is_none_or(|node| 0 < node.references);
        let is_changed = || self.changes.iter().flatten().any(|(_, changed)| *changed == Some(ino));
        let is_named =
            || self.names.values().chain(self.durable_names.values()).any(|named| *named == ino);
        if !is_held && ino != Ino::ROOT && !is_changed() && !is_named() {
            self.nodes.remove(&ino);
        }
    }
}

impl Node {
    fn new(attr: Attr) -> Node {
        Node { attr, bytes: Bytes::default(), references: 0 }
    }
}

fn apply(names: &mut BTreeMap<Place, Ino>, change: Vec<(Place, Option<Ino>)>) {
    for (place, ino) in change {
        match ino {
            Some(ino) => names.insert(place, ino),
            None => names.remove(&place),
        };
    }
}

fn attr(ino: Ino, kind: FileKind, mode: u16) -> Attr {
    let time = Timestamp { secs: 1_000_000_000, nanos: 0 };
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let nlink = if kind == FileKind::Directory { 2 } else { 1 };
    Attr {
        ino,
        kind,
        size: 0,
        mode,
        uid,
        gid,
        nlink,
        rdev: 0,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

#[cfg(test)]
mod tests {
    use base::{FileKind, Ino};

    use super::Tree;

    #[test]
    fn a_cut_keeps_the_first_of_the_changes_of_names_and_all_before_a_sync() {
        let mut tree = Tree::new();
        let make = |tree: &mut Tree, name: &str| {
            tree.make((Ino::ROOT, name.as_bytes()), FileKind::File, 0o600).unwrap().ino
        };
        let first = make(&mut tree, "synced");
        tree.sync(first).unwrap();
        make(&mut tree, "one");
        tree.rename((Ino::ROOT, b"one"), (Ino::ROOT, b"two")).unwrap();
        tree.remove(Ino::ROOT, b"synced").unwrap();
        for (kept, want) in
            [(0, &["synced"][..]), (1, &["one", "synced"]), (2, &["synced", "two"]), (3, &["two"])]
        {
            let mut draws = std::iter::once(kept).chain(std::iter::repeat(0));
            let left = tree.after_cut(&mut |_| draws.next().unwrap());
            let names: Vec<String> = left
                .list(Ino::ROOT)
                .into_iter()
                .map(|(name, _, _)| String::from_utf8(name).unwrap())
                .collect();
            assert_eq!(names, want);
        }
    }
}
