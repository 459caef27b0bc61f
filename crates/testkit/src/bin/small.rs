//! Measures small files: how fast they are written, and how fast they are in the bucket.
//!
//! Every line compares two things measured in turns in one run, so that the machine's mood cancels
//! out; what counts is the ratio. The store is on this machine, with no link in between.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::{Bucket, Login, MinIo, Plan, Scratch, run, wait};

const FILES: u32 = 1000;
const BYTES: usize = 500;
const TURNS: usize = 3;
const WITHIN: Duration = Duration::from_mins(2);

fn main() {
    let store = MinIo::start();
    let bucket = store.bucket();
    let mut rows = Vec::new();
    for writers in [1, 16] {
        let (mut through, mut late, mut synced, mut puts, mut closed) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for turn in 0..TURNS {
            tell(&format!("{writers} writer(s), turn {} of {TURNS}", turn + 1));
            through.push(written_through(writers));
            let (written, in_bucket) = written_late(&bucket, writers);
            late.push(written);
            synced.push(in_bucket);
            puts.push(put(&store.endpoint(), &bucket));
            closed.push(written_closed(&bucket, writers));
        }
        let rate = |times: Vec<f64>| f64::from(FILES) / median(times);
        let (through, late) = (rate(through), rate(late));
        let (synced, puts, closed) = (rate(synced), rate(puts), rate(closed));
        rows.push(("async, closed", writers, "pass-through", through, late));
        rows.push(("async, in the bucket", writers, "16 PUTs at a time", puts, synced));
        rows.push(("close", writers, "16 PUTs at a time", puts, closed));
    }
    say(&format!("{FILES} files of {BYTES} bytes, files per second, medians of {TURNS} turns"));
    for (what, writers, reference, theirs, ours) in rows {
        say(&format!(
            "{what:<22}{writers:>3} writer(s){reference:>22} {theirs:>7.0}  quayfs {ours:>7.0}  ratio {:.2}",
            ours / theirs
        ));
    }
}

/// Through the least of file systems, over the disk where the state folders are.
fn written_through(writers: u32) -> f64 {
    let scratch = Scratch::new();
    let (folder, dir) = (scratch.folder("files"), scratch.folder("mnt"));
    let mut command = Command::new(beside("quayfs-bench-through"));
    let mut server = command.arg(&folder).arg(&dir).stdout(Stdio::piped()).spawn();
    let server = server.as_mut().expect("built together with this program");
    wait_for_line(server);
    let took = write(&dir, writers);
    run(Command::new("umount").arg(&dir), WITHIN).ok();
    server.wait().expect("the child is ours");
    took
}

/// With closes that do not wait for the bucket: until the last close, and until all is there.
fn written_late(bucket: &Bucket<'_>, writers: u32) -> (f64, f64) {
    let mount = Plan::of(bucket).flags(["--commit", "async"]).mount();
    let dir = mount.join(format!("late{writers}"));
    fs::create_dir(&dir).expect("the mount takes a folder");
    warm(&dir);
    let started = wait::now();
    let written = write(&dir, writers);
    fs::File::open(&dir).and_then(|dir| dir.sync_all()).expect("the store is there");
    let synced = started.elapsed().as_secs_f64();
    clear(&dir);
    mount.umount();
    (written, synced)
}

fn written_closed(bucket: &Bucket<'_>, writers: u32) -> f64 {
    let mount = Plan::of(bucket).mount();
    let dir = mount.join(format!("closed{writers}"));
    fs::create_dir(&dir).expect("the mount takes a folder");
    warm(&dir);
    let written = write(&dir, writers);
    clear(&dir);
    mount.umount();
    written
}

/// The connections are there already, as they are in the client that is compared with.
fn warm(dir: &Path) {
    for number in 0..16 {
        fs::write(dir.join(format!("warm{number}")), b"x").expect("the mount takes a file");
    }
    fs::File::open(dir).and_then(|dir| dir.sync_all()).expect("the store is there");
}

fn clear(dir: &Path) {
    run(Command::new("rm").arg("-r").arg(dir), WITHIN).ok();
}

fn write(dir: &Path, writers: u32) -> f64 {
    let started = wait::now();
    std::thread::scope(|scope| {
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
    started.elapsed().as_secs_f64()
}

/// By a plain client, which says itself how long that took.
fn put(endpoint: &str, bucket: &Bucket<'_>) -> f64 {
    let login = Login::root();
    let mut command = Command::new(beside("quayfs-bench-raw"));
    let (files, bytes) = (FILES.to_string(), BYTES.to_string());
    command.args([endpoint, bucket.name(), "puts", &files, &bytes, "16"]);
    command.env("AWS_ACCESS_KEY_ID", login.user).env("AWS_SECRET_ACCESS_KEY", login.secret);
    let micros: f64 = run(&mut command, WITHIN).ok().trim().parse().expect("it prints a number");
    micros / 1e6
}

fn wait_for_line(server: &mut Child) {
    let pipe = server.stdout.take().expect("asked for above");
    let mut line = String::new();
    BufReader::new(pipe).read_line(&mut line).expect("it says that it is mounted");
    assert_eq!(line.trim(), "mounted");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn beside(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    this.with_file_name(name)
}

#[expect(clippy::print_stderr, reason = "a benchmark takes minutes and says where it is")]
fn tell(text: &str) {
    eprintln!("bench: {text}");
}

#[expect(clippy::print_stdout, reason = "the result of the program")]
fn say(text: &str) {
    println!("{text}");
}
