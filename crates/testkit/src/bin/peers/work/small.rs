//! 1,000 small files of one folder, one after the other.

use std::time::Duration;

use crate::client::Client;
use crate::limited::Stop;
use crate::session::Session;
use crate::stage::{Road, Stage};
use crate::workload::{Workload, less, milliseconds, more, seconds};

const FILES: usize = 1000;
const FILE_BYTES: usize = 16 << 10;
/// One that takes 60 ms a file is in time.
const LIMIT: Duration = Duration::from_secs(90);
const FOLDER: &str = "small";

/// Whether it is also asked what is kept over a remount; once is enough, most take a minute each time.
#[derive(Clone, Copy, PartialEq)]
enum Keeps {
    Asked,
    No,
}

/// By name, in no order, and by `tar`.
pub(crate) fn workloads(stage: &Stage<'_>) -> Vec<Workload> {
    stage.small_files(FOLDER, FILES, FILE_BYTES);
    vec![
        workload("by name", Keeps::Asked, |session, step| read(session, step, "ordered")),
        workload("in random order", Keeps::No, |session, step| read(session, step, "random")),
        workload("by tar", Keeps::No, |session, step| {
            // To a pipe: to /dev/null it would not read.
            session.shell(step, r#"tar -C "$1" -cf - . | cat"#, FOLDER)
        }),
    ]
}

fn workload(
    how: &str,
    keeps: Keeps,
    read: impl Fn(&mut Session<'_>, &str) -> Result<(), Stop> + 'static,
) -> Workload {
    let play = move |session: &mut Session<'_>| {
        if session.client == Client::Raw {
            return session.raw("cold", &["gets", "small/"]);
        }
        read(session, "cold")?;
        if keeps == Keeps::No {
            return Ok(());
        }
        session.remount()?;
        read(session, "remounted")?;
        session.remount()?;
        session.forget();
        read(session, "from disk")
    };
    let mut figures =
        vec![more("cold", "cold, files/s", |numbers| Some(1000.0 / seconds(numbers)?))];
    if keeps == Keeps::Asked {
        figures.push(less("remounted", "after a remount, ms", milliseconds));
        figures.push(less("from disk", "after a remount, nothing in memory, ms", milliseconds));
    }
    Workload {
        title: format!("1,000 files of 16 KiB {how}"),
        road: Road::Far,
        limit: LIMIT,
        clients: Client::ALL.to_vec(),
        figures,
        costs: if keeps == Keeps::Asked { &["cold", "remounted"] } else { &["cold"] },
        play: Box::new(play),
    }
}

fn read(session: &mut Session<'_>, step: &str, order: &str) -> Result<(), Stop> {
    session.read(step, "files", FOLDER, &[&FILES.to_string(), order])
}
