//! Gives a file or folder another name.
//!
//! Bytes that only this mount has move without a request. An object is copied, then removed under
//! its old name, if it is still what was copied. The journal knows of it in between: after a crash
//! the next mount sees to it that there is one of the two.

use std::sync::Arc;

use base::{FileKind, Ino};
use remote::{Condition, ErrorKind as RemoteErrorKind, Key, Version};

use super::journal::{FileMove, Record};
use super::keys;
use super::land::{Landing, Spot};
use super::nodes::{Bytes, Kind, Stored};
use super::shared::{Shared, State};
use super::turns::is_within;
use crate::{Error, ErrorKind, RenameMode, Result};

const OP: &str = "rename";

/// Others replaced what was to be moved.
const CHANGED: ErrorKind = ErrorKind::Remote(RemoteErrorKind::Changed);

/// How often names are looked up anew that others change meanwhile.
const TRIES_MAX: usize = 3;

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
    /// Two names change places.
    Exchange(Ino),
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
    Object(Stored),
}

impl Shared {
    /// Moves `from` to `to`.
    pub(super) async fn rename(
        self: &Arc<Self>,
        from: Spot<'_>,
        to: Spot<'_>,
        mode: RenameMode,
    ) -> Result<Option<Ino>> {
        let _turn = self.alone(OP, &[from, to]).await?;
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
            state.check_apart(from, to, source, mode)?;
            let what = |ino| if state.tree.is_folder(ino) { What::Folder } else { What::File };
            let replaced = target.map(|ino| (ino, what(ino)));
            plan((source, what(source)), replaced, mode)
                .map_err(|kind| Error::name(kind, OP, to.1))?
        };
        let folder = match plan {
            Plan::Folder | Plan::FolderOver(_) => true,
            Plan::Exchange(_) => self.state().tree.is_folder(source),
            Plan::Nothing | Plan::File => false,
        };
        if folder && keys::is_chunk_name(from.1) {
            // Other keys begin like that and are not shown in it.
            return Err(Error::name(ErrorKind::Invalid, OP, from.1));
        }
        let kind = if folder { FileKind::Directory } else { FileKind::File };
        self.check_new(OP, to, kind).await?;
        let moved = match plan {
            Plan::Nothing => return Ok(Outcome::Done(None)),
            Plan::File => self.move_file((from, source), (to, target), mode).await,
            Plan::Folder => self.move_folder((from, source), to, None).await,
            Plan::FolderOver(over) => self.move_folder((from, source), to, Some(over)).await,
            Plan::Exchange(other) => {
                self.exchange((from, source), (to, other)).await?;
                return Ok(Outcome::Done(None));
            }
        };
        match moved {
            Ok(()) => Ok(Outcome::Done(target)),
            Err(error) if error.kind == CHANGED => Ok(Outcome::Changed(error)),
            Err(error) => Err(error),
        }
    }

    async fn move_file(
        self: &Arc<Self>,
        (from, source): (Spot<'_>, Ino),
        (to, target): (Spot<'_>, Option<Ino>),
        mode: RenameMode,
    ) -> Result<()> {
        let (movement, key, over) = {
            let state = self.state();
            let key = keys::file(&state.tree.prefix(OP, to.0)?, to.1);
            (state.movement(source)?, key, state.object_at(to))
        };
        let leaving = match target {
            Some(target) => Some(self.leave(OP, target).await?),
            None => None,
        };
        let moved = match movement {
            Move::Here { leftover } => {
                let moved = self.move_here((from, source), to, leftover).await;
                moved.map_err(Failed::Before)
            }
            Move::Object(stored) => {
                let condition = match mode {
                    RenameMode::Replace => Condition::Always,
                    RenameMode::NoReplace | RenameMode::Exchange => Condition::Absent,
                };
                let (old, version) = (stored.key.clone(), stored.version.clone());
                let planned = FileMove { from: old, to: key, version, over };
                self.move_object((from, source), to, planned, (stored, condition)).await
            }
        };
        match moved {
            Ok(()) => Ok(()),
            Err(Failed::After(error)) => Err(error),
            Err(Failed::Before(error)) => {
                if let Some(leaving) = leaving {
                    leaving.stay().await;
                }
                Err(error)
            }
        }
    }

    /// Moves a file whose bytes are here.
    async fn move_here(
        self: &Arc<Self>,
        (from, source): (Spot<'_>, Ino),
        to: Spot<'_>,
        leftover: Option<Key>,
    ) -> Result<()> {
        if let Some(leftover) = leftover {
            if from.0 != to.0 {
                self.keep_folder(OP, from.0, from.1).await?;
            }
            self.remove_object(OP, from.0, &leftover).await?;
        }
        self.land_file(from, to, source, Landing::Here);
        Ok(())
    }

    /// Moves a file whose bytes, or those they are made from, are an object.
    async fn move_object(
        self: &Arc<Self>,
        (from, source): (Spot<'_>, Ino),
        to: Spot<'_>,
        planned: FileMove,
        (stored, condition): (Stored, Condition),
    ) -> std::result::Result<(), Failed> {
        if from.0 != to.0 {
            self.keep_folder(OP, from.0, from.1).await.map_err(Failed::Before)?;
        }
        let key = planned.to.clone();
        let record = self.note_ahead(OP, &Record::MoveFile(planned.clone()));
        let record = record.map_err(Failed::Before)?;
        let version = match self.copy(&stored, &key, &condition).await {
            Ok(version) => version,
            Err(error) => {
                // Who asked hears of it: no later mount may finish it.
                self.ledger.strike(&[record]);
                return Err(Failed::Before(error));
            }
        };
        let there = match (self.check_source(&stored).await, &planned.over) {
            (Ok(there), _) => there,
            (Err(error), Some(_)) if error.kind != CHANGED => {
                // What had the new name is gone, so it counts; the next mount removes the old one.
                let landing = Landing::Object(Stored { key, version, ..stored });
                self.land_file(from, to, source, landing);
                return Err(Failed::After(error));
            }
            (Err(error), over) => {
                if over.is_none() {
                    self.take_back(&key, &version).await;
                }
                self.ledger.strike(&[record]);
                return Err(Failed::After(error));
            }
        };
        // Before the old object goes, so that who reads the file goes on with the new one.
        let landing = Landing::Object(Stored { key, version, ..stored.clone() });
        self.land_file(from, to, source, landing);
        if there == There::Yes {
            self.remove_object(OP, from.0, &stored.key).await.map_err(Failed::After)?;
        }
        self.ledger.strike(&[record]);
        Ok(())
    }

    /// Removes a copy that is of no use.
    async fn take_back(&self, key: &Key, version: &Version) {
        let removed = match self.remote.head(key).await {
            Ok(meta) if meta.version == *version => self.remote.delete(key).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "a file that was to be renamed has both names");
        }
    }

    async fn copy(&self, stored: &Stored, key: &Key, condition: &Condition) -> Result<Version> {
        let copied = self.remote.copy(stored.original(), key, condition).await;
        copied.map_err(|error| match (error.kind, condition) {
            // The source was found just now: it is as stale as one that was replaced.
            (RemoteErrorKind::NotFound, _) => {
                let changed = remote::Error::new(RemoteErrorKind::Changed, "copy", &stored.key);
                Error::remote(OP, changed)
            }
            _ => Error::remote(OP, error),
        })
    }

    /// Whether what was copied is still there; `Changed` if it was replaced since.
    async fn check_source(&self, stored: &Stored) -> Result<There> {
        match self.remote.head(&stored.key).await {
            Ok(meta) if meta.version == stored.version => Ok(There::Yes),
            Ok(_) => {
                let changed = remote::Error::new(RemoteErrorKind::Changed, "head", &stored.key);
                Err(Error::remote(OP, changed))
            }
            Err(error) if error.kind == RemoteErrorKind::NotFound => Ok(There::No),
            Err(error) => Err(Error::remote(OP, error)),
        }
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

/// When a move failed.
#[derive(Debug)]
enum Failed {
    /// Before anything had the new name.
    Before(Error),
    /// The object of the new name is another one already.
    After(Error),
}

/// Whether an object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Yes,
    No,
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
            Bytes::Object(stored) | Bytes::Edited(stored) => Move::Object(stored.clone()),
        })
    }

    /// Fails where a folder would go below itself.
    fn check_apart(
        &self,
        from: Spot<'_>,
        to: Spot<'_>,
        source: Ino,
        mode: RenameMode,
    ) -> Result<()> {
        let (old, new) = (self.path_of(OP, from)?, self.path_of(OP, to)?);
        let below = old != new && is_within(&new, &old) && self.tree.is_folder(source);
        let above = mode == RenameMode::Exchange && old != new && is_within(&old, &new);
        if below || above { Err(Error::name(ErrorKind::Invalid, OP, to.1)) } else { Ok(()) }
    }
}

/// Whether and how `from` may move to where `to` is.
fn plan(
    from: (Ino, What),
    to: Option<(Ino, What)>,
    mode: RenameMode,
) -> std::result::Result<Plan, ErrorKind> {
    match (from.1, to, mode) {
        (_, None, RenameMode::Exchange) => Err(ErrorKind::NotFound),
        (_, Some((to, _)), RenameMode::Replace | RenameMode::Exchange) if to == from.0 => {
            Ok(Plan::Nothing)
        }
        (_, Some((other, _)), RenameMode::Exchange) => Ok(Plan::Exchange(other)),
        (_, Some(_), RenameMode::NoReplace) => Err(ErrorKind::Exists),
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
        use RenameMode::{Exchange, NoReplace, Replace};
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
            (Folder, None, Exchange, Err(ErrorKind::NotFound)),
            (Folder, Some((b, File)), Exchange, Ok(Plan::Exchange(b))),
            (File, Some((a, File)), Exchange, Ok(Plan::Nothing)),
        ] {
            assert_eq!(plan((a, from), to, mode), want, "{from:?} {to:?} {mode:?}");
        }
    }
}
