//! Writes: a large file, changes of a large one, and a tree of sources.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use testkit::{Bucket, Mount, Plan, Scratch, noise, run, wait};

use crate::kept::Kept;
use crate::report::{Rates, Report, median, say};
use crate::{MIB, PROBE_WITHIN, drop_caches, least, make, mib_per_second, raw, timed_by_itself};

const LARGE_BYTES: u64 = 1024 * MIB;
/// As programs that write much do.
const BLOCK_BYTES: usize = 1 << 20;
const EDITS: u64 = 1_000;
const EDIT_BYTES: usize = 4096;
const SOURCES: usize = 3_000;
const FOLDERS: usize = 200;
const TURNS: usize = 5;
/// Turns with a large file before those that count: a disk in a sparse file is slow where nothing was before.
const TURNS_UNCOUNTED: usize = 2;

/// One GiB, written from start to end and synced.
pub(crate) fn large_file(bucket: &Bucket<'_>, folder: &Scratch, report: &mut Report) {
    let local = folder.path().join("large");
    make(&local, LARGE_BYTES);
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for turn in 1..=TURNS_UNCOUNTED + TURNS {
        say(&format!("a large file, turn {turn} of {}", TURNS_UNCOUNTED + TURNS));
        let mut upload = raw(bucket.endpoint(), bucket);
        plain.push(timed_by_itself(upload.args(["upload", "raw-large"]).arg(&local)));
        let mount = Plan::of(bucket).mount();
        ours.push(timed(|| copy_and_sync(&local, &mount.join("large"))));
        report_memory(&mount, "a large file", turn == TURNS_UNCOUNTED + TURNS, report);
        mount.umount();
    }
    let [plain, ours] = [plain, ours].map(|took| took[TURNS_UNCOUNTED..].to_vec());
    let rate = |took| mib_per_second(LARGE_BYTES, took);
    let rates = Rates { reference: rate(median(plain)), ours: rate(median(ours)) };
    report.add("write 1 GiB in blocks of 1 MiB and fsync, MiB/s", "raw upload in parts", rates);
}

/// Small changes all over a large object, against the same in a local file.
pub(crate) fn edits(bucket: &Bucket<'_>, folder: &Scratch, report: &mut Report) {
    let local = folder.path().join("edited");
    make(&local, LARGE_BYTES);
    bucket.put_file("edited", &local);
    let (mut native, mut ours) = (Vec::new(), Vec::new());
    for turn in 1..=TURNS {
        say(&format!("changes of a large file, turn {turn} of {TURNS}"));
        drop_caches();
        native.push(timed(|| edit(&local)));
        let mount = Plan::of(bucket).mount();
        ours.push(timed(|| edit(&mount.join("edited"))));
        report_memory(&mount, "changes of a large file", turn == TURNS, report);
        mount.umount();
    }
    let rate = |took| f64::from(u32::try_from(EDITS).expect("small")) / took;
    let rates = Rates { reference: rate(median(native)), ours: rate(median(ours)) };
    report.add("4 KiB changes of 1 GiB that is not here, and fsync, per s", "local file", rates);
}

/// A tree of sources comes out of its archive.
pub(crate) fn untar(bucket: &Bucket<'_>, folder: &Scratch, kept: &mut Kept, report: &mut Report) {
    let archive = make_archive(folder);
    let (mut native, mut through, mut late, mut closed) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for turn in 1..=TURNS {
        say(&format!("a tree of sources, turn {turn} of {TURNS}"));
        let place = kept.scratch().path().to_owned();
        native.push(timed(|| extract(&archive, &place)));
        through.push(least::through(kept, |dir| extract(&archive, dir)));
        for (flags, took) in [(&["--commit", "async"][..], &mut late), (&[], &mut closed)] {
            let mount = Plan::of(bucket).flags(flags.iter().copied()).mount();
            let place = mount.join(format!("untar-{turn}-{}", flags.len()));
            fs::create_dir(&place).expect("the mount takes a folder");
            took.push(timed(|| extract(&archive, &place)));
            let what = format!("a tree of sources {}", flags.join(" "));
            report_memory(&mount, what.trim(), turn == TURNS, report);
            kept.umount(mount);
        }
    }
    let [native, through, late, closed] = [native, through, late, closed].map(median);
    report.remark(format!(
        "Untar of {SOURCES} sources: {native:.2} s on the local disk, {through:.2} s in the {}, {late:.2} s \
         async, {closed:.2} s close.",
        least::NAME
    ));
    let rate = |took| f64::from(u32::try_from(SOURCES).expect("small")) / took;
    let rates = |reference, ours| Rates { reference: rate(reference), ours: rate(ours) };
    report.add("untar 3,000 sources, async, files per s", "local disk", rates(native, late));
    report.add("untar 3,000 sources, async, files per s", least::NAME, rates(through, late));
    report.add("untar 3,000 sources, close, files per s", "local disk", rates(native, closed));
}

/// As `dd` does with `bs=1M conv=fsync`. The standard library's copy has the kernel write 64 KiB at a time.
fn copy_and_sync(from: &Path, to: &Path) {
    let (mut from, mut to) =
        (File::open(from).expect("made above"), File::create(to).expect("the mount takes a file"));
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let read = from.read(&mut block).expect("the scratch disk gives it");
        if read == 0 {
            break;
        }
        to.write_all(&block[..read]).expect("the mount takes the bytes");
    }
    to.sync_all().expect("the bucket takes the bytes");
}

fn edit(path: &Path) {
    let file = File::options().write(true).open(path).expect("it is there");
    // Far apart, and in no order that a reader ahead could guess.
    let step = LARGE_BYTES / EDITS;
    for number in 0..EDITS {
        let at = (number * 619 % EDITS) * step;
        file.write_all_at(&noise(number, EDIT_BYTES), at).expect("it can be changed");
    }
    file.sync_all().expect("it can be synced");
}

fn make_archive(folder: &Scratch) -> std::path::PathBuf {
    let tree = folder.folder("sources");
    for number in 0..SOURCES {
        let place = tree.join(format!("part-{}", number % FOLDERS));
        fs::create_dir_all(&place).expect("the scratch disk takes a folder");
        let bytes = noise(number as u64, 500 + number * 7919 % 15_000);
        fs::write(place.join(format!("source-{number}.c")), bytes).expect("the scratch disk");
    }
    let archive = folder.path().join("sources.tar");
    run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&tree).arg("."), PROBE_WITHIN)
        .ok();
    archive
}

fn extract(archive: &Path, place: &Path) {
    run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(place), PROBE_WITHIN).ok();
}

pub(crate) fn timed(work: impl FnOnce()) -> f64 {
    let started = wait::now();
    work();
    started.elapsed().as_secs_f64()
}

/// What the daemon took of memory at most, when the last turn is over.
pub(crate) fn report_memory(mount: &Mount, what: &str, is_last: bool, report: &mut Report) {
    if !is_last {
        return;
    }
    let status = mount.status();
    let status = fs::read_to_string(format!("/proc/{}/status", status["pid"])).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    report.remark(format!("Memory at most, {what}: {}.", peak.unwrap_or("not told").trim()));
}
