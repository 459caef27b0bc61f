//! What requests share: the way to the bucket, and what is remembered of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base::{Clock, Ino, Name};
use parking_lot::{Mutex, MutexGuard};
use remote::Remote;
use tokio::sync::Notify;

use super::changes::Changes;
use super::flight::{Flight, Scope, Stream};
use super::options::BucketOptions;
use super::tree::Tree;
use super::walk::Walk;
use crate::{Entry, Ledger};

/// What requests under way share with the [`Bucket`](super::Bucket).
pub(super) struct Shared {
    pub(super) remote: Arc<dyn Remote>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) options: BucketOptions,
    pub(super) changes: Changes,
    /// Attributes are to be written that were not before.
    pub(super) noted: Notify,
    // Invariant: that of `Tree`; and a flight is in the table until its answer is in the tree.
    pub(super) state: Mutex<State>,
}

/// What is remembered, and what is being asked.
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) flights: HashMap<(Ino, Scope), Flight>,
    pub(super) streams: HashMap<Ino, Stream>,
    pub(super) walk: Walk,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// The entry `name` for what is remembered of `ino`, which the kernel will hold.
    pub(super) fn entry(&mut self, name: &Name, ino: Ino) -> Entry {
        self.tree.hold(ino);
        Entry { name: name.clone(), attr: self.tree.attr(ino) }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { remote, clock: _, ledger: _, options, changes: _, noted: _, state: _ } = self;
        f.debug_struct("Bucket").field("remote", remote).field("options", options).finish()
    }
}
