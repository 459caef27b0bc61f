//! The nodes of a bucket that are remembered: a part of the tree, and never more than allowed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{Attr, Clock, Ino, Name, Timestamp};
use remote::Key;

use super::attributes::books::Books;
use super::attributes::delay::What;
use super::attributes::line::Usual;
use super::attributes::record::Noted;
use super::departing::Departing;
use super::idle::Idle;
use super::keys;
use super::looks::{Looks, Source};
use super::nodes::{Folder, Hold, Kind, Node, Place};
use super::numbers::Numbers;
use super::options::Attributes;
use crate::{Error, ErrorKind, Ledger, Owner, Result};

/// How many nodes one call of [`Tree::shrink`] passes over that cannot go.
const SHRINK_SKIPS_MAX: usize = 64;

/// Of how many nodes below a renamed folder the numbers are noted. The others keep theirs for as
/// long as they are remembered.
const MOVED_NUMBERS_MAX: usize = 10_000;

/// How nodes look of which nobody says anything, and when the mount began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub(super) owner: Owner,
    pub(super) file_mode: u16,
    pub(super) folder_mode: u16,
    pub(super) start: Timestamp,
}

/// The remembered nodes.
///
/// Invariant: a node is `Named` by a parent that is a remembered folder and has it among its
/// children under that name, and by nothing else; the root is always there; a node without a name
/// is held and has no children.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: HashMap<Ino, Node>,
    idle: Idle,
    numbers: Numbers,
    pub(super) defaults: Defaults,
    /// The longest key that the store takes.
    pub(super) key_bytes_max: usize,
    /// What attribute objects say; `None` if they are not used.
    pub(super) books: Option<Books>,
    /// Changes that the ledger has yet to hear of.
    pub(super) unrecorded: Vec<Noted>,
    /// The keys of files that are on their way to their names, and what those in folders begin with that
    /// are.
    pub(super) elsewhere: HashMap<Ino, Key>,
    /// Folders whose keys are elsewhere until all of them has moved to where their names say.
    pub(super) arriving: HashSet<Ino>,
    /// Files and folders of which the journal is being told that they move, and how often.
    pub(super) departing: HashMap<Ino, Departing>,
    /// Uploads that may have made the object of a file's name, or may yet, as far as nobody knows.
    pub(super) uploads: HashMap<Ino, Vec<String>>,
    /// Nodes that are not forgotten although nobody holds them, each as often as somebody is about to use it.
    pub(super) spared: Vec<Ino>,
}

impl Tree {
    /// The root alone. `ledger` remembers numbers.
    pub(super) fn new(
        defaults: Defaults,
        key_bytes_max: usize,
        (attributes, clock): (Attributes, Arc<dyn Clock>),
        ledger: Arc<dyn Ledger>,
    ) -> Tree {
        let root = Node {
            place: Place::Root,
            kind: Kind::Folder(Folder::default()),
            looks: Looks::new(
                defaults.folder_mode,
                defaults.owner,
                defaults.start,
                Source::Assumed,
            ),
            as_of: None,
            hold: Hold::Held,
            xattrs: None,
        };
        let usual = Usual {
            uid: defaults.owner.uid,
            gid: defaults.owner.gid,
            file_mode: defaults.file_mode,
            folder_mode: defaults.folder_mode,
        };
        Tree {
            nodes: HashMap::from([(Ino::ROOT, root)]),
            idle: Idle::default(),
            numbers: Numbers::new(ledger),
            defaults,
            key_bytes_max,
            books: match attributes {
                Attributes::Kept | Attributes::Shown => Some(Books::new(usual, clock)),
                Attributes::Off => None,
            },
            unrecorded: Vec::new(),
            elsewhere: HashMap::new(),
            spared: Vec::new(),
            arriving: HashSet::new(),
            departing: HashMap::new(),
            uploads: HashMap::new(),
        }
    }

    /// The node `ino`, if it is remembered.
    pub(super) fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino)
    }

    /// How many nodes are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node `ino`, if it is remembered.
    pub(super) fn node_mut(&mut self, ino: Ino) -> Option<&mut Node> {
        self.nodes.get_mut(&ino)
    }

    /// The node `ino` for the operation `op`, which the kernel named by number: it holds it.
    pub(super) fn named_by_kernel(&mut self, op: &'static str, ino: Ino) -> Result<&mut Node> {
        self.hold(ino);
        self.nodes.get_mut(&ino).ok_or_else(|| Error::node(ErrorKind::Stale, op, ino))
    }

    /// The folder `ino`.
    pub(super) fn folder(&self, ino: Ino) -> Option<&Folder> {
        self.node(ino)?.as_folder()
    }

    /// The folder `ino`.
    pub(super) fn folder_mut(&mut self, ino: Ino) -> Option<&mut Folder> {
        match &mut self.nodes.get_mut(&ino)?.kind {
            Kind::Folder(folder) => Some(folder),
            Kind::File(_) => None,
        }
    }

    /// What the keys in the folder `ino` begin with, for the operation `op`.
    pub(super) fn prefix(&self, op: &'static str, ino: Ino) -> Result<Key> {
        self.prefix_where(op, ino, |ino| self.elsewhere.get(&ino))
    }

    pub(super) fn prefix_where<'a>(
        &'a self,
        op: &'static str,
        ino: Ino,
        elsewhere: impl Fn(Ino) -> Option<&'a Key>,
    ) -> Result<Key> {
        let node = self.node(ino).ok_or_else(|| Error::node(ErrorKind::Stale, op, ino))?;
        if node.as_folder().is_none() {
            return Err(Error::node(ErrorKind::NotDirectory, op, ino));
        }
        // Where it begins, and how long it will be: with that it is made at once.
        let (mut begins, mut bytes) = (None, 0);
        let mut names = Vec::new();
        let (mut node, mut at) = (node, ino);
        loop {
            if let Some(elsewhere) = elsewhere(at) {
                bytes += elsewhere.as_bytes().len();
                begins = Some(elsewhere);
                break;
            }
            match &node.place {
                Place::Root => break,
                Place::Named { parent, name } => {
                    names.push(name);
                    bytes += name.as_bytes().len() + 1;
                    at = *parent;
                    node = self.node(at).expect("a parent is remembered");
                }
                Place::Unlinked => return Err(Error::node(ErrorKind::NotFound, op, ino)),
                Place::Replaced => return Err(Error::node(ErrorKind::Stale, op, ino)),
            }
        }
        let mut prefix = Vec::with_capacity(bytes);
        prefix.extend(begins.map_or(&b""[..], Key::as_bytes));
        for name in names.into_iter().rev() {
            keys::push_folder(&mut prefix, name);
        }
        Ok(Key::new(prefix))
    }

    /// The names that lead to `ino` from the root.
    fn names(&self, op: &'static str, ino: Ino) -> Result<Vec<&Name>> {
        let node = self.node(ino).ok_or_else(|| Error::node(ErrorKind::Stale, op, ino))?;
        let mut names = Vec::new();
        let mut place = &node.place;
        loop {
            match place {
                Place::Root => break,
                Place::Named { parent, name } => {
                    names.push(name);
                    place = &self.node(*parent).expect("a parent is remembered").place;
                }
                Place::Unlinked => return Err(Error::node(ErrorKind::NotFound, op, ino)),
                Place::Replaced => return Err(Error::node(ErrorKind::Stale, op, ino)),
            }
        }
        names.reverse();
        Ok(names)
    }

    /// The path of `ino` from the root, if it has one. Other than its key it tells an object from
    /// the folder of its name.
    fn path(&self, ino: Ino) -> Option<Vec<u8>> {
        let names = self.names("path", ino).ok()?;
        Some(names.into_iter().map(Name::as_bytes).collect::<Vec<_>>().join(&b'/'))
    }

    /// The names above and of `ino`, with slashes between them, for the operation `op`.
    pub(super) fn names_of(&self, op: &'static str, ino: Ino) -> Result<Vec<u8>> {
        Ok(self.names(op, ino)?.into_iter().map(Name::as_bytes).collect::<Vec<_>>().join(&b'/'))
    }

    /// The key of the file `ino`, for the operation `op`.
    pub(super) fn key(&self, op: &'static str, ino: Ino) -> Result<Key> {
        self.key_in(op, ino, Tree::prefix)
    }

    pub(super) fn key_in(
        &self,
        op: &'static str,
        ino: Ino,
        prefix: fn(&Tree, &'static str, Ino) -> Result<Key>,
    ) -> Result<Key> {
        let node = self.node(ino).ok_or_else(|| Error::node(ErrorKind::Stale, op, ino))?;
        match &node.place {
            Place::Named { parent, name } => Ok(keys::file(&prefix(self, op, *parent)?, name)),
            Place::Root => Err(Error::node(ErrorKind::IsDirectory, op, ino)),
            Place::Unlinked => Err(Error::node(ErrorKind::NotFound, op, ino)),
            Place::Replaced => Err(Error::node(ErrorKind::Stale, op, ino)),
        }
    }

    /// The node `name` in the folder `parent`, if it is remembered.
    pub(super) fn child(&self, parent: Ino, name: &Name) -> Option<Ino> {
        self.folder(parent)?.children.get(name).copied()
    }

    /// The folder that is no chunk folder, and the name in it, on the way to `name` in `dir`.
    pub(super) fn above_chunks(&self, dir: Ino, name: &Name) -> (Ino, Name) {
        match self.node(dir).map(|node| &node.place) {
            Some(Place::Named { parent, name }) if keys::is_chunk_name(name) => {
                self.above_chunks(*parent, name)
            }
            _ => (dir, name.clone()),
        }
    }

    /// What `stat` says of `ino`, which is remembered.
    pub(super) fn attr(&self, ino: Ino) -> Attr {
        self.node(ino).expect("asked for under the lock under which it was found").attr(ino)
    }

    /// Whether the object of `ino` is not yet where its name says.
    pub(super) fn is_elsewhere(&self, ino: Ino) -> bool {
        self.elsewhere.contains_key(&ino)
    }

    /// Whether a file below `ino` is not published.
    pub(super) fn unpublished_below(&self, ino: Ino) -> bool {
        self.node(ino).is_some_and(|node| match &node.kind {
            Kind::File(file) => file.unpublished() || self.is_elsewhere(ino),
            Kind::Folder(folder) => {
                folder.children.values().any(|&child| self.unpublished_below(child))
            }
        })
    }

    /// Makes the node `name` in the folder `parent`, where no such name is. Nobody holds it yet.
    pub(super) fn insert(
        &mut self,
        (parent, name): (Ino, &Name),
        kind: Kind,
        looks: Looks,
        as_of: Duration,
    ) -> Ino {
        let mut path = self.path(parent).expect("callers hold a named folder");
        push_name(&mut path, name);
        let ino = self.numbers.choose(&path, |ino| self.nodes.contains_key(&ino));
        let hold = Hold::Idle(self.idle.touch(ino, None));
        let place = Place::Named { parent, name: name.clone() };
        let node = Node { place, kind, looks, as_of: Some(as_of), hold, xattrs: None };
        let is_folder = node.as_folder().is_some();
        self.nodes.insert(ino, node);
        let folder = self.folder_mut(parent).expect("it had a prefix");
        folder.enter(name.clone(), ino, is_folder);
        ino
    }

    /// Takes the name off `ino` and all that is below it. What nobody holds is forgotten.
    pub(super) fn detach(&mut self, ino: Ino, nowhere: &Place) {
        assert!(matches!(nowhere, Place::Unlinked | Place::Replaced));
        if *nowhere == Place::Unlinked {
            self.note_gone(ino);
        }
        let Some(node) = self.nodes.get(&ino) else { return };
        let (place, folder) = (node.place.clone(), node.as_folder().is_some());
        assert!(place != Place::Root, "the root stays");
        for child in self.children(ino) {
            self.detach(child, nowhere);
        }
        if let Some(path) = self.path(ino) {
            self.numbers.removed(&path, ino);
        }
        self.unname(ino);
        let node = self.nodes.get_mut(&ino).expect("it was there just now");
        node.place = nowhere.clone();
        if matches!(node.hold, Hold::Idle(_)) {
            self.remove(ino);
        }
        if let Place::Named { parent, name } = place
            && folder
        {
            self.step_back(parent, &name);
        }
    }

    /// The name of the file `ino` is that of a folder now: it is shown beside that. False if there
    /// is no such name.
    pub(super) fn step_aside(&mut self, ino: Ino) -> bool {
        let Some(Node { place: Place::Named { parent, name }, .. }) = self.node(ino) else {
            return false;
        };
        let (parent, beside) = (*parent, keys::beside(name));
        let Some(beside) = beside.filter(|beside| self.child(parent, beside).is_none()) else {
            return false;
        };
        self.rename(ino, (parent, &beside));
        true
    }

    /// The name of a folder is free: the file beside it has it now.
    fn step_back(&mut self, parent: Ino, name: &Name) {
        let beside = keys::beside(name).and_then(|beside| self.child(parent, &beside));
        if let Some(ino) = beside {
            self.rename(ino, (parent, name));
        }
    }

    pub(super) fn children(&self, ino: Ino) -> Vec<Ino> {
        let children = self.folder(ino).map(|folder| folder.children.values().copied());
        children.map(Iterator::collect).unwrap_or_default()
    }

    /// Gives `ino` another name, one that is free.
    pub(super) fn rename(&mut self, ino: Ino, to: (Ino, &Name)) {
        let (from, old) = (self.path(ino), self.node(ino).map(|node| node.place.clone()));
        let entry = self.entry_of(ino);
        self.unname(ino);
        let (parent, name) = to;
        let is_folder = self.folder(ino).is_some();
        let folder = self.folder_mut(parent).expect("callers hold a named folder");
        folder.enter(name.clone(), ino, is_folder);
        let node = self.nodes.get_mut(&ino).expect("callers hold a node");
        node.place = Place::Named { parent, name: name.clone() };
        self.note_moved(ino, entry);
        if let Some(from) = from {
            self.keep_numbers(ino, from);
        }
        if let Some(Place::Named { parent, name }) = old
            && self.folder(ino).is_some()
        {
            self.step_back(parent, &name);
        }
    }

    /// `ino`, which was at the path `from`, and all that is below it, have the numbers they had.
    fn keep_numbers(&self, ino: Ino, from: Vec<u8>) {
        let to = self.path(ino).expect("it was named just now");
        let mut moved = VecDeque::from([(ino, from, to)]);
        for _ in 0..MOVED_NUMBERS_MAX {
            let Some((ino, from, to)) = moved.pop_front() else { return };
            self.numbers.moved(&from, &to, ino);
            let children = self.folder(ino).into_iter().flat_map(|folder| &folder.children);
            for (name, &child) in children.take(MOVED_NUMBERS_MAX.saturating_sub(moved.len())) {
                let (mut from, mut to) = (from.clone(), to.clone());
                push_name(&mut from, name);
                push_name(&mut to, name);
                moved.push_back((child, from, to));
            }
        }
    }

    /// Gives each of two nodes, neither of which is below the other, the name of the other.
    pub(super) fn swap(&mut self, one: Ino, other: Ino) {
        let place = |ino| match self.node(ino).map(|node| &node.place) {
            Some(Place::Named { parent, name }) => Some((*parent, name.clone())),
            Some(Place::Root | Place::Unlinked | Place::Replaced) | None => None,
        };
        let (Some(first), Some(second)) = (place(one), place(other)) else { return };
        self.unname(one);
        self.rename(other, (first.0, &first.1));
        self.rename(one, (second.0, &second.1));
    }

    fn unname(&mut self, ino: Ino) {
        let Some(node) = self.node(ino) else { return };
        let is_folder = node.as_folder().is_some();
        if let Place::Named { parent, name } = node.place.clone() {
            let folder = self.folder_mut(parent).expect("a parent is a folder");
            // It may have lost the name to another already.
            if folder.children.get(&name) == Some(&ino) {
                folder.leave(&name, is_folder);
            }
        }
    }

    /// The names in the folder `ino` changed here.
    pub(super) fn names_changed(&mut self, ino: Ino, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(&ino) else { return };
        let before = node.looks.mtime;
        node.looks.names_changed(now);
        // Of a folder of which nobody ever said anything nothing is written down.
        if node.looks.source == Source::Assumed {
            return;
        }
        let noted = self.note(ino, What::Time);
        // A crash must not take a folder back to a time long ago; it is not worth a record for each
        // of its names.
        if before.secs != now.secs {
            self.unrecorded.extend(noted);
        }
    }

    /// The kernel knows `ino`. Returns whether we do.
    pub(super) fn hold(&mut self, ino: Ino) -> bool {
        let Some(node) = self.nodes.get_mut(&ino) else { return false };
        if let Hold::Idle(tick) = node.hold {
            self.idle.remove(Some(tick));
            node.hold = Hold::Held;
        }
        true
    }

    /// The kernel no longer knows `ino`.
    pub(super) fn let_go(&mut self, ino: Ino) {
        let Some(node) = self.nodes.get_mut(&ino) else { return };
        match (&node.place, node.hold) {
            (Place::Root, _) | (_, Hold::Idle(_)) => {}
            (Place::Named { .. }, Hold::Held) => {
                node.hold = Hold::Idle(self.idle.touch(ino, None));
            }
            (Place::Unlinked | Place::Replaced, Hold::Held) => self.remove(ino),
        }
    }

    /// `ino` was of use: it goes later.
    pub(super) fn touch(&mut self, ino: Ino) {
        if let Some(node) = self.nodes.get_mut(&ino)
            && let Hold::Idle(tick) = node.hold
        {
            node.hold = Hold::Idle(self.idle.touch(ino, Some(tick)));
        }
    }

    /// Forgets nodes that nobody holds until at most `nodes_max` of them are left: the least lately
    /// used first, but none with unpublished bytes, a folder after what is in it, and not `spared`.
    pub(super) fn shrink(&mut self, nodes_max: usize, spared: Option<Ino>) {
        let mut skips = 0;
        while nodes_max < self.idle.len() && skips < SHRINK_SKIPS_MAX {
            let ino = self.idle.first().expect("there are more than none");
            let node = &self.nodes[&ino];
            let empty = node.as_folder().is_none_or(|folder| folder.children.is_empty());
            let stays = node.unpublished() || self.is_elsewhere(ino) || self.spared.contains(&ino);
            if stays || !empty || spared == Some(ino) {
                self.touch(ino);
                skips += 1;
                continue;
            }
            if let Place::Named { parent, name } = node.place.clone() {
                self.unname(ino);
                let folder = self.folder_mut(parent).expect("a parent is a folder");
                folder.windows.forget(&name);
            }
            self.remove(ino);
        }
    }

    fn remove(&mut self, ino: Ino) {
        self.elsewhere.remove(&ino);
        self.arriving.remove(&ino);
        self.uploads.remove(&ino);
        if let Some(Node { hold: Hold::Idle(tick), .. }) = self.nodes.remove(&ino) {
            self.idle.remove(Some(tick));
        }
    }
}

/// Adds a name to a path.
fn push_name(path: &mut Vec<u8>, name: &Name) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
}
