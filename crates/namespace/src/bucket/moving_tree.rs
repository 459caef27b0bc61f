//! A folder that has another name here: what is to be done in the bucket, and how far that is.

use base::{Ino, Name};
use remote::Key;

use super::carry::{Cargo, Destination, Route};
use super::turns::Path;
use crate::RecordId;

/// A folder that has another name here.
#[derive(Debug)]
pub(super) struct MovingTree {
    pub(super) ino: Ino,
    pub(super) from: (Ino, Name),
    pub(super) to: (Ino, Name),
    /// The path of its new name.
    pub(super) path: Path,
    pub(super) route: Route,
    /// What the keys of the folder begin with that is to outlive it; empty if it stays in there.
    pub(super) above: Key,
    pub(super) destination: Destination,
    pub(super) stage: TreeStage,
    /// What the journal has of it, the move itself first.
    pub(super) records: Vec<RecordId>,
}

/// How far the bucket is.
#[derive(Debug)]
pub(super) enum TreeStage {
    /// The old keys count; so much is copied.
    Copying(Cargo),
    /// The new ones do, and what was copied is to be removed.
    Removing(Cargo),
}
