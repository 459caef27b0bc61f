//! A task that leaves thousands of tiny files: how long it takes itself, and until the bucket has them all.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::{Bucket, Plan, run, wait};

use crate::kept::Kept;
use crate::report::{Rates, Report, median, say};
use crate::writes::{report_memory, timed};
use crate::{PROBE_WITHIN, least, raw, timed_by_itself};

const FILES: u32 = 10_000;
const BYTES: u32 = 300;
/// As many as a plain client is quickest with on this machine.
const PUTS_AT_A_TIME: u32 = 16;
const TURNS: usize = 3;

/// A program that leaves as many files in a folder.
type Task = fn(&Path);

/// Tasks against the local disk and the least of file systems, and all of them until they are in the bucket against
/// plain requests.
pub(crate) fn tiny_files(bucket: &Bucket<'_>, kept: &mut Kept, report: &mut Report) {
    let tasks: [(&str, Task); 2] = [("writes", by_a_shell), ("splits a file into", by_split)];
    for (does, task) in tasks {
        let what = format!("a task that {does} {FILES} files of {BYTES} bytes");
        tiny_files_of(&what, task, bucket, kept, report);
    }
}

fn tiny_files_of(
    what: &str,
    task: Task,
    bucket: &Bucket<'_>,
    kept: &mut Kept,
    report: &mut Report,
) {
    let (mut local, mut through, mut in_memory, mut here) = (vec![], vec![], vec![], vec![]);
    let (mut there, mut puts) = (vec![], vec![]);
    for turn in 1..=TURNS {
        say(&format!("{what}, turn {turn} of {TURNS}"));
        let scratch = kept.scratch();
        local.push(timed(|| task(scratch.path())));
        through.push(least::through(kept, task));
        in_memory.push(least::in_memory(task));
        let mount = Plan::of(bucket).flags(["--profile", "pipeline"]).mount();
        let dir = mount.join(format!("{what}, {turn}"));
        fs::create_dir(&dir).expect("the mount takes a folder");
        let started = wait::now();
        task(&dir);
        here.push(started.elapsed().as_secs_f64());
        fs::File::open(&dir).and_then(|dir| dir.sync_all()).expect("the store is there");
        there.push(started.elapsed().as_secs_f64());
        report_memory(&mount, what, turn == TURNS, report);
        kept.umount(mount);
        let mut plain = raw(bucket.endpoint(), bucket);
        let numbers = [FILES, BYTES, PUTS_AT_A_TIME].map(|number| number.to_string());
        puts.push(timed_by_itself(plain.arg("puts").args(numbers)));
    }
    let rates = |reference: &[f64], ours: &[f64]| {
        let rate = |times: &[f64]| f64::from(FILES) / median(times.to_vec());
        Rates { reference: rate(reference), ours: rate(ours) }
    };
    report.add(&format!("{what}, itself, per s"), "local disk", rates(&local, &here));
    report.add(&format!("{what}, itself, per s"), least::NAME, rates(&through, &here));
    let name = least::NAME_IN_MEMORY;
    report.add(&format!("{what}, itself, per s"), name, rates(&in_memory, &here));
    let requests = format!("{PUTS_AT_A_TIME} raw PUTs at a time");
    report.add(&format!("{what}, until synced, per s"), &requests, rates(&puts, &there));
}

/// What a shell script does that has a line for each file.
fn by_a_shell(dir: &Path) {
    let script = format!("for i in $(seq {FILES}); do printf '%0{BYTES}d' $i > $i; done");
    run(Command::new("bash").args(["-c", &script]).current_dir(dir), PROBE_WITHIN).ok();
}

/// What a program does that deals out records, as before a scatter over many tasks.
fn by_split(dir: &Path) {
    let digits = (FILES - 1).ilog10() + 1;
    let script =
        format!("head -c {} /dev/zero | split -b {BYTES} -d -a {digits} - part-", FILES * BYTES);
    run(Command::new("bash").args(["-c", &script]).current_dir(dir), PROBE_WITHIN).ok();
}
