//! Whole folders move: what is said of what lies in them goes with them.

use std::collections::{BTreeMap, HashMap};

use futures::{FutureExt as _, StreamExt as _, stream};
use remote::{Key, Version};

use super::book::{Origin, Pending};
use super::item::{Item, Label};
use super::read::Want;
use crate::bucket::shared::Shared;
use crate::{ErrorKind, RecordId, Result};

/// Folders that are read and written at a time.
const FOLDERS_AT_A_TIME: usize = 8;

/// A label, the version that was copied and that of the copy.
type Rebound = (Label, (Version, Version));

impl Shared {
    /// Makes sure that what was noted of names below `prefix` is in the bucket, so that a copy of
    /// the objects there is a copy of it.
    pub(in crate::bucket) async fn attributes_settled(&self, prefix: &Key) -> Result<()> {
        let folders = self.state().tree.books.as_ref().map(|books| books.below(prefix));
        let written: Vec<Result<()>> = stream::iter(folders.unwrap_or_default())
            .map(|folder| async move { self.settle_folder(&folder).await }.boxed())
            .buffer_unordered(FOLDERS_AT_A_TIME)
            .collect()
            .await;
        written.into_iter().collect()
    }

    /// Whether attributes of a folder below `prefix` are still to be written.
    pub(in crate::bucket) fn attributes_wait(&self, prefix: &Key) -> bool {
        let state = self.state();
        let Some(books) = &state.tree.books else { return false };
        let book_waits =
            |folder: &Key| books.get(folder).is_some_and(|book| !book.pending.is_empty());
        books.below(prefix).iter().any(book_waits)
    }

    async fn settle_folder(&self, folder: &Key) -> Result<()> {
        match self.write_held(folder).await {
            // What is not ours to write is copied as it is.
            Err(error) if error.kind == ErrorKind::Unsupported => Ok(()),
            written => written,
        }
    }

    /// The copies of attribute objects below `to` are to speak of the copies of objects: `changed`
    /// has, by what keys below `to` go on with, the version that was copied and that of the copy.
    /// Versions that stayed the same need not be in it.
    pub(in crate::bucket) async fn attributes_follow(
        &self,
        to: &Key,
        changed: &HashMap<Vec<u8>, (Version, Version)>,
    ) -> Result<()> {
        let mut folders: BTreeMap<Key, Vec<Rebound>> = BTreeMap::new();
        for (rest, versions) in changed {
            let slash = rest.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
            let (folder, label) = rest.split_at(slash);
            folders.entry(to.join(folder)).or_default().push((label.to_vec(), versions.clone()));
        }
        let followed: Vec<Result<()>> = stream::iter(folders)
            .map(|(folder, versions)| {
                let followed = async move {
                    self.freshen("rename", &folder, Want::All).await?;
                    self.rebind(&folder, versions);
                    self.settle_folder(&folder).await
                };
                followed.boxed()
            })
            .buffer_unordered(FOLDERS_AT_A_TIME)
            .collect()
            .await;
        followed.into_iter().collect()
    }

    fn rebind(&self, folder: &Key, versions: Vec<Rebound>) {
        let mut state = self.state();
        let Some(books) = &mut state.tree.books else { return };
        for (label, (old, new)) in versions {
            let said =
                books.item(folder, &label).filter(|item| item.version.as_ref() == Some(&old));
            let Some(item) = said else { continue };
            let item = Some(Item { version: Some(new), ..item.clone() });
            let (number, due) = (books.next_number(), books.due_in(std::time::Duration::ZERO));
            let pending = Pending { item, number, due, records: Vec::new(), origin: Origin::Now };
            // The move itself is in the ledger.
            books.get_mut(folder).note(label, pending);
        }
    }

    /// Nothing is left below `prefix`: what is known of it is forgotten.
    pub(in crate::bucket) fn attributes_left(&self, prefix: &Key) {
        let records: Vec<RecordId> = {
            let mut state = self.state();
            let Some(books) = &mut state.tree.books else { return };
            let left: Vec<_> =
                books.below(prefix).iter().filter_map(|folder| books.remove(folder)).collect();
            let pending = left.into_iter().flat_map(|book| book.pending.into_values());
            pending.flat_map(|pending| pending.records).collect()
        };
        if !records.is_empty() {
            self.ledger.strike(&records);
        }
    }
}
