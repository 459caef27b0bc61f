//! Parts of one large file that is not here: at random, in two streams, in strides.

use std::time::Duration;

use crate::client::Client;
use crate::limited::Numbers;
use crate::session::Session;
use crate::stage::{Road, Stage};
use crate::work::sequential;
use crate::work::sequential::BIG;
use crate::workload::{Of, Workload, less, mib_fetched, mib_per_second, more, per_second};

const LIMIT: Duration = Duration::from_secs(12);
const READS: &str = "200";
/// What quayfs fetches for one of them.
const GRANULE_BYTES: &str = "131072";

pub(crate) const RANDOM_1: &str = "200 random reads of 4 KiB, 1 thread";
pub(crate) const RANDOM_16: &str = "200 random reads of 4 KiB, 16 threads";
pub(crate) const P50: &str = "p50, ms";
pub(crate) const READS_A_SECOND: &str = "reads/s";
pub(crate) const FETCHED_PER_TOUCHED: &str = "bytes fetched per byte of the granules read in";

pub(crate) fn prepare(stage: &Stage<'_>) {
    sequential::prepare(stage);
}

/// Each by its own mount.
pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        random(RANDOM_1, "1", Road::Far),
        random(RANDOM_16, "16", Road::Far),
        random(RANDOM_1, "1", Road::Direct),
        random(RANDOM_16, "16", Road::Direct),
        part(
            "two sequential streams on one handle, 256 MiB",
            ("streams", &["268435456"]),
            ("MiB/s", mib_per_second),
        ),
        part(
            "2 KiB of every 8.4 KB, 16,000 times",
            ("stride", &["8400", "2048", "16000"]),
            (READS_A_SECOND, per_second),
        ),
        part(
            "2 KiB of every 8.4 KB of a mapping, 16,000 times",
            ("stride-map", &["8400", "2048", "16000"]),
            (READS_A_SECOND, per_second),
        ),
        part(
            "64 KiB of every 17 MiB, 60 times",
            ("stride", &["17825792", "65536", "60"]),
            (READS_A_SECOND, per_second),
        ),
    ]
}

fn random(title: &str, threads: &'static str, road: Road) -> Workload {
    let play = move |session: &mut Session<'_>| {
        let read = match session.client {
            Client::Raw => session.raw("cold", &["ranges", BIG, READS, GRANULE_BYTES, threads]),
            Client::Local
            | Client::Through
            | Client::Quayfs
            | Client::S3fs
            | Client::Rclone
            | Client::Mountpoint
            | Client::MountpointCache
            | Client::Gcsfuse => session.read("cold", "random", BIG, &[READS, threads]),
        };
        read.map(drop)
    };
    Workload {
        title: title.to_owned(),
        road,
        limit: LIMIT,
        clients: Client::all_but(road, &[Client::MountpointCache]),
        figures: vec![
            less("cold", P50, |numbers| numbers.get("p50").map(|micros| micros / 1e3)),
            less("cold", "p99, ms", |numbers| numbers.get("p99").map(|micros| micros / 1e3)),
            more("cold", READS_A_SECOND, per_second),
            less("cold", "MiB fetched", mib_fetched),
            less("cold", FETCHED_PER_TOUCHED, fetched_per_touched),
        ],
        costs: &["cold"],
        play: Box::new(play),
    }
}

fn part(
    title: &str,
    (how, more_words): (&'static str, &'static [&'static str]),
    (what, of): (&str, Of),
) -> Workload {
    let play =
        move |session: &mut Session<'_>| session.read("cold", how, BIG, more_words).map(drop);
    Workload {
        title: title.to_owned(),
        road: Road::Far,
        limit: LIMIT,
        clients: Client::all_but(Road::Far, &[Client::Raw, Client::MountpointCache]),
        figures: vec![more("cold", what, of), less("cold", "MiB fetched", mib_fetched)],
        costs: &["cold"],
        play: Box::new(play),
    }
}

fn fetched_per_touched(numbers: &Numbers) -> Option<f64> {
    Some(numbers.get("fetched")? / numbers.get("touched")?)
}
