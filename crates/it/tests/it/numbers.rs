//! What `stat` and `statfs` say in numbers.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use rustix::fs::statvfs;
use testkit::{noise, wait, write_new};

use crate::{TTL, mounted};

#[test]
fn links_count_names_and_folders_in_folders() {
    let (bucket, mount) = mounted();
    bucket.put("theirs/one/file", b"bytes");
    bucket.put("theirs/two/file", b"bytes");
    bucket.put("theirs/file", b"bytes");
    wait::until("the objects to appear", TTL, || mount.join("theirs").exists());
    let links = |name: &str| fs::metadata(mount.join(name)).unwrap().nlink();
    assert_eq!(fs::read_dir(mount.join("theirs")).unwrap().count(), 3);
    assert_eq!((links("theirs"), links("theirs/one"), links("theirs/file")), (4, 2, 1));
    fs::create_dir(mount.join("theirs/three")).unwrap();
    assert_eq!(links("theirs"), 5);
    fs::remove_dir(mount.join("theirs/three")).unwrap();
    assert_eq!(links("theirs"), 4);
    let mut open = File::create(mount.join("gone")).unwrap();
    open.write_all(b"bytes").unwrap();
    assert_eq!(open.metadata().unwrap().nlink(), 1);
    fs::remove_file(mount.join("gone")).unwrap();
    assert_eq!(open.metadata().unwrap().nlink(), 0);
}

#[test]
fn a_folder_is_the_parent_of_the_folders_in_it() {
    let (_bucket, mount) = mounted();
    fs::create_dir_all(mount.join("a/b")).unwrap();
    let number = |name: &str| fs::metadata(mount.join(name)).unwrap().ino();
    assert_eq!((number("a/b/.."), number("a/b/.")), (number("a"), number("a/b")));
    assert_eq!(number("a/b/../.."), number(""));
    // Above the mount is what it is mounted in.
    let above = fs::metadata(mount.path().parent().unwrap()).unwrap();
    assert_eq!(fs::metadata(mount.join("..")).unwrap().ino(), above.ino());
}

#[test]
fn a_file_takes_the_blocks_that_its_bytes_fill() {
    let (bucket, mount) = mounted();
    bucket.put("theirs", &noise(1, 100_000));
    write_new(&mount.join("ours"), &noise(2, 100_000)).unwrap();
    wait::until("the object to appear", TTL, || mount.join("theirs").exists());
    for name in ["theirs", "ours"] {
        let metadata = fs::metadata(mount.join(name)).unwrap();
        assert_eq!((metadata.blocks(), metadata.blksize()), (100_000_u64.div_ceil(512), 4096));
    }
}

#[test]
fn a_bucket_has_room_names_of_255_bytes_and_no_full_disk() {
    let (_bucket, mount) = mounted();
    let space = statvfs(mount.path()).unwrap();
    assert_eq!((space.f_bsize, space.f_frsize, space.f_namemax), (4096, 4096, 255));
    assert!(1 << 40 < space.f_blocks * space.f_frsize && 0 < space.f_bavail);
    assert!(space.f_bavail <= space.f_bfree && space.f_bfree <= space.f_blocks);
    assert!(0 < space.f_ffree && space.f_ffree <= space.f_files);
}

#[test]
fn the_time_of_a_folder_changes_with_its_names() {
    let (_bucket, mount) = mounted();
    fs::create_dir(mount.join("folder")).unwrap();
    let time = || {
        let metadata = fs::metadata(mount.join("folder")).unwrap();
        (metadata.mtime(), metadata.mtime_nsec())
    };
    let made = time();
    write_new(&mount.join("folder/file"), b"bytes").unwrap();
    let filled = time();
    assert!(made < filled);
    testkit::append(&mount.join("folder/file"), b"more").unwrap();
    assert_eq!(time(), filled, "its names are the same");
    fs::remove_file(mount.join("folder/file")).unwrap();
    assert!(filled < time());
}
