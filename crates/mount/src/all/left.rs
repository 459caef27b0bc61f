//! Which buckets earlier mounts have left something to finish in.

use std::collections::BTreeSet;
use std::path::Path;

use store::{OpKind, Store};

use crate::ledger;
use crate::location::Location;

/// Buckets that were mounted whole and for which something waits in the state folder. What waits for a
/// prefix of a bucket waits for a mount of that.
pub(super) fn locations(store: &Store, state_dir: &Path) -> Vec<Location> {
    let mut volumes = BTreeSet::new();
    match store.journal().left(&|kind, _| kind == OpKind::Names) {
        Ok(ops) => volumes.extend(ops.iter().filter_map(|op| ledger::volume_of(&op.payload))),
        Err(error) => tracing::warn!(%error, "what earlier mounts left cannot be read"),
    }
    match store::waiting(state_dir) {
        Ok(waiting) => volumes.extend(
            waiting.iter().filter_map(|waiting| Some(vfs::destination(&waiting.note)?.volume)),
        ),
        Err(error) => tracing::warn!(%error, "what earlier mounts left cannot be read"),
    }
    volumes.iter().filter_map(|volume| Location::of_volume(volume)).collect()
}
