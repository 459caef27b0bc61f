//! What the bucket told becomes what is remembered.

use std::time::Duration;

use base::{Ino, Name};

use super::changes::Ticket;
use super::keys;
use super::listing::{Seen, There, Told};
use super::looks::{Looks, Source};
use super::merge::{Below, Held, Here, Verdict, verdict};
use super::nodes::{Bytes, File, Folder, Hold, Kind, Node, Place, Stored};
use super::tree::Tree;
use super::window::{Range, Window};

impl Tree {
    /// Takes in what was told of the folder `dir`, about the names in `window` and no others.
    pub(super) fn tell(&mut self, ticket: &Ticket, dir: Ino, mut told: Told, window: Window) {
        let Some(folder) = self.folder_mut(dir) else { return };
        folder.marker |= told.marker;
        if window.range == Range::All {
            folder.marker = told.marker;
        }
        told.names.retain(|name, _| window.range.covers(name));
        let remembered = window.range.within(&folder.children).into_iter();
        let unmentioned = remembered.filter(|(name, _)| !told.names.contains_key(*name));
        let unmentioned = unmentioned.map(|(name, _)| name.clone()).collect();
        let contested = self.tell_names(ticket, dir, (told, unmentioned), window.as_of);
        if let Some(folder) = self.folder_mut(dir)
            && !contested
        {
            folder.windows.add(window);
        }
    }

    /// Takes in what was told of names in the folder `dir`, and that others are not there. Returns
    /// whether one of them is here for nobody to say: then an absent name may yet be there.
    pub(super) fn tell_names(
        &mut self,
        ticket: &Ticket,
        dir: Ino,
        (told, unmentioned): (Told, Vec<Name>),
        as_of: Duration,
    ) -> bool {
        // Folders first: the files of their names then stand beside them. A file after the folder
        // that it takes the place of, and before what is said of the one beside that.
        for (name, (there, as_of)) in &told.names {
            if *there == There::Folder || self.is_folder_of(dir, name) {
                self.tell_name(ticket, dir, name, there.clone(), *as_of);
            }
        }
        for name in unmentioned {
            self.tell_name(ticket, dir, &name, There::Nothing, as_of);
        }
        let mut contested = false;
        for (name, (there, as_of)) in told.names {
            contested |= self.contested(ticket, dir, &name);
            if there != There::Folder {
                self.tell_name(ticket, dir, &name, there, as_of);
            }
        }
        contested
    }

    /// The bucket has keys below the folder `name` in `dir`, which is remembered.
    pub(super) fn tell_folder_exists(
        &mut self,
        ticket: &Ticket,
        (dir, name): (Ino, &Name),
        as_of: Duration,
    ) {
        if self.child(dir, name).is_some() {
            self.tell_name(ticket, dir, name, There::Folder, as_of);
        }
    }

    /// Takes in what was told of one name.
    pub(super) fn tell_one(
        &mut self,
        ticket: &Ticket,
        (dir, name): (Ino, &Name),
        there: There,
        as_of: Duration,
    ) {
        let contested = there != There::Nothing && self.contested(ticket, dir, name);
        self.tell_name(ticket, dir, name, there, as_of);
        if let Some(folder) = self.folder_mut(dir)
            && !contested
        {
            folder.windows.add(Window { range: Range::One(name.clone()), as_of });
        }
    }

    fn tell_name(&mut self, ticket: &Ticket, dir: Ino, name: &Name, there: There, as_of: Duration) {
        if !ticket.tells(dir, name)
            || self.knows_better(dir, name, as_of)
            || self.is_alias(dir, name, &there)
        {
            return;
        }
        let ino = self.child(dir, name);
        match (verdict(self.here(ino, &there), &there), ino) {
            (Verdict::Keep, _) => {}
            (Verdict::Add, _) => self.add(dir, name, there, as_of),
            (Verdict::Refresh, Some(ino)) => self.refresh(ino, &there, as_of),
            (Verdict::Renew, Some(ino)) => self.renew(ino, there, as_of),
            (Verdict::Replace | Verdict::Remove, Some(ino)) => {
                self.detach(ino, &Place::Replaced);
                match self.child(dir, name) {
                    // It stood beside the folder that was removed, and is told of now.
                    Some(_) => self.tell_name(ticket, dir, name, there, as_of),
                    None => self.add(dir, name, there, as_of),
                }
            }
            (Verdict::StepAside, Some(ino)) => {
                if self.step_aside(ino) {
                    self.node_mut(ino).expect("it was there just now").as_of = None;
                } else if self.node(ino).is_some_and(Node::unpublished) {
                    return;
                } else {
                    self.detach(ino, &Place::Replaced);
                }
                self.add(dir, name, there, as_of);
            }
            (verdict, None) => panic!("{verdict:?} of a name that is not remembered"),
        }
    }

    fn is_folder_of(&self, dir: Ino, name: &Name) -> bool {
        self.child(dir, name).is_some_and(|ino| self.is_folder(ino))
    }

    /// Whether `name` says that it is beside a folder, and there is none here: the object has the
    /// folder's name already.
    fn is_alias(&self, dir: Ino, name: &Name, there: &There) -> bool {
        let Some(what) = keys::beside_what(name).filter(|_| *there != There::Nothing) else {
            return false;
        };
        match self.child(dir, &what) {
            Some(ino) => !self.is_folder(ino),
            // The folder of a name that is just short enough is shown above.
            None => !self.prefix("lookup", dir).is_ok_and(|prefix| keys::is_chunk(&prefix)),
        }
    }

    /// Whether `name`, which the bucket has, is not here because of a change on this mount: one that
    /// may yet fail, so that nobody is to conclude that the name is absent.
    fn contested(&self, ticket: &Ticket, dir: Ino, name: &Name) -> bool {
        !ticket.tells(dir, name) && self.child(dir, name).is_none()
    }

    /// Whether a question asked later than at `as_of` was answered already.
    fn knows_better(&self, dir: Ino, name: &Name, as_of: Duration) -> bool {
        let Some(folder) = self.folder(dir) else { return false };
        let known = match folder.children.get(name).and_then(|&ino| self.node(ino)) {
            Some(node) => node.as_of,
            None => folder.windows.covering(name).map(|window| window.as_of),
        };
        known.is_some_and(|known| as_of < known)
    }

    fn here(&self, ino: Option<Ino>, there: &There) -> Here<'_> {
        let Some((ino, node)) = ino.and_then(|ino| Some((ino, self.node(ino)?))) else {
            return Here::Nothing;
        };
        match &node.kind {
            Kind::File(File { bytes: Bytes::Object(stored), .. }) => {
                let held = if node.hold == Hold::Held { Held::Yes } else { Held::No };
                Here::File { version: &stored.version, held }
            }
            Kind::File(File { bytes: Bytes::Local { .. } | Bytes::Edited(_), .. }) => {
                Here::Unpublished
            }
            // Looking through all that is below is for the rare folder that is gone.
            Kind::Folder(_) if *there != There::Folder && self.unpublished_below(ino) => {
                Here::Folder { below: Below::Unpublished }
            }
            Kind::Folder(_) => Here::Folder { below: Below::Published },
        }
    }

    fn add(&mut self, dir: Ino, name: &Name, there: There, as_of: Duration) {
        let (kind, seen) = match there {
            There::Nothing => return,
            There::Folder => (Kind::Folder(Folder::default()), None),
            There::File(seen) => {
                let Ok(prefix) = self.prefix("lookup", dir) else { return };
                let key = keys::file(&prefix, name);
                let stored = Stored { key, version: seen.version.clone(), size: seen.size };
                (Kind::File(File::stored(stored)), Some(seen))
            }
        };
        let looks = self.looks_of(&kind, seen.as_ref());
        self.insert((dir, name), kind, looks, as_of);
    }

    fn refresh(&mut self, ino: Ino, there: &There, as_of: Duration) {
        let Some(node) = self.node(ino) else { return };
        let looks = match (node.looks.source, there) {
            // The first HEAD of an object that was only listed until now.
            (Source::Assumed, There::File(seen)) if seen.metadata.is_some() => {
                self.looks_of(&node.kind, Some(seen))
            }
            (Source::Assumed | Source::Object | Source::Here, _) => node.looks,
        };
        let node = self.node_mut(ino).expect("it was there just now");
        node.looks = looks;
        node.as_of = node.as_of.max(Some(as_of));
        self.touch(ino);
    }

    fn renew(&mut self, ino: Ino, there: There, as_of: Duration) {
        let (Some(node), There::File(seen)) = (self.node(ino), there) else { return };
        let looks = self.looks_of(&node.kind, Some(&seen));
        let Ok(key) = self.key("lookup", ino) else { return };
        let stored = Stored { key, version: seen.version, size: seen.size };
        let node = self.node_mut(ino).expect("it was there just now");
        node.looks = looks;
        node.kind = Kind::File(File::stored(stored));
        node.as_of = Some(as_of);
        self.touch(ino);
    }

    fn looks_of(&self, kind: &Kind, seen: Option<&Seen>) -> Looks {
        let assumed = self.assumed(kind, seen.map(|seen| seen.modified));
        match seen.and_then(|seen| seen.metadata.as_ref()) {
            Some(metadata) => assumed.with_metadata(metadata),
            None => assumed,
        }
    }
}
