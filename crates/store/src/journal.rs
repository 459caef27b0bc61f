//! Operations that are to be carried out whatever happens: noted before, struck out after, and
//! carried out by the next process if theirs dies in between.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;
use crate::ground::Ground;
use crate::owners::Owners;
use crate::state::journal::JournalRow;

/// How many operations are looked at in one transaction.
const BATCH_OPS_MAX: u32 = 256;

/// The journal of one state folder.
#[derive(Debug)]
pub struct Journal {
    ground: Arc<Ground>,
    owners: Arc<Owners>,
}

/// The number of an operation; later operations have greater ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(u64);

/// What an operation is; decides who reads its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// An upload in parts, which is to be removed if nobody completes it.
    Upload,
    /// Something that a namespace is about to do.
    Names,
}

/// An operation that a dead process left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Its number.
    pub id: OpId,
    /// What it is.
    pub kind: OpKind,
    /// What was noted of it. Begins with the version of its format.
    pub payload: Vec<u8>,
}

/// What became of a replayed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// It is done, or need not be.
    Done,
    /// It stays in the journal, as ours.
    Kept,
}

impl OpKind {
    fn code(self) -> i64 {
        match self {
            OpKind::Upload => 1,
            OpKind::Names => 2,
        }
    }

    pub(crate) fn of(code: i64) -> Option<OpKind> {
        [OpKind::Upload, OpKind::Names].into_iter().find(|kind| kind.code() == code)
    }
}

impl OpId {
    /// As a number, for who hands it on.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The operation of that number.
    pub fn of(number: u64) -> OpId {
        OpId(number)
    }
}

impl Journal {
    /// The journal of the state folder.
    pub(crate) fn new(ground: &Arc<Ground>, owners: &Arc<Owners>) -> Journal {
        Journal { ground: Arc::clone(ground), owners: Arc::clone(owners) }
    }

    /// Notes an operation before it is begun. It survives the death of this process.
    pub fn append(&self, kind: OpKind, payload: &[u8]) -> Result<OpId> {
        self.ground.db.append(kind.code(), payload).map(OpId)
    }

    /// As [`Journal::append`], with what `more` says beside it for its number: all or none. Its number is the
    /// first.
    pub fn append_with(
        &self,
        kind: OpKind,
        payload: &[u8],
        more: impl FnOnce(OpId) -> Vec<Vec<u8>>,
    ) -> Result<Vec<OpId>> {
        let ids = self.ground.db.append_with(kind.code(), payload, |id| more(OpId(id)))?;
        Ok(ids.into_iter().map(OpId).collect())
    }

    /// As [`Journal::append`], but it survives the death of this process only when something else was
    /// noted after it, or after [`Journal::settle`].
    pub fn append_later(&self, kind: OpKind, payload: Vec<u8>) -> Result<OpId> {
        self.ground.db.append_later(kind.code(), payload).map(OpId)
    }

    /// All that was noted survives the death of this process when this returns.
    pub fn settle(&self) -> Result<()> {
        self.ground.db.settle()
    }

    /// What was noted and struck out so far outlives a power cut, too, when this returns. Waits for
    /// the disk, and for nobody else.
    pub fn sync(&self) -> Result<()> {
        self.ground.db.sync()
    }

    /// As [`Journal::sync`], of the uploads that are over so far: after a power cut none of them is
    /// made again. Waits only if there were some since the last call.
    pub fn sync_uploads(&self) -> Result<()> {
        self.ground.db.sync_over()
    }

    /// Strikes out an operation that is done; as [`Journal::append_later`].
    pub fn done(&self, op: OpId) -> Result<()> {
        self.ground.db.remove_ops(vec![op.0])
    }

    /// Strikes out operations that are done, all of them or none; as [`Journal::append_later`].
    pub fn all_done(&self, ops: &[OpId]) -> Result<()> {
        self.ground.db.remove_ops(ops.iter().map(|op| op.0).collect())
    }

    /// Every operation that a dead process left and `is_wanted` says to be of interest, in order. They
    /// stay as they are, for who carries them out.
    pub fn left(&self, is_wanted: &dyn Fn(OpKind, &[u8]) -> bool) -> Result<Vec<Op>> {
        let mut dead = HashMap::new();
        let mut left = Vec::new();
        let mut after = 0;
        loop {
            let rows = self.ground.db.ops_after(after, BATCH_OPS_MAX)?;
            let Some(last) = rows.last() else { return Ok(left) };
            after = last.id;
            for row in rows {
                let Some(kind) = OpKind::of(row.kind) else { continue };
                let is_dead = *dead
                    .entry(row.owner)
                    .or_insert_with(|| self.owners.is_dead(row.owner).unwrap_or(false));
                if is_dead && is_wanted(kind, &row.payload) {
                    left.push(Op { id: OpId(row.id), kind, payload: row.payload });
                }
            }
        }
    }

    /// Calls `apply` with every operation that a dead process left and `is_wanted` says to be ours
    /// to carry out, by its kind and payload, in order. They are ours from then on: no other process
    /// replays them while we live.
    pub fn replay(
        &self,
        is_wanted: &dyn Fn(OpKind, &[u8]) -> bool,
        apply: &mut dyn FnMut(Op) -> Replayed,
    ) -> Result<()> {
        let mut dead = HashMap::new();
        let mut after = 0;
        loop {
            let mut is_dead = |owner| {
                *dead.entry(owner).or_insert_with(|| self.owners.is_dead(owner).unwrap_or(false))
            };
            let wanted = |row: &JournalRow| {
                OpKind::of(row.kind).is_some_and(|kind| is_wanted(kind, &row.payload))
            };
            let (rows, last) =
                self.ground.db.inherit_ops(after, BATCH_OPS_MAX, &wanted, &mut is_dead)?;
            let Some(last) = last else { return Ok(()) };
            after = last;
            for row in rows {
                let kind = OpKind::of(row.kind).expect("only what is known is wanted");
                let id = OpId(row.id);
                match apply(Op { id, kind, payload: row.payload }) {
                    Replayed::Done => self.done(id)?,
                    Replayed::Kept => {}
                }
            }
        }
    }
}
