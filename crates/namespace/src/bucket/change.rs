//! One change of names that is made here, and on its way into the bucket.

use base::{Ino, Name};
use remote::Key;
use tokio::sync::OwnedSemaphorePermit;

use super::changes::Claim;
use super::journal::{FileMove, Object};
use super::looks::Looks;
use super::moving_tree::MovingTree;
use super::nodes::Stored;
use super::persist::Rest;
use super::turns::{Turn, Wait};
use crate::{RecordId, RenameMode};

/// A change on its way into the bucket.
#[derive(Debug)]
pub(super) enum Change {
    /// A file is removed.
    Remove {
        /// What is removed, if it is still that.
        object: Object,
        /// Where it was.
        place: (Ino, Name),
        ino: Ino,
    },
    /// A folder is made.
    MakeFolder { marker: Key, looks: Box<Looks>, ino: Ino },
    /// An empty folder is removed.
    RemoveFolder {
        prefix: Key,
        /// Where it was.
        place: (Ino, Name),
    },
    /// A link, or something else that is an object and no bytes, is made, if it still is to be.
    MakeObject { ino: Ino, number: u64 },
    /// A file has another name, and its object follows.
    Move(Box<Moving>),
    /// A folder has another name, and its objects follow.
    MoveTree(Box<MovingTree>),
    /// What is left to do of a change that failed in the middle, and whose caller had his error;
    /// `None` while it is being done.
    Rest(Option<Box<Rest>>),
}

/// A file that has another name here.
#[derive(Debug)]
pub(super) struct Moving {
    pub(super) ino: Ino,
    pub(super) from: (Ino, Name),
    pub(super) to: (Ino, Name),
    /// Its object, under the old name.
    pub(super) stored: Stored,
    pub(super) planned: FileMove,
    pub(super) mode: RenameMode,
    /// What had the new name here.
    pub(super) replaced: Option<Ino>,
    /// What the keys of the folder begin with that is to outlive it; empty if it stays in there.
    pub(super) folder: Key,
    /// What the journal has of it.
    pub(super) records: Vec<RecordId>,
    pub(super) stage: Stage,
}

/// How far the bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The object is where it was.
    Copying,
    /// It is where it is to be, and to be removed where it was.
    Removing,
}

impl Change {
    /// The object that is removed.
    pub(super) fn leaving(&self) -> Option<&Key> {
        match self {
            Change::Remove { object, .. } => Some(&object.key),
            Change::RemoveFolder { prefix, .. } => Some(prefix),
            Change::Move(moving) => Some(&moving.stored.key),
            Change::MoveTree(moving) => Some(&moving.route.from),
            Change::MakeFolder { .. } | Change::MakeObject { .. } | Change::Rest(_) => None,
        }
    }
}

/// A change that is made here.
#[derive(Debug)]
pub(super) struct Made {
    /// The folders in which a name was changed, of each path that `place` holds.
    pub(super) dirs: Vec<Ino>,
    pub(super) change: Change,
    /// What the journal has of it, but for what the change itself knows of.
    pub(super) records: Vec<RecordId>,
    pub(super) place: InLine,
    pub(super) claims: Vec<Claim>,
    pub(super) room: OwnedSemaphorePermit,
}

/// A place in the line, and what tells that it is our turn, if that is not now.
pub(super) type InLine = (Turn, Option<Wait>);
