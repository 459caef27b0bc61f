//! A clean cached file is read by the kernel alone: the daemon counts no read.
//!
//! The same measurement is made with `--no-passthrough`, where it must move: a counter that never
//! moves proves nothing. Mounting afresh over a filled cache makes sure that no page of an earlier
//! read is there to answer.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use testkit::{Bucket, Mount, SharedMap, close, forget_pages, noise, read_at, wait};

use crate::{SOON, TTL, mounted, mounted_with};

const LEN: usize = 8 << 20;

/// A mount whose cache holds the whole of `file`, of which the kernel has seen nothing yet.
fn cached(flags: &[&str]) -> (Bucket<'static>, Mount, Vec<u8>) {
    let (bucket, mount) = mounted_with(flags);
    let bytes = noise(1, LEN);
    bucket.put("file", &bytes);
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    assert!(fs::read(mount.join("file")).unwrap() == bytes, "the first read");
    let mount = mount.umount().mount();
    (bucket, mount, bytes)
}

/// A read-only handle that the kernel reads by itself.
fn opened_in_passthrough(mount: &Mount) -> File {
    let before = mount.counter("passthrough_opens");
    let file = File::open(mount.join("file")).unwrap();
    assert_eq!(mount.counter("passthrough_opens"), before + 1, "not opened in passthrough");
    file
}

/// Until all is in the bucket.
fn sync_all(mount: &Mount) {
    File::open(mount.join("")).unwrap().sync_all().unwrap();
}

#[test]
fn a_cached_file_is_read_without_the_daemon() {
    let (_bucket, mount, bytes) = cached(&[]);
    let file = opened_in_passthrough(&mount);
    let before = mount.counter("fuse_reads");
    assert!(read_at(&file, 0, LEN).unwrap() == bytes);
    assert!(read_at(&file, 1_234_567, 4096).unwrap() == bytes[1_234_567..1_238_663]);
    assert_eq!(mount.counter("fuse_reads"), before);
    assert_eq!(mount.counter("remote_gets"), 0, "the cache survives the mount");
}

#[test]
fn a_cached_file_is_mapped_without_the_daemon() {
    let (_bucket, mount, bytes) = cached(&[]);
    let file = opened_in_passthrough(&mount);
    let before = mount.counter("fuse_reads");
    assert!(SharedMap::readable(&file, LEN).bytes() == bytes);
    assert_eq!(mount.counter("fuse_reads"), before);
}

#[test]
fn without_passthrough_the_daemon_reads_and_maps() {
    let (_bucket, mount, bytes) = cached(&["--no-passthrough"]);
    let file = File::open(mount.join("file")).unwrap();
    assert!(read_at(&file, 0, LEN).unwrap() == bytes);
    let after_read = mount.counter("fuse_reads");
    assert!(after_read > 0, "the proof of passthrough could not fail");
    forget_pages(&file);
    assert!(SharedMap::readable(&file, LEN).bytes() == bytes);
    assert!(mount.counter("fuse_reads") > after_read);
    assert_eq!(mount.counter("passthrough_opens"), 0);
    assert_eq!(mount.counter("remote_gets"), 0, "the cache survives the mount");
}

#[test]
fn a_file_is_in_passthrough_from_the_first_open_after_it_was_read() {
    let (bucket, mount) = mounted();
    let bytes = noise(2, LEN);
    bucket.put("file", &bytes);
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    assert!(fs::read(mount.join("file")).unwrap() == bytes);
    // The kernel tells of the last close on its own time.
    let file = wait::until_some("an open in passthrough", SOON, || {
        let before = mount.counter("passthrough_opens");
        let file = File::open(mount.join("file")).unwrap();
        (before < mount.counter("passthrough_opens")).then_some(file)
    });
    let before = mount.counter("fuse_reads");
    forget_pages(&file);
    assert!(read_at(&file, 0, LEN).unwrap() == bytes);
    assert_eq!(mount.counter("fuse_reads"), before);
}

#[test]
fn a_file_written_here_is_read_without_the_daemon_and_without_a_download() {
    let (_bucket, mount) = mounted();
    let bytes = noise(3, LEN);
    testkit::write_new(&mount.join("file"), &bytes).unwrap();
    let mount = mount.umount().mount();
    let file = opened_in_passthrough(&mount);
    assert!(read_at(&file, 0, LEN).unwrap() == bytes);
    assert_eq!((mount.counter("fuse_reads"), mount.counter("remote_gets")), (0, 0));
}

/// What `writer` writes is at once what is read and mapped through `reader`; `bytes` are those of the file, before
/// and after.
fn edits_are_seen(writer: &File, reader: &File, bytes: &mut [u8]) {
    let map = SharedMap::readable(reader, LEN);
    for at in [0, 777_777, LEN - 4] {
        writer.write_all_at(b"edit", at as u64).unwrap();
        bytes[at..at + 4].copy_from_slice(b"edit");
        assert!(read_at(reader, 0, LEN).unwrap() == bytes, "read after the write at {at}");
        assert!(map.bytes() == bytes, "mapped after the write at {at}");
    }
}

#[test]
fn a_file_that_is_being_written_is_read_without_the_daemon() {
    let (bucket, mount) = mounted();
    let mut bytes = noise(4, LEN);
    let path = mount.join("file");
    let writer = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    writer.write_all_at(&bytes, 0).unwrap();
    let before = mount.counter("fuse_reads");
    let reader = opened_in_passthrough(&mount);
    edits_are_seen(&writer, &reader, &mut bytes);
    // Others who write join, and the first reader's going changes nothing for them.
    let second = OpenOptions::new().append(true).open(&path).unwrap();
    drop(reader);
    let third = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    (&second).write_all(b"appended").unwrap();
    writer.write_all_at(b"first", 100).unwrap();
    third.write_all_at(b"third", 200).unwrap();
    bytes.extend(b"appended");
    bytes[100..105].copy_from_slice(b"first");
    bytes[200..205].copy_from_slice(b"third");
    assert!(read_at(&third, 0, 2 * LEN).unwrap() == bytes, "read by a writer");
    for writer in [writer, second, third] {
        close(writer).unwrap();
    }
    assert!(bucket.get("file").unwrap() == bytes, "the object");
    assert!(fs::read(&path).unwrap() == bytes, "a new reader");
    assert_eq!(mount.counter("remote_gets"), 0);
    // What is read by a handle that writes is asked of the daemon, all else is not.
    let asked = mount.counter("fuse_reads") - before;
    assert!(asked <= 1 + 2 * LEN as u64 / (128 << 10), "{asked} reads");
}

#[test]
fn without_passthrough_a_file_that_is_being_written_is_read_as_it_is() {
    let (bucket, mount) = mounted_with(&["--no-passthrough"]);
    let path = mount.join("file");
    let writer = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    let mut bytes = noise(5, LEN);
    writer.write_all_at(&bytes, 0).unwrap();
    let reader = File::open(&path).unwrap();
    edits_are_seen(&writer, &reader, &mut bytes);
    drop(reader);
    close(writer).unwrap();
    assert!(bucket.get("file").unwrap() == bytes, "the object");
}

#[test]
fn a_file_that_waits_for_its_upload_is_read_without_the_daemon() {
    let (bucket, mount) = mounted_with(&["--commit", "async", "--upload-delay", "1h"]);
    let bytes = noise(6, LEN);
    testkit::write_new(&mount.join("file"), &bytes).unwrap();
    let before = mount.counter("fuse_reads");
    let reader = opened_in_passthrough(&mount);
    assert!(read_at(&reader, 0, LEN).unwrap() == bytes);
    assert_eq!(mount.counter("fuse_reads"), before);
    assert_eq!(bucket.get("file"), None, "it waits");
    // It comes into the bucket, and is changed, with the reader there.
    sync_all(&mount);
    assert!(bucket.get("file").unwrap() == bytes, "the object");
    let writer = OpenOptions::new().append(true).open(mount.join("file")).unwrap();
    (&writer).write_all(b"appended").unwrap();
    assert_eq!(read_at(&reader, LEN as u64, 100).unwrap(), b"appended");
    close(writer).unwrap();
    drop(reader);
    sync_all(&mount);
    assert_eq!(bucket.get("file").unwrap().len(), LEN + 8);
}

#[test]
fn a_reader_in_passthrough_sees_what_is_appended() {
    let (bucket, mount, mut bytes) = cached(&[]);
    let reader = opened_in_passthrough(&mount);
    assert!(read_at(&reader, 0, LEN).unwrap() == bytes);
    let mut writer = OpenOptions::new().append(true).open(mount.join("file")).unwrap();
    writer.write_all(b"appended").unwrap();
    bytes.extend(b"appended");
    assert_eq!(read_at(&reader, LEN as u64, 100).unwrap(), b"appended", "before the close");
    close(writer).unwrap();
    assert!(bucket.get("file").unwrap() == bytes, "the object");
    assert!(read_at(&reader, 0, LEN + 100).unwrap() == bytes, "the reader, after the close");
    drop(reader);
    assert!(fs::read(mount.join("file")).unwrap() == bytes, "a new reader");
}

#[test]
fn a_reader_in_passthrough_sees_what_is_written_into_the_middle() {
    let (bucket, mount, mut bytes) = cached(&[]);
    let reader = opened_in_passthrough(&mount);
    let writer = OpenOptions::new().write(true).open(mount.join("file")).unwrap();
    for at in [0, 777_777, LEN - 4] {
        writer.write_all_at(b"edit", at as u64).unwrap();
        bytes[at..at + 4].copy_from_slice(b"edit");
        assert_eq!(read_at(&reader, at as u64, 4).unwrap(), b"edit");
    }
    close(writer).unwrap();
    assert!(bucket.get("file").unwrap() == bytes, "the object");
    assert!(read_at(&reader, 0, LEN).unwrap() == bytes, "the reader");
}

#[test]
fn a_file_open_in_passthrough_is_truncated() {
    let (bucket, mount, mut bytes) = cached(&[]);
    let reader = opened_in_passthrough(&mount);
    for len in [1_000_001, 2_000_000] {
        let writer = OpenOptions::new().write(true).open(mount.join("file")).unwrap();
        writer.set_len(len as u64).unwrap();
        bytes.resize(len, 0);
        assert!(read_at(&reader, 0, LEN).unwrap() == bytes, "the reader at {len}");
        close(writer).unwrap();
        assert!(bucket.get("file").unwrap() == bytes, "the object at {len}");
    }
}

#[test]
fn a_replaced_file_that_is_open_is_not_edited_with_a_new_one_of_the_same_bytes() {
    let (bucket, mount) = mounted();
    let (file, copy) = (mount.join("file"), mount.join("copy"));
    let bytes = noise(3, 1 << 20);
    bucket.put("file", &bytes);
    wait::until("the object to appear", TTL, || file.exists());
    assert!(fs::read(&file).unwrap() == bytes, "the first read");
    let mount = mount.umount().mount();
    let first = opened_in_passthrough(&mount);
    fs::copy(&file, &copy).unwrap();
    fs::rename(&copy, &file).unwrap();
    let writer = OpenOptions::new().read(true).write(true).open(&file).unwrap();
    assert!(read_at(&writer, 0, 2 << 20).unwrap() == bytes, "the copy");
    writer.write_all_at(b"edit", 0).unwrap();
    assert!(read_at(&first, 0, 2 << 20).unwrap() == bytes, "after an edit of the new file");
    writer.set_len(1000).unwrap();
    assert!(read_at(&first, 0, 2 << 20).unwrap() == bytes, "after the new file was cut");
    close(writer).unwrap();
    let edited = [b"edit", &bytes[4..1000]].concat();
    assert!(bucket.get("file").unwrap() == edited, "the object");
    assert!(fs::read(&file).unwrap() == edited, "a new reader");
    assert!(read_at(&first, 0, 2 << 20).unwrap() == bytes, "after the close");
}

#[test]
fn what_is_written_through_a_mapping_beside_a_reader_is_uploaded() {
    let (bucket, mount, mut bytes) = cached(&[]);
    let reader = opened_in_passthrough(&mount);
    let open = || OpenOptions::new().read(true).write(true).open(mount.join("file")).unwrap();
    let mut edit = |map: &SharedMap, at: usize, text: &[u8]| {
        map.write(at, text);
        bytes[at..at + text.len()].copy_from_slice(text);
        bytes.clone()
    };

    let writer = open();
    let map = SharedMap::writable(&writer, LEN);
    let want = edit(&map, 12_345, b"through the mapping");
    map.sync().unwrap();
    drop(map);
    close(writer).unwrap();
    assert!(bucket.get("file").unwrap() == want, "synced, unmapped, closed");
    assert!(read_at(&reader, 0, LEN).unwrap() == want, "the reader");

    let writer = open();
    let map = SharedMap::writable(&writer, LEN);
    let want = edit(&map, 5_000_000, b"without a sync");
    drop(map);
    close(writer).unwrap();
    assert!(bucket.get("file").unwrap() == want, "unmapped and closed");

    let writer = open();
    let map = SharedMap::writable(&writer, LEN);
    close(writer).unwrap();
    let want = edit(&map, LEN - 10, b"after");
    drop(map);
    wait::until("what was written after the close", SOON, || bucket.get("file").unwrap() == want);
}

#[test]
fn a_file_mapped_for_writing_alone_is_uploaded() {
    let (bucket, mount, mut bytes) = cached(&[]);
    let writer = OpenOptions::new().read(true).write(true).open(mount.join("file")).unwrap();
    let map = SharedMap::writable(&writer, LEN);
    map.write(3_000_000, b"through the mapping");
    bytes[3_000_000..3_000_019].copy_from_slice(b"through the mapping");
    map.sync().unwrap();
    drop(map);
    close(writer).unwrap();
    assert!(bucket.get("file").unwrap() == bytes);
}
