//! What a namespace wants remembered, kept in the state folder.

use std::sync::Arc;

use base::Ino;
use namespace::{Ledger, LedgerFailed, RecordId};
use store::Store;
use tokio::runtime::Handle;

use crate::numbers::{Numbers, Writing};

/// What is remembered of one volume.
#[derive(Debug)]
pub(crate) struct StoreLedger {
    numbers: Arc<Numbers>,
    runtime: Handle,
}

impl StoreLedger {
    /// What `store` has of `volume`. Numbers are written on `runtime`.
    pub(crate) fn new(store: &Store, volume: &str, runtime: Handle) -> store::Result<StoreLedger> {
        let numbers = Arc::new(Numbers::load(store.numbers(volume))?);
        Ok(StoreLedger { numbers, runtime })
    }

    /// What was noted without waiting is in the state folder when this returns.
    pub(crate) fn settle(&self) {
        self.numbers.write();
    }
}

impl Ledger for StoreLedger {
    fn append(&self, _record: &[u8]) -> Result<RecordId, LedgerFailed> {
        Ok(RecordId(0))
    }

    fn strike(&self, _records: &[RecordId]) {}

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
