//! Gives a file or folder another name.
//!
//! Bytes that only this mount has move without a request. An object is copied, then removed under
//! its old name, if it is still what was copied; or moved in one step, if the store can (`at_once.rs`).
//! The journal knows of it in between: after a crash the next mount sees to it that there is one of the
//! two.

use std::collections::HashSet;
use std::sync::Arc;

use base::{FileKind, Ino};
use remote::{Condition, ErrorKind as RemoteErrorKind, Key, Version};

use super::alike::may_have_arrived;
use super::carry::{Cargo, Route};
use super::journal::{FileMove, Record};
use super::keys;
use super::land::{Landing, Spot};
use super::marks::Manner;
use super::nodes::{Bytes, Kind, Stored};
use super::persist::{Failed, Rest, Unclear};
use super::shared::{Shared, State};
use super::turns::is_within;
use crate::{Error, ErrorKind, RecordId, RenameMode, Result};

const OP: &str = "rename";

/// Others replaced what was to be moved.
pub(super) const CHANGED: ErrorKind = ErrorKind::Remote(RemoteErrorKind::Changed);

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
pub(super) enum Plan {
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
    /// The store failed in the middle: this is left to do.
    Unfinished(Error, Box<Rest>),
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

/// A node that is not forgotten meanwhile.
struct Spared<'a> {
    shared: &'a Shared,
    ino: Ino,
}

impl Drop for Spared<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(at) = state.tree.spared.iter().position(|spared| *spared == self.ino) {
            state.tree.spared.swap_remove(at);
        }
    }
}

impl Shared {
    fn spare(&self, ino: Ino) -> Spared<'_> {
        self.state().tree.spared.push(ino);
        Spared { shared: self, ino }
    }

    /// Moves `from` to `to`.
    pub(super) async fn rename(
        self: &Arc<Self>,
        from: Spot<'_>,
        to: Spot<'_>,
        mode: RenameMode,
    ) -> Result<Option<Ino>> {
        let turn = self.alone(OP, &[from, to]).await?;
        for tries in 1.. {
            match self.rename_once(from, to, mode).await? {
                Outcome::Done(replaced) => return Ok(replaced),
                Outcome::Changed(_) if tries < TRIES_MAX && self.expire(from) => {}
                Outcome::Changed(error) => return Err(error),
                Outcome::Unfinished(error, rest) => {
                    self.finish_later(vec![from.0, to.0], turn, (*rest, &error));
                    return Err(error);
                }
            }
        }
        unreachable!("the last try returns")
    }

    async fn rename_once(
        self: &Arc<Self>,
        from: Spot<'_>,
        to: Spot<'_>,
        mode: RenameMode,
    ) -> Result<Outcome> {
        let target = self.find(OP, to.0, to.1).await?;
        // What is asked about the source may have the target forgotten, for want of room, and so on with each try.
        let _spared = target.map(|target| self.spare(target));
        let source = self.find(OP, from.0, from.1).await?;
        let source = source.ok_or_else(|| Error::name(ErrorKind::NotFound, OP, from.1))?;
        let _claims = (self.changes.claim(from.0, from.1), self.changes.claim(to.0, to.1));
        let plan = self.state().plan_rename((from, source), (to, target), mode)?;
        let Some(plan) = plan else {
            return Ok(Outcome::Changed(Error::name(ErrorKind::Stale, OP, from.1)));
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
        let (moved, replaced) = match plan {
            Plan::Nothing => return Ok(Outcome::Done(None)),
            Plan::File => (self.move_file((from, source), (to, target), mode).await, target),
            Plan::Folder => (self.move_folder((from, source), to, None).await, None),
            Plan::FolderOver(over) => {
                (self.move_folder((from, source), to, Some(over)).await, target)
            }
            Plan::Exchange(other) => (self.exchange((from, source), (to, other)).await, None),
        };
        match moved {
            Ok(()) => Ok(Outcome::Done(replaced)),
            Err(Failed::Before(error) | Failed::After(error)) if error.kind == CHANGED => {
                Ok(Outcome::Changed(error))
            }
            Err(Failed::Before(error) | Failed::After(error)) => Err(error),
            Err(Failed::Unfinished(error, rest)) => Ok(Outcome::Unfinished(error, rest)),
        }
    }

    async fn move_file(
        self: &Arc<Self>,
        (from, source): (Spot<'_>, Ino),
        (to, target): (Spot<'_>, Option<Ino>),
        mode: RenameMode,
    ) -> std::result::Result<(), Failed> {
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
                moved.map_err(Failed::from)
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
        if let (Err(Failed::Before(_)), Some(leaving)) = (&moved, leaving) {
            leaving.stay().await;
        }
        moved
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
        let departure = self.departs(source);
        let noted = Record::MoveFile(planned.clone());
        let noted = self.note_move(OP, &noted, &[source], &mut HashSet::new());
        let mut carried = noted.map_err(Failed::Before)?;
        self.ledger.sync();
        let record = carried.remove(0);
        if !self.is_moved_at_once(&planned) {
            departure.moves(record);
        }
        match self.note_maker((source, record), &planned).await {
            Ok(maker) => carried.extend(maker),
            Err(error) => {
                carried.push(record);
                self.strike_for_good(&carried);
                return Err(Failed::Before(error));
            }
        }
        let moved = self.move_noted((from, source), to, (planned, record), (stored, condition));
        let moved = moved.await;
        if !matches!(moved, Err(Failed::Unfinished(..))) {
            self.ledger.strike(&carried);
        }
        departure.over();
        moved
    }

    async fn move_noted(
        self: &Arc<Self>,
        (from, source): (Spot<'_>, Ino),
        to: Spot<'_>,
        (planned, record): (FileMove, RecordId),
        (stored, condition): (Stored, Condition),
    ) -> std::result::Result<(), Failed> {
        let key = planned.to.clone();
        let (version, manner) = match self.move_once(&stored, &planned, &condition).await {
            Ok(moved) => moved,
            Err(Uncopied::Not(error)) => {
                // Who asked hears of it: no later mount may finish it.
                self.strike_for_good(&[record]);
                return Err(Failed::Before(error));
            }
            Err(Uncopied::Unclear(error)) => {
                let (from, to) = ((from.0, from.1.clone()), (to.0, to.1.clone()));
                let departure = self.departs(source);
                let unclear = Unclear { source, from, to, stored, planned, record, departure };
                return Err(Failed::Unfinished(error, Box::new(Rest::Copied(unclear))));
            }
        };
        let checked = match manner {
            Manner::Copied => self.check_source(&stored).await,
            Manner::AtOnce => Ok(There::No),
        };
        let is_changed = checked.as_ref().is_err_and(|error| error.kind == CHANGED);
        match checked {
            Err(error) if planned.over.is_none() => {
                let route = Route { from: planned.from, to: planned.to };
                let cargo = Cargo::of_one(&stored.version, &version);
                return Err(match self.undo(route, vec![record], cargo).await {
                    Some(rest) => Failed::Unfinished(error, Box::new(rest)),
                    None => Failed::After(error),
                });
            }
            Err(error) if is_changed => {
                self.strike_for_good(&[record]);
                return Err(Failed::After(error));
            }
            Ok(_) | Err(_) => {}
        }
        // Before the old object goes, so that who reads the file goes on with the new one.
        let landing = Landing::Object(Stored { key, version, ..stored.clone() });
        self.land_file(from, to, source, landing);
        let removed = match checked {
            Ok(There::Yes) => self.remove_object(OP, from.0, &stored.key).await,
            Ok(There::No) => Ok(()),
            // What had the new name is gone, so it counts; the old one is removed when that is
            // known to be right.
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            let rest = Rest::Old { dir: from.0, stored, record };
            return Err(Failed::Unfinished(error, Box::new(rest)));
        }
        self.strike_for_good(&[record]);
        Ok(())
    }

    /// Copies the file; what arrived although the store said otherwise counts.
    pub(super) async fn copy_once(
        &self,
        stored: &Stored,
        planned: &FileMove,
        condition: &Condition,
    ) -> std::result::Result<Version, Uncopied> {
        let error = match self.copy(stored, &planned.to, condition).await {
            Ok(version) => return Ok(version),
            Err(error) => error,
        };
        let ErrorKind::Remote(kind) = error.kind else { return Err(Uncopied::Not(error)) };
        if !may_have_arrived(kind) {
            return Err(Uncopied::Not(error));
        }
        match self.arrived(stored, planned).await {
            Ok(Some(copy)) => Ok(copy.version),
            Ok(None) => Err(Uncopied::Not(error)),
            Err(_) => Err(Uncopied::Unclear(error)),
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
    pub(super) async fn check_source(&self, stored: &Stored) -> Result<There> {
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

/// Why a file has no copy that we know of.
#[derive(Debug)]
pub(super) enum Uncopied {
    /// There is none.
    Not(Error),
    /// There may be one.
    Unclear(Error),
}

/// Whether an object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    Yes,
    No,
}

impl State {
    /// What is to be done to move one to the other; `None` if the names have changed.
    pub(super) fn plan_rename(
        &self,
        (from, source): (Spot<'_>, Ino),
        (to, target): (Spot<'_>, Option<Ino>),
        mode: RenameMode,
    ) -> Result<Option<Plan>> {
        if self.tree.child(from.0, from.1) != Some(source) || self.tree.child(to.0, to.1) != target
        {
            return Ok(None);
        }
        self.check_apart(from, to, source, mode)?;
        let what = |ino| if self.tree.is_folder(ino) { What::Folder } else { What::File };
        let replaced = target.map(|ino| (ino, what(ino)));
        let planned = plan((source, what(source)), replaced, mode);
        planned.map(Some).map_err(|kind| Error::name(kind, OP, to.1))
    }

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
