//! One large file from start to end.

use std::time::Duration;

use crate::client::Client;
use crate::limited::{Numbers, Stop};
use crate::session::Session;
use crate::stage::{MIB, Road, Stage};
use crate::workload::{Workload, less, more, seconds};

/// The large file that all chapters share.
pub(crate) const BIG: &str = "big";
pub(crate) const BIG_BYTES: u64 = 1024 * MIB;
const LIMIT: Duration = Duration::from_mins(2);

/// By each road.
pub(crate) fn workloads(stage: &Stage<'_>) -> Vec<Workload> {
    stage.noise(BIG, BIG_BYTES);
    [Road::Capped, Road::Far, Road::Direct].map(workload).into()
}

fn workload(road: Road) -> Workload {
    Workload {
        title: "1 GiB from start to end".to_owned(),
        road,
        limit: LIMIT,
        clients: Client::ALL.to_vec(),
        figures: vec![
            more("cold", "cold, MiB/s", rate),
            less("cold", "cold, CPU seconds per GiB", |numbers| numbers.get("cpu").copied()),
            more("disk", "again, nothing in memory, MiB/s", rate),
            more("memory", "again, MiB/s", rate),
        ],
        costs: &["cold", "memory"],
        play: Box::new(play),
    }
}

fn play(session: &mut Session<'_>) -> Result<(), Stop> {
    match session.client {
        Client::Raw => return session.raw_download("cold", BIG),
        Client::Local => {}
        Client::Quayfs
        | Client::S3fs
        | Client::Rclone
        | Client::Mountpoint
        | Client::MountpointCache => session.read("cold", "whole", BIG, &[])?,
    }
    session.forget();
    session.read("disk", "whole", BIG, &[])?;
    session.read("memory", "whole", BIG, &[])
}

fn rate(numbers: &Numbers) -> Option<f64> {
    Some(1024.0 / seconds(numbers)?)
}
