//! A cache disk without room: reads go on, writers are told, nothing is torn.

use std::fs;
use std::io::Write;
use std::path::Path;

use rustix::io::Errno;
use testkit::{MinIo, Plan, SmallDisk, noise, overwrite, wait, write_new};

use crate::{SOON, TTL, errno};

const DISK_BYTES: u64 = 64 << 20;
const LARGE: usize = 150_000_000;

#[test]
fn a_file_larger_than_the_cache_disk_is_read() {
    let disk = SmallDisk::new(DISK_BYTES);
    let bucket = MinIo::shared().bucket();
    let bytes = noise(1, LARGE);
    bucket.put("large", &bytes);
    let mount = Plan::of(&bucket).state_in(disk.path()).mount();
    assert!(fs::read(mount.join("large")).unwrap() == bytes, "the first time");
    assert!(fs::read(mount.join("large")).unwrap() == bytes, "and again");
    mount.umount();
}

#[test]
fn many_files_pass_through_a_small_cache() {
    let disk = SmallDisk::new(DISK_BYTES);
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).state_in(disk.path()).flags(["--cache-size", "20MiB"]).mount();
    for number in 0..20 {
        write_new(&mount.join(format!("file-{number}")), &noise(number, 5_000_000)).unwrap();
    }
    for number in 0..20 {
        let read = fs::read(mount.join(format!("file-{number}"))).unwrap();
        assert!(read == noise(number, 5_000_000), "file-{number}");
    }
    let used = used_bytes(disk.path());
    assert!(used <= 30_000_000, "{used} bytes with --cache-size 20MiB");
    mount.umount();
}

#[test]
fn a_writer_without_room_gets_through_or_enospc_and_never_a_torn_object() {
    let disk = SmallDisk::new(DISK_BYTES);
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).state_in(disk.path()).mount();
    let small = noise(1, 100_000);
    write_new(&mount.join("before"), &small).unwrap();
    write_new(&mount.join("replaced"), &small).unwrap();
    let large = noise(2, LARGE);
    for name in ["new", "replaced"] {
        match overwrite(&mount.join(name), &large) {
            Ok(()) => assert!(bucket.get(name).unwrap() == large, "{name}"),
            Err(error) => {
                assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC), "{name}: {error}");
                // A program that was told to stop may have left the bytes that it did write; what
                // is there is a beginning of them, not a mixture.
                let object = bucket.get(name).unwrap_or_default();
                assert!(large.starts_with(&object) || object == small, "{name}");
            }
        }
    }
    // The mount is as good as before.
    let _ = fs::remove_file(mount.join("new"));
    fs::remove_file(mount.join("replaced")).unwrap();
    assert!(fs::read(mount.join("before")).unwrap() == small);
    wait::until("room for a small file", SOON, || overwrite(&mount.join("after"), &small).is_ok());
    assert!(bucket.get("after").unwrap() == small);
    mount.umount();
}

#[test]
fn a_disk_filled_by_somebody_else_is_enospc_for_writers_and_no_obstacle_for_readers() {
    let disk = SmallDisk::new(DISK_BYTES);
    let bucket = MinIo::shared().bucket();
    let bytes = noise(1, 3_000_000);
    bucket.put("theirs", &bytes);
    let mount = Plan::of(&bucket).state_in(disk.path()).mount();
    wait::until("the object to appear", TTL, || mount.join("theirs").exists());
    let filler = disk.path().join("filler");
    fill(&filler);
    assert!(fs::read(mount.join("theirs")).unwrap() == bytes, "readers need no room");
    assert_eq!(errno(write_new(&mount.join("ours"), &bytes)), Errno::NOSPC);
    fs::remove_file(filler).unwrap();
    wait::until("room to write", SOON, || overwrite(&mount.join("ours"), &bytes).is_ok());
    assert!(bucket.get("ours").unwrap() == bytes);
    assert!(fs::read(mount.join("theirs")).unwrap() == bytes);
    mount.umount();
}

/// Writes until not one byte more fits.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    for len in [1 << 20, 4096, 1] {
        while file.write_all(&vec![b'x'; len]).and_then(|()| file.sync_data()).is_ok() {}
    }
}

fn used_bytes(disk: &Path) -> u64 {
    let told = rustix::fs::statvfs(disk).unwrap();
    (told.f_blocks - told.f_bfree) * told.f_frsize
}
