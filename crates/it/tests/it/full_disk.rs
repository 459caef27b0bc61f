//! A cache disk without room: reads go on, writers are told, nothing is torn.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use rustix::io::Errno;
use testkit::{MinIo, Plan, SmallDisk, close, noise, overwrite, run, wait, write_new};

use crate::{SOON, TTL, errno, names};

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
fn a_writer_without_room_gets_through_once_what_it_wrote_is_in_the_bucket() {
    let disk = SmallDisk::new(DISK_BYTES);
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).state_in(disk.path()).mount();
    let small = noise(1, 100_000);
    write_new(&mount.join("before"), &small).unwrap();
    write_new(&mount.join("replaced"), &small).unwrap();
    let large = noise(2, LARGE);
    for name in ["new", "replaced"] {
        overwrite(&mount.join(name), &large).unwrap();
        assert!(bucket.get(name).unwrap() == large, "{name}");
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
fn a_file_three_times_as_large_as_the_cache_disk_is_written_and_edited() {
    let disk = SmallDisk::new(DISK_BYTES);
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).state_in(disk.path()).mount();
    let mut want = noise(3, 3 * usize::try_from(DISK_BYTES).unwrap());
    let mut file = fs::File::create(mount.join("large")).unwrap();
    file.write_all(&want).unwrap();
    assert!(fs::read(mount.join("large")).unwrap() == want, "before it is closed");
    close(file).unwrap();
    assert!(bucket.get("large").unwrap() == want, "what was written");
    // One byte in each of many parts, and some more at the end.
    let mut file = fs::File::options().write(true).open(mount.join("large")).unwrap();
    for at in (0..want.len()).step_by(30_000_000) {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(b"!").unwrap();
        want[at] = b'!';
    }
    let more = noise(4, 40_000_000);
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(&more).unwrap();
    want.extend(more);
    close(file).unwrap();
    assert!(bucket.get("large").unwrap() == want, "what was edited");
    assert!(fs::read(mount.join("large")).unwrap() == want, "what is read back");
    mount.umount();
    assert_eq!(bucket.unfinished_uploads(), 0);
}

#[test]
fn a_file_larger_than_the_cache_disk_is_written_and_synced_at_once() {
    let disk = SmallDisk::new(DISK_BYTES);
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).state_in(disk.path()).mount();
    let want = noise(5, 3 * usize::try_from(DISK_BYTES).unwrap());
    let mut file = fs::File::create(mount.join("large")).unwrap();
    let syncs = file.try_clone().unwrap();
    let (asks, asked) = mpsc::channel();
    thread::scope(|scope| {
        // What was uploaded stays beside what is written meanwhile.
        scope.spawn(|| asked.into_iter().for_each(|()| syncs.sync_all().unwrap()));
        for chunk in want.chunks(20_000_000) {
            file.write_all(chunk).unwrap();
            asks.send(()).unwrap();
        }
        drop(asks);
    });
    close(file).unwrap();
    assert!(bucket.get("large").unwrap() == want);
    drop(syncs);
    mount.umount();
}

#[test]
fn several_large_files_are_written_at_a_time_on_a_small_disk() {
    let disk = SmallDisk::new(2 * DISK_BYTES);
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).state_in(disk.path()).mount();
    thread::scope(|scope| {
        for number in 0..3 {
            let path = mount.join(format!("large{number}"));
            scope.spawn(move || write_new(&path, &noise(number, LARGE)).unwrap());
        }
    });
    for number in 0..3 {
        assert!(bucket.get(&format!("large{number}")).unwrap() == noise(number, LARGE));
    }
    mount.umount();
}

#[test]
fn many_files_that_are_closed_and_not_uploaded_do_not_fill_a_small_disk() {
    let disk = SmallDisk::new(DISK_BYTES);
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).state_in(disk.path()).flags(["--commit", "async"]).mount();
    for number in 0..60 {
        write_new(&mount.join(format!("file-{number}")), &noise(number, 5_000_000)).unwrap();
    }
    mount.umount();
    for number in 0..60 {
        assert!(bucket.get(&format!("file-{number}")).unwrap() == noise(number, 5_000_000));
    }
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

#[test]
fn what_is_removed_and_renamed_on_a_disk_filled_by_somebody_else_stays_so() {
    let large = noise(1, 3_000_000);
    for flags in [&[][..], &["--commit", "async", "--upload-delay", "1s"]] {
        let disk = SmallDisk::new(DISK_BYTES);
        let bucket = MinIo::shared().bucket();
        let mount = Plan::of(&bucket).state_in(disk.path()).flags(flags).mount();
        fs::create_dir(mount.join("folder")).unwrap();
        for name in ["a", "b", "c"] {
            write_new(&mount.join(format!("folder/{name}")), b"first").unwrap();
        }
        let filler = disk.path().join("filler");
        fill(&filler);
        assert_eq!(errno(write_new(&mount.join("folder/new"), &large)), Errno::NOSPC, "{flags:?}");
        let _ = fs::remove_file(mount.join("folder/new"));
        fs::remove_file(mount.join("folder/a")).unwrap();
        fs::rename(mount.join("folder/b"), mount.join("folder/moved")).unwrap();
        assert_eq!(mount.status()["pending_uploads"], 0, "{flags:?}");
        let mut evict = mount.plan().command(["evict"]);
        run(evict.arg(mount.join("folder")), SOON).ok();
        let plan = mount.umount();
        fs::remove_file(filler).unwrap();
        let mount = plan.mount();
        assert_eq!(names(&mount.join("folder")), ["c", "moved"], "{flags:?}");
        assert_eq!(bucket.get("folder/moved").as_deref(), Some(&b"first"[..]));
        assert_eq!(bucket.get("folder/a"), None);
        mount.umount();
    }
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
