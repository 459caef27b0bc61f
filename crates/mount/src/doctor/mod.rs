//! Looks at everything that a mount needs, one thing after the other, and says what to do about it.

mod bucket;
mod disk;
mod finding;
mod machine;
mod network;
mod trial;

use std::time::Duration;

pub use self::finding::{Finding, Verdict};
use crate::config::Config;
use crate::error::Error;
use crate::lifecycle::{SHUTDOWN_PATIENCE, runtime};

/// How long one request to the store is repeated.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be looked at besides the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patient {
    /// Nothing.
    Machine,
    /// The bucket of the configuration: a few small objects are made in it and removed.
    Bucket,
}

/// Looks at this machine, and at the bucket of `config` if wanted; tells of each thing as it is found.
pub fn doctor(
    config: &Config,
    patient: Patient,
    mut tell: impl FnMut(Finding),
) -> Result<(), Error> {
    machine::look(&mut tell);
    let disk = disk::Place::of(&config.state_dir);
    disk.look(&mut tell);
    tell(trial::passthrough(config, disk.folder()));
    if patient == Patient::Machine {
        return Ok(());
    }
    network::look(config, &mut tell);
    let runtime = runtime()?;
    runtime.block_on(bucket::look(config, PATIENCE, &mut tell));
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    Ok(())
}
