//! Room, holes and zeros: made, found, and seen by whoever reads.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use testkit::{MinIo, Plan, SharedMap, SmallDisk, close, read_at};

use crate::bytes::{BOTH_WAYS, LEN, edited, made, script, with_object};
use crate::{errno, mounted};

#[test]
fn room_is_made_for_a_file_before_it_is_written() {
    let (bucket, mount) = mounted();
    let file = made(&mount.join("new"));
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 2_000_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
    fallocate(&file, FallocateFlags::empty(), 500, 1_000_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1_000_500);
    file.write_all_at(b"text", 1000).unwrap();
    fallocate(&file, FallocateFlags::empty(), 0, 100).unwrap();
    let mut want = vec![0; 1_000_500];
    want[1000..1004].copy_from_slice(b"text");
    assert!(read_at(&file, 0, 2_000_000).unwrap() == want, "the file");
    // A local disk counts it as a change too where all the room was there.
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(long_ago).unwrap();
    fallocate(&file, FallocateFlags::empty(), 0, 100).unwrap();
    assert_ne!(file.metadata().unwrap().modified().unwrap(), long_ago);
    close(file).unwrap();
    assert!(bucket.get("new").unwrap() == want, "the object");
}

#[test]
fn room_that_the_disk_does_not_have_is_refused_at_once() {
    let disk = SmallDisk::new(64 << 20);
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).state_in(disk.path()).mount();
    let file = made(&mount.join("new"));
    let asked = fallocate(&file, FallocateFlags::empty(), 0, 1 << 30);
    assert_eq!(asked, Err(Errno::NOSPC));
    assert_eq!(file.metadata().unwrap().len(), 0);
    fallocate(&file, FallocateFlags::empty(), 0, 10 << 20).unwrap();
    close(file).unwrap();
    assert_eq!(bucket.head("new").unwrap().size, 10 << 20);
    mount.umount();
}

#[test]
fn only_the_edges_of_a_punched_hole_are_fetched() {
    let (bucket, mount, mut want) = with_object(&[], LEN);
    let file = OpenOptions::new().write(true).open(mount.join("file")).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 1_000_010, 18_000_000).unwrap();
    let fetched = mount.counter("remote_get_bytes");
    assert!(fetched < 5_000_000, "{fetched} bytes were fetched, with what was guessed");
    want[1_000_010..19_000_010].fill(0);
    close(file).unwrap();
    assert!(bucket.get("file").unwrap() == want, "the object");
    assert!(fs::read(mount.join("file")).unwrap() == want, "the file");
}

#[test]
fn holes_and_zeros_are_seen_by_every_reader_and_mapping() {
    for flags in BOTH_WAYS {
        let (bucket, mount, mut want) = with_object(flags, 1_000_000);
        assert!(fs::read(mount.join("file")).unwrap() == want);
        // Where it can, the kernel reads the backing file for this one, and so for all others.
        let reader = File::open(mount.join("file")).unwrap();
        let file = edited(&mount.join("file"));
        let map = SharedMap::writable(&file, 1_000_000);
        map.write(300_000, b"to be punched");
        assert_eq!(map.bytes()[..100], want[..100]);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, punch, 200_001, 200_000).unwrap();
        want[200_001..400_001].fill(0);
        assert!(map.bytes() == want, "the mapping {flags:?}");
        assert!(read_at(&reader, 0, 2_000_000).unwrap() == want, "the reader {flags:?}");
        map.write(250_000, b"in the hole");
        want[250_000..250_011].copy_from_slice(b"in the hole");
        drop(map);

        let zero = FallocateFlags::ZERO_RANGE;
        fallocate(&file, zero | FallocateFlags::KEEP_SIZE, 900_000, 200_000).unwrap();
        want[900_000..].fill(0);
        assert_eq!(file.metadata().unwrap().len(), 1_000_000);
        assert!(read_at(&reader, 0, 2_000_000).unwrap() == want, "zeroed {flags:?}");
        fallocate(&file, zero, 900_000, 200_000).unwrap();
        want.resize(1_100_000, 0);
        assert!(read_at(&reader, 0, 2_000_000).unwrap() == want, "grown {flags:?}");
        close(file).unwrap();
        assert!(bucket.get("file").unwrap() == want, "the object {flags:?}");
        drop(reader);
        assert!(fs::read(mount.join("file")).unwrap() == want, "a new reader {flags:?}");
    }
}

#[test]
fn what_cannot_be_allocated_is_refused() {
    let (_bucket, mount) = mounted();
    let file = made(&mount.join("new"));
    file.write_all_at(&[1; 10_000], 0).unwrap();
    for mode in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        assert_eq!(fallocate(&file, mode, 0, 4096), Err(Errno::OPNOTSUPP));
    }
    let beyond = 1 << 50;
    assert_eq!(fallocate(&file, FallocateFlags::empty(), beyond, 1), Err(Errno::FBIG));
    assert_eq!(errno(file.set_len(beyond)), Errno::FBIG);
    assert_eq!(errno(file.write_all_at(b"x", beyond)), Errno::FBIG);
    let reader = File::open(mount.join("new")).unwrap();
    assert_eq!(fallocate(&reader, FallocateFlags::empty(), 0, 1), Err(Errno::BADF));
    assert_eq!(file.metadata().unwrap().len(), 10_000);
}

#[test]
fn seeking_finds_what_was_written_between_holes() {
    let (_bucket, mount) = mounted();
    let file = made(&mount.join("sparse"));
    file.set_len(30_000_000).unwrap();
    file.write_all_at(&vec![1; 1_000_000], 10_000_000).unwrap();
    let data = seek(&file, SeekFrom::Data(0)).unwrap();
    assert!((9_900_000..=10_000_000).contains(&data), "{data}");
    let hole = seek(&file, SeekFrom::Hole(10_000_000)).unwrap();
    assert!((11_000_000..=11_100_000).contains(&hole), "{hole}");
    assert_eq!(seek(&file, SeekFrom::Data(12_000_000)), Err(Errno::NXIO));
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(0));
    for from in [30_000_000, 40_000_000] {
        assert_eq!(seek(&file, SeekFrom::Data(from)), Err(Errno::NXIO));
        assert_eq!(seek(&file, SeekFrom::Hole(from)), Err(Errno::NXIO));
    }
    // What a mapping has in a hole is no hole, although the kernel has not told of it yet.
    let map = SharedMap::writable(&file, 30_000_000);
    map.write(20_000_000, b"mapped");
    let data = seek(&file, SeekFrom::Data(12_000_000)).unwrap();
    assert!((19_900_000..=20_000_000).contains(&data), "{data}");
}

#[test]
fn what_was_not_fetched_yet_is_no_hole() {
    let (_bucket, mount, _) = with_object(&[], LEN);
    let reader = File::open(mount.join("file")).unwrap();
    let len = LEN as u64;
    for at in [0, 5_000_000] {
        assert_eq!(seek(&reader, SeekFrom::Data(at)), Ok(at));
        assert_eq!(seek(&reader, SeekFrom::Hole(at)), Ok(len));
    }
    let file = edited(&mount.join("file"));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 5_000_000, 5_000_000).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(0));
    let hole = seek(&file, SeekFrom::Hole(0)).unwrap();
    assert!((5_000_000..5_100_000).contains(&hole), "{hole}");
    let data = seek(&file, SeekFrom::Data(hole)).unwrap();
    assert!((9_900_000..=10_000_000).contains(&data), "{data}");
    assert_eq!(seek(&file, SeekFrom::Hole(data)), Ok(len));
}

#[test]
fn a_terabyte_of_holes_is_made_read_and_cut_at_no_cost() {
    let (bucket, mount) = mounted();
    let text = "
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 1 << 40)
os.pwrite(file, b'end', (1 << 40) - 3)
assert os.fstat(file).st_size == 1 << 40
assert os.pread(file, 5, (1 << 40) - 5) == bytes(2) + b'end'
assert os.pread(file, 100, 1 << 39) == bytes(100)
assert os.lseek(file, 0, os.SEEK_DATA) > (1 << 39)
os.ftruncate(file, 5)
os.close(file)
";
    script(text, &[&mount.join("large")]);
    assert_eq!(bucket.get("large").unwrap(), [0; 5]);
}
