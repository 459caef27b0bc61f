//! One change of names that is made here, and on its way into the bucket.

use base::{Ino, Name};
use remote::Key;
use tokio::sync::OwnedSemaphorePermit;

use super::changes::Claim;
use super::journal::Object;
use super::looks::Looks;
use super::turns::{Turn, Wait};
use crate::RecordId;

/// A change on its way into the bucket.
#[derive(Clone, Debug)]
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
}

impl Change {
    /// The object that is removed.
    pub(super) fn leaving(&self) -> Option<&Key> {
        match self {
            Change::Remove { object, .. } => Some(&object.key),
            Change::MakeFolder { .. } => None,
            Change::RemoveFolder { prefix, .. } => Some(prefix),
        }
    }
}

/// A change that is made here.
#[derive(Debug)]
pub(super) struct Made {
    /// The folder in which a name was changed.
    pub(super) dir: Ino,
    pub(super) change: Change,
    pub(super) record: RecordId,
    pub(super) place: InLine,
    pub(super) claim: Claim,
    pub(super) room: OwnedSemaphorePermit,
}

/// A place in the line, and what tells that it is our turn, if that is not now.
pub(super) type InLine = (Turn, Option<Wait>);
