//! Removals and new folders that are made here at once and in the bucket later: what is checked
//! before, and what the bucket is asked.

use std::sync::Arc;
use std::time::Duration;

use base::{FileKind, Ino, Name};
use bytes::Bytes as Body;
use remote::{
    Condition, Entry as Listed, ErrorKind as RemoteErrorKind, Key, Metadata, PutOptions, UPLOAD_ID,
};

use super::carry::{is_prefix, there};
use super::change::{Change, Made};
use super::journal::{Object, Record};
use super::keys;
use super::listing;
use super::looks::{Looks, Source};
use super::make_soon::Whereabouts;
use super::nodes::{Folder, Kind};
use super::shared::{Shared, State};
use super::window::{Range, Window};
use crate::{Entry, Error, ErrorKind, NewNode, Result};

const UNLINK: &str = "unlink";

/// How often a change waits for what is in its way before it is made like those that wait.
const TRIES_MAX: usize = 3;

impl Shared {
    /// Removes a file; the bucket loses it later.
    pub(super) async fn unlink_soon(self: &Arc<Self>, parent: Ino, name: &Name) -> Result<Ino> {
        for _ in 0..TRIES_MAX {
            if let Some(ino) = self.unlink_ahead(parent, name).await? {
                return Ok(ino);
            }
            self.caught_up(UNLINK, &[(parent, name)]).await?;
        }
        self.unlink(parent, name).await
    }

    /// `None` if nobody knows yet what the bucket will lose.
    async fn unlink_ahead(self: &Arc<Self>, parent: Ino, name: &Name) -> Result<Option<Ino>> {
        let room = self.outbox.room().await;
        let place = self.ahead(UNLINK, &[(parent, name)]).await?;
        let (ino, claim) = self.claim_found(UNLINK, parent, name).await?;
        let whereabouts = self.whereabouts(ino);
        if whereabouts == Whereabouts::InTransit {
            return Ok(None);
        }
        let is_in_time = || whereabouts != Whereabouts::Unmade || self.unmake(ino);
        let object = self.state().object_leaving(UNLINK, (parent, name), ino)?;
        let Some(object) = object else {
            let is_removed = is_in_time() && self.removed_unless(parent, ino, &[]);
            return Ok(is_removed.then_some(ino));
        };
        if object.key.as_bytes().ends_with(b"/") {
            // It gives way to a marker: that is for who waits.
            drop((place, claim, room));
            return self.unlink(parent, name).await.map(Some);
        }
        let record = self.note_ahead(UNLINK, &Record::Remove(object.clone()))?;
        if !is_in_time() || !self.removed_unless(parent, ino, &object.uploads) {
            self.ledger.strike(&[record]);
            return Ok(None);
        }
        let change = Change::Remove { object, place: (parent, name.clone()), ino };
        let (dirs, records, claims) = (vec![parent], vec![record], vec![claim]);
        self.send(Made { dirs, change, records, place, claims, room });
        Ok(Some(ino))
    }

    /// Makes a folder; the bucket has its marker later.
    pub(super) async fn mkdir_soon(
        self: &Arc<Self>,
        parent: Ino,
        name: &Name,
        new: NewNode,
    ) -> Result<Entry> {
        const OP: &str = "mkdir";
        let room = self.outbox.room().await;
        let place = self.ahead(OP, &[(parent, name)]).await?;
        let asked = self.clock.monotonic();
        if self.is_taken(OP, parent, name).await? {
            return Err(Error::name(ErrorKind::Exists, OP, name));
        }
        self.check_new(OP, (parent, name), FileKind::Directory).await?;
        let claim = self.changes.claim(parent, name);
        let (marker, new) = {
            let state = self.state();
            state.check_free(OP, parent, name)?;
            let marker = keys::folder(&state.tree.prefix(OP, parent)?, name);
            (marker, state.inherited(new, FileKind::Directory, parent))
        };
        let looks = Looks::new(new.mode & 0o7777, new.owner, self.clock.wall(), Source::Here);
        let metadata = looks.metadata(FileKind::Directory);
        let record = Record::MakeFolder { marker: marker.clone(), metadata };
        let record = self.note_ahead(OP, &record)?;
        let made = {
            let mut state = self.state();
            state.check_free(OP, parent, name).map(|()| {
                let folder = Folder { marker: true, ..Folder::default() };
                let kind = Kind::Folder(folder);
                let ino = self.make(&mut state, (parent, name), kind, new, asked);
                if let Some(folder) = state.tree.folder_mut(ino) {
                    // Nothing is in what was not there.
                    folder.windows.add(Window { range: Range::All, as_of: asked });
                }
                if let Some(books) = &mut state.tree.books {
                    books.begin(&marker, asked);
                }
                (ino, state.entry(name, ino))
            })
        };
        let (ino, entry) = made.inspect_err(|_| self.ledger.strike(&[record]))?;
        self.note_made(OP, ino);
        let change = Change::MakeFolder { marker, looks: Box::new(looks), ino };
        let (dirs, records, claims) = (vec![parent], vec![record], vec![claim]);
        self.send(Made { dirs, change, records, place, claims, room });
        Ok(entry)
    }

    /// Removes an empty folder; the bucket loses its marker later.
    pub(super) async fn rmdir_soon(self: &Arc<Self>, parent: Ino, name: &Name) -> Result<Ino> {
        const OP: &str = "rmdir";
        let room = self.outbox.room().await;
        let place = self.ahead(OP, &[(parent, name)]).await?;
        let (ino, claim) = self.claim_found(OP, parent, name).await?;
        let prefix = self.state().tree.prefix(OP, ino)?;
        if keys::is_chunk(&prefix) || self.shows_below(OP, ino, &prefix).await? {
            drop((place, claim, room));
            // It may still be that others have just emptied it.
            return self.rmdir(parent, name).await;
        }
        let record = self.note_ahead(OP, &Record::RemoveFolder { prefix: prefix.clone() })?;
        if self.state().unsent_below(ino, &self.changes) {
            self.ledger.strike(&[record]);
            return Err(Error::name(ErrorKind::NotEmpty, OP, name));
        }
        self.removed(parent, ino);
        // What is said from now on is said of a directory that is made anew under this name.
        self.attributes_gone(&prefix);
        let change = Change::RemoveFolder { prefix, place: (parent, name.clone()) };
        let (dirs, records, claims) = (vec![parent], vec![record], vec![claim]);
        self.send(Made { dirs, change, records, place, claims, room });
        Ok(ino)
    }

    /// Whether anything is in the folder `ino` that is not about to leave.
    async fn shows_below(&self, op: &'static str, ino: Ino, prefix: &Key) -> Result<bool> {
        if self.state().unsent_below(ino, &self.changes) {
            return Ok(true);
        }
        let mut request = listing::below(prefix, listing::PAGE_ENTRIES_MAX);
        loop {
            let page = self.remote.list(&request).await;
            let page = page.map_err(|error| Error::remote(op, error))?;
            let stays = |entry: &Listed| match entry {
                Listed::Object(key, meta) if key == prefix => 0 < meta.size,
                Listed::Object(key, _) | Listed::Prefix(key) => {
                    !keys::is_hidden(prefix, key) && !self.outbox.is_leaving(key)
                }
            };
            if page.entries.iter().any(stays) {
                return Ok(true);
            }
            match page.next {
                None => return Ok(false),
                next => {
                    listing::turn(&mut request, next).map_err(|error| Error::remote(op, error))?;
                }
            }
        }
    }

    /// Brings a change into the bucket that was made here `age` ago.
    pub(super) async fn make_in_bucket(
        self: &Arc<Self>,
        change: &mut Change,
        age: Duration,
    ) -> Result<()> {
        match change {
            Change::Remove { object, place, ino } => {
                self.keep_folder_at("unlink", place, &object.folder).await?;
                let _leaving = self.leave_nameless("unlink", *ino).await?;
                // What was known when it was removed is as good as a look at it now, for a while.
                let is_known = age < self.options.metadata_ttl && object.uploads.is_empty();
                if is_known || self.is_still("unlink", object).await? {
                    self.ledger.sync_uploads();
                    let removed = self.remote.delete(&object.key).await;
                    removed.map_err(|error| Error::remote("unlink", error))?;
                }
                Ok(())
            }
            Change::MakeFolder { marker, looks, ino: _ } => {
                // Somebody else may have made it.
                let made = self.put_if_absent(marker, looks.metadata(FileKind::Directory)).await;
                made.map_err(|error| Error::remote("mkdir", error))
            }
            Change::RemoveFolder { prefix, place } => {
                let above = prefix.as_bytes().strip_suffix(b"/").unwrap_or_default();
                let above = above.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
                let above = Key::from(&prefix.as_bytes()[..above]);
                self.keep_folder_at("rmdir", place, &above).await?;
                self.remove_folder(prefix).await
            }
            Change::MakeObject { ino, number } => self.send_object(*ino, *number).await,
            Change::Move(moving) => self.move_in_bucket(moving, age).await,
            Change::MoveTree(moving) => self.move_tree_in_bucket(moving).await,
            Change::Rest(slot) => {
                let Some(rest) = slot.take() else { return Ok(()) };
                let finished = self.finish_rest(*rest).await;
                finished.map_err(|(rest, error)| {
                    *slot = Some(Box::new(rest));
                    error
                })
            }
        }
    }

    /// Removes what is left of a folder in the bucket, unless others have put something in it.
    pub(super) async fn remove_folder(&self, prefix: &Key) -> Result<()> {
        let below = self.look_below("rmdir", prefix).await?;
        if below.others {
            tracing::warn!(%prefix, "others have put something into a folder that was removed: it stays");
            return Ok(());
        }
        // The marker last: without it what is hidden would be all that is left.
        self.clear_hidden("rmdir", prefix).await?;
        for key in below.marker.then_some(prefix).into_iter().chain(&below.stub) {
            let removed = self.remote.delete(key).await;
            removed.map_err(|error| Error::remote("rmdir", error))?;
        }
        Ok(())
    }

    /// As [`Shared::keep_folder`], if the folder is where it was, and still there.
    pub(super) async fn keep_folder_at(
        &self,
        op: &'static str,
        (dir, name): &(Ino, Name),
        prefix: &Key,
    ) -> Result<()> {
        if self.state().is_at(*dir, prefix) {
            self.keep_folder(op, *dir, name).await
        } else {
            Ok(())
        }
    }

    /// Whether an object is still the one that was known, or what one of its uploads made of it.
    /// Another one stays.
    pub(super) async fn is_still(&self, op: &'static str, object: &Object) -> Result<bool> {
        let Object { key, version, uploads, .. } = object;
        let found = there(self.remote.head(key).await);
        match found.map_err(|error| Error::remote(op, error))? {
            Some(meta) if version.as_ref() == Some(&meta.version) => Ok(true),
            Some(meta)
                if meta.metadata.get(UPLOAD_ID).is_some_and(|upload| uploads.contains(upload)) =>
            {
                Ok(true)
            }
            Some(_) => {
                tracing::warn!(%key, "others replaced what was removed here: theirs stays");
                Ok(false)
            }
            None => Ok(false),
        }
    }

    /// Whether anything but `key`, or what begins with it if it is a prefix, is shown below `folder`, or the
    /// folder has a marker.
    pub(super) async fn has_others(&self, folder: &Key, key: &Key) -> Result<bool> {
        let mut request = listing::below(folder, listing::PAGE_ENTRIES_MAX);
        loop {
            let page = self.remote.list(&request).await;
            let page = page.map_err(|error| Error::remote("replay", error))?;
            let leaves = |found: &Key| {
                found == key || is_prefix(key) && found.as_bytes().starts_with(key.as_bytes())
            };
            let other =
                |entry: &Listed| !leaves(entry.key()) && !keys::is_hidden(folder, entry.key());
            if page.entries.iter().any(other) {
                return Ok(true);
            }
            match page.next {
                None => return Ok(false),
                next => {
                    let turned = listing::turn(&mut request, next);
                    turned.map_err(|error| Error::remote("replay", error))?;
                }
            }
        }
    }

    /// Makes an empty object, unless there is one.
    pub(super) async fn put_if_absent(&self, key: &Key, metadata: Metadata) -> remote::Result<()> {
        let conditional = self.remote.personality().conditional_writes;
        let condition = if conditional { Condition::Absent } else { Condition::Always };
        let options = PutOptions { condition, metadata };
        match self.remote.put(key, Body::new(), &options).await {
            Err(error) if error.kind == RemoteErrorKind::Changed => Ok(()),
            put => put.map(drop),
        }
    }

    /// The bucket refused the change for good: its word counts again.
    pub(super) fn give_up(&self, change: &Change) {
        let forget = |(dir, name): &(Ino, Name)| {
            if let Some(folder) = self.state().tree.folder_mut(*dir) {
                folder.windows.forget(name);
            }
        };
        match change {
            Change::Remove { place, .. } | Change::RemoveFolder { place, .. } => forget(place),
            Change::MakeFolder { ino, .. } => {
                if let Some(node) = self.state().tree.node_mut(*ino) {
                    node.as_of = None;
                }
            }
            Change::MakeObject { ino, number } => self.give_up_making(*ino, *number),
            Change::Move(moving) => self.give_up_moving(moving),
            Change::MoveTree(moving) => self.give_up_tree(moving),
            Change::Rest(rest) => {
                if let Some(rest) = rest {
                    self.give_up_rest(rest);
                }
            }
        }
    }
}

impl State {
    /// The object that the bucket loses with the file `ino`, if it has one.
    fn object_leaving(
        &self,
        op: &'static str,
        (parent, name): (Ino, &Name),
        ino: Ino,
    ) -> Result<Option<Object>> {
        let node = self.tree.node(ino).ok_or_else(|| Error::node(ErrorKind::Stale, op, ino))?;
        let Kind::File(file) = &node.kind else {
            return Err(Error::name(ErrorKind::IsDirectory, op, name));
        };
        let uploads = self.tree.uploads.get(&ino).cloned().unwrap_or_default();
        let version = file.in_bucket().cloned();
        if version.is_none() && uploads.is_empty() {
            return Ok(None);
        }
        let (key, folder) = (self.tree.key(op, ino)?, self.tree.prefix(op, parent)?);
        Ok(Some(Object { key, version, uploads, folder }))
    }

    /// Whether something is in the folder `ino` that the bucket does not have yet.
    fn unsent_below(&self, ino: Ino, changes: &super::changes::Changes) -> bool {
        let made = |name: &Name| changes.is_claimed(ino, name);
        self.tree.unpublished_below(ino)
            || self.tree.folder(ino).is_some_and(|folder| folder.children.keys().any(made))
    }
}
