//! What holes of a staged file cost: nothing that is read, nothing that is fetched, no room.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod common;

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use base::ByteRange;
use common::{Folder, GRANULE, bytes, complete, content, kind, range, sealed_content, write};
use quayfs_store::{Adopted, Base, ErrorKind, Growth, Outcome, Seek, Staged};

const LARGE: u64 = 3 << 30;

#[test]
fn a_seal_does_not_read_holes() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, b"first");
    staged.truncate(LARGE).unwrap();
    write(&staged, &[], 1 << 30, b"in the middle");
    let before = folder.faults.read_bytes();
    let sealed = staged.seal().unwrap();
    let read = folder.faults.read_bytes() - before;
    assert!(read <= 2 * GRANULE as u64, "{read} bytes were read of two that were written");
    drop(sealed);
    let before = folder.faults.read_bytes();
    let _sealed = staged.seal().unwrap();
    assert_eq!(folder.faults.read_bytes(), before, "all of it is summed");
}

#[test]
fn a_terabyte_of_nothing_costs_nothing_and_reads_as_zeros() {
    const TERABYTE: u64 = 1 << 40;
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    staged.truncate(TERABYTE).unwrap();
    assert_eq!(staged.size(), TERABYTE);
    let mut buf = [0xee; 100];
    assert_eq!(staged.read(TERABYTE - 100, &mut buf).unwrap(), Outcome::Done);
    assert_eq!(buf, [0; 100]);
    assert_eq!(staged.seek(Seek::Data, 0).unwrap(), None);
    assert_eq!(staged.seek(Seek::Hole, 0).unwrap(), Some(0));
    staged.punch(ByteRange::new(10, TERABYTE - 10).unwrap()).unwrap();
    assert_eq!(folder.faults.read_bytes(), 100);
}

#[test]
fn a_version_of_holes_is_cached_with_the_right_sums() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    let mut want = vec![0; 5 * GRANULE + 77];
    let size = want.len();
    staged.truncate(size as u64).unwrap();
    write(&staged, &[], 2 * GRANULE + 100, b"text");
    want[2 * GRANULE + 100..2 * GRANULE + 104].copy_from_slice(b"text");
    let sealed = staged.seal().unwrap();
    assert_eq!(sealed_content(&sealed), want);
    assert!(matches!(store.adopt(&staged, sealed, b"v").unwrap(), Adopted::Clean(_)));
    drop((staged, store));
    // After another boot every granule is compared with its sum before it is believed.
    let store = folder.open_with(quayfs_store::CacheLimit::Bytes(1 << 40), "boot 2");
    let cached = store.cached(b"v", size as u64).unwrap();
    cached.verify(range(0, size)).unwrap();
    assert!(cached.is_complete());
    assert_eq!(common::read(&cached, 0, size), want);
}

#[test]
fn punching_asks_for_the_edges_of_the_base_only() {
    let folder = Folder::new();
    let store = folder.open();
    let mut want = bytes(1, 0, 5 * GRANULE);
    let base = want.clone();
    let cached = store.cached(b"v", base.len() as u64).unwrap();
    let staged = store.stage(b"note", Base::Over { cached, bytes: base.len() as u64 }).unwrap();
    let punched = GRANULE + 10..4 * GRANULE + 10;
    let mut needed = Vec::new();
    while let Outcome::Needs(needs) = staged.punch(range(punched.start, punched.end)).unwrap() {
        needed.push(needs);
        let part = needs.start() as usize..needs.end() as usize;
        staged.fill(needs.start(), &base[part]).unwrap();
    }
    let granule = |n: usize| range(n * GRANULE, (n + 1) * GRANULE);
    assert_eq!(needed, [granule(1), granule(4)]);
    want[punched].fill(0);
    assert_eq!(staged.missing(range(0, base.len())), Some(granule(0)));
    assert_eq!(staged.missing(range(GRANULE, base.len())), None);
    assert_eq!(content(&staged, &base), want);
}

#[test]
fn what_is_punched_during_an_upload_is_in_it() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    let mut want = bytes(1, 0, 4 * GRANULE);
    write(&staged, &[], 0, &want);
    let sealed = staged.seal().unwrap();
    staged.punch(range(100, 3 * GRANULE)).unwrap();
    assert_eq!(sealed_content(&sealed), want);
    assert!(matches!(store.adopt(&staged, sealed, b"v").unwrap(), Adopted::StillDirty));
    want[100..3 * GRANULE].fill(0);
    assert_eq!(content(&staged, &[]), want);
}

#[test]
fn punching_gives_the_room_back() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, &bytes(1, 0, 8 * GRANULE));
    let before = allocated(&folder);
    staged.punch(range(0, 7 * GRANULE)).unwrap();
    assert!(allocated(&folder) + 6 * GRANULE as u64 <= before);
    assert_eq!(staged.seek(Seek::Data, 0).unwrap(), Some(7 * GRANULE as u64));
    assert_eq!(staged.seek(Seek::Hole, 7 * GRANULE as u64).unwrap(), Some(8 * GRANULE as u64));
}

#[test]
fn what_is_still_to_be_fetched_is_no_hole() {
    let folder = Folder::new();
    let store = folder.open();
    let size = 4 * GRANULE as u64;
    let cached = store.cached(b"v", size).unwrap();
    let staged = store.stage(b"note", Base::Over { cached, bytes: size }).unwrap();
    staged.punch(range(GRANULE, 2 * GRANULE)).unwrap();
    staged.truncate(6 * GRANULE as u64).unwrap();
    let walk = |from: usize| {
        let data = staged.seek(Seek::Data, from as u64).unwrap();
        let hole = staged.seek(Seek::Hole, from as u64).unwrap();
        (data.map(|at| at as usize / GRANULE), hole.map(|at| at as usize / GRANULE))
    };
    assert_eq!(walk(5), (Some(0), Some(1)), "the first granule is of the base");
    assert_eq!(walk(GRANULE + 5), (Some(2), Some(1)), "punched");
    assert_eq!(walk(2 * GRANULE), (Some(2), Some(4)), "the rest of the base");
    assert_eq!(walk(4 * GRANULE), (None, Some(4)), "the growth");
}

#[test]
fn room_is_taken_and_more_than_there_is_is_refused() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    staged.allocate(range(0, 4 * GRANULE), Growth::Stays).unwrap();
    assert_eq!(staged.size(), 0);
    assert!(4 * GRANULE as u64 <= allocated(&folder));
    staged.allocate(range(GRANULE, 2 * GRANULE), Growth::Grows).unwrap();
    assert_eq!(staged.size(), 2 * GRANULE as u64);
    assert_eq!(content(&staged, &[]), vec![0; 2 * GRANULE]);
    assert_eq!(refused(&staged, 1 << 50), ErrorKind::Full, "more than the disk has");
    folder.faults.full_after(GRANULE as u64);
    assert_eq!(refused(&staged, 10 * GRANULE as u64), ErrorKind::Full);
    assert_eq!(staged.size(), 2 * GRANULE as u64);
}

#[test]
fn a_version_on_its_way_is_kept_from_the_kernel_that_gets_the_file_then() {
    let folder = Folder::new();
    let store = folder.open();
    let want = bytes(1, 0, 3 * GRANULE);
    let staged = store.stage(b"note", Base::Take(complete(&store, b"v", &want))).unwrap();
    let sealed = staged.seal().unwrap();
    let lent = staged.passthrough().unwrap();
    rustix::io::pwrite(&*lent, b"through a mapping", GRANULE as u64).unwrap();
    assert_eq!(sealed_content(&sealed), want);
    drop(sealed);
    // The next version is wholly beside the file from the start.
    let sealed = staged.seal().unwrap();
    let before = sealed_content(&sealed);
    rustix::io::pwrite(&*lent, b"and once more", 0).unwrap();
    assert_eq!(sealed_content(&sealed), before);
}

fn refused(staged: &Arc<Staged>, len: u64) -> ErrorKind {
    kind(staged.allocate(ByteRange::at(0, len).unwrap(), Growth::Grows))
}

/// What the one staged file takes on the disk.
fn allocated(folder: &Folder) -> u64 {
    let [name] = &folder.files("staged")[..] else { panic!("not one staged file") };
    std::fs::metadata(folder.path().join("staged").join(name)).unwrap().blocks() * 512
}
