//! Nobody waits for somebody else's bytes.

use std::fs::{self, File};
use std::io::Write;

use testkit::{Bucket, MinIo, Mount, Plan, Shape, SlowLink, close, noise, wait, write_new};

use crate::{SOON, names};

/// A bucket with `slow` and a few others, mounted over a link that can hold answers back.
fn linked(flags: &[&str]) -> (Bucket<'static>, SlowLink, Mount, Vec<u8>) {
    let store = MinIo::shared();
    let bucket = store.bucket();
    let bytes = noise(1, 3_000_000);
    bucket.put("slow", &bytes);
    bucket.put_many("folder/other-", 20, "quick");
    let link = SlowLink::to(store.address(), Shape::default());
    let plan = Plan::of(&bucket).instead("--endpoint", &link.endpoint());
    // Longer than any of the waiting: the store is silent on one object, not slow.
    let mount = plan.flags(["--deadline", "300s"]).flags(flags).mount();
    (bucket, link, mount, bytes)
}

#[test]
fn a_slow_read_does_not_hold_up_looks_lists_reads_and_writes_of_others() {
    let (bucket, link, mount, bytes) = linked(&[]);
    link.hold_answers_to(&format!("GET /{}/slow", bucket.name()));
    std::thread::scope(|scope| {
        let slow = mount.join("slow");
        let reader = scope.spawn(move || fs::read(slow).unwrap());
        wait::until("the slow read to be under way", SOON, || link.held() > 0);

        assert_eq!(fs::metadata(mount.join("slow")).unwrap().len(), bytes.len() as u64);
        assert_eq!(names(&mount.join("folder")).len(), 20);
        assert_eq!(fs::read(mount.join("folder/other-00007")).unwrap(), b"quick");
        write_new(&mount.join("folder/new"), b"new").unwrap();
        fs::rename(mount.join("folder/new"), mount.join("folder/newer")).unwrap();
        fs::remove_file(mount.join("folder/newer")).unwrap();

        assert!(!reader.is_finished(), "the slow read was to be last");
        link.release();
        assert!(reader.join().unwrap() == bytes);
    });
}

#[test]
fn many_slow_reads_do_not_use_up_the_daemon() {
    let (bucket, link, mount, _bytes) = linked(&[]);
    let count = 40;
    for number in 0..count {
        bucket.put(&format!("held/{number}"), &noise(number, 200_000));
    }
    wait::until("the objects to appear", SOON, || names(&mount.join("held")).len() == 40);
    while_reads_wait(count, &bucket, &link, &mount, || {
        assert_eq!(fs::read(mount.join("folder/other-00011")).unwrap(), b"quick");
    });
}

/// Reads so many objects `held/…`, made of [`noise`], whose bytes the link holds back until something else is
/// done.
pub(crate) fn while_reads_wait(
    count: u64,
    bucket: &Bucket<'_>,
    link: &SlowLink,
    mount: &Mount,
    something_else: impl FnOnce(),
) {
    link.hold_answers_to(&format!("GET /{}/held/", bucket.name()));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..count)
            .map(|number| {
                let path = mount.join(format!("held/{number}"));
                scope.spawn(move || fs::read(path).unwrap() == noise(number, 200_000))
            })
            .collect();
        wait::until("many reads to be under way", SOON, || link.held() >= 16);
        something_else();
        assert!(readers.iter().all(|reader| !reader.is_finished()));
        link.release();
        assert!(readers.into_iter().all(|reader| reader.join().unwrap()));
    });
}

#[test]
fn a_slow_upload_does_not_hold_up_readers_and_writers_of_others() {
    let (bucket, link, mount, _bytes) = linked(&[]);
    link.hold_answers_to(&format!("PUT /{}/up", bucket.name()));
    std::thread::scope(|scope| {
        let path = mount.join("up");
        let writer = scope.spawn(move || {
            let mut file = File::create(path).unwrap();
            file.write_all(b"bytes").unwrap();
            close(file)
        });
        wait::until("the upload to be under way", SOON, || link.held() > 0);
        assert_eq!(fs::read(mount.join("up")).unwrap(), b"bytes", "the file itself is read, too");
        assert_eq!(fs::read(mount.join("folder/other-00003")).unwrap(), b"quick");
        write_new(&mount.join("other"), b"other").unwrap();
        assert!(!writer.is_finished());
        link.release();
        writer.join().unwrap().unwrap();
    });
    assert_eq!(bucket.get("up").as_deref(), Some(&b"bytes"[..]));
}

#[test]
fn many_writers_and_readers_get_their_own_bytes() {
    let (bucket, mount) = crate::mounted();
    std::thread::scope(|scope| {
        for writer in 0..8_u64 {
            let mount = &mount;
            scope.spawn(move || {
                for round in 0..12 {
                    let seed = writer * 100 + round;
                    let bytes = noise(seed, 10_000 + usize::try_from(seed).unwrap() * 331);
                    let path = mount.join(format!("file-{seed}"));
                    write_new(&path, &bytes).unwrap();
                    assert!(fs::read(&path).unwrap() == bytes, "file-{seed}");
                }
            });
        }
    });
    assert_eq!(names(mount.path()).len(), 96);
    assert_eq!(bucket.keys().len(), 96);
    assert_eq!(bucket.sha256_tree(""), testkit::sha256_tree(mount.path()));
}
