//! What was moved in the bucket moves in the tree.

use base::{Ino, Name};
use remote::Key;

use super::carry::Cargo;
use super::keys;
use super::nodes::{Bytes, File, Kind, Place, Stored};
use super::shared::{Shared, State};
use super::tree::Tree;
use crate::Use;

/// A folder and a name in it.
pub(super) type Spot<'a> = (Ino, &'a Name);

/// What a file is to hold when it has its new name.
#[derive(Debug)]
pub(super) enum Landing {
    /// Its bytes are on this mount only.
    Here,
    /// Its bytes, or those they are made from, are this object.
    Object(Stored),
}

impl Shared {
    /// The file `source` has the name `to` and is what `landing` says.
    pub(super) fn land_file(&self, from: Spot<'_>, to: Spot<'_>, source: Ino, landing: Landing) {
        {
            let mut state = self.state();
            let beneath = state.object_at(to);
            let Some(node) = state.tree.node_mut(source) else { return };
            let Kind::File(file) = &mut node.kind else { return };
            match landing {
                Landing::Here => file.bytes = Bytes::Local { beneath },
                Landing::Object(stored) => file.follow(stored),
            }
            self.renamed(&mut state, from, to, source);
        }
        self.record_noted_or_log("rename", source);
        self.tell_of(&[source]);
    }

    /// The folder `source` has the name `to`, and what is below it is where `cargo` went.
    pub(super) fn land_folder(
        &self,
        from: Spot<'_>,
        to: Spot<'_>,
        (source, prefix): (Ino, &Key),
        cargo: &Cargo,
    ) {
        let files = {
            let mut state = self.state();
            let files = state.tree.follow(source, prefix, cargo);
            self.changes.note_moved(source);
            if let Some(folder) = state.tree.folder_mut(source) {
                folder.marker |= cargo.is_empty();
            }
            self.renamed(&mut state, from, to, source);
            files
        };
        self.record_noted_or_log("rename", source);
        self.tell_of(&files);
    }

    /// Tells those who use one of these files where its bytes are now.
    pub(super) fn tell_of(&self, files: &[Ino]) {
        for &ino in files.iter().filter(|&&ino| self.in_use(ino) != Use::No) {
            let content = match self.state().tree.node(ino).map(|node| &node.kind) {
                Some(Kind::File(file)) => self.content_of(file),
                Some(Kind::Folder(_)) | None => continue,
            };
            self.tell_users(ino, content);
        }
    }

    /// The bucket is as it should be: so is the tree.
    pub(super) fn renamed(&self, state: &mut State, from: Spot<'_>, to: Spot<'_>, source: Ino) {
        let wall = self.clock.wall();
        let now = self.clock.monotonic();
        if let Some(replaced) = state.tree.child(to.0, to.1) {
            if let Some(node) = state.tree.node_mut(replaced) {
                node.looks.ctime = wall;
            }
            state.tree.detach(replaced, &Place::Unlinked);
        }
        // The folders may have been removed by others while the bucket was at work.
        if state.tree.node(source).is_none_or(|node| !matches!(node.place, Place::Named { .. })) {
            return;
        }
        if state.tree.prefix("rename", to.0).is_err() {
            state.tree.detach(source, &Place::Replaced);
            return;
        }
        state.tree.rename(source, to);
        if let Some(node) = state.tree.node_mut(source) {
            node.as_of = Some(now);
            node.looks.ctime = wall;
        }
        state.tree.names_changed(from.0, wall);
        state.tree.names_changed(to.0, wall);
    }
}

impl State {
    /// The object that the bucket has under the name of a file.
    pub(super) fn object_at(&self, (parent, name): Spot<'_>) -> Option<remote::Version> {
        match &self.tree.node(self.tree.child(parent, name)?)?.kind {
            Kind::File(file) => file.in_bucket().cloned(),
            Kind::Folder(_) => None,
        }
    }
}

impl Tree {
    /// All files below `ino` hold the objects to which theirs were copied, below `prefix`. Returns
    /// them. A file whose object was not copied, because others changed it, has no name any more.
    pub(super) fn follow(&mut self, ino: Ino, prefix: &Key, cargo: &Cargo) -> Vec<Ino> {
        let mut files = Vec::new();
        let mut folders = vec![(ino, Key::from(""))];
        while let Some((folder, rest)) = folders.pop() {
            for (name, child) in self.entries_of(folder) {
                let Some(node) = self.node_mut(child) else { continue };
                match &mut node.kind {
                    Kind::Folder(_) => folders.push((child, keys::folder(&rest, &name))),
                    Kind::File(file) => {
                        if follow_file(file, prefix, &keys::file(&rest, &name), cargo) {
                            files.push(child);
                        } else {
                            self.detach(child, &Place::Replaced);
                            if let Some(folder) = self.folder_mut(folder) {
                                folder.windows.forget(&name);
                            }
                        }
                    }
                }
            }
        }
        files
    }

    /// All files below `ino`.
    pub(super) fn files_below(&self, ino: Ino) -> Vec<Ino> {
        let (mut files, mut folders) = (Vec::new(), vec![ino]);
        while let Some(folder) = folders.pop() {
            for child in self.children(folder) {
                if self.is_folder(child) { folders.push(child) } else { files.push(child) }
            }
        }
        files
    }

    fn entries_of(&self, folder: Ino) -> Vec<(Name, Ino)> {
        let children = self.folder(folder).map(|folder| folder.children.iter());
        children.into_iter().flatten().map(|(name, &ino)| (name.clone(), ino)).collect()
    }
}

/// Whether the file is still one.
fn follow_file(file: &mut File, prefix: &Key, rest: &Key, cargo: &Cargo) -> bool {
    let key = prefix.join(rest.as_bytes());
    let moved = file.in_bucket().map(|old| (old.clone(), cargo.now(rest.as_bytes(), old)));
    match (&mut file.bytes, moved) {
        (Bytes::Local { beneath }, moved) => {
            *beneath = moved.and_then(|(_, now)| now);
            true
        }
        (Bytes::Object(stored), Some((_, Some(version)))) => {
            *stored = Stored { key, version, size: stored.size };
            true
        }
        (Bytes::Object(_), _) => false,
        // Of an edit that lost what it was made from, the upload will be refused.
        (Bytes::Edited(stored), moved) => {
            let version = moved.and_then(|(_, now)| now);
            let version = version.unwrap_or_else(|| stored.version.clone());
            *stored = Stored { key, version, size: stored.size };
            true
        }
    }
}
