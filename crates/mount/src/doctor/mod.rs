//! Looks at everything that a mount needs, one thing after the other, and says what to do about it.

mod bucket;
mod capabilities;
mod credentials;
mod disk;
mod finding;
mod machine;
mod network;
mod permission;
mod trial;

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

pub use self::finding::{Finding, Verdict};
use crate::config::Config;
use crate::error::Error;
use crate::lifecycle::{SHUTDOWN_PATIENCE, runtime};
use crate::signals::EndSignals;

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

/// Looks at this machine, and at the bucket of `config` if wanted; tells of each thing as it is found. A
/// signal that asks us to end is heeded when what is being tried has been put away.
pub fn doctor(
    config: &Config,
    patient: Patient,
    mut tell: impl FnMut(Finding),
) -> Result<(), Error> {
    let runtime = runtime()?;
    let mut ends = {
        let _entered = runtime.enter();
        runtime.spawn(EndSignals::listen().received())
    };
    let looked = look(config, patient, (&runtime, &mut ends), &mut tell);
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    looked
}

fn look(
    config: &Config,
    patient: Patient,
    (runtime, ends): (&Runtime, &mut JoinHandle<()>),
    tell: &mut impl FnMut(Finding),
) -> Result<(), Error> {
    machine::look(tell);
    let disk = disk::Place::of(&config.state_dir);
    disk.look(tell);
    go_on(ends)?;
    tell(trial::passthrough(config, disk.folder()));
    go_on(ends)?;
    if patient == Patient::Machine {
        return Ok(());
    }
    network::look(config, tell);
    go_on(ends)?;
    let identified = runtime.block_on(async {
        tokio::select! {
            biased;
            _ = &mut *ends => None,
            finding = credentials::look(config) => Some(finding),
        }
    });
    tell(identified.ok_or(Error::Interrupted)?);
    let stop = async { (&mut *ends).await.unwrap_or_default() };
    runtime.block_on(bucket::look(config, PATIENCE, stop, tell));
    go_on(ends)
}

/// An error once we were asked to end.
fn go_on(ends: &JoinHandle<()>) -> Result<(), Error> {
    if ends.is_finished() { Err(Error::Interrupted) } else { Ok(()) }
}
