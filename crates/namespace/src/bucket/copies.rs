//! The objects that only the users of nameless files need.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use base::Ino;
use parking_lot::Mutex;
use remote::Key;

use crate::RecordId;

/// The copies there are.
#[derive(Debug, Default)]
pub(super) struct Copies {
    // A leaf: no other lock is taken under it.
    pub(super) copies: Mutex<HashMap<Ino, Copy>>,
    /// How many names were made for copies and the like.
    pub(super) made: AtomicU64,
}

/// An object that only the users of one file need.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub(super) key: Key,
    /// By which the next mount removes it if we cannot.
    pub(super) record: RecordId,
}
