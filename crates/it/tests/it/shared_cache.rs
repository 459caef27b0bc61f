//! Two mounts of one bucket over one local state.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use testkit::{
    Bucket, MinIo, Mount, Plan, Shape, SlowLink, append, is_long, noise, overwrite, run, wait,
    write_new,
};

use crate::{SOON, TTL, mounted};

fn two() -> (Bucket<'static>, Mount, Mount) {
    let (bucket, one) = mounted();
    let other = Plan::of(&bucket).state_in(one.state()).mount();
    (bucket, one, other)
}

#[test]
fn what_one_mount_closed_the_other_opens_within_the_ttl() {
    let (bucket, one, other) = two();
    let mut want = noise(0, 400_000);
    write_new(&one.join("file"), &want).unwrap();
    wait::until("the new file", TTL, || fs::read(other.join("file")).is_ok_and(|it| it == want));
    for round in 1..6 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        if round == 3 {
            append(&writer.join("file"), b"appended").unwrap();
            want.extend(b"appended");
        } else {
            want = noise(round, 400_000);
            overwrite(&writer.join("file"), &want).unwrap();
        }
        wait::until("the other's bytes", TTL, || {
            fs::read(reader.join("file")).is_ok_and(|read| read == want)
        });
        assert!(bucket.get("file").unwrap() == want, "round {round}");
    }
}

#[test]
fn what_one_mount_removed_the_other_misses_within_the_ttl() {
    let (_bucket, one, other) = two();
    write_new(&one.join("file"), b"bytes").unwrap();
    wait::until("the file to appear", TTL, || other.join("file").exists());
    fs::remove_file(one.join("file")).unwrap();
    wait::until("the file to disappear", TTL, || !other.join("file").exists());
}

#[test]
fn what_one_mount_fetched_the_other_does_not_fetch_again() {
    let bucket = MinIo::shared().bucket();
    let bytes = noise(1, 4_000_000);
    bucket.put("file", &bytes);
    let one = Plan::of(&bucket).mount();
    let other = Plan::of(&bucket).state_in(one.state()).mount();
    assert!(fs::read(one.join("file")).unwrap() == bytes);
    assert!(one.counter("remote_get_bytes") >= 4_000_000);
    assert!(fs::read(other.join("file")).unwrap() == bytes);
    assert_eq!(other.counter("remote_get_bytes"), 0);
}

#[test]
fn mounts_that_share_a_cache_keep_one_bound_and_each_gets_room() {
    const LIMIT_BYTES: u64 = 16 << 20;
    let bucket = MinIo::shared().bucket();
    let bytes = noise(2, 1 << 20);
    (0..40).for_each(|n| bucket.put(&format!("{n}"), &bytes));
    let small = |plan: Plan| plan.flags(["--cache-size", "16MiB"]);
    let one = small(Plan::of(&bucket)).mount();
    let other = small(Plan::of(&bucket)).state_in(one.state()).mount();
    let objects = one.state().join("objects");
    // What goes in one file and comes in another while they are counted would be counted twice.
    let taken = || one.frozen(|| other.frozen(|| disk_bytes(&objects)));
    for n in 0..40 {
        for mount in [&one, &other] {
            assert!(fs::read(mount.join(format!("{}", (n + 20) % 40))).unwrap() == bytes);
            let taken = taken();
            assert!(taken <= LIMIT_BYTES, "{taken} bytes after {n}");
        }
    }
    // What the one has read and does not use any more goes for what the other reads now.
    wait::until("what is read again and again to be in the cache", SOON, || {
        let fetched = other.counter("remote_get_bytes");
        (0..12).for_each(|n| assert!(fs::read(other.join(format!("{n}"))).unwrap() == bytes));
        fetched == other.counter("remote_get_bytes")
    });
    assert!(taken() <= LIMIT_BYTES);
    // And so it goes when it is told to.
    let evicted = run(one.plan().command(["evict"]).arg(one.path()), SOON);
    assert!(evicted.status.success(), "{}", evicted.report());
    assert_eq!(disk_bytes(&objects), 0, "{}", evicted.report());
}

#[test]
fn what_is_warmed_gets_the_room_that_a_mount_with_a_larger_cache_does_not_use_any_more() {
    let bucket = MinIo::shared().bucket();
    let bytes = noise(3, 4 << 20);
    (0..9).for_each(|n| bucket.put(&format!("{n}"), &bytes));
    let small = Plan::of(&bucket).flags(["--cache-size", "12MiB"]).mount();
    let large = Plan::of(&bucket).flags(["--cache-size", "40MiB"]).state_in(small.state()).mount();
    (0..8).for_each(|n| assert!(fs::read(large.join(format!("{n}"))).unwrap() == bytes));
    let warmed = run(small.plan().command(["warm"]).arg(small.join("8")), SOON);
    assert!(warmed.status.success(), "{}", warmed.report());
    // What both say is what is there.
    for mount in [&small, &large] {
        let on_disk = || disk_bytes(&small.state().join("objects"));
        wait::until("the figures to be those of the disk", SOON, || {
            mount.status()["cache"]["cached_bytes"].as_u64() == Some(on_disk())
        });
    }
}

/// What the files below a folder take of the disk.
fn disk_bytes(folder: &Path) -> u64 {
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    // One that goes meanwhile takes nothing.
    files.filter_map(|file| Some(file.ok()?.metadata().ok()?.blocks() * 512)).sum()
}

#[test]
fn one_mount_ends_and_the_other_goes_on() {
    let (bucket, one, other) = two();
    write_new(&one.join("first"), b"first").unwrap();
    one.kill();
    write_new(&other.join("second"), b"second").unwrap();
    one.umount();
    assert_eq!(fs::read(other.join("second")).unwrap(), b"second");
    assert_eq!(bucket.keys(), ["first", "second"]);
    other.umount();
}

#[test]
fn mounts_that_read_the_same_file_at_once_fetch_it_once() {
    let minio = MinIo::shared();
    let bucket = minio.bucket();
    let bytes = noise(5, 48 << 20);
    bucket.put("reference", &bytes);
    // Far enough for all of them to want the same bytes before any has come.
    let shape = Shape { latency: Duration::from_millis(20), ..Shape::default() };
    let link = SlowLink::to(minio.address(), shape);
    let far = |plan: Plan| plan.instead("--endpoint", &link.endpoint());
    let one = far(Plan::of(&bucket)).mount();
    let others = [0; 3].map(|_| far(Plan::of(&bucket)).state_in(one.state()).mount());
    let mounts: Vec<&Mount> = others.iter().chain([&one]).collect();
    let before = link.answer_bytes();
    std::thread::scope(|scope| {
        for mount in &mounts {
            let (path, bytes) = (mount.join("reference"), &bytes);
            scope.spawn(move || assert!(fs::read(path).unwrap() == *bytes));
        }
    });
    let fetched: u64 = mounts.iter().map(|mount| mount.counter("remote_get_bytes")).sum();
    assert_eq!(fetched, bytes.len() as u64);
    // On the wire there are heads of answers, too.
    let carried = link.answer_bytes() - before;
    assert!(carried < bytes.len() as u64 * 101 / 100, "{carried} bytes for {}", bytes.len());
}

#[test]
fn twenty_tasks_at_once_fetch_a_reference_once() {
    const TASKS: usize = 20;
    let reference_bytes = if is_long() { 1 << 30 } else { 64 << 20 };
    let minio = MinIo::shared();
    let bucket = minio.bucket();
    let shape = Shape { latency: Duration::from_millis(20), ..Shape::default() };
    let link = SlowLink::to(minio.address(), shape);
    let plan = Plan::of(&bucket);
    let local = plan.folder("local").join("reference");
    fs::write(&local, noise(7, reference_bytes)).unwrap();
    bucket.put_file("reference", &local);
    let before = link.answer_bytes();
    let started = (0..TASKS).map(|_| {
        // A process, a mount and a daemon for each, and nothing in common but the state folder.
        let mut task = plan.command(["run", "--path-style", "--region", "us-east-1"]);
        task.args(["--endpoint", &link.endpoint(), "--cache-dir"]).arg(plan.state());
        task.args([&*bucket.url(), "--", "cmp", "reference"]).arg(&local);
        task.stdin(Stdio::null()).spawn().unwrap()
    });
    let mut started: Vec<Child> = started.collect();
    let ended = started.iter_mut().map(|task| task.wait().unwrap().success());
    assert_eq!(ended.collect::<Vec<_>>(), [true; TASKS]);
    let (carried, once) = (link.answer_bytes() - before, reference_bytes as u64);
    // On the wire there are heads of answers and listings, too, and what was asked for twice since it was late.
    assert!((once..once * 105 / 100).contains(&carried), "{carried} bytes for {once}");
}

#[test]
fn who_waits_for_another_mounts_fetch_goes_on_when_that_is_killed() {
    let minio = MinIo::shared();
    let bucket = minio.bucket();
    // One request brings all of it.
    let bytes = noise(6, 100_000);
    bucket.put("file", &bytes);
    let link = SlowLink::to(minio.address(), Shape::default());
    let one = Plan::of(&bucket).instead("--endpoint", &link.endpoint()).mount();
    let other = Plan::of(&bucket).instead("--endpoint", &link.endpoint()).state_in(one.state());
    let other = other.mount();
    for mount in [&one, &other] {
        assert_eq!(fs::metadata(mount.join("file")).unwrap().len(), 100_000);
    }
    link.hold_answers_to("/file");
    let path = one.join("file");
    let cut_off = std::thread::spawn(move || fs::read(path).is_err());
    wait::until("the fetch to be under way", SOON, || 0 < link.held());
    let path = other.join("file");
    let waits = std::thread::spawn(move || fs::read(path).unwrap());
    wait::moment(Duration::from_millis(200));
    assert_eq!(link.held(), 1, "the other one asks for nothing that is on its way");
    one.kill();
    link.release();
    assert!(waits.join().unwrap() == bytes);
    assert!(cut_off.join().unwrap());
}
