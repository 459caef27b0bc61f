//! A directory goes, and its attribute objects with it.

use remote::Key;

use super::place;
use crate::bucket::listing;
use crate::bucket::shared::Shared;
use crate::{Error, RecordId, Result};

impl Shared {
    /// Removes the attribute objects of a directory that goes, for a caller that holds the turn at its path.
    pub(in crate::bucket) async fn remove_attributes(
        &self,
        op: &'static str,
        prefix: &Key,
    ) -> Result<()> {
        let turn = self.turn_of(prefix);
        let _turn = match &turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        let mut request = listing::below(&prefix.join(place::OBJECT), listing::PAGE_ENTRIES_MAX);
        loop {
            let page = self.remote.list(&request).await;
            let page = page.map_err(|error| Error::remote(op, error))?;
            for entry in page.entries {
                let rest = &entry.key().as_bytes()[prefix.as_bytes().len()..];
                if let (remote::Entry::Object(key, _), true) = (&entry, place::is_object(rest)) {
                    let deleted = self.remote.delete(key).await;
                    deleted.map_err(|error| Error::remote(op, error))?;
                }
            }
            match page.next {
                None => break,
                next => {
                    listing::turn(&mut request, next).map_err(|error| Error::remote(op, error))?;
                }
            }
        }
        if let Some(books) = &mut self.state().tree.books {
            books.get_mut(prefix).forget_written();
        }
        Ok(())
    }

    /// The directory `prefix` is gone: what was to be written of its entries is of no use.
    pub(in crate::bucket) fn attributes_gone(&self, prefix: &Key) {
        let book = {
            let mut state = self.state();
            state.tree.books.as_mut().and_then(|books| books.remove(prefix))
        };
        let records: Vec<RecordId> =
            book.into_iter().flat_map(|book| book.pending).flat_map(|(_, p)| p.records).collect();
        if !records.is_empty() {
            self.ledger.strike(&records);
        }
    }

    /// As [`Shared::attributes_gone`], of a directory that an earlier mount removed: what was noted after `record`,
    /// which says so, is of one that was made anew.
    pub(in crate::bucket) fn attributes_gone_before(&self, prefix: &Key, record: RecordId) {
        let records = {
            let mut state = self.state();
            let books = state.tree.books.as_mut();
            books.map(|books| books.get_mut(prefix).forget_before(record)).unwrap_or_default()
        };
        if !records.is_empty() {
            self.ledger.strike(&records);
        }
    }
}
