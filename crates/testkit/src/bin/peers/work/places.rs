//! Parts of one large file that is not here: at random, in two streams, in strides.

use std::time::Duration;

use crate::client::Client;
use crate::session::Session;
use crate::stage::{Road, Stage};
use crate::work::sequential::{BIG, BIG_BYTES};
use crate::workload::{Figure, Workload, less, mib_fetched, milliseconds, more, seconds};

const LIMIT: Duration = Duration::from_mins(1);
const READS: &str = "200";
/// What quayfs fetches for one of them.
const GRANULE_BYTES: &str = "131072";

/// Each by its own mount.
pub(crate) fn workloads(stage: &Stage<'_>) -> Vec<Workload> {
    stage.noise(BIG, BIG_BYTES);
    vec![
        random("1"),
        random("16"),
        part("two sequential streams on one handle, 256 MiB", "streams", &["268435456"]),
        part("2 KiB of every 8.4 KB, 16,000 times", "stride", &["8400", "2048", "16000"]),
        part("the same of a mapping", "stride-map", &["8400", "2048", "16000"]),
        part("64 KiB of every 17 MiB, 60 times", "stride", &["17825792", "65536", "60"]),
    ]
}

fn random(threads: &'static str) -> Workload {
    let play = move |session: &mut Session<'_>| match session.client {
        Client::Raw => session.raw("cold", &["ranges", BIG, READS, GRANULE_BYTES, threads]),
        Client::Local
        | Client::Quayfs
        | Client::S3fs
        | Client::Rclone
        | Client::Mountpoint
        | Client::MountpointCache => session.read("cold", "random", BIG, &[READS, threads]),
    };
    let figures = vec![
        less("cold", "p50, ms", |numbers| numbers.get("p50").map(|micros| micros / 1e3)),
        less("cold", "p99, ms", |numbers| numbers.get("p99").map(|micros| micros / 1e3)),
        more("cold", "reads/s", |numbers| Some(200.0 / seconds(numbers)?)),
        fetched(),
    ];
    let title = match threads {
        "1" => "200 random reads of 4 KiB, 1 thread".to_owned(),
        _ => format!("200 random reads of 4 KiB, {threads} threads"),
    };
    let clients = Client::ALL.to_vec();
    Workload {
        title,
        road: Road::Far,
        limit: LIMIT,
        clients,
        figures,
        costs: &["cold"],
        play: Box::new(play),
    }
}

fn part(title: &str, how: &'static str, more: &'static [&'static str]) -> Workload {
    let play = move |session: &mut Session<'_>| session.read("cold", how, BIG, more);
    Workload {
        title: title.to_owned(),
        road: Road::Far,
        limit: LIMIT,
        clients: Client::ALL.into_iter().filter(|&client| client != Client::Raw).collect(),
        figures: vec![less("cold", "cold, ms", milliseconds), fetched()],
        costs: &["cold"],
        play: Box::new(play),
    }
}

fn fetched() -> Figure {
    less("cold", "MiB fetched", mib_fetched)
}
