//! What the bucket told becomes what is remembered.

use std::time::Duration;

use base::{FileKind, Ino, Name};
use remote::Key;

use super::attributes::item::{Item, Label, OWN};
use super::changes::Ticket;
use super::form::Form;
use super::keys::Company;
use super::listing::{Seen, There, Told};
use super::looks::{Looks, Source};
use super::merge::{Below, Held, Here, Verdict, verdict};
use super::nodes::{Bytes, File, Folder, Hold, Kind, Node, Outfit, Place, Stored};
use super::tree::{Defaults, Tree};
use super::window::{Range, Window};
use super::{foreign, keys};
use crate::Special;

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

    /// Takes in that a name is there, or not, and nothing of its neighbours.
    pub(super) fn tell_name(
        &mut self,
        ticket: &Ticket,
        dir: Ino,
        name: &Name,
        there: There,
        as_of: Duration,
    ) {
        if !ticket.tells(dir, name)
            || self.knows_better(dir, name, as_of)
            || self.is_alias(dir, name, &there)
        {
            return;
        }
        let ino = self.child(dir, name);
        let mut verdict = verdict(self.here(ino, &there), &there);
        if verdict == Verdict::Refresh {
            verdict = self.verdict_on_form((dir, name), ino, &there);
        }
        match (verdict, ino) {
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
            Kind::Folder(_)
                if !matches!(there, There::Folder | There::OnTheWay)
                    && self.unpublished_below(ino) =>
            {
                Here::Folder { below: Below::Unpublished }
            }
            Kind::Folder(_) => Here::Folder { below: Below::Published },
        }
    }

    fn add(&mut self, dir: Ino, name: &Name, there: There, as_of: Duration) {
        let Ok(prefix) = self.prefix("lookup", dir) else { return };
        let (kind, outfit) = match there {
            There::Nothing => return,
            There::Folder | There::OnTheWay => {
                let on_the_way = there == There::OnTheWay;
                let folder = Folder { on_the_way, ..Folder::default() };
                let outfit = self.folder_outfit(&keys::folder(&prefix, name), &prefix);
                (Kind::Folder(folder), outfit)
            }
            There::File(seen) => {
                let outfit = self.outfit(&prefix, name, &seen);
                (Kind::File(Tree::file_seen(keys::file(&prefix, name), seen, &outfit)), outfit)
            }
        };
        let ino = self.insert((dir, name), kind, outfit.looks, as_of);
        if let Some(node) = self.node_mut(ino) {
            node.xattrs = outfit.xattrs;
        }
    }

    fn file_seen(key: Key, seen: Seen, outfit: &Outfit) -> File {
        let Seen { size, version, modified, metadata: _ } = seen;
        let taken_in = Some((version.clone(), modified));
        let stored = Stored { key, version, size };
        File { form: outfit.form.clone(), taken_in, ..File::stored(stored) }
    }

    /// Whether an object that is the one we know is what we took it for: a link that only a listing
    /// showed looks like a file.
    fn verdict_on_form(
        &self,
        (dir, name): (Ino, &Name),
        ino: Option<Ino>,
        there: &There,
    ) -> Verdict {
        let (Some(node), There::File(seen)) = (ino.and_then(|ino| self.node(ino)), there) else {
            return Verdict::Refresh;
        };
        let (Kind::File(file), Ok(prefix)) = (&node.kind, self.prefix("lookup", dir)) else {
            return Verdict::Refresh;
        };
        let outfit = self.outfit(&prefix, name, seen);
        let informed = match outfit.looks.source {
            Source::Assumed | Source::Doubtful => false,
            Source::Object | Source::Kept | Source::Here => true,
        };
        match node.hold {
            _ if !informed || file.form.is_like(&outfit.form) => Verdict::Refresh,
            Hold::Held => Verdict::Replace,
            Hold::Idle(_) => Verdict::Renew,
        }
    }

    fn refresh(&mut self, ino: Ino, there: &There, as_of: Duration) {
        let Some(node) = self.node(ino) else { return };
        let told = match (node.looks.source, there, self.place_of(ino)) {
            // The first HEAD of an object that was only listed until now.
            (Source::Assumed | Source::Doubtful, There::File(seen), Some((prefix, name)))
                if seen.metadata.is_some() =>
            {
                Some(self.outfit(&prefix, &name, seen))
            }
            _ => None,
        };
        let node = self.node_mut(ino).expect("it was there just now");
        if let Kind::Folder(folder) = &mut node.kind {
            folder.on_the_way = *there == There::OnTheWay;
        }
        if let (Kind::File(file), There::File(seen)) = (&mut node.kind, there)
            && file.taken_in.as_ref().is_none_or(|(version, _)| *version != seen.version)
        {
            file.taken_in = Some((seen.version.clone(), seen.modified));
        }
        if let Some(outfit) = told {
            node.put_on(outfit);
        }
        node.as_of = node.as_of.max(Some(as_of));
        self.touch(ino);
    }

    fn renew(&mut self, ino: Ino, there: There, as_of: Duration) {
        let There::File(seen) = there else { return };
        let (Some((prefix, name)), Ok(key)) = (self.place_of(ino), self.key("lookup", ino)) else {
            return;
        };
        let outfit = self.outfit(&prefix, &name, &seen);
        let file = Tree::file_seen(key, seen, &outfit);
        let node = self.node_mut(ino).expect("it has a key");
        node.kind = Kind::File(file);
        node.put_on(outfit);
        node.as_of = Some(as_of);
        self.touch(ino);
    }

    /// Something else is said of these entries of the folder `dir` than before.
    pub(super) fn retell(&mut self, dir: Ino, labels: &[Label]) {
        let Ok(prefix) = self.prefix("attributes", dir) else { return };
        for label in labels {
            let key = prefix.join(label);
            if label == OWN {
                if dir == Ino::ROOT {
                    self.retell_folder(Ino::ROOT, &key, &prefix);
                }
            } else if label.ends_with(b"/") {
                if let Some(ino) = self.folder_at(&key) {
                    self.retell_folder(ino, &key, &prefix);
                }
            } else if let Some(ino) = self.object_named(dir, &prefix, label) {
                self.retell_file(ino, &prefix);
            }
        }
    }

    /// The folder whose keys begin with `prefix`, if it is remembered, and its path is that.
    pub(super) fn folder_at(&self, prefix: &Key) -> Option<Ino> {
        let mut ino = Ino::ROOT;
        let mut begins = 0;
        let slashes = prefix.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (slash, _) in slashes {
            let above = Key::from(&prefix.as_bytes()[..begins]);
            let part = &prefix.as_bytes()[begins..slash];
            ino = self.child(ino, &keys::name(&above, part, Company::Alone)?)?;
            self.folder(ino)?;
            begins = slash + 1;
        }
        (begins == prefix.as_bytes().len()).then_some(ino)
    }

    /// The object whose key goes on with `part` after that of the folder `dir`, if it is remembered.
    pub(super) fn object_named(&self, dir: Ino, prefix: &Key, part: &[u8]) -> Option<Ino> {
        let child = |company| {
            let ino = self.child(dir, &keys::name(prefix, part, company)?)?;
            (!self.is_folder(ino)).then_some(ino)
        };
        child(Company::Alone).or_else(|| child(Company::Folder))
    }

    fn retell_folder(&mut self, ino: Ino, key: &Key, above: &Key) {
        let outfit = self.folder_outfit(key, above);
        let Some(node) = self.node_mut(ino) else { return };
        // That nothing is said any more counts only for what was said before.
        if outfit.looks.source == Source::Kept || node.looks.source == Source::Kept {
            node.put_on(outfit);
        }
    }

    fn retell_file(&mut self, ino: Ino, prefix: &Key) {
        let Some(Place::Named { parent, name }) = self.node(ino).map(|node| node.place.clone())
        else {
            return;
        };
        let Some(node) = self.node(ino) else { return };
        let Kind::File(file) = &node.kind else { return };
        let Bytes::Object(stored) = &file.bytes else { return };
        let seen = Seen {
            size: stored.size,
            version: stored.version.clone(),
            modified: file.modified().unwrap_or(node.looks.mtime),
            metadata: None,
        };
        let mut outfit = self.outfit(prefix, &name, &seen);
        let (as_of, held) = (node.as_of.unwrap_or_default(), node.hold == Hold::Held);
        match (outfit.looks.source, node.looks.source) {
            (Source::Kept, _) if !file.form.is_like(&outfit.form) => {
                if held {
                    self.detach(ino, &Place::Replaced);
                    self.add(parent, &name, There::File(seen), as_of);
                } else {
                    self.renew(ino, There::File(seen), as_of);
                }
            }
            (Source::Kept, _) => {}
            (_, Source::Kept) => {
                // What was said is not said any more, and what the object says is not known.
                outfit.looks.source = Source::Doubtful;
                outfit.form = file.form.clone();
            }
            (_, Source::Assumed | Source::Doubtful | Source::Object | Source::Here) => return,
        }
        if let Some(node) = self.node_mut(ino)
            && matches!(node.place, Place::Named { .. })
        {
            node.put_on(outfit);
        }
    }

    fn place_of(&self, ino: Ino) -> Option<(Key, Name)> {
        match &self.node(ino)?.place {
            Place::Named { parent, name } => {
                Some((self.prefix("lookup", *parent).ok()?, name.clone()))
            }
            Place::Root | Place::Unlinked | Place::Replaced => None,
        }
    }

    /// What is known of an object, and of the name that it has in the folder `prefix`.
    fn outfit(&self, prefix: &Key, name: &Name, seen: &Seen) -> Outfit {
        let key = keys::file(prefix, name);
        let label = &key.as_bytes()[prefix.as_bytes().len()..];
        let item = self.books.as_ref().and_then(|books| books.item(prefix, label));
        let item = item.filter(|item| !item.is_folder());
        let assumed = |form: &Form, source| {
            let Defaults { owner, .. } = self.defaults;
            Looks::new(self.file_mode(form), owner, seen.modified, source)
        };
        match (item, &seen.metadata) {
            (Some(item), _) if item.version.as_ref() == Some(&seen.version) => {
                let form = form_of(item);
                let looks = assumed(&form, Source::Assumed).with_item(item);
                Outfit { looks, form, xattrs: item.xattrs.clone() }
            }
            (_, Some(metadata)) => {
                let form = foreign::form(metadata);
                let looks = assumed(&form, Source::Assumed).with_metadata(metadata);
                Outfit { looks, form, xattrs: None }
            }
            (item, None) => {
                // What is said is of the object that was here before.
                let source = if item.is_some() { Source::Doubtful } else { Source::Assumed };
                let looks = assumed(&Form::Plain, source);
                Outfit { looks, form: Form::Plain, xattrs: None }
            }
        }
    }

    /// What is known of the folder `key` in the folder `above`.
    fn folder_outfit(&self, key: &Key, above: &Key) -> Outfit {
        let Defaults { owner, folder_mode, start, .. } = self.defaults;
        let looks = Looks::new(folder_mode, owner, start, Source::Assumed);
        let label = &key.as_bytes()[above.as_bytes().len()..];
        let item = self.books.as_ref().and_then(|books| books.item(above, label));
        let form = Form::Plain;
        match item.filter(|item| item.is_folder()) {
            Some(item) => {
                Outfit { looks: looks.with_item(item), form, xattrs: item.xattrs.clone() }
            }
            None => Outfit { looks, form, xattrs: None },
        }
    }
}

fn form_of(item: &Item) -> Form {
    match item.kind {
        FileKind::File | FileKind::Directory => Form::Plain,
        FileKind::Symlink => Form::Link(item.target.clone()),
        FileKind::Fifo | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => {
            Form::Special(Special { kind: item.kind, rdev: item.rdev })
        }
    }
}
