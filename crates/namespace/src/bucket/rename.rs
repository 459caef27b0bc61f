//! Gives a file or an empty folder another name.
//!
//! Bytes that only this mount has move without a request. An object is copied, then removed under
//! its old name, if it is still what was copied: without a crash nobody sees neither, and after one
//! there are at worst two.

use std::sync::Arc;

use base::{FileKind, Ino, Name};
use remote::{Condition, ErrorKind as RemoteErrorKind, Key, Version};

use super::keys;
use super::nodes::{Bytes, Kind, Node, Place, Stored};
use super::shared::{Shared, State};
use crate::{Error, ErrorKind, RenameMode, Result};

const OP: &str = "rename";

/// How often names are looked up anew that others change meanwhile.
const TRIES_MAX: usize = 3;

/// A folder and a name in it.
type Spot<'a> = (Ino, &'a Name);

/// What is to be renamed, for deciding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    File,
    Folder,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Both names are of the same node.
    Nothing,
    /// A file moves, perhaps over another.
    File,
    /// A folder moves to a name that is free.
    Folder,
    /// A folder moves over another, which must be empty.
    FolderOver(Ino),
}

/// How one try went.
#[derive(Debug)]
enum Outcome {
    /// Well; this was replaced.
    Done(Option<Ino>),
    /// What was believed of the names was older than the bucket: they are to be looked up anew.
    Changed(Error),
}

/// How a file is moved.
#[derive(Debug)]
enum Move {
    /// Its bytes are here; the old key may hold an object that they were to replace.
    Here {
        /// That object, to be removed.
        leftover: Option<Key>,
    },
    /// Its bytes, or those they are made from, are an object.
    Object {
        /// Which one.
        stored: Stored,
        /// Whether bytes made from it are here.
        edited: bool,
    },
}

impl Shared {
    /// Moves `from` to `to`.
    pub(super) async fn rename(
        self: &Arc<Self>,
        from: Spot<'_>,
        to: Spot<'_>,
        mode: RenameMode,
    ) -> Result<Option<Ino>> {
        for _ in 1..TRIES_MAX {
            match self.rename_once(from, to, mode).await? {
                Outcome::Done(replaced) => return Ok(replaced),
                Outcome::Changed(_) if self.expire(from) => {}
                Outcome::Changed(error) => return Err(error),
            }
        }
        match self.rename_once(from, to, mode).await? {
            Outcome::Done(replaced) => Ok(replaced),
            Outcome::Changed(error) => Err(error),
        }
    }

    async fn rename_once(
        self: &Arc<Self>,
        from: Spot<'_>,
        to: Spot<'_>,
        mode: RenameMode,
    ) -> Result<Outcome> {
        let target = self.find(OP, to.0, to.1).await?;
        let source = self.find(OP, from.0, from.1).await?;
        let source = source.ok_or_else(|| Error::name(ErrorKind::NotFound, OP, from.1))?;
        let _claims = (self.changes.claim(from.0, from.1), self.changes.claim(to.0, to.1));
        let plan = {
            let state = self.state();
            if state.tree.child(from.0, from.1) != Some(source)
                || state.tree.child(to.0, to.1) != target
            {
                return Ok(Outcome::Changed(Error::name(ErrorKind::Stale, OP, from.1)));
            }
            let what = |ino| if state.tree.is_folder(ino) { What::Folder } else { What::File };
            let replaced = target.map(|ino| (ino, what(ino)));
            plan((source, what(source)), replaced, mode)
                .map_err(|kind| Error::name(kind, OP, to.1))?
        };
        let folder = matches!(plan, Plan::Folder | Plan::FolderOver(_));
        if folder && keys::is_chunk_name(from.1) {
            // Other keys begin like that and are not shown in it.
            return Err(Error::name(ErrorKind::Invalid, OP, from.1));
        }
        let kind = if folder { FileKind::Directory } else { FileKind::File };
        self.check_new(OP, to, kind).await?;
        let moved = match plan {
            Plan::Nothing => return Ok(Outcome::Done(None)),
            Plan::File => self.move_file((from, source), to, mode).await,
            Plan::Folder => self.move_folder((from, source), to, None).await,
            Plan::FolderOver(over) => self.move_folder((from, source), to, Some(over)).await,
        };
        match moved {
            Ok(()) => {
                self.renamed(from, to, source);
                self.record_noted_or_log(OP, source);
                Ok(Outcome::Done(target))
            }
            Err(error) if error.kind == ErrorKind::Remote(RemoteErrorKind::Changed) => {
                Ok(Outcome::Changed(error))
            }
            Err(error) => Err(error),
        }
    }

    async fn move_file(
        &self,
        (from, source): (Spot<'_>, Ino),
        to: Spot<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let (movement, key) = {
            let state = self.state();
            (state.movement(source)?, keys::file(&state.tree.prefix(OP, to.0)?, to.1))
        };
        match movement {
            Move::Here { leftover: None } => self.land(source, to, None),
            Move::Here { leftover: Some(leftover) } => {
                if from.0 != to.0 {
                    self.keep_folder(OP, from.0, from.1).await?;
                }
                self.remove_object(OP, from.0, &leftover).await?;
                self.land(source, to, None);
            }
            Move::Object { stored, edited } => {
                let condition = match mode {
                    RenameMode::Replace => Condition::Always,
                    RenameMode::NoReplace | RenameMode::Exchange => Condition::Absent,
                };
                let version = self.copy(&stored, &key, &condition).await?;
                if from.0 != to.0 {
                    self.keep_folder(OP, from.0, from.1).await?;
                }
                self.delete_unchanged(from.0, &stored).await?;
                self.land(source, to, Some((Stored { key, version, ..stored }, edited)));
            }
        }
        Ok(())
    }

    async fn copy(&self, stored: &Stored, key: &Key, condition: &Condition) -> Result<Version> {
        let copied = self.remote.copy(&stored.key, &stored.version, key, condition).await;
        copied.map_err(|error| match (error.kind, condition) {
            // The source was found just now: it is as stale as one that was replaced.
            (RemoteErrorKind::NotFound, _) => {
                let changed = remote::Error::new(RemoteErrorKind::Changed, "copy", &stored.key);
                Error::remote(OP, changed)
            }
            _ => Error::remote(OP, error),
        })
    }

    /// Removes what was copied, unless it was replaced since.
    async fn delete_unchanged(&self, dir: Ino, stored: &Stored) -> Result<()> {
        match self.remote.head(&stored.key).await {
            Ok(meta) if meta.version == stored.version => {
                self.remove_object(OP, dir, &stored.key).await
            }
            Ok(_) => {
                let changed = remote::Error::new(RemoteErrorKind::Changed, "head", &stored.key);
                Err(Error::remote(OP, changed))
            }
            Err(error) if error.kind == RemoteErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::remote(OP, error)),
        }
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.remote.delete(key).await.map_err(|error| Error::remote(OP, error))
    }

    /// The file `source` is to hold, under its new name, the object in `moved`.
    fn land(&self, source: Ino, to: Spot<'_>, moved: Option<(Stored, bool)>) {
        let mut state = self.state();
        let beneath = state.object_at(to);
        let Some(Node { kind: Kind::File(file), .. }) = state.tree.node_mut(source) else { return };
        file.bytes = match moved {
            Some((stored, true)) => Bytes::Edited(stored),
            Some((stored, false)) => Bytes::Object(stored),
            None => Bytes::Local { beneath },
        };
    }

    /// Moves the marker of a folder that has nothing else.
    async fn move_folder(
        &self,
        (from, source): (Spot<'_>, Ino),
        to: Spot<'_>,
        over: Option<Ino>,
    ) -> Result<()> {
        let (old, new, looks) = {
            let state = self.state();
            let node = state.tree.node(source);
            let looks = node.ok_or_else(|| Error::node(ErrorKind::Stale, OP, source))?.looks;
            let new = keys::folder(&state.tree.prefix(OP, to.0)?, to.1);
            (state.tree.prefix(OP, source)?, new, looks)
        };
        if new.as_bytes().starts_with(old.as_bytes()) {
            return Err(Error::name(ErrorKind::Unsupported, OP, to.1));
        }
        let below = self.look_below(OP, &old).await?;
        if below.others || self.state().tree.unpublished_below(source) {
            return Err(Error::name(ErrorKind::Unsupported, OP, from.1));
        }
        if let Some(over) = over {
            let below = self.look_below(OP, &new).await?;
            if below.others || self.state().tree.unpublished_below(over) {
                return Err(Error::name(ErrorKind::NotEmpty, OP, to.1));
            }
        }
        let marker = self.put_marker(&new, &looks, Condition::Always).await;
        marker.map_err(|error| Error::remote(OP, error))?;
        if below.marker {
            if from.0 != to.0 {
                self.keep_folder(OP, from.0, from.1).await?;
            }
            self.clear_hidden(OP, &old).await?;
            self.delete(&old).await?;
        }
        let mut state = self.state();
        if let Some(folder) = state.tree.folder_mut(source) {
            folder.marker = true;
        }
        // What is still remembered in it is not there any more, as was just seen.
        state.tree.empty(source);
        Ok(())
    }

    /// The bucket is as it should be: so is the tree.
    fn renamed(&self, from: Spot<'_>, to: Spot<'_>, source: Ino) {
        let wall = self.clock.wall();
        let now = self.clock.monotonic();
        let mut state = self.state();
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
        if state.tree.prefix(OP, to.0).is_err() {
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

    /// Stops believing what is remembered of the file `name`; false if its newest bytes are here.
    fn expire(&self, (parent, name): Spot<'_>) -> bool {
        let mut state = self.state();
        let Some(ino) = state.tree.child(parent, name) else { return true };
        let Some(node) = state.tree.node_mut(ino) else { return true };
        if node.unpublished() {
            return false;
        }
        node.as_of = None;
        true
    }
}

impl State {
    fn movement(&self, source: Ino) -> Result<Move> {
        let key = self.tree.key(OP, source)?;
        let node = self.tree.node(source).expect("it has a key");
        let Kind::File(file) = &node.kind else {
            return Err(Error::node(ErrorKind::IsDirectory, OP, source));
        };
        Ok(match &file.bytes {
            Bytes::Local { beneath } => Move::Here { leftover: beneath.as_ref().map(|_| key) },
            Bytes::Object(stored) => Move::Object { stored: stored.clone(), edited: false },
            Bytes::Edited(stored) => Move::Object { stored: stored.clone(), edited: true },
        })
    }

    /// The object that the bucket has under the name of a file.
    fn object_at(&self, (parent, name): Spot<'_>) -> Option<Version> {
        match &self.tree.node(self.tree.child(parent, name)?)?.kind {
            Kind::File(file) => file.in_bucket().cloned(),
            Kind::Folder(_) => None,
        }
    }
}

/// Whether and how `from` may move to where `to` is.
fn plan(
    from: (Ino, What),
    to: Option<(Ino, What)>,
    mode: RenameMode,
) -> std::result::Result<Plan, ErrorKind> {
    match (from.1, to, mode) {
        (_, _, RenameMode::Exchange) => Err(ErrorKind::Unsupported),
        (_, Some(_), RenameMode::NoReplace) => Err(ErrorKind::Exists),
        (_, Some((to, _)), RenameMode::Replace) if to == from.0 => Ok(Plan::Nothing),
        (What::File, Some((_, What::Folder)), _) => Err(ErrorKind::IsDirectory),
        (What::Folder, Some((_, What::File)), _) => Err(ErrorKind::NotDirectory),
        (What::File, None | Some((_, What::File)), _) => Ok(Plan::File),
        (What::Folder, None, _) => Ok(Plan::Folder),
        (What::Folder, Some((over, What::Folder)), _) => Ok(Plan::FolderOver(over)),
    }
}

#[cfg(test)]
mod tests {
    use base::Ino;

    use super::{Plan, What, plan};
    use crate::{ErrorKind, RenameMode};

    #[test]
    fn what_may_replace_what_is_as_in_posix() {
        use RenameMode::{NoReplace, Replace};
        use What::{File, Folder};
        let (a, b) = (Ino(10), Ino(11));
        for (from, to, mode, want) in [
            (File, None, Replace, Ok(Plan::File)),
            (File, None, NoReplace, Ok(Plan::File)),
            (File, Some((b, File)), Replace, Ok(Plan::File)),
            (File, Some((b, File)), NoReplace, Err(ErrorKind::Exists)),
            (File, Some((b, Folder)), Replace, Err(ErrorKind::IsDirectory)),
            (File, Some((a, File)), Replace, Ok(Plan::Nothing)),
            (Folder, None, Replace, Ok(Plan::Folder)),
            (Folder, Some((b, Folder)), Replace, Ok(Plan::FolderOver(b))),
            (Folder, Some((b, File)), Replace, Err(ErrorKind::NotDirectory)),
            (Folder, Some((a, Folder)), Replace, Ok(Plan::Nothing)),
        ] {
            assert_eq!(plan((a, from), to, mode), want, "{from:?} {to:?} {mode:?}");
        }
    }
}
