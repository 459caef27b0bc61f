//! Measures a mount against what it cannot beat: a plain client, and the local disk.
//!
//! Every line compares two things measured in turns in one run, so that the machine's mood cancels
//! out; what counts is the ratio. `make bench` builds and runs it.
//!
//! `quayfs-bench [PAGE [CHAPTER...]]` writes the page too; chapters are `reads`, `small`, `tasks` and `writes`.
//! Mounts take requests by `/dev/fuse` unless `QUAYFS_NO_IO_URING=false`, and so does what they are compared with.
//!
//! The link to the store is a proxy in this process. Another one takes its place with
//! `QUAYFS_BENCH_LINK=host:port`; it must lead to `QUAYFS_BENCH_STORE=host:port`, where the store
//! then listens.

mod kept;
mod least;
mod memory;
mod reads;
mod report;
mod scenes;
mod small;
mod tasks;
mod writes;

use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{Bucket, Login, MinIo, Scratch, Shape, SlowLink, noise, run};

use crate::kept::Kept;
use crate::report::Report;

const MIB: u64 = 1 << 20;
const LINK: Shape = Shape {
    latency: Duration::from_millis(20),
    connection_rate: Some(80_000_000),
    total_rate: Some(400_000_000),
};
/// Only far away.
const FAR: Shape =
    Shape { latency: Duration::from_millis(50), connection_rate: None, total_rate: None };
const CHAPTERS: [&str; 4] = ["reads", "small", "tasks", "writes"];
const PROBE_WITHIN: Duration = Duration::from_mins(10);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let page = arguments.next().map(PathBuf::from);
    let is_page = page.as_ref().is_none_or(|page| !page.to_string_lossy().starts_with('-'));
    assert!(is_page, "usage: quayfs-bench [PAGE [CHAPTER...]]");
    let wanted: Vec<String> = arguments.collect();
    assert!(
        wanted.iter().all(|name| CHAPTERS.contains(&name.as_str())),
        "chapters are {CHAPTERS:?}"
    );
    let is_wanted = |chapter: &str| wanted.is_empty() || wanted.iter().any(|name| name == chapter);

    memory::touch();
    let link_given = address("QUAYFS_BENCH_LINK");
    let store = match address("QUAYFS_BENCH_STORE") {
        Some(address) => MinIo::start_at(address),
        None => MinIo::start(),
    };
    let link = SlowLink::to(store.address(), LINK);
    let endpoint = format!("http://{}", link_given.unwrap_or(link.address()));
    let bucket = store.bucket();
    let folder = Scratch::new();

    let mut kept = Kept::default();
    let mut report = Report::default();
    if is_wanted("reads") {
        report.chapter("Reads");
        reads::cold(&bucket, &endpoint, &folder, &mut report);
        reads::small(&bucket, &endpoint, &mut report);
        reads::warm(&bucket, &folder, &mut report);
        let far = SlowLink::to(store.address(), FAR);
        reads::list(&bucket, &far.endpoint(), &mut report);
    }
    if is_wanted("small") {
        report.chapter("Small files");
        small::small_files(&bucket, &mut kept, &mut report);
    }
    if is_wanted("tasks") {
        report.chapter("Tasks");
        tasks::tiny_files(&bucket, &mut kept, &mut report);
        scenes::at_once(&bucket, &mut kept, &mut report);
    }
    if is_wanted("writes") {
        report.chapter("Writes");
        writes::large_file(&bucket, &folder, &mut report);
        writes::edits(&bucket, &folder, &mut report);
        writes::untar(&bucket, &folder, &mut kept, &mut report);
    }
    report.print();
    if let Some(page) = page {
        report.write(&page);
    }
}

/// The plain client, to be told what to do.
fn raw(endpoint: &str, bucket: &Bucket<'_>) -> Command {
    let login = Login::root();
    let mut command = Command::new(beside("quayfs-bench-raw"));
    command.args([endpoint, bucket.name()]);
    command.env("AWS_ACCESS_KEY_ID", login.user).env("AWS_SECRET_ACCESS_KEY", login.secret);
    command
}

/// What the program says that it took, without its start.
fn timed_by_itself(program: &mut Command) -> f64 {
    let finished = run(program, PROBE_WITHIN);
    // The microseconds come first, with or without their name.
    let first = finished.ok().split_whitespace().find_map(|word| word.parse::<f64>().ok());
    first.expect("the program prints a number") / 1e6
}

/// Makes the kernel forget every clean page, of the local file as of the cached one.
fn drop_caches() {
    run(&mut Command::new("sync"), PROBE_WITHIN).ok();
    fs::write("/proc/sys/vm/drop_caches", "1").expect("the benchmark is run by root");
}

fn make(path: &Path, len: u64) {
    let mut file = File::create(path).expect("the scratch disk takes the file");
    for mib in 0..len / MIB {
        let block = noise(mib, usize::try_from(MIB).expect("small"));
        file.write_all(&block).expect("the scratch disk takes the file");
    }
}

fn mib_per_second(bytes: u64, seconds: f64) -> f64 {
    f64::from(u32::try_from(bytes / MIB).expect("small")) / seconds
}

fn beside(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    this.with_file_name(name)
}

#[expect(clippy::disallowed_methods, reason = "a program's settings come from its environment")]
fn address(name: &str) -> Option<SocketAddr> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is not host:port: {value}")))
}
