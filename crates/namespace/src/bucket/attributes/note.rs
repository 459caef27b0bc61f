//! What is changed on this mount becomes an entry that is to be written.

use std::time::Duration;

use base::{FileKind, Ino, Timestamp};
use remote::{Key, Version};

use super::book::{Origin, Pending};
use super::carried;
use super::delay::What;
use super::item::{Item, Label, OWN};
use super::place;
use super::read::Want;
use super::record::{self, Noted};
use crate::bucket::form::Form;
use crate::bucket::keys;
use crate::bucket::looks::{Looks, Said, Source};
use crate::bucket::nodes::{Bytes, File, Kind, Node, Place};
use crate::bucket::options::{Attributes, Returns};
use crate::bucket::record::Subject;
use crate::bucket::shared::Shared;
use crate::bucket::tree::Tree;
use crate::{Error, ErrorKind, RecordId, Result};

impl Shared {
    /// Notes how `ino` looks now. When this returns, it survives the death of this process, or goes with the bytes of
    /// a file that the bucket does not have yet.
    pub(in crate::bucket) fn note(&self, ino: Ino, what: What) -> Result<()> {
        {
            let mut state = self.state();
            let Some((entry, item)) = state.tree.said_of(ino) else { return Ok(()) };
            let noted = state.tree.note_item(entry, item, what);
            state.tree.unrecorded.extend(noted);
        }
        self.record_noted("note attributes", ino)
    }

    /// Notes how the uploaded file `ino` looks now. Where nobody waits for uploads it survives the death
    /// of this process as soon as what is noted next does: before that the upload is not known to be done
    /// either.
    pub(in crate::bucket) fn note_uploaded(&self, ino: Ino) -> Result<()> {
        self.note_in_memory(ino, What::Time);
        self.record_as_promised("note attributes", ino)
    }

    fn note_in_memory(&self, ino: Ino, what: What) {
        let mut state = self.state();
        let noted = state.tree.note(ino, what);
        state.tree.unrecorded.extend(noted);
    }

    /// Fails if what is to be said of `ino` can never be written: a program is to hear of it.
    pub(in crate::bucket) async fn check_sayable(&self, op: &'static str, ino: Ino) -> Result<()> {
        let Some((prefix, label)) = self.state().tree.entry_of(ino) else { return Ok(()) };
        let is_known = {
            let state = self.state();
            let book = state.tree.books.as_ref().and_then(|books| books.get(&prefix));
            book.is_some_and(|book| book.knows(&label))
        };
        if !is_known && let Err(error) = self.freshen(op, &prefix, Want::One(&label)).await {
            tracing::debug!(%error, "a change is noted without knowing what it changes");
        }
        let state = self.state();
        let book = state.tree.books.as_ref().and_then(|books| books.get(&prefix));
        if book.is_some_and(|book| book.is_foreign(&label)) {
            return Err(Error::node(ErrorKind::Unsupported, op, ino));
        }
        Ok(())
    }

    /// Tells the ledger of all changes that it has not heard of, and who writes them. When this
    /// returns, it has all that was noted before: one caller after the other tells it, in the order
    /// in which the changes were made, and what it does not take is told again by the next.
    pub(in crate::bucket) fn record_noted(&self, op: &'static str, ino: Ino) -> Result<()> {
        self.record_noted_soon(op, ino)?;
        let failed = |failed| Error::node(ErrorKind::Journal(failed), op, ino);
        self.ledger.settle().map_err(failed)
    }

    /// As [`Shared::record_noted`], if who asked for the change waits for the bucket.
    fn record_as_promised(&self, op: &'static str, ino: Ino) -> Result<()> {
        match self.options.returns {
            Returns::InBucket => self.record_noted(op, ino),
            Returns::Journaled => self.record_noted_soon(op, ino),
        }
    }

    /// As [`Shared::record_noted`], for changes that may be lost until something else is noted.
    fn record_noted_soon(&self, op: &'static str, ino: Ino) -> Result<()> {
        let recording = self.recording.lock();
        let (unrecorded, usual) = {
            let mut state = self.state();
            let unrecorded = std::mem::take(&mut state.tree.unrecorded);
            let Some(books) = &state.tree.books else { return Ok(()) };
            let usual = books.usual();
            // What is in the bucket already, or was changed once more, needs no record.
            let current = unrecorded.into_iter().filter(|noted| state.tree.is_pending(noted));
            (current.collect::<Vec<_>>(), usual)
        };
        let (mut untaken, mut taken) = (Vec::new(), Ok(()));
        for noted in unrecorded {
            let record = Subject::Attributes.record(&noted.words(usual));
            let id = match self.ledger.append_soon(&record) {
                Ok(id) => id,
                Err(failed) => {
                    untaken.push(noted);
                    taken = Err(Error::node(ErrorKind::Journal(failed), op, ino));
                    continue;
                }
            };
            let useless = self.state().tree.recorded(&noted, id);
            if !useless.is_empty() {
                self.ledger.strike_soon(&useless);
            }
        }
        self.state().tree.unrecorded.splice(0..0, untaken);
        drop(recording);
        // Also what only the memory knows of is to be written.
        self.noted.notify_one();
        taken
    }

    /// As [`Shared::record_noted`] where what was changed is in the bucket already: what the ledger
    /// does not take is written all the same, if no crash comes before that.
    pub(in crate::bucket) fn record_noted_or_log(&self, op: &'static str, ino: Ino) {
        if let Err(error) = self.record_noted(op, ino) {
            tracing::warn!(%error, "attributes are not safe from a crash yet");
        }
    }

    /// As [`Shared::record_noted_or_log`] for names that are gone: what is said of them is void.
    pub(in crate::bucket) fn record_gone(&self, op: &'static str, ino: Ino) {
        if let Err(error) = self.record_as_promised(op, ino) {
            tracing::warn!(%error, "attributes are not safe from a crash yet");
        }
    }

    /// What an earlier process had to say of a file is said of this version, which is there now.
    pub(in crate::bucket) fn recovered(&self, version: &Version, said: &[u8]) {
        let Some((prefix, label, Some(item))) = record::read(said) else { return };
        let item = Item { version: Some(version.clone()), ..item };
        let noted = self.state().tree.note_item((prefix, label), Some(item), What::Attributes);
        self.state().tree.unrecorded.extend(noted);
        self.record_noted_or_log("recover", Ino::ROOT);
    }

    /// What is to be said of the file `ino` where it is when the folders above it have arrived.
    pub(in crate::bucket) fn said_at_last(&self, ino: Ino) -> Vec<u8> {
        let (said, key) = {
            let state = self.state();
            let said = state.tree.said_ahead(ino);
            if !state.tree.is_arriving(ino) {
                return said;
            }
            (said, state.tree.key_at_last("attributes", ino))
        };
        match key {
            Ok(key) => self.said_at(said, &key),
            Err(_) => said,
        }
    }

    /// What was to be said of a file, for what has the key `key` instead.
    pub(in crate::bucket) fn said_at(&self, said: Vec<u8>, key: &Key) -> Vec<u8> {
        let state = self.state();
        let entry = carried::entry_at(key, state.tree.key_bytes_max);
        let (Some((_, _, item)), Some((prefix, label)), Some(books)) =
            (record::read(&said), entry, &state.tree.books)
        else {
            return said;
        };
        Noted { prefix, label, item, number: 0 }.words(books.usual())
    }

    /// Takes over a change that an earlier process noted. False if it cannot be read.
    pub(in crate::bucket) fn replay_attributes(&self, id: RecordId, words: &[u8]) -> bool {
        let Some((prefix, label, item)) = record::read(words) else { return false };
        let mut state = self.state();
        let Some(books) = &mut state.tree.books else { return false };
        let due = books.due_in(Duration::ZERO);
        let number = books.next_number();
        let records = match self.options.attributes {
            Attributes::Kept => vec![id],
            // It is another mount that carries it out.
            Attributes::Shown | Attributes::Off => Vec::new(),
        };
        let pending = Pending { item, number, due, records, origin: Origin::Replay };
        let useless = books.get_mut(&prefix).note(label, pending);
        drop(state);
        if !useless.is_empty() {
            self.ledger.strike(&useless);
        }
        self.noted.notify_one();
        true
    }
}

impl Tree {
    /// Notes how `ino` looks now. `None` if that is known already, or is not for the bucket yet.
    pub(in crate::bucket) fn note(&mut self, ino: Ino, what: What) -> Option<Noted> {
        let (entry, item) = self.said_of(ino)?;
        self.note_item(entry, item, what)
    }

    /// Notes that nothing is to be said of an entry any more.
    pub(in crate::bucket) fn note_gone(&mut self, ino: Ino) {
        let Some(entry) = self.entry_of(ino) else { return };
        if self.is_local(ino) && self.is_entry_of_moving(&entry) {
            return;
        }
        // What goes with the name is in no hurry: the entry of an object that is gone is void.
        let noted = self.note_item(entry, None, What::Time);
        self.unrecorded.extend(noted);
    }

    /// Whether the bytes of `ino` are only here, so that nothing was ever said of its object.
    fn is_local(&self, ino: Ino) -> bool {
        let kind = self.node(ino).map(|node| &node.kind);
        matches!(kind, Some(Kind::File(File { bytes: Bytes::Local { .. }, .. })))
    }

    /// Whether what is said under this name is said of a file that has another name by now.
    fn is_entry_of_moving(&self, entry: &(Key, Label)) -> bool {
        let at = |key| carried::entry_at(key, self.key_bytes_max);
        self.elsewhere.values().any(|key| at(key).as_ref() == Some(entry))
    }

    /// The node `ino` was moved here; it had the entry `from`.
    pub(in crate::bucket) fn note_moved(&mut self, ino: Ino, from: Option<(Key, Label)>) {
        let to = self.entry_of(ino);
        if from == to {
            return;
        }
        if let Some(from) = from
            && !(self.is_local(ino) && self.is_entry_of_moving(&from))
        {
            let noted = self.note_item(from, None, What::Attributes);
            self.unrecorded.extend(noted);
        }
        let Some((prefix, label)) = to else { return };
        let Some(node) = self.node_mut(ino) else { return };
        if let Kind::File(File { bytes: Bytes::Local { beneath: Some(_) }, .. }) = &node.kind {
            // The object that it replaces goes on with its attributes until it is replaced.
            self.forget_removal(&prefix, &label);
            return;
        }
        if node.looks.source == Source::Assumed && node.looks.said == Said::Nobody {
            // It was what its listing said; the copy's listing says something else.
            node.looks.source = Source::Here;
        }
        let noted = self.note(ino, What::Attributes);
        self.unrecorded.extend(noted);
    }

    fn forget_removal(&mut self, prefix: &Key, label: &[u8]) {
        let Some(books) = &mut self.books else { return };
        let book = books.get_mut(prefix);
        if book.pending.get(label).is_some_and(|pending| pending.item.is_none()) {
            book.pending.remove(label);
        }
    }

    /// What is to be said of `ino`, and where; `None` if its object is yet to come, or nothing is
    /// said of such.
    pub(super) fn said_of(&self, ino: Ino) -> Option<((Key, Label), Option<Item>)> {
        let (prefix, label) = self.entry_of(ino)?;
        match self.item_of(self.node(ino)?, &prefix, &label) {
            Described::Item(item) => {
                Some(((prefix, label), Some(item).filter(|item| !item.is_plain())))
            }
            Described::NotYet => None,
        }
    }

    /// What is to be said of the file `ino` when its bytes are in the bucket, for [`Shared::recovered`].
    pub(in crate::bucket) fn said_ahead(&self, ino: Ino) -> Vec<u8> {
        let (Some((prefix, label)), Some(books)) = (self.entry_of(ino), &self.books) else {
            return Vec::new();
        };
        let Some(Node { kind: Kind::File(file), looks, xattrs, .. }) = self.node(ino) else {
            return Vec::new();
        };
        let item = Item {
            kind: file.form.kind(),
            mode: Some(looks.mode),
            uid: Some(looks.owner.uid),
            gid: Some(looks.owner.gid),
            mtime: Some(looks.mtime),
            atime: Some(looks.atime),
            ctime: Some(looks.ctime),
            rdev: file.form.rdev(),
            target: match &file.form {
                Form::Link(target) => target.clone(),
                Form::Plain | Form::Special(_) => None,
            },
            xattrs: xattrs.clone(),
            // It is not known yet.
            version: Some(Version::new("-")),
        };
        Noted { prefix, label, item: Some(item), number: 0 }.words(books.usual())
    }

    /// What the extended attributes of all names take that are in an object with those of `ino`.
    pub(in crate::bucket) fn xattrs_beside(&self, ino: Ino) -> usize {
        let Some((prefix, label)) = self.entry_of(ino) else { return 0 };
        let book = self.books.as_ref().and_then(|books| books.get(&prefix));
        book.map_or(0, |book| book.xattrs_beside(&label))
    }

    /// Notes what is to be said of a name. `None` if that is known already.
    pub(super) fn note_item(
        &mut self,
        (prefix, label): (Key, Label),
        item: Option<Item>,
        what: What,
    ) -> Option<Noted> {
        if self.is_on_the_way(&prefix) {
            // What may not be looked at is not changed.
            return None;
        }
        let books = self.books.as_mut()?;
        let due = books.due_in(what.delay());
        let number = books.next_number();
        let book = books.get_mut(&prefix);
        if book.is_foreign(&label) {
            // It holds for as long as this mount does.
            return None;
        }
        if book.item(&label) == item.as_ref() && (item.is_some() || book.knows(&label)) {
            return None;
        }
        let pending =
            Pending { item: item.clone(), number, due, records: Vec::new(), origin: Origin::Now };
        // No record goes in, and there are never too many, so none comes out that is of no use.
        let useless = book.note(label.clone(), pending);
        assert!(useless.is_empty(), "records that nobody strikes out");
        Some(Noted { prefix, label, item, number })
    }

    /// Whether the last that was noted of a name is this, and the bucket does not have it.
    fn is_pending(&self, noted: &Noted) -> bool {
        let book = self.books.as_ref().and_then(|books| books.get(&noted.prefix));
        let pending = book.and_then(|book| book.pending.get(&noted.label));
        pending.is_some_and(|pending| pending.number == noted.number)
    }

    /// The ledger has the change; returns which records are of no use any more.
    fn recorded(&mut self, noted: &Noted, id: RecordId) -> Vec<RecordId> {
        let Some(books) = &mut self.books else { return vec![id] };
        let book = books.get_mut(&noted.prefix);
        match book.pending.get_mut(&noted.label) {
            Some(pending) if noted.number <= pending.number => pending.record(id),
            // It is written already.
            Some(_) | None => vec![id],
        }
    }

    /// Where the attributes of `ino` are written down: in the object of a folder, and under which
    /// label there.
    pub(in crate::bucket) fn entry_of(&self, ino: Ino) -> Option<(Key, Label)> {
        let node = self.node(ino)?;
        if let Some(elsewhere) = self.elsewhere.get(&ino) {
            return carried::entry_at(elsewhere, self.key_bytes_max);
        }
        let (parent, name) = match &node.place {
            Place::Root => {
                let prefix = Key::from("");
                let is_told = place::has_attributes(&prefix, self.key_bytes_max);
                return is_told.then(|| (prefix, OWN.to_vec()));
            }
            Place::Named { parent, name } => (*parent, name),
            Place::Unlinked | Place::Replaced => return None,
        };
        let prefix = self.prefix("attributes", parent).ok()?;
        if !place::has_attributes(&prefix, self.key_bytes_max) || keys::is_chunk_name(name) {
            return None;
        }
        let key = match &node.kind {
            Kind::File(_) => keys::file(&prefix, name),
            Kind::Folder(_) => keys::folder(&prefix, name),
        };
        let label = key.as_bytes()[prefix.as_bytes().len()..].to_vec();
        Some((prefix, label))
    }

    fn item_of(&self, node: &Node, prefix: &Key, label: &[u8]) -> Described {
        let Looks { mode, owner, atime, mtime, ctime, source: _, said, is_timed: _ } = node.looks;
        let given = |differs: bool| said == Said::Somebody || differs;
        let defaults = self.defaults;
        let other = |time: Timestamp| (time != mtime).then_some(time);
        let (kind, usual_mode, version, mtime) = match &node.kind {
            Kind::Folder(_) => {
                let told = given(mtime != defaults.start).then_some(mtime);
                (FileKind::Directory, defaults.folder_mode, None, told)
            }
            Kind::File(file) => {
                let Some(version) = file.in_bucket() else { return Described::NotYet };
                if matches!(file.bytes, Bytes::Local { .. }) || file.form == Form::Link(None) {
                    return Described::NotYet;
                }
                let known = self.books.as_ref().and_then(|books| books.item(prefix, label));
                let mtime = match &file.bytes {
                    // The bytes in the bucket are older than those here.
                    Bytes::Edited(_) => known
                        .filter(|known| known.version.as_ref() == Some(version))
                        .and_then(|known| known.mtime),
                    Bytes::Object(_) | Bytes::Local { .. } => {
                        (file.modified() != Some(mtime)).then_some(mtime)
                    }
                };
                (file.form.kind(), self.file_mode(&file.form), Some(version.clone()), mtime)
            }
        };
        let (target, rdev) = match &node.kind {
            Kind::File(File { form: Form::Link(target), .. }) => (target.clone(), 0),
            Kind::File(file) => (None, file.form.rdev()),
            Kind::Folder(_) => (None, 0),
        };
        Described::Item(Item {
            kind,
            mode: given(mode != usual_mode).then_some(mode),
            uid: given(owner.uid != defaults.owner.uid).then_some(owner.uid),
            gid: given(owner.gid != defaults.owner.gid).then_some(owner.gid),
            mtime,
            atime: other(atime),
            ctime: other(ctime),
            rdev,
            target,
            xattrs: node.xattrs.clone(),
            version,
        })
    }

    /// The permission bits of an object that nobody says anything of.
    pub(in crate::bucket) fn file_mode(&self, form: &Form) -> u16 {
        match form {
            Form::Link(_) => 0o777,
            Form::Plain | Form::Special(_) => self.defaults.file_mode,
        }
    }
}

/// What can be said of a node.
enum Described {
    Item(Item),
    /// Its object is yet to come.
    NotYet,
}
