//! Uploads that begin while their file is still being written.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod world;

use std::time::Duration;

use base::{HandleId, Ino};
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_oneof, proptest,
};
use quayfs_vfs::{Access, DirtyLimit};
use remote::fake::{Fake, Gate, Op};
use remote::{ErrorKind, Key, Metadata, PartCopies};
use world::{KIB, MIB, PART, World, killed, killed_behind, name, pattern, store_with};

/// So many whole parts, and a tail.
const PARTS: usize = 20;
const SIZE: u64 = PARTS as u64 * PART + 77;

/// A new file `a` that is written to its end, of which all whole parts were sent ahead, or are about to
/// go through the gate.
async fn streamed() -> (World, HandleId, Vec<u8>, Gate) {
    let world = World::over(Fake::new());
    let handle = world.create("a").await;
    let gate = world.bucket.hold(Op::UploadPart);
    let want = pattern(SIZE);
    for (at, bytes) in (0..).step_by(100_000).zip(want.chunks(100_000)) {
        world.write(handle, at, bytes).await;
    }
    for sent in 1..=PARTS {
        gate.arrived(sent).await;
        gate.let_through(1);
    }
    (world, handle, want, gate)
}

fn put(bytes: &mut Vec<u8>, at: u64, new: &[u8]) {
    let at = usize::try_from(at).unwrap();
    if bytes.len() < at + new.len() {
        bytes.resize(at + new.len(), 0);
    }
    bytes[at..at + new.len()].copy_from_slice(new);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_sends_the_tail_only() {
    let (world, handle, want, gate) = streamed().await;
    drop(gate);
    assert_eq!(world.bucket.sent_bytes(), SIZE - 77);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    assert_eq!(world.bucket.sent_bytes(), SIZE);
    assert_eq!((world.bucket.calls(Op::UploadCreate), world.bucket.uploads_open()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_written_again_is_sent_again() {
    let (world, handle, mut want, gate) = streamed().await;
    drop(gate);
    for place in [0, 5 * PART + 9] {
        world.write(handle, place, b"again").await;
        put(&mut want, place, b"again");
    }
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    assert_eq!(world.bucket.sent_bytes(), SIZE + 2 * PART);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_while_its_part_is_sent_is_not_left_out() {
    let world = World::over(Fake::new());
    let handle = world.create("a").await;
    let mut want = pattern(3 * PART);
    let gate = world.bucket.hold(Op::UploadPart);
    world.write(handle, 0, &want).await;
    // All of them were read.
    gate.arrived(3).await;
    world.write(handle, 2 * PART, b"late").await;
    put(&mut want, 2 * PART, b"late");
    drop(gate);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_keeps_the_size_of_parts_that_it_began_with() {
    for later in [3 * PART, 200 * KIB] {
        let world = World::over(Fake::new());
        let (want, half) = (pattern(SIZE), 10 * usize::try_from(PART).unwrap());
        let whole = u64::try_from(PARTS).unwrap() + 1;
        let handle = world.create("a").await;
        let gate = world.bucket.hold(Op::UploadPart);
        world.write(handle, 0, &want[..half]).await;
        gate.arrived(1).await;
        world.parts.set(later);
        drop(gate);
        world.write(handle, half as u64, &want[half..]).await;
        world.close(handle).await.unwrap();
        assert!(world.object("a") == want);
        // Nothing went twice, and all parts are as the first.
        let calls = (world.bucket.calls(Op::UploadCreate), world.bucket.calls(Op::UploadPart));
        assert_eq!((world.bucket.sent_bytes(), calls), (SIZE, (1, whole)), "{later}");
        // What begins now is cut anew.
        let handle = world.create("b").await;
        world.write(handle, 0, &pattern(3 * PART)).await;
        world.close(handle).await.unwrap();
        let parts = world.bucket.calls(Op::UploadPart) - whole;
        assert_eq!(parts, if later == 3 * PART { 0 } else { 4 }, "{later}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_cut_after_its_parts_were_sent_is_what_it_is_then() {
    for size in [SIZE - 3 * PART, 100, 0] {
        let (world, handle, mut want, gate) = streamed().await;
        drop(gate);
        world.truncate("a", size).await;
        want.truncate(usize::try_from(size).unwrap());
        world.write(handle, size + 10, b"new").await;
        put(&mut want, size + 10, b"new");
        world.close(handle).await.unwrap();
        assert!(world.object("a") == want, "cut to {size}");
        assert_eq!(world.bucket.uploads_open(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_is_one_request() {
    let world = World::over(Fake::new());
    let handle = world.create("a").await;
    world.write(handle, 0, &pattern(PART)).await;
    world.close(handle).await.unwrap();
    assert_eq!(world.bucket.calls(Op::UploadCreate), 0);
    assert_eq!(world.bucket.calls(Op::Put), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_gets_another_name_is_sent_again_and_leaves_no_parts() {
    let (world, handle, want, gate) = streamed().await;
    drop(gate);
    world.rename("a", "b").await;
    world.close(handle).await.unwrap();
    assert!(world.object("b") == want);
    assert_eq!(world.bucket.keys(), [Key::from("b")]);
    assert_eq!(world.bucket.uploads_open(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_removed_leaves_no_parts() {
    let (world, handle, _, gate) = streamed().await;
    drop(gate);
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    world.close(handle).await.unwrap();
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.bucket.keys(), []);
    assert_eq!(world.bucket.uploads_open(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_cannot_be_sent_ahead_fails_nobody() {
    for op in [Op::UploadPart, Op::UploadCreate] {
        let world = World::over(Fake::new());
        let handle = world.create("a").await;
        let want = pattern(SIZE);
        world.bucket.fail_next(op, ErrorKind::Denied);
        world.write(handle, 0, &want).await;
        // Whoever comes first meets the fault; the second close does not.
        if world.vfs().flush(handle, world::ME).await.is_err() {
            world.vfs().flush(handle, world::ME).await.unwrap();
        }
        assert!(world.object("a") == want);
        world.close(handle).await.unwrap();
        assert_eq!(world.vfs.drain().await, []);
        assert_eq!(world.bucket.uploads_open(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_others_removed_is_begun_again() {
    let (world, handle, want, gate) = streamed().await;
    drop(gate);
    world.bucket.fail_next(Op::UploadPart, ErrorKind::NotFound);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    assert_eq!(world.bucket.uploads_open(), 0);
}

#[test]
fn a_death_leaves_no_parts_behind() {
    let (world, recovered, _runtime) = killed(|| async {
        let (world, ..) = streamed().await;
        assert_eq!(world.bucket.uploads_open(), 1);
        world
    });
    assert_eq!(world.bucket.uploads_open(), 0);
    assert_eq!(recovered.kept.len(), 1);
}

#[test]
fn an_upload_that_died_before_it_was_noted_leaves_no_parts_behind() {
    let (world, ..) = killed_behind(|| async {
        let world = World::over(Fake::new());
        let handle = world.create("a").await;
        world.bucket.lose_next_answer(Op::UploadCreate);
        let gate = world.bucket.hold(Op::UploadCreate);
        world.write(handle, 0, &pattern(SIZE)).await;
        gate.arrived(1).await;
        gate.let_through(1);
        // The second try waits for ever, and the first has left an upload.
        gate.arrived(2).await;
        assert_eq!(world.bucket.uploads_open(), 1);
        (world, gate)
    });
    assert_eq!(world.bucket.uploads_open(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_that_could_not_be_removed_are_removed_later() {
    let (world, handle, ..) = streamed().await;
    world.bucket.fail_next(Op::UploadAbort, ErrorKind::Denied);
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    world.close(handle).await.unwrap();
    assert_eq!(world.bucket.uploads_open(), 1);
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.bucket.uploads_open(), 0);
}

#[test]
fn a_death_in_the_middle_of_an_edit_leaves_no_parts_behind() {
    let (world, ..) = killed_behind(|| async {
        let world =
            World::over(Fake::with(store_with(PartCopies::AnyRange { bytes_max: 5 << 30 })));
        world.bucket.insert(&Key::from("a"), pattern(SIZE), Metadata::new());
        let handle = world.open("a", Access::ReadWrite).await;
        let gate = world.bucket.hold(Op::UploadComplete);
        world.write(handle, 5, b"edited").await;
        let syncing = tokio::spawn(world.vfs().fsync(handle));
        gate.arrived(1).await;
        assert_eq!(world.bucket.uploads_open(), 1);
        (world, (gate, syncing))
    });
    assert_eq!(world.bucket.uploads_open(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_the_last_write_is_the_files_time_on_every_mount() {
    let (world, handle, want, gate) = streamed().await;
    drop(gate);
    world.clock.advance(Duration::from_secs(100));
    world.write(handle, SIZE, b"last").await;
    world.close(handle).await.unwrap();
    assert_eq!(world.object("a").len(), want.len() + 4);
    let ino = world.ino("a").await;
    let time = world.vfs().attr(ino).await.unwrap().mtime;
    assert_eq!(world.vfs.drain().await, []);
    let other = World::over(world.bucket.clone());
    let ino = other.ino("a").await;
    assert_eq!(other.vfs().attr(ino).await.unwrap().mtime, time);
}

#[derive(Clone, Debug)]
enum Step {
    Append { len: u64, seed: u8 },
    Write { at: u64, len: u64, seed: u8 },
    Truncate { size: u64 },
    Sync,
    Rename,
    Fail { op: Op },
}

const SIZE_MAX: u64 = 4 * MIB;

fn step() -> impl Strategy<Value = Step> {
    let len = || prop_oneof![1..5000_u64, 1..(900 * KIB)];
    let op = || prop_oneof![Just(Op::UploadCreate), Just(Op::UploadPart), Just(Op::UploadComplete)];
    prop_oneof![
        8 => (len(), any::<u8>()).prop_map(|(len, seed)| Step::Append { len, seed }),
        3 => (0..SIZE_MAX, len(), any::<u8>())
            .prop_map(|(at, len, seed)| Step::Write { at, len, seed }),
        1 => (0..SIZE_MAX).prop_map(|size| Step::Truncate { size }),
        1 => Just(Step::Sync),
        1 => Just(Step::Rename),
        1 => op().prop_map(|op| Step::Fail { op }),
    ]
}

async fn play(
    steps: Vec<Step>,
    limit: DirtyLimit,
) -> Result<(), proptest::test_runner::TestCaseError> {
    let world = World::limited(Fake::new(), limit);
    let mut key = "a";
    let handle = world.create(key).await;
    let mut want = Vec::new();
    for step in steps {
        match step {
            Step::Append { len, seed } => {
                let (at, new) = (want.len() as u64, vec![seed; usize::try_from(len).unwrap()]);
                world.write_waiting(handle, at, &new).await;
                put(&mut want, at, &new);
            }
            Step::Write { at, len, seed } => {
                let new = vec![seed; usize::try_from(len).unwrap()];
                world.write_waiting(handle, at, &new).await;
                put(&mut want, at, &new);
            }
            Step::Truncate { size } => {
                world.truncate(key, size).await;
                want.resize(usize::try_from(size).unwrap(), 0);
            }
            Step::Sync => {
                let synced = world.vfs().fsync(handle).await;
                prop_assert!(synced.is_err() || world.object(key) == want, "not what was synced");
            }
            Step::Rename => {
                let new = if key == "a" { "b" } else { "a" };
                world.rename(key, new).await;
                key = new;
            }
            Step::Fail { op } => world.bucket.fail_next(op, ErrorKind::Unavailable),
        }
    }
    world.bucket.forget_faults();
    let closed = world.close(handle).await;
    prop_assert!(closed.is_ok(), "{closed:?}");
    prop_assert!(world.object(key) == want, "not what was closed");
    let unpublished = world.vfs.drain().await;
    prop_assert!(unpublished.is_empty() && world.bucket.uploads_open() == 0);
    let other = World::over(world.bucket.clone());
    let handle = other.open(key, Access::Read).await;
    let read = other.read(handle, 0, 1 << 30).await;
    prop_assert!(read == want, "not what was read elsewhere");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        max_shrink_iters: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_is_written_against_a_limit_is_in_the_bucket_after_the_close(
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(play(steps, DirtyLimit::Bytes(600 * KIB)))?;
    }

    #[test]
    fn whatever_is_written_while_it_is_sent_ahead_is_in_the_bucket_after_the_close(
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(play(steps, DirtyLimit::default()))?;
    }
}
