//! The names of a large folder.

use std::time::Duration;

use testkit::is_long;

use crate::client::Client;
use crate::limited::Stop;
use crate::session::Session;
use crate::stage::{Road, Stage};
use crate::workload::{Workload, less, milliseconds};

const LIMIT: Duration = Duration::from_mins(1);

/// Of 10,000 objects, and in the long form of 100,000.
pub(crate) fn workloads(stage: &Stage<'_>) -> Vec<Workload> {
    let mut workloads = Vec::new();
    let counts: &[(&str, usize)] =
        if is_long() { &[("10,000", 10_000), ("100,000", 100_000)] } else { &[("10,000", 10_000)] };
    for (written, count) in counts {
        let folder = format!("many-{count}");
        stage.small_files(&folder, *count, 0);
        for line in [r#"ls -l "$1""#, r#"find "$1" -size +1k"#] {
            workloads.push(workload(written, folder.clone(), line));
        }
    }
    workloads
}

fn workload(written: &str, folder: String, line: &'static str) -> Workload {
    let program = line.replace(r#" "$1""#, "");
    let title = format!("{program} of {written} objects");
    let play = move |session: &mut Session<'_>| -> Result<(), Stop> {
        if session.client == Client::Raw {
            return session.raw("cold", &["list", &format!("{folder}/")]);
        }
        session.shell("cold", line, &folder)?;
        session.shell("again", line, &folder)
    };
    Workload {
        title,
        road: Road::Far,
        limit: LIMIT,
        clients: Client::ALL.to_vec(),
        figures: vec![
            less("cold", "cold, ms", milliseconds),
            less("again", "at once again, ms", milliseconds),
        ],
        costs: &["cold"],
        play: Box::new(play),
    }
}
