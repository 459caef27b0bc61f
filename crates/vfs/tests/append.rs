//! Uploads that begin while a file that was there grows.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod world;

use base::{Errno, HandleId};
use quayfs_vfs::{Access, errno};
use remote::fake::{Fake, Gate, Op};
use remote::{ErrorKind, Key, Metadata, PartCopies, PartNumbers, Personality};
use world::{MIB, PART, World, killed, pattern, store_with};

const S3: PartCopies = PartCopies::AnyRange { bytes_max: 5 << 30 };

/// What was there; not a whole number of parts.
const OLD: u64 = 8 * MIB + 77;

/// So many whole parts behind it.
const PARTS: usize = 20;

/// Where they end, and the file goes on a little.
const PARTS_END: u64 = (OLD / PART + 1 + PARTS as u64) * PART;
const SIZE: u64 = PARTS_END + 99;

/// A file `a` that grows from its old end to its new one, of which all new parts that are whole were
/// sent ahead, or are about to go through the gate.
async fn appended(how: PartCopies) -> (World, HandleId, Vec<u8>, Gate) {
    let world = World::over(Fake::with(store_with(how)));
    let want = pattern(SIZE);
    let old = want[..usize::try_from(OLD).unwrap()].to_vec();
    world.bucket.insert(&Key::from("a"), old, Metadata::new());
    let handle = world.open("a", Access::ReadWrite).await;
    let gate = world.bucket.hold(Op::UploadPart);
    let new = want[usize::try_from(OLD).unwrap()..].chunks(100_000);
    for (at, bytes) in (OLD..).step_by(100_000).zip(new) {
        world.write(handle, at, bytes).await;
    }
    for sent in 1..=PARTS {
        gate.arrived(sent).await;
        gate.let_through(1);
    }
    (world, handle, want, gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_number_is_left_out_where_the_store_wants_them_all() {
    let numbers = PartNumbers::Consecutive;
    let world = World::over(Fake::with(Personality { part_numbers: numbers, ..store_with(S3) }));
    let mut want = pattern(OLD);
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let handle = world.open("a", Access::ReadWrite).await;
    let more = pattern(9 * PART);
    world.write(handle, OLD, &more).await;
    put(&mut want, OLD, &more);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    // What is new is sent while it is written all the same.
    let handle = world.create("b").await;
    world.write(handle, 0, &want).await;
    world.close(handle).await.unwrap();
    assert!(world.object("b") == want);
    assert_eq!(world.bucket.uploads_open(), 0);
}

fn put(bytes: &mut Vec<u8>, at: u64, new: &[u8]) {
    let at = usize::try_from(at).unwrap();
    if bytes.len() < at + new.len() {
        bytes.resize(at + new.len(), 0);
    }
    bytes[at..at + new.len()].copy_from_slice(new);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_close_of_an_append_sends_only_what_is_left_of_the_parts_at_both_ends() {
    for how in [S3, PartCopies::OwnBlocks, PartCopies::WholeFirst, PartCopies::None] {
        let (world, handle, want, gate) = appended(how).await;
        drop(gate);
        assert_eq!(world.bucket.sent_bytes(), PARTS as u64 * PART, "{how:?}");
        world.close(handle).await.unwrap();
        assert!(world.object("a") == want, "{how:?}");
        let least = match how {
            PartCopies::AnyRange { .. } | PartCopies::WholeFirst => SIZE - OLD,
            // Of the part in which the old end is, the old bytes too.
            PartCopies::OwnBlocks => SIZE - OLD / PART * PART,
            PartCopies::None => SIZE,
        };
        assert_eq!(world.bucket.sent_bytes(), least, "{how:?}");
        assert_eq!((world.bucket.calls(Op::UploadCreate), world.bucket.uploads_open()), (1, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_there_is_copied_while_the_rest_is_written() {
    let world = World::over(Fake::with(store_with(S3)));
    let mut want = pattern(OLD);
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let handle = world.open("a", Access::ReadWrite).await;
    let gate = world.bucket.hold(Op::UploadPartCopy);
    let new = pattern(3 * PART);
    world.write(handle, OLD, &new).await;
    put(&mut want, OLD, &new);
    gate.arrived(1).await;
    drop(gate);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    assert_eq!(world.bucket.calls(Op::UploadPartCopy), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_of_old_and_new_after_it_went_ahead_goes_again() {
    for how in [S3, PartCopies::OwnBlocks] {
        let (world, handle, mut want, gate) = appended(how).await;
        drop(gate);
        for place in [0, 5 * MIB + 9, OLD - 3, PARTS_END - 2 * PART] {
            world.write(handle, place, b"again").await;
            put(&mut want, place, b"again");
        }
        world.close(handle).await.unwrap();
        assert!(world.object("a") == want, "{how:?}");
        let sent = world.bucket.sent_bytes();
        assert!(sent <= SIZE - OLD / PART * PART + 3 * PART, "{how:?}: {sent} bytes were sent");
        assert_eq!((world.bucket.calls(Op::UploadCreate), world.bucket.uploads_open()), (1, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_all_over_what_was_there_leave_what_went_ahead_in_its_place() {
    let (world, handle, mut want, gate) = appended(S3).await;
    drop(gate);
    for place in (0..OLD).step_by(usize::try_from(2 * PART).unwrap()) {
        world.write(handle, place, b"edit").await;
        put(&mut want, place, b"edit");
    }
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    assert!(world.bucket.sent_bytes() <= SIZE - OLD + OLD / 2 + PART);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_parts_behind_a_hole_are_sent_while_it_is_written() {
    let world = World::over(Fake::with(store_with(S3)));
    let mut want = pattern(OLD);
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let handle = world.open("a", Access::ReadWrite).await;
    let (at, new) = (16 * MIB, pattern(4 * PART));
    let gate = world.bucket.hold(Op::UploadPart);
    world.write(handle, at, &new).await;
    put(&mut want, at, &new);
    gate.arrived(4).await;
    drop(gate);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    assert_eq!(world.bucket.uploads_open(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_appended_file_that_is_cut_is_what_it_is_then() {
    for size in [PARTS_END - 3 * PART, OLD, OLD - 5 * PART - 1, 100, 0] {
        let (world, handle, mut want, gate) = appended(S3).await;
        drop(gate);
        world.truncate("a", size).await;
        want.truncate(usize::try_from(size).unwrap());
        for at in [size + 10, PARTS_END - PART + 5] {
            world.write(handle, at, b"new").await;
            put(&mut want, at, b"new");
        }
        world.close(handle).await.unwrap();
        assert!(world.object("a") == want, "cut to {size}");
        assert_eq!(world.bucket.uploads_open(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_is_sent_whole_where_the_store_refuses_to_copy() {
    let world = World::over(Fake::with(store_with(S3)));
    let mut want = pattern(OLD);
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let handle = world.open("a", Access::ReadWrite).await;
    for _ in 0..3 {
        world.bucket.fail_next(Op::UploadPartCopy, ErrorKind::Unsupported);
    }
    world.write(handle, OLD, &pattern(4 * PART)).await;
    put(&mut want, OLD, &pattern(4 * PART));
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    assert_eq!(world.bucket.uploads_open(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_to_an_object_that_others_replaced_keeps_what_was_written() {
    let (world, handle, ..) = appended(S3).await;
    world.bucket.insert(&Key::from("a"), &b"theirs"[..], Metadata::new());
    let failed = world.close(handle).await.unwrap_err();
    assert_eq!(errno(&failed), Errno::ESTALE);
    assert_eq!(world.object("a"), &b"theirs"[..]);
    assert!(world.recovered().iter().any(|bytes| bytes.len() as u64 == SIZE));
    assert_eq!(world.bucket.uploads_open(), 0);
}

#[test]
fn a_death_while_a_file_grows_leaves_what_was_there_and_no_parts() {
    let (world, recovered, _runtime) = killed(|| async {
        let (world, ..) = appended(S3).await;
        assert_eq!(world.bucket.uploads_open(), 1);
        world
    });
    assert_eq!(world.bucket.uploads_open(), 0);
    assert_eq!(world.object("a"), pattern(OLD));
    assert_eq!(recovered.kept.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_appended_to_after_each_sync_is_in_the_bucket_each_time() {
    let (world, handle, mut want, gate) = appended(S3).await;
    drop(gate);
    for round in 0..3_u8 {
        world.vfs().fsync(handle).await.unwrap();
        assert!(world.object("a") == want, "round {round}");
        let (at, new) = (want.len() as u64, vec![round; usize::try_from(3 * PART).unwrap()]);
        world.write(handle, at, &new).await;
        put(&mut want, at, &new);
    }
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    assert!(world.bucket.sent_bytes() <= want.len() as u64 - OLD + 4 * PART);
    assert_eq!(world.bucket.uploads_open(), 0);
}
