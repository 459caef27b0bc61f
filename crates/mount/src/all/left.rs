//! Which buckets earlier mounts have left something to finish in.

use std::collections::BTreeSet;
use std::path::Path;

use store::{OpKind, Store};

use crate::config::Buckets;
use crate::ledger;
use crate::location::Location;

/// Buckets that were mounted whole and for which something waits in the state folder.
pub(super) fn locations(store: &Store, state_dir: &Path, buckets: &dyn Buckets) -> Vec<Location> {
    let mut volumes = BTreeSet::new();
    match store.journal().left(&|kind, _| kind == OpKind::Names) {
        Ok(ops) => volumes.extend(ops.iter().filter_map(|op| ledger::volume_of(&op.payload))),
        Err(error) => tracing::warn!(%error, "what earlier mounts left cannot be read"),
    }
    match store::waiting(state_dir) {
        Ok(found) => volumes.extend(
            found
                .waiting
                .iter()
                .filter_map(|waiting| Some(vfs::destination(&waiting.note)?.volume)),
        ),
        Err(error) => tracing::warn!(%error, "what earlier mounts left cannot be read"),
    }
    volumes.iter().filter_map(|volume| location(volume, buckets)).collect()
}

/// The bucket that `volume` is the name of. What waits for a prefix of a bucket waits for a mount of
/// that, and what waits for a bucket at another service is not for the one that is called so here.
fn location(volume: &str, buckets: &dyn Buckets) -> Option<Location> {
    let location = Location::of_volume(volume)?;
    match buckets.config(&location) {
        Ok(config) => (config.volume() == volume).then_some(location),
        Err(reason) => {
            tracing::warn!(%location, reason, "what an earlier mount left there has to wait");
            None
        }
    }
}
