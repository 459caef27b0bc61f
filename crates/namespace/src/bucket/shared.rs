//! What requests share: the way to the bucket, and what is remembered of it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock, Weak};

use base::{Clock, Ino, Name};
use parking_lot::{Mutex, MutexGuard};
use remote::Remote;
use tokio::sync::{Notify, Semaphore};

use super::allowed::Allowed;
use super::ask::Bets;
use super::carries::Carries;
use super::changes::Changes;
use super::copies::Copies;
use super::flight::{Flight, Scope, Stream};
use super::journal::Record;
use super::makings::Makings;
use super::options::BucketOptions;
use super::outage::Outage;
use super::recent::Recent;
use super::tree::Tree;
use super::turns::Turns;
use super::unsent::Outbox;
use super::walk::Walk;
use crate::{Content, Entry, Error, ErrorKind, Ledger, LedgerFailed, RecordId, Result, Use, Users};

/// What requests under way share with the [`Bucket`](super::Bucket).
pub(super) struct Shared {
    pub(super) remote: Arc<dyn Remote>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) options: BucketOptions,
    pub(super) changes: Changes,
    /// Attributes are to be written that were not before.
    pub(super) noted: Notify,
    /// Held by who tells the ledger of such changes; taken before the state.
    pub(super) recording: Mutex<()>,
    // Invariant: that of `Tree`; and a flight is in the table until its answer is in the tree.
    pub(super) state: Mutex<State>,
    pub(super) turns: Turns,
    pub(super) outbox: Outbox,
    pub(super) makings: Makings,
    pub(super) users: OnceLock<Weak<dyn Users>>,
    pub(super) unlinked: Copies,
    pub(super) carries: Carries,
    /// Where changes are taken, if not everywhere.
    pub(super) allowed: OnceLock<Allowed>,
    /// How many changes of names may still be gone on with while the store fails.
    pub(super) rests: Arc<Semaphore>,
}

/// What is remembered, and what is being asked.
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) flights: HashMap<(Ino, Scope), Flight>,
    pub(super) streams: HashMap<Ino, Stream>,
    pub(super) walk: Walk,
    pub(super) outage: Outage,
    pub(super) bets: Bets,
    pub(super) recent: Recent,
    /// Files that are about to lose their names and objects: nobody begins to use them.
    pub(super) leaving: HashSet<Ino>,
    /// How often somebody had the right to change something.
    pub(super) revision: u64,
}

/// The right to look at the state, and to change it: whoever makes use of that is counted.
pub(super) struct StateGuard<'a>(MutexGuard<'a, State>);

impl StateGuard<'_> {
    /// For who changes nothing that is said of any file, but what was asked about lately and the like: whoever writes
    /// at the same time has no reason to look again.
    pub(super) fn uncounted(&mut self) -> &mut State {
        &mut self.0
    }
}

impl Deref for StateGuard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.revision += 1;
        &mut self.0
    }
}

impl Shared {
    pub(super) fn state(&self) -> StateGuard<'_> {
        StateGuard(self.state.lock())
    }

    /// How the file `ino` is in use.
    pub(super) fn in_use(&self, ino: Ino) -> Use {
        self.users().map_or(Use::No, |users| users.in_use(ino))
    }

    /// Those who have files open.
    pub(super) fn users(&self) -> Option<Arc<dyn Users>> {
        self.users.get().and_then(Weak::upgrade)
    }

    /// Tells those who use the file `ino` where its bytes are now.
    pub(super) fn tell_users(&self, ino: Ino, content: Content) {
        if let Some(users) = self.users() {
            users.moved(ino, content);
        }
    }

    /// Notes what is about to be done.
    pub(super) fn note_ahead(&self, op: &'static str, record: &Record) -> Result<RecordId> {
        noted(op, self.ledger.append(&record.to_bytes()))
    }
}

impl Shared {
    /// As [`Shared::note_ahead`], for what must not be forgotten at a power cut.
    pub(super) fn note_for_good(&self, op: &'static str, record: &Record) -> Result<RecordId> {
        let noted = self.note_ahead(op, record)?;
        self.ledger.sync();
        Ok(noted)
    }

    /// Strikes out what must not come back at a power cut: what was moved before would be taken for
    /// what has its old name by then.
    pub(super) fn strike_for_good(&self, records: &[RecordId]) {
        self.ledger.strike(records);
        self.ledger.sync();
    }
}

/// What became of something that had to be noted.
pub(super) fn noted<T>(op: &'static str, noted: std::result::Result<T, LedgerFailed>) -> Result<T> {
    noted.map_err(|failed| {
        tracing::error!(op, %failed, "not begun");
        Error { kind: ErrorKind::Journal(failed), op, subject: "journal".to_owned(), source: None }
    })
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
        let Shared { remote, clock: _, ledger: _, options, .. } = self;
        f.debug_struct("Bucket").field("remote", remote).field("options", options).finish()
    }
}
