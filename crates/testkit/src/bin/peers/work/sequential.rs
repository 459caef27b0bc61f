//! One large file from start to end.

use std::time::Duration;

use crate::client::Client;
use crate::limited::{Numbers, Stop};
use crate::session::Session;
use crate::stage::{MIB, Road, Stage};
use crate::workload::{Workload, less, mib_per_second, more};

/// The large file that several chapters share.
pub(crate) const BIG: &str = "big";
pub(crate) const BIG_BYTES: u64 = 1024 * MIB;
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) const TITLE: &str = "1 GiB from start to end";
pub(crate) const COLD: &str = "cold, MiB/s";
pub(crate) const CPU: &str = "cold, CPU seconds per GiB";

pub(crate) fn prepare(stage: &Stage<'_>) {
    stage.noise(BIG, BIG_BYTES);
    stage.also_to_google(BIG);
}

/// By each road.
pub(crate) fn workloads() -> Vec<Workload> {
    [Road::Capped, Road::Far, Road::Direct].map(workload).into()
}

fn workload(road: Road) -> Workload {
    Workload {
        title: TITLE.to_owned(),
        road,
        limit: LIMIT,
        clients: Client::all_but(road, &[]),
        figures: vec![
            more("cold", COLD, mib_per_second),
            less("cold", CPU, cpu_seconds_per_gib),
            more("disk", "again, nothing in memory, MiB/s", mib_per_second),
            more("memory", "again, MiB/s", mib_per_second),
        ],
        costs: &["cold", "memory"],
        play: Box::new(play),
    }
}

fn play(session: &mut Session<'_>) -> Result<(), Stop> {
    if session.client == Client::Raw {
        return session.raw_download("cold", BIG).map(drop);
    }
    if session.client.mounts() {
        let cold = session.read("cold", "whole", BIG, &[])?;
        // Once is enough to know who is slow.
        if cold.contains_key("cut") {
            return Ok(());
        }
    }
    session.forget();
    session.read("disk", "whole", BIG, &[])?;
    session.read("memory", "whole", BIG, &[])?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a power of two")]
fn cpu_seconds_per_gib(numbers: &Numbers) -> Option<f64> {
    Some(numbers.get("cpu")? / (numbers.get("bytes")? / (1024 * MIB) as f64))
}
