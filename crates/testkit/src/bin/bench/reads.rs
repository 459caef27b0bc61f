//! Reads: a file never seen before against a plain parallel download, a cached one against a copy of
//! it on the same disk.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{Bucket, Mount, Plan, Scratch, run, wait};

use crate::report::{Rates, Report, median, say};
use crate::{MIB, PROBE_WITHIN, beside, drop_caches, make, mib_per_second, raw, timed_by_itself};

/// Long enough that the start of a download does not matter.
const COLD_BYTES: u64 = 1024 * MIB;
/// Fits the page cache of any machine this runs on.
const WARM_BYTES: u64 = 256 * MIB;
const SMALL_FILES: usize = 1000;
const SMALL_BYTES: usize = 16 << 10;
const LISTED: usize = 100_000;
const TURNS: usize = 5;
const COLD_TURNS: usize = 3;

/// One GiB read from start to end that the mount has never seen.
pub(crate) fn cold(bucket: &Bucket<'_>, endpoint: &str, folder: &Scratch, report: &mut Report) {
    let object = folder.path().join("object");
    make(&object, COLD_BYTES);
    bucket.put_file("cold", &object);
    let (mut raw, mut ours) = (Vec::new(), Vec::new());
    for turn in 1..=COLD_TURNS {
        say(&format!("cold read, turn {turn} of {COLD_TURNS}"));
        raw.push(timed_download(bucket, endpoint, &folder.path().join("download")));
        let mount = Plan::of(bucket).instead("--endpoint", endpoint).mount();
        ours.push(timed_read(&mount.join("cold")));
        mount.umount();
    }
    let rates = Rates {
        reference: mib_per_second(COLD_BYTES, median(raw)),
        ours: mib_per_second(COLD_BYTES, median(ours)),
    };
    report.add("read 1 GiB cold, through a link, MiB/s", "raw client", rates);
}

/// Random reads of a cached file, against a copy of it on the same disk.
pub(crate) fn warm(bucket: &Bucket<'_>, folder: &Scratch, report: &mut Report) {
    let local = folder.path().join("object");
    make(&local, WARM_BYTES);
    bucket.put_file("warm", &local);
    let mount = Plan::of(bucket).mount();
    let path = mount.join("warm");
    let copy = mount.plan().folder("local").join("warm");
    fs::copy(&local, &copy).expect("the scratch disk takes the file");
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
        let rates = Rates { reference: per_second(median(native)), ours: per_second(median(ours)) };
        report.add(name, "local file", rates);
    }
    report_passthrough(&mount, report);
    mount.umount();
}

/// Small files that the mount has never seen, read by one program.
pub(crate) fn small(bucket: &Bucket<'_>, endpoint: &str, report: &mut Report) {
    bucket.put_many("small/file-", SMALL_FILES, &"x".repeat(SMALL_BYTES));
    let in_order: Vec<usize> = (0..SMALL_FILES).collect();
    // A full cycle: each once, in no order.
    let at_random: Vec<usize> = in_order.iter().map(|at| at * 619 % SMALL_FILES).collect();
    for (how, order) in [("in name order", in_order), ("in random order", at_random)] {
        let (mut raw_times, mut ours) = (Vec::new(), Vec::new());
        for turn in 1..=COLD_TURNS {
            say(&format!("small files {how}, turn {turn} of {COLD_TURNS}"));
            let count = SMALL_FILES.to_string();
            let gets = ["gets", "small/", &count];
            raw_times.push(timed_by_itself(raw(endpoint, bucket).args(gets)));
            let mount = Plan::of(bucket).instead("--endpoint", endpoint).mount();
            let started = wait::now();
            for number in &order {
                let path = mount.join(format!("small/file-{number:05}"));
                let bytes = fs::read(path).expect("the object is there");
                assert_eq!(bytes.len(), SMALL_BYTES);
            }
            ours.push(started.elapsed().as_secs_f64());
            mount.umount();
        }
        let rate = |took| f64::from(u32::try_from(SMALL_FILES).expect("small")) / took;
        let rates = Rates { reference: rate(median(raw_times)), ours: rate(median(ours)) };
        let name = format!("read 1,000 files of 16 KiB cold, {how}, through a link, per s");
        report.add(&name, "a GET after the other", rates);
    }
}

/// The names of a large folder that the mount has never seen, a long way off.
pub(crate) fn list(bucket: &Bucket<'_>, endpoint: &str, report: &mut Report) {
    bucket.put_many("folder/file-", LISTED, "");
    let (mut pages, mut ours) = (Vec::new(), Vec::new());
    for turn in 1..=COLD_TURNS {
        say(&format!("a large folder, turn {turn} of {COLD_TURNS}"));
        pages.push(timed_by_itself(raw(endpoint, bucket).args(["list", "folder/"])));
        let mount = Plan::of(bucket).instead("--endpoint", endpoint).mount();
        let started = wait::now();
        let listed = fs::read_dir(mount.join("folder")).expect("it is there").count();
        ours.push(started.elapsed().as_secs_f64());
        assert_eq!(listed, LISTED);
        mount.umount();
    }
    let rate = |took| f64::from(u32::try_from(LISTED).expect("small")) / took;
    let rates = Rates { reference: rate(median(pages)), ours: rate(median(ours)) };
    report.add("list 100,000 objects cold, 50 ms away, names per s", "page after page", rates);
}

fn report_passthrough(mount: &Mount, report: &mut Report) {
    let opens = mount.counter("passthrough_opens");
    let reads = mount.counter("fuse_reads");
    report.remark(format!("{opens} opens were in passthrough, {reads} reads were not."));
}

fn timed_download(bucket: &Bucket<'_>, endpoint: &str, file: &Path) -> f64 {
    let _ = fs::remove_file(file);
    let mut command = raw(endpoint, bucket);
    command.args(["get", "cold"]).arg(file).stdout(Stdio::piped());
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
