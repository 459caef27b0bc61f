//! What the user is told when a mount answers.

use std::path::PathBuf;

use crate::location::Location;

/// What the user is told when the mount answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The bucket has no object below the mounted prefix: the URL may be mistyped.
    EmptyPrefix(Location),
    /// The credentials cannot write, so the mount is read-only.
    ReadOnly(String),
    /// The store does not keep to conditions, so that others' changes may be overwritten.
    Unconditional,
    /// An earlier mount left this many files, which are in the bucket now.
    Resumed(u64),
    /// An earlier mount left this many files, which the store did not take now either.
    Waiting(u64),
    /// An earlier mount began this many changes of names, which are complete now.
    Renamed(u64),
    /// An earlier mount began this many changes of names, which the store did not take now either.
    Renaming(u64),
    /// An earlier mount began this many changes of names, which a read-only mount cannot finish.
    HalfRenamed(u64),
    /// What was recorded in the state folder could not be read, and is kept here.
    Damaged(PathBuf),
    /// An earlier mount left bytes that nobody was promised; they are here.
    Kept(PathBuf),
}
