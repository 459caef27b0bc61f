//! The daemon is killed without a word: what was promised is in the bucket, what was not is kept.

use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use rustix::io::Errno;
use testkit::{
    MinIo, Mount, Opening, Plan, Program, Shape, SlowLink, mounted_at, noise, wait, write_new,
};

use crate::{SOON, TTL, errno, holds, mounted, names};

#[test]
fn every_file_whose_close_returned_is_in_the_bucket_after_a_kill() {
    let (bucket, mount) = mounted();
    let (report, reports) = mpsc::channel();
    let closed: Vec<u64> = std::thread::scope(|scope| {
        let folder = mount.path();
        scope.spawn(move || {
            for number in 0.. {
                let path = folder.join(format!("file-{number}"));
                if write_new(&path, &noise(number, 50_000)).is_err() {
                    return;
                }
                report.send(number).unwrap();
            }
        });
        let mut closed: Vec<u64> = reports.iter().take(30).collect();
        mount.kill();
        closed.extend(reports.iter());
        closed
    });
    assert!(30 <= closed.len());
    for number in &closed {
        let object = bucket.get(&format!("file-{number}"));
        assert!(object.is_some_and(|bytes| bytes == noise(*number, 50_000)), "file-{number}");
    }

    assert_eq!(errno(fs::metadata(mount.join("file-0"))), Errno::NOTCONN);
    let mount = mount.umount().mount();
    let present = names(mount.path());
    for number in closed {
        assert!(present.contains(&format!("file-{number}")));
        assert!(fs::read(mount.join(format!("file-{number}"))).unwrap() == noise(number, 50_000));
    }
}

#[test]
fn a_dead_mount_is_mounted_over_without_an_unmount() {
    let (_bucket, mount) = mounted();
    write_new(&mount.join("file"), b"bytes").unwrap();
    mount.kill();
    assert!(mounted_at(mount.path()), "the dead mount stays in the table");
    let mount = mount.abandon().mount();
    assert_eq!(fs::read(mount.join("file")).unwrap(), b"bytes");
    // One unmount is enough: the dead mount below is gone.
    mount.umount();
}

#[test]
fn what_was_written_and_never_closed_is_in_the_recovery_folder() {
    let (bucket, mount) = mounted();
    let bytes = noise(1, 700_000);
    let mut program = Program::open(&mount.join("unclosed"), Opening::Whole).unwrap();
    program.write(&bytes).unwrap();
    mount.kill();
    drop(program);
    let attempt = mount.umount().attempt();
    let said = attempt.finished.report();
    assert!(attempt.finished.stderr.contains("recovery"), "not a word of it: {said}");
    let mount = attempt.ok();
    let recovery = mount.state().join("recovery");
    wait::until("the bytes to be in the recovery folder", SOON, || holds(&recovery, &bytes));
    assert_eq!(bucket.get("unclosed"), None, "it was never closed");
    assert_eq!(names(mount.path()), Vec::<String>::new());
}

#[test]
fn an_edit_that_was_never_closed_leaves_the_object_as_it_was() {
    let (bucket, mount) = mounted();
    let bytes = noise(1, 700_000);
    write_new(&mount.join("file"), &bytes).unwrap();
    let mut program = Program::open(&mount.join("file"), Opening::Append).unwrap();
    program.write(b"never closed").unwrap();
    mount.kill();
    drop(program);
    let mount = mount.umount().mount();
    assert!(bucket.get("file").unwrap() == bytes);
    assert!(fs::read(mount.join("file")).unwrap() == bytes);
}

#[test]
fn a_cache_survives_a_kill() {
    let (bucket, mount) = mounted();
    let bytes = noise(1, 3_000_000);
    bucket.put("file", &bytes);
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    assert!(fs::read(mount.join("file")).unwrap() == bytes);
    // The last bytes are recorded just after they were read.
    let mut mount = Some(mount);
    wait::until("a mount that fetches nothing again", SOON, || {
        let killed = mount.take().unwrap();
        killed.kill();
        let risen = mount.insert(killed.abandon().mount());
        assert!(fs::read(risen.join("file")).unwrap() == bytes);
        risen.counter("remote_gets") == 0
    });
}

/// Kills a mount while the upload of `file` is on its way and its answer is held back; `before` is
/// what the store does before the next mount.
fn killed_while_uploading(
    bytes: &[u8],
    before: impl FnOnce(&testkit::Bucket<'_>),
) -> (SlowLink, Mount) {
    let (bucket, link, mount) = dead_while_uploading(bytes);
    before(&bucket);
    link.release();
    let mount = mount.abandon().mount();
    (link, mount)
}

/// The first half of it: the mount is dead, and the link lets nothing of the upload through.
pub(crate) fn dead_while_uploading(bytes: &[u8]) -> (testkit::Bucket<'static>, SlowLink, Mount) {
    let store = MinIo::shared();
    let bucket = store.bucket();
    let link = SlowLink::to(store.address(), Shape::default());
    let mount = Plan::of(&bucket).instead("--endpoint", &link.endpoint()).mount();
    // Nothing of it may reach the store, not even late.
    link.stop_requests_to(&format!("PUT /{}/file", bucket.name()));
    std::thread::scope(|scope| {
        // Of another process: no child of a test running beside this one closes it too.
        let mut program = Program::open(&mount.join("file"), Opening::Whole).unwrap();
        program.write(bytes).unwrap();
        scope.spawn(move || assert!(program.close().is_err(), "closed by a dead daemon"));
        wait::until("the upload to be under way", SOON, || link.stopped() > 0);
        mount.kill();
    });
    assert_eq!(bucket.get("file"), None);
    (bucket, link, mount)
}

#[test]
fn what_was_on_its_way_is_uploaded_by_the_next_mount() {
    let bytes = noise(1, 600_000);
    let (_link, mount) = killed_while_uploading(&bytes, |_| ());
    wait::until("the file to be uploaded", SOON, || {
        fs::read(mount.join("file")).is_ok_and(|read| read == bytes)
            && mount.status()["pending_uploads"] == 0
    });
    mount.umount();
}

#[test]
fn what_was_on_its_way_does_not_replace_what_came_meanwhile() {
    let bytes = noise(1, 600_000);
    let (_link, mount) = killed_while_uploading(&bytes, |bucket| bucket.put("file", b"theirs"));
    let recovery = mount.state().join("recovery");
    wait::until("the bytes to be in the recovery folder", SOON, || holds(&recovery, &bytes));
    assert_eq!(fs::read(mount.join("file")).unwrap(), b"theirs");
    mount.umount();
}

#[test]
fn what_was_closed_before_a_rename_survives_a_close_that_waits_for_it() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    let link = SlowLink::to(store.address(), Shape::default());
    let flags = ["--commit", "async", "--upload-delay", "1s", "--part-size", "5MiB"];
    let mount = Plan::of(&bucket).flags(flags).instead("--endpoint", &link.endpoint()).mount();
    let [old, new] = ["old", "new"].map(|name| mount.join(name));
    // In parts: its copy is of another version.
    write_new(&old, &noise(1, 6_000_000)).unwrap();
    let is_over = || bucket.keys() == ["old"] && mount.status()["cache"]["dirty_bytes"] == 0;
    wait::until("the file to be in the bucket", SOON, is_over);
    link.stop_requests_to(&format!("PUT /{}/", bucket.name()));
    let closed = noise(2, 100_000);
    fs::write(&old, &closed).unwrap();
    fs::rename(&old, &new).unwrap();
    std::thread::scope(|scope| {
        let mut program = Program::open(&new, Opening::Append).unwrap();
        program.write(b"and more").unwrap();
        scope.spawn(move || assert!(program.close().is_err(), "closed by a dead daemon"));
        wait::until("the move to be under way", SOON, || link.stopped() > 0);
        // Time to go wrong.
        wait::moment(Duration::from_millis(500));
        mount.kill();
    });
    link.release();
    mount.abandon().mount().umount();
    assert_eq!(bucket.keys(), ["new"]);
    let found = bucket.get("new").unwrap();
    let is_kept = found == closed || found == [&closed[..], b"and more"].concat();
    assert!(is_kept, "{} bytes of something else", found.len());
}
