//! Makes and removes files and folders.

use std::sync::Arc;
use std::time::Duration;

use base::{FileKind, Ino, Name};
use bytes::Bytes as Body;
use remote::{
    Condition, ErrorKind as RemoteErrorKind, Key, ListRequest, PutOptions, UPLOAD_ID, Version,
};

use super::attributes::delay::What;
use super::attributes::place;
use super::changes::{Changes, Claim};
use super::inherit::inherited;
use super::looks::{Looks, Source};
use super::nodes::{File, Folder, Kind, Place};
use super::shared::{Shared, State, StateGuard};
use super::{keys, listing};
use crate::{Entry, Error, ErrorKind, NewNode, Result};

/// How often a name is looked up anew that others change meanwhile.
const FIND_TRIES_MAX: usize = 3;

/// What the bucket loses with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Loss {
    /// Nothing: it was never there.
    None,
    /// The object with this key.
    Object(Key),
}

/// Whether the bucket would lose a folder together with its last entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vanishing {
    /// It has a marker or other entries.
    No,
    /// It has nothing else.
    Yes,
    /// Only the bucket knows.
    Unknown,
}

impl Shared {
    /// Makes a file that so far exists only here.
    pub(super) async fn create(
        self: &Arc<Self>,
        parent: Ino,
        name: &Name,
        new: NewNode,
    ) -> Result<Entry> {
        if self.find("create", parent, name).await?.is_some() {
            return Err(Error::name(ErrorKind::Exists, "create", name));
        }
        self.check_new("create", (parent, name), FileKind::File).await?;
        let beneath = self.marker_beneath("create", parent, name).await?;
        let _turn = self.beside_here("create", (parent, name)).await?;
        let now = self.clock.monotonic();
        let mut state = self.state();
        state.check_free("create", parent, name)?;
        let new = state.inherited(new, FileKind::File, parent);
        let file = Kind::File(File::local(beneath));
        let ino = self.make(&mut state, (parent, name), file, new, now);
        self.changes.note(parent, name);
        let entry = state.entry(name, ino);
        drop(state);
        self.noted.notify_one();
        Ok(entry)
    }

    /// The marker of the folder `parent` if a file `name` in it would have its key.
    async fn marker_beneath(
        &self,
        op: &'static str,
        parent: Ino,
        name: &Name,
    ) -> Result<Option<Version>> {
        if !keys::first_of(name).is_empty() {
            return Ok(None);
        }
        let prefix = self.state().tree.prefix(op, parent)?;
        match self.remote.head(&prefix).await {
            Ok(meta) => Ok((meta.size == 0).then_some(meta.version)),
            Err(error) if error.kind == RemoteErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::remote(op, error)),
        }
    }

    /// Makes a folder and its marker.
    pub(super) async fn mkdir(
        self: &Arc<Self>,
        parent: Ino,
        name: &Name,
        new: NewNode,
    ) -> Result<Entry> {
        let _turn = self.alone("mkdir", &[(parent, name)]).await?;
        let asked = self.clock.monotonic();
        if self.is_taken("mkdir", parent, name).await? {
            return Err(Error::name(ErrorKind::Exists, "mkdir", name));
        }
        self.check_new("mkdir", (parent, name), FileKind::Directory).await?;
        let _claim = self.changes.claim(parent, name);
        let (marker, new) = {
            let state = self.state();
            state.check_free("mkdir", parent, name)?;
            let marker = keys::folder(&state.tree.prefix("mkdir", parent)?, name);
            (marker, state.inherited(new, FileKind::Directory, parent))
        };
        let looks = Looks::new(new.mode & 0o7777, new.owner, self.clock.wall(), Source::Here);
        match self.put_marker(&marker, &looks, Condition::Absent).await {
            Ok(()) => {}
            Err(error) if error.kind == RemoteErrorKind::Changed => {
                return Err(Error::name(ErrorKind::Exists, "mkdir", name));
            }
            Err(error) => return Err(Error::remote("mkdir", error)),
        }
        let now = self.clock.monotonic();
        let mut state = self.state();
        state.check_free("mkdir", parent, name)?;
        let folder = Folder { marker: true, ..Folder::default() };
        let ino = self.make(&mut state, (parent, name), Kind::Folder(folder), new, now);
        if let Some(books) = &mut state.tree.books {
            books.begin(&marker, asked);
        }
        let entry = state.entry(name, ino);
        drop(state);
        self.note_made("mkdir", ino);
        Ok(entry)
    }

    /// What was just made in the bucket may deviate from what its listing tells.
    pub(super) fn note_made(&self, op: &'static str, ino: Ino) {
        if let Err(error) = self.note(ino, What::Attributes) {
            tracing::warn!(op, %error, "attributes are not safe from a crash yet");
        }
    }

    pub(super) fn make(
        &self,
        state: &mut State,
        place: (Ino, &Name),
        kind: Kind,
        new: NewNode,
        now: Duration,
    ) -> Ino {
        let wall = self.clock.wall();
        let looks = Looks::new(new.mode & 0o7777, new.owner, wall, Source::Here);
        let ino = state.tree.insert(place, kind, looks, now);
        state.tree.names_changed(place.0, wall);
        state.tree.hold(ino);
        state.tree.shrink(self.options.nodes.max(), None);
        ino
    }

    /// Removes a file.
    pub(super) async fn unlink(self: &Arc<Self>, parent: Ino, name: &Name) -> Result<Ino> {
        let _turn = self.alone("unlink", &[(parent, name)]).await?;
        let (ino, _claim) = self.claim_found("unlink", parent, name).await?;
        let loss = self.state().loss("unlink", name, ino)?;
        let Loss::Object(key) = loss else {
            self.removed(parent, ino);
            return Ok(ino);
        };
        self.keep_folder("unlink", parent, name).await?;
        let leaving = self.leave("unlink", ino).await?;
        if let Err(error) = self.remove_object("unlink", parent, &key).await {
            leaving.stay().await;
            return Err(error);
        }
        self.removed(parent, ino);
        Ok(ino)
    }

    /// Removes an empty folder.
    pub(super) async fn rmdir(self: &Arc<Self>, parent: Ino, name: &Name) -> Result<Ino> {
        let _turn = self.alone("rmdir", &[(parent, name)]).await?;
        let (ino, _claim) = self.claim_found("rmdir", parent, name).await?;
        let not_empty = || Error::name(ErrorKind::NotEmpty, "rmdir", name);
        let prefix = self.state().tree.prefix("rmdir", ino)?;
        let below = self.look_below("rmdir", &prefix).await?;
        if below.others || self.state().tree.unpublished_below(ino) {
            return Err(not_empty());
        }
        if below.marker || below.stub.is_some() {
            self.keep_folder("rmdir", parent, name).await?;
        }
        // The marker last: without it what is hidden would be all that is left.
        self.clear_hidden("rmdir", &prefix).await?;
        self.attributes_gone(&prefix);
        for key in below.marker.then_some(&prefix).into_iter().chain(&below.stub) {
            self.remote.delete(key).await.map_err(|error| Error::remote("rmdir", error))?;
        }
        // A file made in the folder meanwhile keeps it.
        if self.state().tree.unpublished_below(ino) {
            return Err(not_empty());
        }
        self.removed(parent, ino);
        Ok(ino)
    }

    /// The node `name` in `parent`, which from now on no answer of the bucket takes from there.
    pub(super) async fn claim_found(
        self: &Arc<Self>,
        op: &'static str,
        parent: Ino,
        name: &Name,
    ) -> Result<(Ino, Claim)> {
        for _ in 0..FIND_TRIES_MAX {
            let found = self.find(op, parent, name).await?;
            let ino = found.ok_or_else(|| Error::name(ErrorKind::NotFound, op, name))?;
            let claim = self.changes.claim(parent, name);
            if self.state().tree.child(parent, name) == Some(ino) {
                return Ok((ino, claim));
            }
        }
        Err(Error::name(ErrorKind::Stale, op, name))
    }

    pub(super) fn removed(&self, parent: Ino, ino: Ino) {
        self.detached(self.state(), parent, ino);
    }

    /// As [`Shared::removed`], unless an upload of it has begun that is none of `uploads`.
    pub(super) fn removed_unless(&self, parent: Ino, ino: Ino, uploads: &[String]) -> bool {
        let state = self.state();
        let begun = state
            .tree
            .uploads
            .get(&ino)
            .is_some_and(|begun| begun.iter().any(|upload| !uploads.contains(upload)));
        if !begun {
            self.detached(state, parent, ino);
        }
        !begun
    }

    fn detached(&self, mut state: StateGuard<'_>, parent: Ino, ino: Ino) {
        let now = self.clock.wall();
        if let Some(node) = state.tree.node_mut(ino) {
            // It has one name less, which who has it open may see.
            node.looks.ctime = now;
        }
        state.tree.detach(ino, &Place::Unlinked);
        state.tree.names_changed(parent, now);
        drop(state);
        self.record_gone("remove", ino);
    }

    /// Makes sure that the folder `dir` is there without its entry `leaving`, which has an object
    /// of its own.
    pub(super) async fn keep_folder(
        &self,
        op: &'static str,
        dir: Ino,
        leaving: &Name,
    ) -> Result<()> {
        if self.has_real_folders() {
            return Ok(());
        }
        let (vanishing, dir, leaving, prefix, looks) = {
            let state = self.state();
            let (dir, leaving) = state.tree.above_chunks(dir, leaving);
            let prefix = state.tree.prefix(op, dir)?;
            let looks = state.tree.node(dir).expect("it has a prefix").looks;
            (state.vanishing(dir, &leaving, &self.changes), dir, leaving, prefix, looks)
        };
        let vanishes = match vanishing {
            Vanishing::No => false,
            Vanishing::Yes => true,
            Vanishing::Unknown => self.would_vanish(op, &prefix, &leaving).await?,
        };
        if !vanishes {
            return Ok(());
        }
        match self.put_marker(&prefix, &looks, Condition::Absent).await {
            Ok(()) => {}
            // It had one after all.
            Err(error) if error.kind == RemoteErrorKind::Changed => {}
            Err(error) => return Err(Error::remote(op, error)),
        }
        if let Some(folder) = self.state().tree.folder_mut(dir) {
            folder.marker = true;
        }
        Ok(())
    }

    async fn would_vanish(&self, op: &'static str, prefix: &Key, leaving: &Name) -> Result<bool> {
        let (file, folder) = (keys::file(prefix, leaving), keys::folder(prefix, leaving));
        // One more than the marker and what leaves, and some that are hidden; in a large folder many
        // are.
        let mut request = ListRequest { entries_max: 6, ..listing::page(prefix, None) };
        loop {
            let page = self.remote.list(&request).await;
            let page = page.map_err(|error| Error::remote(op, error))?;
            let entries = page.entries.iter();
            let mut shown = entries.filter(|entry| !keys::is_hidden(prefix, entry.key()));
            let leaves = |key: &Key| *key == file || *key == folder || self.outbox.is_leaving(key);
            if !shown.all(|entry| leaves(entry.key())) {
                return Ok(false);
            }
            match page.next {
                None => return Ok(true),
                next => {
                    listing::turn(&mut request, next).map_err(|error| Error::remote(op, error))?;
                }
            }
            request.entries_max = listing::PAGE_ENTRIES_MAX;
        }
    }

    /// Removes the attribute objects of a directory that has nothing else but its marker, for a caller that
    /// holds the turn at its path.
    pub(super) async fn clear_hidden(&self, op: &'static str, prefix: &Key) -> Result<()> {
        if !place::has_attributes(prefix, self.remote.personality().key_bytes_max) {
            return Ok(());
        }
        self.remove_attributes(op, prefix).await
    }

    /// Removes the object `key` of a file in the folder `dir`. If it is the folder's own, the folder
    /// keeps an empty one, its marker.
    pub(super) async fn remove_object(&self, op: &'static str, dir: Ino, key: &Key) -> Result<()> {
        self.ledger.sync_uploads();
        if !key.as_bytes().ends_with(b"/") {
            return self.remote.delete(key).await.map_err(|error| Error::remote(op, error));
        }
        let looks = match self.state().tree.node(dir) {
            Some(node) => node.looks,
            None => return Err(Error::node(ErrorKind::Stale, op, dir)),
        };
        let emptied = self.put_marker(key, &looks, Condition::Always).await;
        emptied.map_err(|error| Error::remote(op, error))?;
        if let Some(folder) = self.state().tree.folder_mut(dir) {
            folder.marker = true;
        }
        Ok(())
    }

    /// Makes the empty object that says that a folder is there.
    pub(super) async fn put_marker(
        &self,
        marker: &Key,
        looks: &Looks,
        condition: Condition,
    ) -> remote::Result<()> {
        let conditional = self.remote.personality().conditional_writes;
        let condition = if conditional { condition } else { Condition::Always };
        let mut metadata = looks.metadata(FileKind::Directory);
        metadata.insert(UPLOAD_ID.to_owned(), self.random_name(marker));
        let options = PutOptions { condition, metadata };
        self.remote.put(marker, Body::new(), &options).await.map(|_| ())
    }
}

impl State {
    /// Fails unless `parent` is a folder with a name and without the entry `name`.
    pub(super) fn check_free(&self, op: &'static str, parent: Ino, name: &Name) -> Result<()> {
        self.tree.prefix(op, parent)?;
        match self.tree.child(parent, name) {
            Some(_) => Err(Error::name(ErrorKind::Exists, op, name)),
            None => Ok(()),
        }
    }

    /// `new` as it is to be in the folder `parent`.
    pub(super) fn inherited(&self, new: NewNode, kind: FileKind, parent: Ino) -> NewNode {
        self.tree.node(parent).map_or(new, |folder| inherited(new, kind, &folder.looks))
    }

    /// What the bucket loses with the file `ino`.
    fn loss(&self, op: &'static str, name: &Name, ino: Ino) -> Result<Loss> {
        let node = self.tree.node(ino).ok_or_else(|| Error::node(ErrorKind::Stale, op, ino))?;
        match &node.kind {
            Kind::Folder(_) => Err(Error::name(ErrorKind::IsDirectory, op, name)),
            Kind::File(file) if file.in_bucket().is_none() => Ok(Loss::None),
            Kind::File(_) => Ok(Loss::Object(self.tree.key(op, ino)?)),
        }
    }

    /// Whether the bucket would lose `dir` with its entry `leaving`. An old listing will do: a
    /// marker too many does no harm.
    fn vanishing(&self, dir: Ino, leaving: &Name, changes: &Changes) -> Vanishing {
        let Some(folder) = self.tree.folder(dir) else { return Vanishing::No };
        // What is being changed may be leaving as well.
        let stays = |name: &Name| name != leaving && !changes.is_claimed(dir, name);
        let mut others = folder.children.iter().filter(|(name, _)| stays(name));
        let in_bucket = |ino: Ino| {
            self.tree.node(ino).is_some_and(|node| match &node.kind {
                Kind::File(file) => file.in_bucket().is_some(),
                Kind::Folder(_) => true,
            })
        };
        if dir == Ino::ROOT || folder.marker || others.any(|(_, &ino)| in_bucket(ino)) {
            return Vanishing::No;
        }
        if folder.windows.all().is_some() { Vanishing::Yes } else { Vanishing::Unknown }
    }
}
