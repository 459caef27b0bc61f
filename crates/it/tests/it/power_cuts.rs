//! The power goes at moments of chance, and the disk forgets what was not synced: the mount comes up
//! again, and the bucket has what was promised and nothing that is torn.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{
    Account, ForgetfulDisk, MinIo, Moves, Opening, Plan, Program, Shape, SlowLink, Writer, is_long,
    noise, python, run, wait, write_new,
};

use crate::{SOON, holds, mounted, names, promises};

const ROUNDS_SHORT: u64 = 20;
const ROUNDS_LONG: u64 = 200;
const WORKERS: u32 = 3;

#[test]
fn whatever_was_promised_is_in_the_bucket_whenever_the_power_goes() {
    let mut disk = ForgetfulDisk::new();
    let bucket = MinIo::shared().bucket();
    let state = disk.path().join("state");
    let mut plan = Plan::of(&bucket).flags(["--part-size", "5MiB"]).state_in(&state);
    let mut account = Account::default();
    for round in 0..if is_long() { ROUNDS_LONG } else { ROUNDS_SHORT } {
        let mount = plan.mount();
        is_an_earlier_boot(&state, round);
        let writer = Writer::start(mount.path(), account, round, WORKERS);
        promises::kill(&mount, &writer, round);
        account = writer.end();
        disk.cut(round);
        let mount = mount.abandon().mount();
        let found = bucket.sha256_tree("");
        let complaints = account.settle(&found, Moves::AreWhole);
        assert_eq!(complaints, Vec::<String>::new(), "round {round} of\n{}", account.journal());
        // What is read of the cache that is left is what the bucket has.
        assert_eq!(seen(mount.path(), &found), found, "round {round}, read through the mount");
        plan = mount.umount();
    }
    assert!(0 < account.count(), "nothing was ever promised");
}

/// The SHA-256 of everything below `folder`, by its path in there; that of links as `known`: one whose maker
/// was not told that it is there may still be listed as a file.
fn seen(folder: &Path, known: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut find = Command::new("find");
    find.args([".", "!", "-type", "d", "-printf", "%P\n"]).current_dir(folder);
    let listed = run(&mut find, SOON).ok().to_owned();
    let is_link = |path: &&str| path.ends_with("-link");
    let (links, files): (Vec<&str>, Vec<&str>) = listed.lines().partition(is_link);
    let mut sums = Command::new("sha256sum");
    // With the empty file a folder without files is none either.
    let sums = run(sums.arg("/dev/null").args(files).current_dir(folder), SOON).ok().to_owned();
    let sum = |line: &str| {
        let (sum, path) = line.split_once("  ").expect("a sum, two spaces, a path");
        (path.to_owned(), sum.to_owned())
    };
    let links =
        links.iter().map(|&path| (path.to_owned(), known.get(path).cloned().unwrap_or_default()));
    sums.lines().skip(1).map(sum).chain(links).collect()
}

#[test]
fn a_link_that_was_made_before_a_power_cut_is_listed_as_one() {
    let mut disk = ForgetfulDisk::new();
    let bucket = MinIo::shared().bucket();
    let state = disk.path().join("state");
    let mount = Plan::of(&bucket).state_in(&state).mount();
    is_an_earlier_boot(&state, 0);
    symlink("nowhere", mount.join("link")).unwrap();
    mount.kill();
    disk.cut_all();
    let mount = mount.abandon().mount();
    // Nobody has looked at it: what it is comes with the listing.
    let kinds =
        fs::read_dir(mount.path()).unwrap().map(|entry| entry.unwrap().file_type().unwrap());
    assert_eq!(kinds.map(|kind| kind.is_symlink()).collect::<Vec<_>>(), [true]);
    mount.umount();
}

#[test]
fn a_rename_that_was_over_before_a_power_cut_is_not_done_again() {
    let mut disk = ForgetfulDisk::new();
    let (store, state) = (MinIo::shared(), disk.path().join("state"));
    let bucket = store.bucket();
    let link = SlowLink::to(store.address(), Shape::default());
    let plan = Plan::of(&bucket).instead("--endpoint", &link.endpoint()).state_in(&state);
    let mount = plan.mount();
    fs::create_dir(mount.join("a")).unwrap();
    write_new(&mount.join("a/old"), b"old").unwrap();
    // That it has begun reaches the disk, that it is over does not.
    link.hold_answers_to(&format!("PUT /{}/b/", bucket.name()));
    thread::scope(|scope| {
        let renaming = scope.spawn(|| fs::rename(mount.join("a"), mount.join("b")));
        wait::until("the copies to be made", SOON, || 0 < link.held());
        is_an_earlier_boot(&state, 0);
        link.release();
        renaming.join().unwrap().unwrap();
    });
    fs::create_dir(mount.join("a")).unwrap();
    write_new(&mount.join("a/new"), b"new").unwrap();
    mount.kill();
    disk.cut_all();
    let mount = mount.abandon().mount();
    assert_eq!(bucket.sha256_tree("").into_keys().collect::<Vec<_>>(), ["a/new", "b/old"]);
    assert_eq!(names(&mount.join("a")), ["new"]);
    assert_eq!(names(&mount.join("b")), ["old"]);
    mount.umount();
}

#[test]
fn a_file_that_was_removed_before_a_power_cut_is_not_uploaded_again() {
    removed_after_its_upload(&["--commit", "close"]);
}

#[test]
fn a_file_that_was_removed_without_waiting_is_not_uploaded_again_after_a_power_cut() {
    removed_after_its_upload(&["--commit", "async", "--upload-delay", "0s"]);
}

/// What is known of a file before it is in the bucket reaches the disk, and no more.
fn removed_after_its_upload(flags: &[&str]) {
    let mut disk = ForgetfulDisk::new();
    let (store, state) = (MinIo::shared(), disk.path().join("state"));
    let bucket = store.bucket();
    let link = SlowLink::to(store.address(), Shape::default());
    let plan =
        Plan::of(&bucket).flags(flags.iter().copied()).instead("--endpoint", &link.endpoint());
    let mount = plan.state_in(&state).mount();
    let [other, file] = ["other", "file"].map(|name| mount.join(name));
    write_new(&other, b"stays").unwrap();
    wait::until("the other file to be in the bucket", SOON, || bucket.keys() == ["other"]);
    link.hold_answers_to(&format!("PUT /{}/file", bucket.name()));
    thread::scope(|scope| {
        let writing = scope.spawn(|| write_new(&file, b"goes"));
        wait::until("the upload", SOON, || 0 < link.held());
        fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
        for staged in fs::read_dir(state.join("staged")).unwrap() {
            File::open(staged.unwrap().path()).unwrap().sync_all().unwrap();
        }
        is_an_earlier_boot(&state, 0);
        link.release();
        writing.join().unwrap().unwrap();
    });
    wait::until("the upload to be over", SOON, || mount.status()["cache"]["dirty_bytes"] == 0);
    fs::remove_file(&file).unwrap();
    wait::until("the file to be gone", SOON, || bucket.keys() == ["other"]);
    mount.kill();
    disk.cut_all();
    mount.abandon().mount().umount();
    assert_eq!(bucket.keys(), ["other"]);
}

#[test]
fn a_damaged_database_keeps_neither_the_mount_nor_the_bytes_from_their_owner() {
    let (bucket, mount) = mounted();
    write_new(&mount.join("closed"), b"in the bucket").unwrap();
    let bytes = noise(1, 700_000);
    let mut program = Program::open(&mount.join("unclosed"), Opening::Whole).unwrap();
    program.write(&bytes).unwrap();
    mount.kill();
    drop(program);
    let database = File::options().write(true).open(mount.state().join("state.db")).unwrap();
    database.write_all_at(&noise(2, 100_000), 0).unwrap();
    // It has every page of so young a database, and would make good for it.
    fs::remove_file(mount.state().join("state.db-wal")).unwrap();
    let attempt = mount.abandon().attempt();
    let said = attempt.finished.report();
    assert!(attempt.finished.stderr.contains("recovery/state.db"), "not a word of it: {said}");
    let mount = attempt.ok();
    assert!(holds(&mount.state().join("recovery"), &bytes), "the bytes are nowhere: {said}");
    assert_eq!(fs::read(mount.join("closed")).unwrap(), b"in the bucket");
    write_new(&mount.join("new"), b"also").unwrap();
    assert_eq!(bucket.keys(), ["closed", "new"]);
    mount.umount();
}

/// What runs on the state folder now is another run of the machine than what comes next.
fn is_an_earlier_boot(state: &Path, number: u64) {
    let script = "import sqlite3, sys\n\
        db = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)\n\
        db.execute('pragma synchronous=full')\n\
        here = open('/proc/sys/kernel/random/boot_id').read().strip()\n\
        db.execute('update boots set boot = ? where boot = ?', (sys.argv[2], here))\n\
        assert db.total_changes == 1\n";
    let mut command = Command::new(python());
    command.args(["-c", script]).arg(state.join("state.db")).arg(format!("boot {number}"));
    run(&mut command, Duration::from_mins(1)).ok();
}
