//! A store that is down, silent or far: errors within the deadline, never a hang, never a lie.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use rustix::io::Errno;
use testkit::{
    MinIo, Mount, Opening, Plan, Program, Shape, SlowLink, is_long, noise, read_at, wait,
};

use crate::{SOON, TTL, errno, holds};

/// What `--deadline 3s` may take with all that is around it.
const WITHIN: Duration = Duration::from_secs(20);

/// Likewise, while the store takes what is sent and says nothing.
const SILENT_WITHIN: Duration = Duration::from_secs(30);

/// A debug build on a busy machine is slow.
const OUTAGE_WITHIN: Duration = Duration::from_mins(2);

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
    // Several MB fit into the buffers of a connection, which looks as if they had been sent.
    for size in [5, 2_000_000, 9_000_000] {
        let store = MinIo::start();
        let (_bucket, mount) = mounted_over(&store);
        let mut program = Program::open(&mount.join("file"), Opening::Whole).unwrap();
        program.write(&noise(1, size)).unwrap();
        store.freeze();
        let what = format!("close of {size} bytes");
        assert_eq!(errno(wait::within(&what, SILENT_WITHIN, || program.close())), Errno::IO);
        store.thaw();
    }
}

#[test]
fn a_rename_fails_with_eio_while_the_store_is_silent() {
    let store = MinIo::start();
    let (bucket, mount) = mounted_over(&store);
    let bytes = noise(1, 300_000);
    bucket.put("file", &bytes);
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    // So that nothing has to be looked up before the copy.
    assert!(!mount.join("goal").exists());
    store.freeze();
    let (from, to) = (mount.join("file"), mount.join("goal"));
    let renamed = wait::within("rename", SILENT_WITHIN, move || fs::rename(from, to));
    assert_eq!(errno(renamed), Errno::IO);
    store.thaw();
    wait::until("the file to be there still", SOON, || {
        fs::read(mount.join("file")).is_ok_and(|read| read == bytes)
    });
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
    // By then nobody believes in names that were not asked about again.
    let (path, folder) = (mount.join("cached"), mount.path().to_owned());
    let opened = wait::within("the open", WITHIN, move || fs::read(path));
    assert!(opened.unwrap() == bytes, "what is cached is opened, too");
    let looked = wait::within("the look", WITHIN, move || fs::metadata(folder));
    assert!(looked.unwrap().is_dir());
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

#[test]
fn a_copy_in_and_out_survives_an_outage_in_its_middle() {
    let (size, outage) = if is_long() {
        (500_000_000, Duration::from_secs(30))
    } else {
        (30_000_000, Duration::from_secs(3))
    };
    let store = MinIo::start();
    let bucket = store.bucket();
    let bytes = noise(2, size);
    // So slow that the outage falls into it.
    let rate = size as u64 / 8;
    let shape =
        Shape { connection_rate: Some(rate / 4), total_rate: Some(rate), ..Shape::default() };
    let plan = Plan::of(&bucket).flags(["--part-size", "5MiB", "--memory-limit", "20MiB"]);
    let source = plan.folder("source").join("file");
    fs::write(&source, &bytes).unwrap();
    let down = |link: &SlowLink| {
        store.stop();
        link.cut();
        wait::moment(outage);
        store.start_again();
    };

    let link = SlowLink::to(store.address(), shape);
    let mount = plan.instead("--endpoint", &link.endpoint()).mount();
    let before = link.requests();
    std::thread::scope(|scope| {
        let goal = mount.join("file");
        let copy = scope.spawn(move || timed("in", size, || fs::copy(source, goal).unwrap()));
        // The upload is begun, and parts are on their way.
        wait::until("parts to be sent", OUTAGE_WITHIN, || before + 4 < link.requests());
        down(&link);
        copy.join().unwrap();
    });
    assert!(bucket.get("file").unwrap() == bytes);
    drop(mount.umount());

    let link = SlowLink::to(store.address(), shape);
    let mount = Plan::of(&bucket).instead("--endpoint", &link.endpoint()).mount();
    std::thread::scope(|scope| {
        let path = mount.join("file");
        let copy = scope.spawn(move || timed("out", size, || fs::read(path).unwrap()));
        wait::until("bytes to come", OUTAGE_WITHIN, || 5_000_000 < link.answer_bytes());
        down(&link);
        assert!(copy.join().unwrap() == bytes);
    });
    mount.umount();
}

/// What `copy` gives; how long it took is for who reads the test's output.
fn timed<T>(way: &str, size: usize, copy: impl FnOnce() -> T) -> T {
    let (copied, took) = wait::timed(copy);
    println!("{size} bytes copied {way} in {:.1} s", took.as_secs_f64());
    copied
}
