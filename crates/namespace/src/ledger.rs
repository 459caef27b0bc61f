//! `Ledger`: what a namespace wants remembered on this host, across crashes.

use std::fmt::Debug;

use base::Ino;

/// Could not be noted; the log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerFailed {
    /// There is no room for it.
    #[error("the journal has no room on the local disk")]
    Full,
    /// The disk or the database failed.
    #[error("the journal could not be written")]
    Io,
}

/// A record of the journal; later ones have greater numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(pub u64);

/// A journal, and the inode numbers that are not what their paths say.
pub trait Ledger: Debug + Send + Sync + 'static {
    /// Notes what is to be done whatever happens. It survives the death of this process.
    fn append(&self, record: &[u8]) -> Result<RecordId, LedgerFailed>;

    /// As [`Ledger::append`], with what `more` says beside it for its number: a crash leaves all or none.
    /// Its number is the first.
    fn append_with(
        &self,
        record: &[u8],
        more: &dyn Fn(RecordId) -> Vec<Vec<u8>>,
    ) -> Result<Vec<RecordId>, LedgerFailed> {
        let first = self.append(record)?;
        let beside = more(first);
        [Ok(first)].into_iter().chain(beside.iter().map(|record| self.append(record))).collect()
    }

    /// As [`Ledger::append`], but what is noted survives the death of this process only with what is
    /// noted after it, or after [`Ledger::settle`]; in the order in which it was noted.
    fn append_soon(&self, record: &[u8]) -> Result<RecordId, LedgerFailed> {
        self.append(record)
    }

    /// All that was noted survives the death of this process when this returns.
    fn settle(&self) -> Result<(), LedgerFailed> {
        Ok(())
    }

    /// Strikes out what is done, or is not to be done: the next process does not do it. Failure is logged
    /// only.
    fn strike(&self, records: &[RecordId]);

    /// As [`Ledger::strike`] of what does no harm when it is done twice, unless something was noted after
    /// it: if this process dies at once, it is.
    fn strike_soon(&self, records: &[RecordId]) {
        self.strike(records);
    }

    /// What was noted and struck out so far outlives a power cut, too, when this returns. Waits for
    /// the disk. Failure is logged only: the cut is then what it would have been without.
    fn sync(&self) {}

    /// That what was uploaded so far is in the bucket outlives a power cut, too, when this returns, and
    /// the death of this process: what is removed from there before would be uploaded again. Waits for
    /// the disk if anything was uploaded since the last call. Failure is logged only, as for
    /// [`Ledger::sync`].
    fn sync_uploads(&self) {}

    /// The number that the file or folder at `path` keeps although its path says another.
    /// Asked for every node that is made: it is answered from memory.
    fn number(&self, path: &[u8]) -> Option<Ino>;

    /// Whether some file or folder keeps `number` although its path says another.
    fn is_kept(&self, number: Ino) -> bool;

    /// Notes such a number, or that there is none any more. Does not wait; a crash may lose the
    /// last ones.
    fn set_number(&self, path: &[u8], number: Option<Ino>);
}

/// Remembers nothing: for volumes that are only read, and for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLedger;

impl Ledger for NoLedger {
    fn append(&self, _record: &[u8]) -> Result<RecordId, LedgerFailed> {
        Ok(RecordId(0))
    }

    fn strike(&self, _records: &[RecordId]) {}

    fn number(&self, _path: &[u8]) -> Option<Ino> {
        None
    }

    fn is_kept(&self, _number: Ino) -> bool {
        false
    }

    fn set_number(&self, _path: &[u8], _number: Option<Ino>) {}
}
