//! Gives up what waits for a bucket, as for one that is gone: nothing is asked of it.

use std::path::PathBuf;
use std::sync::Arc;

use base::{Metrics, SystemClock};
use store::{CacheLimit, Options, Replayed, Store};

use crate::config::Config;
use crate::error::Error;
use crate::ledger;
use crate::waiting::{WaitingChange, changes};

/// What was given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Where the bytes are that the bucket was to have.
    pub kept: Vec<PathBuf>,
    /// Changes of names and attributes that nobody carries out any more.
    pub changes: Vec<WaitingChange>,
}

/// Moves the bytes that dead mounts have left for the bucket of `config` to the recovery folder, and strikes what they
/// were about to do there off the journal. What processes that live work on stays theirs.
pub fn give_up(config: &Config) -> Result<GivenUp, Error> {
    let failed = |source| Error::State { dir: config.state_dir.clone(), source };
    let options = Options { dir: config.state_dir.clone(), cache: CacheLimit::default() };
    let (clock, metrics) = (Arc::new(SystemClock::new()), Arc::new(Metrics::new()));
    let store = Store::open(options, clock, metrics).map_err(failed)?;
    let volume = config.volume();
    // Bytes first: what is told of them in the journal is of no use without them.
    let kept = vfs::give_up(&store, &volume).map_err(failed)?;
    let mut struck = Vec::new();
    // Uploads in parts begin as changes of names do, with their volume.
    let is_its = |_, payload: &[u8]| ledger::volume_of(payload).is_some_and(|of| of == volume);
    let strike = &mut |op| {
        struck.push(op);
        Replayed::Done
    };
    store.journal().replay(&is_its, strike).map_err(failed)?;
    store.journal().settle().map_err(failed)?;
    Ok(GivenUp { kept, changes: changes(&struck) })
}
