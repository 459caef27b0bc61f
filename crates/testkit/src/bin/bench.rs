//! Measures a mount against what it cannot beat: a plain parallel download, and the local disk.
//!
//! Every line compares two things measured in turns in one run, so that the machine's mood cancels
//! out; what counts is the ratio. `make bench` builds and runs it.
//!
//! The link to the store is a proxy in this process. Another one takes its place with
//! `QUAYFS_BENCH_LINK=host:port`; it must lead to `QUAYFS_BENCH_STORE=host:port`, where the store
//! then listens.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::{Bucket, Login, MinIo, Mount, Plan, Scratch, Shape, SlowLink, noise, run, wait};

const MIB: u64 = 1 << 20;
/// Long enough that the start of a download does not matter.
const COLD_BYTES: u64 = 1024 * MIB;
/// Fits the page cache of any machine this runs on.
const WARM_BYTES: u64 = 256 * MIB;
const TURNS: usize = 5;
const COLD_TURNS: usize = 3;
const LINK: Shape = Shape {
    latency: Duration::from_millis(20),
    connection_rate: Some(80_000_000),
    total_rate: Some(400_000_000),
};
const PROBE_WITHIN: Duration = Duration::from_mins(10);

fn main() {
    let link_given = address("QUAYFS_BENCH_LINK");
    let store = match address("QUAYFS_BENCH_STORE") {
        Some(address) => MinIo::start_at(address),
        None => MinIo::start(),
    };
    let link = SlowLink::to(store.address(), LINK);
    let endpoint = format!("http://{}", link_given.unwrap_or(link.address()));
    let bucket = store.bucket();
    let folder = Scratch::new();

    let object = folder.path().join("object");
    say("making the objects");
    make(&object, COLD_BYTES);
    bucket.put_file("cold", &object);
    make(&object, WARM_BYTES);
    bucket.put_file("warm", &object);

    let mut table = Table::default();
    cold_reads(&bucket, &endpoint, &folder, &mut table);
    warm_reads(&bucket, &object, &mut table);
    print(&table);
}

/// One GiB read from start to end that the mount has never seen.
fn cold_reads(bucket: &Bucket<'_>, endpoint: &str, folder: &Scratch, table: &mut Table) {
    let (mut raw, mut ours) = (Vec::new(), Vec::new());
    for turn in 1..=COLD_TURNS {
        say(&format!("cold read, turn {turn} of {COLD_TURNS}"));
        raw.push(timed_download(bucket, endpoint, &folder.path().join("download")));
        let mount = Plan::of(bucket).instead("--endpoint", endpoint).mount();
        ours.push(timed_read(&mount.join("cold")));
        mount.umount();
    }
    let mib_per_second =
        |took: f64| f64::from(u32::try_from(COLD_BYTES / MIB).expect("small")) / took;
    table.add(
        "read 1 GiB cold, MiB/s",
        "raw client",
        "quayfs",
        mib_per_second(median(raw)),
        mib_per_second(median(ours)),
    );
}

/// Random reads of a cached file, against a copy of it on the same disk.
fn warm_reads(bucket: &Bucket<'_>, local: &Path, table: &mut Table) {
    let mount = Plan::of(bucket).mount();
    let path = mount.join("warm");
    let copy = mount.plan().folder("local").join("warm");
    fs::copy(local, &copy).expect("the scratch disk takes the file");
    timed_read(&path);
    // From the cache of the disk, in the state every later mount finds it in.
    let mount = mount.umount().mount();
    let path = mount.join("warm");
    timed_read(&path);

    for (name, count, is_cold) in [
        ("4 KiB random reads in the page cache, per s", 400_000, false),
        ("4 KiB random reads from the disk, per s", 20_000, true),
    ] {
        let (mut native, mut ours) = (Vec::new(), Vec::new());
        for turn in 1..=TURNS {
            say(&format!("{name}, turn {turn} of {TURNS}"));
            native.push(timed_probe(&copy, count, is_cold));
            ours.push(timed_probe(&path, count, is_cold));
        }
        let per_second = |took: f64| f64::from(count) / took;
        table.add(
            name,
            "local file",
            "quayfs",
            per_second(median(native)),
            per_second(median(ours)),
        );
    }
    report_passthrough(&mount);
    mount.umount();
}

fn report_passthrough(mount: &Mount) {
    let opens = mount.counter("passthrough_opens");
    say(&format!(
        "{opens} opens were in passthrough, {} reads were not",
        mount.counter("fuse_reads")
    ));
}

fn timed_download(bucket: &Bucket<'_>, endpoint: &str, file: &Path) -> f64 {
    let _ = fs::remove_file(file);
    let login = Login::root();
    let mut command = Command::new(beside("quayfs-bench-raw"));
    command.args([endpoint, bucket.name(), "cold"]).arg(file).stdout(Stdio::piped());
    command.env("AWS_ACCESS_KEY_ID", login.user).env("AWS_SECRET_ACCESS_KEY", login.secret);
    let started = wait::now();
    let mut raw = command.spawn().expect("built together with this program");
    let pipe = raw.stdout.take().expect("asked for above");
    assert_eq!(drain(pipe), COLD_BYTES, "the raw client");
    let took = started.elapsed().as_secs_f64();
    assert!(raw.wait().expect("the child is ours").success(), "the raw client failed");
    took
}

fn timed_read(path: &Path) -> f64 {
    let len = path.metadata().expect("the object is there").len();
    let started = wait::now();
    let file = File::open(path).expect("the object is there");
    assert_eq!(drain(file), len, "the mount");
    started.elapsed().as_secs_f64()
}

fn timed_probe(path: &Path, count: u32, is_cold: bool) -> f64 {
    if is_cold {
        drop_caches();
    }
    let mut probe = Command::new(beside("quayfs-bench-probe"));
    let finished = run(probe.arg(path).arg(count.to_string()), PROBE_WITHIN);
    let micros: f64 = finished.ok().trim().parse().expect("the probe prints a number");
    micros / 1e6
}

/// Makes the kernel forget every clean page, of the local file as of the cached one.
fn drop_caches() {
    run(&mut Command::new("sync"), PROBE_WITHIN).ok();
    fs::write("/proc/sys/vm/drop_caches", "1").expect("the benchmark is run by root");
}

fn drain(mut from: impl Read) -> u64 {
    let mut buffer = vec![0; 1 << 20];
    let mut len = 0;
    loop {
        match from.read(&mut buffer).expect("it can be read") {
            0 => return len,
            read => len += read as u64,
        }
    }
}

fn make(path: &Path, len: u64) {
    let mut file = File::create(path).expect("the scratch disk takes the file");
    for mib in 0..len / MIB {
        let block = noise(mib, usize::try_from(MIB).expect("small"));
        file.write_all(&block).expect("the scratch disk takes the file");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
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

/// What was measured.
#[derive(Default)]
struct Table {
    rows: Vec<[String; 4]>,
}

impl Table {
    fn add(&mut self, what: &str, reference: &str, subject: &str, theirs: f64, ours: f64) {
        self.rows.push([
            what.to_owned(),
            format!("{reference} {theirs:.0}"),
            format!("{subject} {ours:.0}"),
            format!("{:.2}", ours / theirs),
        ]);
    }
}

#[expect(clippy::print_stdout, reason = "the result of the program")]
fn print(table: &Table) {
    println!("{:<46}{:>22}{:>18}{:>8}", "", "reference", "subject", "ratio");
    for [what, reference, subject, ratio] in &table.rows {
        println!("{what:<46}{reference:>22}{subject:>18}{ratio:>8}");
    }
}

#[expect(clippy::print_stderr, reason = "a benchmark takes minutes and says where it is")]
fn say(text: &str) {
    eprintln!("bench: {text}");
}
