//! What a namespace wants remembered, kept in the state folder: numbers in memory too, records in the
//! journal.
//!
//! ```text
//!   1  volume NUL  record
//! ```
//!
//! Several volumes may share a state folder: a record says whose it is, and each mount replays its
//! own.

use std::sync::Arc;

use base::Ino;
use namespace::{Ledger, LedgerFailed, RecordId};
use store::{ErrorKind, Op, OpId, OpKind, Replayed, Store};
use tokio::runtime::{Handle, RuntimeFlavor};
use vfs::{Next, Unpublished};

use crate::numbers::{Numbers, Writing};

/// The version of the payload's format.
const FORMAT: u8 = 1;

/// What is remembered of one volume.
#[derive(Debug)]
pub(crate) struct StoreLedger {
    numbers: Arc<Numbers>,
    runtime: Handle,
    store: Store,
    /// What the payloads of this volume begin with.
    head: Vec<u8>,
}

impl StoreLedger {
    /// What `store` has of `volume`, which has no NUL in its name. Numbers are written on `runtime`.
    pub(crate) fn new(store: &Store, volume: &str, runtime: Handle) -> store::Result<StoreLedger> {
        let numbers = Arc::new(Numbers::load(store.numbers(volume))?);
        let head = [&[FORMAT], volume.as_bytes(), &[0]].concat();
        Ok(StoreLedger { numbers, runtime, store: store.clone(), head })
    }

    /// What was noted without waiting is in the state folder when this returns.
    pub(crate) fn settle(&self) {
        self.numbers.write();
    }

    /// That what is done is still in the journal, if it cannot be struck out.
    pub(crate) fn stuck(&self) -> Option<Unpublished> {
        let error = self.store.journal().settle().err()?;
        let reason = format!(
            "what is in the bucket by now cannot be struck off the list of what is to be done, and the next mount may \
             do it again: {error}"
        );
        Some(Unpublished { reason, next: Next::TryAgain, news: None })
    }

    /// The records that mounts of this volume that are dead have left, in order; ours from now on.
    pub(crate) fn left(&self) -> store::Result<Vec<(RecordId, Vec<u8>)>> {
        let mut left = Vec::new();
        self.store.journal().replay(&|kind, payload| self.is_ours(kind, payload), &mut |op| {
            left.push(self.record(&op));
            Replayed::Kept
        })?;
        Ok(left)
    }

    /// The same records, for who may only look: they wait for a mount that carries them out.
    pub(crate) fn waiting(&self) -> store::Result<Vec<(RecordId, Vec<u8>)>> {
        let left = self.store.journal().left(&|kind, payload| self.is_ours(kind, payload))?;
        Ok(left.iter().map(|op| self.record(op)).collect())
    }

    fn is_ours(&self, kind: OpKind, payload: &[u8]) -> bool {
        kind == OpKind::Names && payload.starts_with(&self.head)
    }

    fn record(&self, op: &Op) -> (RecordId, Vec<u8>) {
        (RecordId(op.id.number()), op.payload[self.head.len()..].to_vec())
    }
}

/// The volume whose record a payload is.
pub(crate) fn volume_of(payload: &[u8]) -> Option<String> {
    split(payload).map(|(volume, _)| volume.to_owned())
}

/// A volume, and its record, which a payload is.
pub(crate) fn split(payload: &[u8]) -> Option<(&str, &[u8])> {
    let named = payload.strip_prefix(&[FORMAT])?;
    let end = named.iter().position(|byte| *byte == 0)?;
    Some((str::from_utf8(&named[..end]).ok()?, &named[end + 1..]))
}

fn noted<T>(written: store::Result<T>) -> Result<T, LedgerFailed> {
    written.map_err(|error| {
        tracing::error!(%error, "the journal cannot be written");
        match error.kind {
            ErrorKind::Full => LedgerFailed::Full,
            ErrorKind::Held
            | ErrorKind::Gone
            | ErrorKind::Missing
            | ErrorKind::Corrupt
            | ErrorKind::NoDescriptor
            | ErrorKind::Io => LedgerFailed::Io,
        }
    })
}

/// Waits for the disk, by `sync`.
fn synced(sync: impl FnOnce() -> store::Result<()>) {
    // Others may have work for this thread meanwhile.
    let synced = match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(sync),
        Ok(_) | Err(_) => sync(),
    };
    if let Err(error) = synced {
        tracing::warn!(%error, "the journal may not outlive a power cut");
    }
}

impl Ledger for StoreLedger {
    fn append(&self, record: &[u8]) -> Result<RecordId, LedgerFailed> {
        let payload = [&self.head, record].concat();
        noted(self.store.journal().append(OpKind::Names, &payload)).map(|op| RecordId(op.number()))
    }

    fn append_with(
        &self,
        record: &[u8],
        more: &dyn Fn(RecordId) -> Vec<Vec<u8>>,
    ) -> Result<Vec<RecordId>, LedgerFailed> {
        let payload = |record: &[u8]| [&self.head, record].concat();
        let beside = |first: OpId| {
            let records = more(RecordId(first.number()));
            records.iter().map(|record| payload(record)).collect()
        };
        let appended = self.store.journal().append_with(OpKind::Names, &payload(record), beside);
        let appended = noted(appended)?;
        Ok(appended.into_iter().map(|op| RecordId(op.number())).collect())
    }

    fn append_soon(&self, record: &[u8]) -> Result<RecordId, LedgerFailed> {
        let payload = [&self.head, record].concat();
        let appended = self.store.journal().append_later(OpKind::Names, payload);
        noted(appended).map(|op| RecordId(op.number()))
    }

    fn settle(&self) -> Result<(), LedgerFailed> {
        noted(self.store.journal().settle())
    }

    fn strike(&self, records: &[RecordId]) {
        self.strike_soon(records);
        if let Err(error) = self.store.journal().settle() {
            tracing::warn!(%error, "what is done stays in the journal for now");
        }
    }

    fn strike_soon(&self, records: &[RecordId]) {
        let ops: Vec<OpId> = records.iter().map(|record| OpId::of(record.0)).collect();
        if let Err(error) = self.store.journal().all_done(&ops) {
            tracing::warn!(%error, "what is done stays in the journal");
        }
    }

    fn sync(&self) {
        synced(|| self.store.journal().sync());
    }

    fn sync_uploads(&self) {
        synced(|| self.store.journal().sync_uploads());
    }

    fn number(&self, path: &[u8]) -> Option<Ino> {
        self.numbers.get(path)
    }

    fn is_kept(&self, number: Ino) -> bool {
        self.numbers.is_kept(number)
    }

    fn set_number(&self, path: &[u8], number: Option<Ino>) {
        match self.numbers.set(path, number) {
            Writing::Due => {
                let numbers = Arc::clone(&self.numbers);
                // Nobody waits for it but the end of the mount, by `settle`.
                drop(self.runtime.spawn_blocking(move || numbers.write()));
            }
            Writing::Known => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::{Metrics, SystemClock};
    use namespace::Ledger;
    use store::{CacheLimit, Options, Store};
    use tokio::runtime::Handle;

    use super::{StoreLedger, volume_of};

    fn store(dir: &std::path::Path) -> Store {
        let options = Options { dir: dir.to_owned(), cache: CacheLimit::Bytes(1 << 20) };
        Store::open(options, Arc::new(SystemClock::new()), Arc::new(Metrics::new())).unwrap()
    }

    fn ledger(store: &Store, volume: &str) -> StoreLedger {
        StoreLedger::new(store, volume, Handle::current()).unwrap()
    }

    #[tokio::test]
    async fn each_volume_has_its_own_records_back_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let first = store(dir.path());
        for (volume, record) in [("s3://a", b"one"), ("s3://ab", b"two"), ("s3://a", b"six")] {
            ledger(&first, volume).append(record).unwrap();
        }
        let a = ledger(&first, "s3://a");
        assert_eq!(a.left().unwrap(), [], "they are of a mount that lives");
        let struck = a.append(b"struck").unwrap();
        a.strike(&[struck]);
        drop(a);
        drop(first);

        let second = store(dir.path());
        let found = store::journaled(dir.path()).unwrap();
        assert_eq!((found.left.len(), found.in_use.len()), (3, 0), "nobody lives who has them");
        let left = |volume| {
            let left = ledger(&second, volume).left().unwrap();
            left.into_iter().map(|(_, record)| record).collect::<Vec<_>>()
        };
        let journal = second.journal().left(&|_, _| true).unwrap();
        let volumes: Vec<_> = journal.iter().filter_map(|op| volume_of(&op.payload)).collect();
        assert_eq!(volumes, ["s3://a", "s3://ab", "s3://a"]);
        let a = ledger(&second, "s3://a");
        assert_eq!(a.waiting().unwrap().len(), 2, "to be looked at, by all");
        assert_eq!(a.waiting().unwrap()[1].1, b"six");
        assert_eq!(left("s3://a"), [b"one", b"six"]);
        assert_eq!(left("s3://ab"), [b"two"]);
        let found = store::journaled(dir.path()).unwrap();
        assert_eq!((found.left.len(), found.in_use.len()), (0, 3), "they are ours now");
        assert_eq!(super::split(&found.in_use[1].payload), Some(("s3://ab", &b"two"[..])));
    }
}
