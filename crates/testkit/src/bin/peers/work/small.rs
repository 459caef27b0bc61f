//! 1,000 small files of one folder, one after the other.

use std::time::Duration;

use crate::client::Client;
use crate::limited::{Numbers, Stop};
use crate::session::Session;
use crate::stage::{Road, Stage};
use crate::workload::{Workload, less, milliseconds, more, per_second};

const FILES: usize = 1000;
const FILE_BYTES: usize = 16 << 10;
/// As `tar` packs them, each with its header.
#[expect(clippy::cast_precision_loss, reason = "a small number")]
const PACKED_BYTES: f64 = (FILE_BYTES + 512) as f64;
const LIMIT: Duration = Duration::from_secs(10);
const FOLDER: &str = "small";
/// Of the plain client, which takes the same time for each.
const RAW_FILES: &str = "100";

pub(crate) const BY_NAME: &str = "1,000 files of 16 KiB by name";
pub(crate) const AT_RANDOM: &str = "1,000 files of 16 KiB in random order";
pub(crate) const COLD: &str = "cold, files/s";
pub(crate) const REMOUNTED: &str = "after a remount, ms";
pub(crate) const LIST: &str = "one page of names, ms";

pub(crate) fn prepare(stage: &Stage<'_>) {
    stage.small_files(FOLDER, FILES, FILE_BYTES);
    stage.also_to_google(FOLDER);
}

/// By name, in no order, and by `tar`.
pub(crate) fn workloads() -> Vec<Workload> {
    [Road::Far, Road::Direct]
        .into_iter()
        .flat_map(|road| [by_name(road), at_random(road), by_tar(road)])
        .collect()
}

fn by_name(road: Road) -> Workload {
    Workload {
        title: BY_NAME.to_owned(),
        road,
        limit: LIMIT,
        clients: Client::all_but(road, &[]),
        figures: vec![
            more("cold", COLD, per_second),
            less("remounted", REMOUNTED, milliseconds),
            less("from disk", "after a remount, nothing in memory, ms", milliseconds),
            less("list", LIST, milliseconds),
        ],
        costs: &["cold", "remounted"],
        play: Box::new(play_by_name),
    }
}

fn play_by_name(session: &mut Session<'_>) -> Result<(), Stop> {
    if session.client == Client::Raw {
        session.raw("cold", &["gets", "small/", RAW_FILES])?;
        session.raw("list", &["list", "small/"])?;
        return Ok(());
    }
    let cold = read(session, "cold", "ordered")?;
    // Who has not read all has not kept all.
    if cold.contains_key("cut") {
        return Ok(());
    }
    session.remount()?;
    read(session, "remounted", "ordered")?;
    session.remount()?;
    session.forget();
    read(session, "from disk", "ordered")?;
    Ok(())
}

fn at_random(road: Road) -> Workload {
    Workload {
        title: AT_RANDOM.to_owned(),
        road,
        limit: LIMIT,
        clients: Client::all_but(road, &[Client::Raw, Client::MountpointCache]),
        figures: vec![more("cold", COLD, per_second)],
        costs: &["cold"],
        play: Box::new(|session| read(session, "cold", "random").map(drop)),
    }
}

fn by_tar(road: Road) -> Workload {
    Workload {
        title: "1,000 files of 16 KiB by tar".to_owned(),
        road,
        limit: LIMIT,
        clients: Client::all_but(road, &[Client::Raw, Client::MountpointCache]),
        figures: vec![more("cold", COLD, packed_per_second)],
        costs: &["cold"],
        play: Box::new(|session| session.tar("cold", FOLDER).map(drop)),
    }
}

fn packed_per_second(numbers: &Numbers) -> Option<f64> {
    Some(numbers.get("bytes")? / PACKED_BYTES / (numbers.get("micros")? / 1e6))
}

fn read(session: &mut Session<'_>, step: &str, order: &str) -> Result<Numbers, Stop> {
    session.read(step, "files", FOLDER, &[&FILES.to_string(), order])
}
