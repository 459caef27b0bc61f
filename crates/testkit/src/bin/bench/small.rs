//! Small files: how fast they are written, and how fast they are in the bucket.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;

use testkit::{Bucket, Plan, wait};

use crate::kept::Kept;
use crate::report::{Rates, Report, median, say};
use crate::writes::{report_memory, timed};
use crate::{least, raw, timed_by_itself};

const FILES: u32 = 1000;
const BYTES: usize = 500;
/// As many as are measured with several at a time.
const WRITERS: u32 = 16;
const TURNS: usize = 5;
/// Uploads begin while the files are still being written.
const UPLOAD_DELAY: &str = "100ms";

/// Against the least of file systems over the same library and disk, and against plain requests.
pub(crate) fn small_files(bucket: &Bucket<'_>, kept: &mut Kept, report: &mut Report) {
    for writers in [1, WRITERS] {
        let (mut through, mut late, mut synced, mut puts, mut closed) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for turn in 1..=TURNS {
            say(&format!("small files, {writers} at a time, turn {turn} of {TURNS}"));
            through.push(least::through(kept, |dir| write(dir, writers)));
            let (written, in_bucket) = written_late(bucket, (writers, turn), report, kept);
            late.push(written);
            synced.push(in_bucket);
            puts.push(put(bucket));
            closed.push(written_closed(bucket, (writers, turn), report, kept));
        }
        let rates = |reference: &[f64], ours: &[f64]| {
            let rate = |times: &[f64]| f64::from(FILES) / median(times.to_vec());
            Rates { reference: rate(reference), ours: rate(ours) }
        };
        let files = format!("{FILES} files of {BYTES} bytes, {writers} at a time");
        report.add(
            &format!("{files}, async, until closed, per s"),
            least::NAME,
            rates(&through, &late),
        );
        let requests = format!("{WRITERS} raw PUTs at a time");
        report.add(
            &format!("{files}, async, until synced, per s"),
            &requests,
            rates(&puts, &synced),
        );
        report.add(&format!("{files}, close, per s"), &requests, rates(&puts, &closed));
    }
}

/// With closes that do not wait for the bucket: until the last close, and until all is there.
fn written_late(
    bucket: &Bucket<'_>,
    (writers, turn): (u32, usize),
    report: &mut Report,
    kept: &mut Kept,
) -> (f64, f64) {
    let flags = ["--commit", "async", "--upload-delay", UPLOAD_DELAY];
    let mount = Plan::of(bucket).flags(flags).mount();
    let dir = mount.join(format!("late-{writers}-{turn}"));
    warm(&dir);
    let started = wait::now();
    write(&dir, writers);
    let written = started.elapsed().as_secs_f64();
    fs::File::open(&dir).and_then(|dir| dir.sync_all()).expect("the store is there");
    let synced = started.elapsed().as_secs_f64();
    report_memory(
        &mount,
        &format!("small files, async, {writers} at a time"),
        turn == TURNS,
        report,
    );
    kept.umount(mount);
    (written, synced)
}

fn written_closed(
    bucket: &Bucket<'_>,
    (writers, turn): (u32, usize),
    report: &mut Report,
    kept: &mut Kept,
) -> f64 {
    let mount = Plan::of(bucket).mount();
    let dir = mount.join(format!("closed-{writers}-{turn}"));
    warm(&dir);
    let took = timed(|| write(&dir, writers));
    report_memory(
        &mount,
        &format!("small files, close, {writers} at a time"),
        turn == TURNS,
        report,
    );
    kept.umount(mount);
    took
}

/// The connections are there already, as they are in the client that is compared with.
fn warm(dir: &Path) {
    fs::create_dir(dir).expect("the mount takes a folder");
    thread::scope(|scope| {
        for number in 0..WRITERS {
            scope.spawn(move || {
                let file = dir.join(format!("warm{number}"));
                fs::write(file, b"x").expect("the mount takes a file");
            });
        }
    });
    fs::File::open(dir).and_then(|dir| dir.sync_all()).expect("the store is there");
}

fn write(dir: &Path, writers: u32) {
    thread::scope(|scope| {
        for writer in 0..writers {
            scope.spawn(move || {
                for number in (writer..FILES).step_by(writers as usize) {
                    let path = dir.join(format!("file{number}"));
                    let file = OpenOptions::new().write(true).create_new(true).open(path);
                    let mut file = file.expect("the file is new");
                    file.write_all(&[7; BYTES]).expect("the file takes it");
                }
            });
        }
    });
}

/// By a plain client, which says itself how long that took.
fn put(bucket: &Bucket<'_>) -> f64 {
    let mut puts = raw(bucket.endpoint(), bucket);
    puts.args(["puts", &FILES.to_string(), &BYTES.to_string(), &WRITERS.to_string()]);
    timed_by_itself(&mut puts)
}
