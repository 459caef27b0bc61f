//! 16 jobs of fio over files that were read before: sequential and at random, by one and by four, through
//! the page cache and past it, of a large file and of a small one.
//!
//! A virtual disk is a third faster in one second than in the next, and in one place than in another; so is memory,
//! by a fifth, which is as much as can be told of two copies of a file. So each job is done on the mount in short
//! turns with the same job on the local disk, and that is the file in quayfs's cache, read past the mount: the same
//! pages of memory, the same place of the disk. What quayfs makes of a file on the disk, the sequential reads from
//! there compare with a file of its own.
//!
//! As in the suite that they are of (<https://github.com/awslabs/mountpoint-s3/blob/main/doc/BENCHMARKING.md>) the small
//! file has 5 MiB, a whole number of reads: fio reads it over and over through one open. A file whose last read is a
//! part of one it opens again for each pass, so that one more job tells what an open costs. What of that is FUSE's
//! own tells the least file system over the same library, which reads the local files.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::client::Client;
use crate::limited::{Numbers, Stop};
use crate::session::Session;
use crate::stage::{Road, Stage};
use crate::work::sequential::{BIG, BIG_BYTES};
use crate::workload::{Workload, more};

const SMALL: &str = "five";
const SMALL_BYTES: u64 = 5 << 20;
/// Which fio opens for each pass.
const ODD: &str = "odd";
const ODD_BYTES: u64 = 5_000_000;
/// Of a job that reads for so long.
const LIMIT: Duration = Duration::from_secs(20);
const RUNTIME: &str = "1s";
/// How often each job is done, and as often on the local disk.
const ROUNDS: usize = 5;

pub(crate) const TITLE: &str = "16 jobs, 256 KiB a read, MiB/s";

pub(crate) fn prepare(stage: &Stage<'_>) {
    for (file, bytes) in [(BIG, BIG_BYTES), (SMALL, SMALL_BYTES), (ODD, ODD_BYTES)] {
        stage.noise(file, bytes);
    }
}

/// All of them through one mount, but for the one of opens.
pub(crate) fn workloads() -> Vec<Workload> {
    let opens = Job { file: ODD, way: "read", threads: 1, direct: 0 };
    vec![
        workload(TITLE, jobs(), &["before: big"], &[BIG, SMALL]),
        workload("One more, with an open for each 5 MB, MiB/s", vec![opens], &[], &[ODD]),
    ]
}

fn workload(
    title: &str,
    jobs: Vec<Job>,
    costs: &'static [&'static str],
    files: &'static [&'static str],
) -> Workload {
    let mut clients = Client::all_but(Road::Direct, &[Client::Local, Client::Raw]);
    clients.push(Client::Through);
    Workload {
        title: title.to_owned(),
        road: Road::Direct,
        limit: LIMIT,
        clients,
        figures: jobs.iter().map(|job| more(&job.name(), &job.name(), rate)).collect(),
        costs,
        play: Box::new(move |session| play(session, &jobs, files)),
    }
}

struct Job {
    file: &'static str,
    way: &'static str,
    threads: u32,
    direct: u32,
}

impl Job {
    fn name(&self) -> String {
        let Job { file, way, threads, direct } = self;
        let way = if *way == "read" { "sequential" } else { "random" };
        let cache = if *direct == 0 { "buffered" } else { "direct" };
        let file = match *file {
            BIG => "1 GiB",
            SMALL => "5 MiB",
            _ => "5 MB",
        };
        let plural = if *threads == 1 { "thread" } else { "threads" };
        format!("{way}, {threads} {plural}, {cache}, {file}")
    }
}

fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for file in [BIG, SMALL] {
        for way in ["read", "randread"] {
            for threads in [1, 4] {
                for direct in [0, 1] {
                    jobs.push(Job { file, way, threads, direct });
                }
            }
        }
    }
    jobs
}

/// Where a job reads.
#[derive(Clone, Copy)]
enum Place {
    Client,
    /// The client's cache, past it.
    Cache,
}

fn play(session: &mut Session<'_>, jobs: &[Job], files: &[&str]) -> Result<(), Stop> {
    for name in files {
        session.read_all(&format!("before: {name}"), name)?;
    }
    // From here on as every later mount finds it.
    session.remount()?;
    session.forget();
    for name in files {
        session.read_all(&format!("after a remount: {name}"), name)?;
    }
    let mut places = vec![Place::Client];
    if session.client == Client::Quayfs {
        places.push(Place::Cache);
        for file in files {
            cached(session, file)?;
        }
    }
    for job in jobs {
        for _ in 0..ROUNDS {
            // Each round the other one begins.
            places.reverse();
            for &place in &places {
                // One that fails says nothing of the others.
                if let Err(stop @ Stop::Over(_)) = run_job(session, job, place) {
                    return Err(stop);
                }
            }
        }
    }
    Ok(())
}

fn run_job(session: &mut Session<'_>, job: &Job, place: Place) -> Result<Numbers, Stop> {
    let path = match place {
        Place::Client => session.path(job.file),
        Place::Cache => cached(session, job.file)?,
    };
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--bs=256k", "--thread", "--time_based", "--group_reporting"]);
    fio.args(["--ioengine=psync", "--readonly", "--allow_file_create=0", "--output-format=json"]);
    // All clients have it in memory, as far as they can.
    fio.args(["--invalidate=0", "--norandommap", "--randrepeat=1"]);
    fio.arg(format!("--runtime={RUNTIME}")).arg(format!("--rw={}", job.way));
    fio.arg(format!("--numjobs={}", job.threads)).arg(format!("--direct={}", job.direct));
    fio.arg(format!("--filename={}", path.display()));
    match place {
        Place::Client => session.step(&job.name(), &mut fio),
        Place::Cache => session.step_on_disk(&job.name(), &mut fio),
    }
}

fn cached(session: &Session<'_>, file: &str) -> Result<PathBuf, Stop> {
    let bytes = match file {
        BIG => BIG_BYTES,
        SMALL => SMALL_BYTES,
        _ => ODD_BYTES,
    };
    let nothing = || Stop::Failed(format!("there is no file of {bytes} bytes in the cache"));
    session.cached(bytes).ok_or_else(nothing)
}

fn rate(numbers: &Numbers) -> Option<f64> {
    numbers.get("rate").map(|rate| rate / 1_048_576.0)
}
