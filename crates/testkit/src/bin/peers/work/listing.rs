//! The names of a large folder.

use std::time::Duration;

use crate::client::Client;
use crate::limited::Stop;
use crate::session::Session;
use crate::stage::{Road, Stage};
use crate::workload::{Workload, less, milliseconds};

const LIMIT: Duration = Duration::from_secs(40);
const LOOK: &str = r#"ls -l "$1""#;
const SEARCH: &str = r#"find "$1" -size +1k"#;

pub(crate) const LOOK_AT_MANY: &str = "ls -l of 100,000 objects";
pub(crate) const COLD: &str = "cold, ms";

pub(crate) fn prepare(stage: &Stage<'_>) {
    for count in [10_000, 100_000] {
        stage.small_files(&folder(count), count, 0);
    }
}

/// Of both folders, with the link and without it.
pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        workload("ls -l of 10,000 objects", LOOK, 10_000, Road::Far),
        workload("find -size +1k in 10,000 objects", SEARCH, 10_000, Road::Far),
        workload("ls -l of 10,000 objects", LOOK, 10_000, Road::Direct),
        workload(LOOK_AT_MANY, LOOK, 100_000, Road::Far),
        workload("find -size +1k in 100,000 objects", SEARCH, 100_000, Road::Far),
    ]
}

fn folder(count: usize) -> String {
    format!("many-{count}")
}

fn workload(title: &str, line: &'static str, count: usize, road: Road) -> Workload {
    let play = move |session: &mut Session<'_>| -> Result<(), Stop> {
        let folder = folder(count);
        if session.client == Client::Raw {
            return session.raw("cold", &["list", &format!("{folder}/")]).map(drop);
        }
        session.shell("cold", line, &folder)?;
        session.shell("again", line, &folder).map(drop)
    };
    Workload {
        title: title.to_owned(),
        road,
        limit: LIMIT,
        // The emulator of Google's store makes each page from all names anew.
        clients: Client::all_but(road, &[Client::Gcsfuse, Client::MountpointCache]),
        figures: vec![
            less("cold", COLD, milliseconds),
            less("again", "at once again, ms", milliseconds),
        ],
        costs: &["cold"],
        play: Box::new(play),
    }
}
