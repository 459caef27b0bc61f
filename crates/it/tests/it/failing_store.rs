//! A store that is down, silent or far: errors within the deadline, never a hang, never a lie.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use rustix::io::Errno;
use testkit::{MinIo, Mount, Opening, Plan, Program, Shape, SlowLink, noise, read_at, wait};

use crate::{SOON, TTL, errno, holds};

/// What `--deadline 3s` may take with all that is around it.
const WITHIN: Duration = Duration::from_secs(20);

/// A mount of a store of its own, with a short deadline.
fn mounted_over(store: &MinIo) -> (testkit::Bucket<'_>, Mount) {
    let bucket = store.bucket();
    let mount = Plan::of(&bucket).flags(["--deadline", "3s"]).mount();
    (bucket, mount)
}

#[test]
fn a_close_fails_with_eio_while_the_store_is_down_and_the_bytes_are_kept() {
    let store = MinIo::start();
    let (bucket, mount) = mounted_over(&store);
    let bytes = noise(1, 300_000);
    let mut program = Program::open(&mount.join("file"), Opening::Whole).unwrap();
    program.write(&bytes).unwrap();
    store.stop();
    assert_eq!(errno(wait::within("close", WITHIN, || program.close())), Errno::IO);

    store.start_again();
    let said = mount.try_umount();
    let is_published = bucket.get("file").is_some_and(|object| object == bytes);
    let is_kept = || holds(mount.state(), &bytes);
    assert!(is_published || is_kept(), "the bytes are nowhere: {}", said.report());
}

#[test]
fn an_unmount_says_that_attributes_are_left_and_the_next_mount_has_them() {
    let store = MinIo::start();
    let (_bucket, mount) = mounted_over(&store);
    let mut program = Program::open(&mount.join("file"), Opening::Whole).unwrap();
    program.write(b"bytes").unwrap();
    program.close().unwrap();
    fs::set_permissions(mount.join("file"), Permissions::from_mode(0o640)).unwrap();
    store.stop();
    let said = mount.try_umount();
    said.ok();
    assert!(said.stderr.contains("attributes"), "{}", said.report());
    assert!(said.stderr.contains("the next mount"), "{}", said.report());

    store.start_again();
    let mount = mount.abandon().mount();
    assert_eq!(fs::metadata(mount.join("file")).unwrap().mode() & 0o777, 0o640);
    let said = mount.try_umount();
    assert_eq!(said.ok(), "");
    assert_eq!(said.stderr, "", "nothing is left then");
}

#[test]
fn a_close_fails_with_eio_while_the_store_is_silent() {
    let store = MinIo::start();
    let (_bucket, mount) = mounted_over(&store);
    let mut program = Program::open(&mount.join("file"), Opening::Whole).unwrap();
    program.write(b"bytes").unwrap();
    store.freeze();
    assert_eq!(errno(wait::within("close", WITHIN, || program.close())), Errno::IO);
    store.thaw();
}

#[test]
fn a_sync_fails_while_the_store_is_down_and_succeeds_when_it_is_back() {
    let store = MinIo::start();
    let (bucket, mount) = mounted_over(&store);
    let mut program = Program::open(&mount.join("file"), Opening::Whole).unwrap();
    program.write(b"bytes").unwrap();
    store.stop();
    let (synced, mut program) = wait::within("fsync", WITHIN, move || (program.sync(), program));
    assert_eq!(errno(synced), Errno::IO);
    store.start_again();
    program.sync().unwrap();
    assert_eq!(bucket.get("file").as_deref(), Some(&b"bytes"[..]));
    program.close().unwrap();
}

#[test]
fn reads_fail_with_eio_while_the_store_is_down_and_what_is_cached_is_read() {
    let store = MinIo::start();
    let (bucket, mount) = mounted_over(&store);
    let bytes = noise(1, 3_000_000);
    bucket.put("cached", &bytes);
    bucket.put("far", &bytes);
    wait::until("the objects to appear", TTL, || mount.join("far").exists());
    let cached = File::open(mount.join("cached")).unwrap();
    assert!(read_at(&cached, 0, bytes.len()).unwrap() == bytes);
    let far = File::open(mount.join("far")).unwrap();
    store.stop();
    let asked = far.try_clone().unwrap();
    let read = wait::within("the read", WITHIN, move || read_at(&asked, 2_000_000, 10));
    assert_eq!(errno(read), Errno::IO);
    assert!(read_at(&cached, 0, bytes.len()).unwrap() == bytes, "cached bytes need no store");
    store.start_again();
    wait::until("reads to work again", SOON, || {
        read_at(&far, 2_000_000, 10).is_ok_and(|read| read == bytes[2_000_000..2_000_010])
    });
}

#[test]
fn metadata_operations_fail_in_time_while_the_store_is_down() {
    let store = MinIo::start();
    let (_bucket, mount) = mounted_over(&store);
    testkit::write_new(&mount.join("file"), b"bytes").unwrap();
    store.stop();
    let (file, unseen) = (mount.join("file"), mount.join("unseen"));
    let removed = wait::within("unlink", WITHIN, move || fs::remove_file(file));
    assert_eq!(errno(removed), Errno::IO);
    let looked = wait::within("lookup", WITHIN, move || fs::metadata(unseen));
    assert_eq!(errno(looked), Errno::IO);
    store.start_again();
    wait::until("the file to be there still", SOON, || mount.join("file").exists());
}

#[test]
fn a_mount_is_unmounted_while_the_store_is_down() {
    let store = MinIo::start();
    let (_bucket, mount) = mounted_over(&store);
    testkit::write_new(&mount.join("file"), b"bytes").unwrap();
    store.stop();
    mount.umount();
}

#[test]
fn a_broken_connection_is_not_noticed_by_a_reader() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    let bytes = noise(1, 20_000_000);
    bucket.put("file", &bytes);
    let shape = Shape { total_rate: Some(20_000_000), ..Shape::default() };
    let link = SlowLink::to(store.address(), shape);
    let mount = Plan::of(&bucket).instead("--endpoint", &link.endpoint()).mount();
    std::thread::scope(|scope| {
        let path = mount.join("file");
        let reader = scope.spawn(move || fs::read(path).unwrap());
        for part in 1..4 {
            wait::until("some of the file to be carried", SOON, || {
                part * 4_000_000 < link.answer_bytes()
            });
            link.cut();
        }
        assert!(reader.join().unwrap() == bytes);
    });
}
