//! What others do to the bucket shows here, and what is open stays what it was.

use std::fs::{self, File};

use testkit::{MinIo, Plan, noise, read_at, run, wait};

use crate::{TTL, errno, mounted, names};

#[test]
fn an_object_put_by_others_appears_within_the_ttl_and_reads_back_the_same() {
    let (bucket, mount) = mounted();
    let bytes = noise(1, 3_000_000);
    for key in ["plain", "in/a/folder", "in/another"] {
        let path = mount.join(key);
        // The name is asked for before it exists, so that its absence is remembered, too.
        assert!(fs::metadata(&path).is_err());
        bucket.put(key, &bytes);
        wait::until("the new object to appear", TTL, || path.exists());
        assert!(fs::read(&path).unwrap() == bytes, "{key} reads back otherwise");
    }
    wait::until("the names to be listed", TTL, || names(mount.path()) == ["in", "plain"]);
    assert_eq!(names(&mount.join("in")), ["a", "another"]);
}

#[test]
fn an_object_replaced_by_others_is_read_anew_and_never_mixed() {
    let (bucket, mount) = mounted();
    let path = mount.join("file");
    let versions =
        [noise(1, 2_000_000), noise(2, 2_000_000), noise(3, 1_000_000), noise(4, 2_500_000)];
    for bytes in &versions {
        bucket.put("file", bytes);
        wait::until("the new version to be read", TTL, || {
            // A version that goes away under a reader is ESTALE; the next open finds the new one.
            let Ok(read) = fs::read(&path) else { return false };
            assert!(versions.contains(&read), "a mixture of versions");
            read == *bytes
        });
    }
}

#[test]
fn an_open_file_stays_what_it_was_when_others_replace_the_object() {
    let (bucket, mount) = mounted();
    let (old, new) = (noise(1, 500_000), noise(2, 500_000));
    bucket.put("file", &old);
    let path = mount.join("file");
    wait::until("the object to appear", TTL, || path.exists());
    let file = File::open(&path).unwrap();
    assert!(read_at(&file, 0, old.len()).unwrap() == old);
    bucket.put("file", &new);
    wait::until("the new version to be read", TTL, || {
        fs::read(&path).is_ok_and(|read| read == new)
    });
    assert!(read_at(&file, 0, old.len()).unwrap() == old, "the open file changed");
}

#[test]
fn read_of_a_replaced_object_leaves_a_trace() {
    const BYTES: usize = 48 << 20;
    let (bucket, mount) = mounted();
    bucket.put("slide", &noise(1, BYTES));
    let file = File::open(mount.join("slide")).unwrap();
    read_at(&file, 0, 4096).unwrap();
    bucket.put("slide", &noise(2, BYTES));
    assert_eq!(errno(read_at(&file, 30 << 20, 4096)), rustix::io::Errno::STALE);
    let log = || mount.plan().last_log();
    wait::until("the line in the log", TTL, || {
        let is_it = |line: &str| line.contains("ESTALE") && line.contains("get slide");
        log().lines().any(is_it)
    });
    assert!(0 < mount.counter("stale_reads"));
    let status = run(mount.plan().command(["status"]).arg(mount.path()), TTL);
    assert!(status.ok().contains("failed: the object was replaced"), "{}", status.report());
}

#[test]
fn an_object_deleted_by_others_disappears_within_the_ttl() {
    let (bucket, mount) = mounted();
    bucket.put("folder/gone", b"bytes");
    bucket.put("folder/kept", b"bytes");
    let path = mount.join("folder/gone");
    wait::until("the object to appear", TTL, || path.exists());
    bucket.delete("folder/gone");
    wait::until("the object to disappear", TTL, || !path.exists());
    assert_eq!(errno(fs::read(&path)), rustix::io::Errno::NOENT);
    assert_eq!(names(&mount.join("folder")), ["kept"]);
}

#[test]
fn a_mounted_prefix_shows_what_is_below_it_and_writes_below_it() {
    let bucket = MinIo::shared().bucket();
    bucket.put("inside/seen", b"seen");
    bucket.put("outside", b"unseen");
    bucket.put("inside-not", b"unseen");
    let plan = Plan::of(&bucket);
    let mount = plan.instead_of_url(&format!("{}/inside", bucket.url())).mount();
    assert_eq!(names(mount.path()), ["seen"]);
    testkit::write_new(&mount.join("new"), b"new").unwrap();
    assert_eq!(bucket.get("inside/new").as_deref(), Some(&b"new"[..]));
}
