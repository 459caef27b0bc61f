//! One change of names that is made here, and on its way into the bucket.

use base::{Ino, Name};
use remote::Key;
use tokio::sync::OwnedSemaphorePermit;

use super::changes::Claim;
use super::journal::Object;
use super::looks::Looks;
use super::persist::Rest;
use super::turns::{Turn, Wait};
use crate::RecordId;

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
    /// What is left to do of a change that failed in the middle, and whose caller had his error;
    /// `None` while it is being done.
    Rest(Option<Box<Rest>>),
}

impl Change {
    /// The object that is removed.
    pub(super) fn leaving(&self) -> Option<&Key> {
        match self {
            Change::Remove { object, .. } => Some(&object.key),
            Change::RemoveFolder { prefix, .. } => Some(prefix),
            Change::MakeFolder { .. } | Change::MakeObject { .. } | Change::Rest(_) => None,
        }
    }
}

/// A change that is made here.
#[derive(Debug)]
pub(super) struct Made {
    /// The folders in which a name was changed.
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
