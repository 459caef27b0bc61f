//! Edits of objects: what is moved for them, and that what comes of them is right.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod world;

use std::cell::Cell;

use base::{Errno, HandleId};
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_oneof, proptest,
};
use quayfs_vfs::{Access, errno};
use remote::fake::{Fake, Op};
use remote::{ErrorKind, Key, Metadata, PartCopies};
use world::{KIB, MIB, PART, World, killed, killed_behind, pattern, store_with};

const GRANULE: u64 = store::GRANULE_BYTES;
const S3: PartCopies = PartCopies::AnyRange { bytes_max: 5 << 30 };

/// A world with an object `a` of `size` bytes that nobody has read, open for writing.
async fn edited(how: PartCopies, size: u64) -> (World, HandleId, Vec<u8>) {
    let world = World::over(Fake::with(store_with(how)));
    let bytes = pattern(size);
    world.bucket.insert(&Key::from("a"), bytes.clone(), Metadata::new());
    let handle = world.open("a", Access::ReadWrite).await;
    (world, handle, bytes)
}

fn put(bytes: &mut Vec<u8>, at: u64, new: &[u8]) {
    let at = usize::try_from(at).unwrap();
    if bytes.len() < at + new.len() {
        bytes.resize(at + new.len(), 0);
    }
    bytes[at..at + new.len()].copy_from_slice(new);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_sends_what_is_new_and_copies_the_rest_inside_the_store() {
    let size = 32 * MIB + 77;
    let (world, handle, mut want) = edited(S3, size).await;
    let new = vec![7; usize::try_from(PART).unwrap()];
    world.write(handle, size, &new).await;
    world.close(handle).await.unwrap();
    put(&mut want, size, &new);
    assert!(world.object("a") == want);
    let (sent, fetched) = (world.bucket.sent_bytes(), world.bucket.fetched_bytes());
    assert_eq!(sent, PART);
    // The end of the last granule, which the new bytes share.
    assert!(fetched <= GRANULE, "{fetched} bytes were fetched");
    assert!(world.bucket.calls(Op::UploadPartCopy) == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn appending_again_and_again_fetches_nothing_twice() {
    let (world, mut handle, mut want) = edited(S3, 8 * MIB).await;
    for round in 0..5_u64 {
        let end = want.len() as u64;
        world.write(handle, end, &pattern(100 * KIB + round)).await;
        put(&mut want, end, &pattern(100 * KIB + round));
        world.close(handle).await.unwrap();
        handle = world.open("a", Access::ReadWrite).await;
    }
    assert!(world.object("a") == want);
    assert!(world.bucket.sent_bytes() <= 5 * (PART + 101 * KIB));
    assert_eq!(world.bucket.fetched_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_overwrites_move_only_the_parts_that_they_touch() {
    for how in [S3, PartCopies::OwnBlocks] {
        let (world, handle, mut want) = edited(how, 32 * MIB).await;
        for place in [5 * MIB + 3, 20 * MIB, 31 * MIB + 77] {
            world.write(handle, place, &[9; 4096]).await;
            put(&mut want, place, &[9; 4096]);
        }
        world.close(handle).await.unwrap();
        assert!(world.object("a") == want);
        let (sent, fetched) = (world.bucket.sent_bytes(), world.bucket.fetched_bytes());
        assert!(sent <= 3 * PART, "{how:?}: {sent} bytes were sent");
        assert!(fetched <= 3 * PART, "{how:?}: {fetched} bytes were fetched");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_fetched_for_an_edit_is_fetched_when_it_is_read() {
    let (world, handle, mut want) = edited(S3, 8 * MIB).await;
    world.write(handle, MIB, b"edited").await;
    put(&mut want, MIB, b"edited");
    world.close(handle).await.unwrap();
    let handle = world.open("a", Access::Read).await;
    assert!(world.read(handle, 0, 8 * MIB).await == want);
    assert!(world.bucket.fetched_bytes() <= 8 * MIB + GRANULE);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_while_an_edit_is_uploaded_is_an_edit_of_what_comes_of_it() {
    let (world, handle, mut want) = edited(S3, 8 * MIB).await;
    world.write(handle, MIB, b"first").await;
    put(&mut want, MIB, b"first");
    let gate = world.bucket.hold(Op::UploadComplete);
    let syncing = tokio::spawn(world.vfs().fsync(handle));
    gate.arrived(1).await;
    // Where the old version shows through, at its edge and beyond it.
    for place in [5 * MIB + 1, 8 * MIB - 2] {
        world.write(handle, place, b"second").await;
    }
    drop(gate);
    syncing.await.unwrap().unwrap();
    assert!(world.object("a") == want);
    for place in [5 * MIB + 1, 8 * MIB - 2] {
        put(&mut want, place, b"second");
    }
    assert!(world.read(handle, 0, 9 * MIB).await == want);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_to_copy_is_sent_everything() {
    let (world, handle, mut want) = edited(S3, 8 * MIB).await;
    world.write(handle, MIB, b"edited").await;
    put(&mut want, MIB, b"edited");
    world.bucket.fail_next(Op::UploadPartCopy, ErrorKind::Unsupported);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    assert_eq!(world.bucket.uploads_open(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_an_object_that_others_replaced_keeps_what_was_written() {
    for late in [false, true] {
        let (world, handle, _) = edited(S3, 8 * MIB).await;
        world.write(handle, MIB, b"mine").await;
        let gate = late.then(|| world.bucket.hold(Op::UploadPartCopy));
        let closing = tokio::spawn(world.vfs().flush(handle, world::ME));
        if let Some(gate) = &gate {
            gate.arrived(1).await;
        }
        if late {
            world.bucket.insert(&Key::from("a"), &b"theirs"[..], Metadata::new());
        }
        drop(gate);
        let closed = closing.await.unwrap();
        let failed = if late {
            closed.unwrap_err()
        } else {
            closed.unwrap();
            world.write(handle, 5 * MIB, b"mine").await;
            world.bucket.insert(&Key::from("a"), &b"theirs"[..], Metadata::new());
            world.vfs().flush(handle, world::ME).await.unwrap_err()
        };
        assert_eq!(errno(&failed), Errno::ESTALE);
        assert_eq!(world.object("a"), &b"theirs"[..]);
        let kept = world.recovered();
        let at = usize::try_from(if late { MIB } else { 5 * MIB }).unwrap();
        assert!(kept.iter().any(|bytes| bytes.get(at..at + 4) == Some(b"mine")));
        let notes = kept.iter().filter_map(|bytes| str::from_utf8(bytes).ok());
        assert!(notes.into_iter().any(|note| note.contains("they are zeros here:\n0..")));
        assert_eq!(world.bucket.uploads_open(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_whose_answer_was_lost_goes_on_from_what_arrived() {
    let (world, handle, mut want) = edited(S3, 8 * MIB).await;
    world.write(handle, MIB, b"first").await;
    put(&mut want, MIB, b"first");
    // The upload arrives, and no try to find out is answered.
    world.bucket.lose_next_answer(Op::UploadComplete);
    for _ in 0..100 {
        world.bucket.fail_next(Op::UploadComplete, ErrorKind::Unavailable);
        world.bucket.fail_next(Op::Head, ErrorKind::Unavailable);
    }
    world.vfs().flush(handle, world::ME).await.unwrap_err();
    world.bucket.forget_faults();
    assert!(world.object("a") == want);
    // The version below is gone; what it had is in the one that took its place.
    world.write(handle, 6 * MIB + 5, b"second").await;
    put(&mut want, 6 * MIB + 5, b"second");
    assert!(world.read(handle, 0, 9 * MIB).await == want);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_renamed_file_is_made_from_the_object_where_it_is() {
    let (world, handle, mut want) = edited(S3, 8 * MIB).await;
    world.write(handle, MIB, b"edited").await;
    put(&mut want, MIB, b"edited");
    world.rename("a", "b").await;
    world.write(handle, 4 * MIB, b"edited").await;
    put(&mut want, 4 * MIB, b"edited");
    world.close(handle).await.unwrap();
    assert!(world.object("b") == want);
    assert!(world.bucket.sent_bytes() <= 2 * PART, "{} bytes", world.bucket.sent_bytes());
}

#[test]
fn what_the_store_refuses_after_a_death_waits_for_credentials_that_may() {
    let (world, recovered, runtime) = killed_behind(|| async {
        let world = World::over(Fake::new());
        let handle = world.create("a").await;
        world.write(handle, 0, b"closed").await;
        let gate = world.bucket.hold(Op::Put);
        let syncing = tokio::spawn(world.vfs().fsync(handle));
        gate.arrived(1).await;
        syncing.abort();
        assert!(syncing.await.unwrap_err().is_cancelled());
        world.bucket.fail_next(Op::Put, ErrorKind::Denied);
        (world, gate)
    });
    assert_eq!((recovered.waiting, recovered.kept.len()), (1, 0));
    let grave = world.die();
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (world, recovered) = runtime.block_on(grave.rise());
    assert_eq!(recovered.uploaded, 1);
    assert_eq!(world.object("a"), &b"closed"[..]);
}

#[test]
fn an_edit_that_a_death_cut_short_is_finished_with_the_bytes_of_its_version() {
    for replaced in [false, true] {
        let sent = Cell::new(0);
        let (world, recovered, _runtime) = killed(|| async {
            let (world, handle, _) = edited(S3, 8 * MIB).await;
            world.write(handle, MIB, b"edited").await;
            let gate = world.bucket.hold(Op::UploadComplete);
            let syncing = tokio::spawn(world.vfs().fsync(handle));
            gate.arrived(1).await;
            syncing.abort();
            assert!(syncing.await.unwrap_err().is_cancelled());
            drop(gate);
            sent.set(world.bucket.sent_bytes());
            if replaced {
                world.bucket.insert(&Key::from("a"), &b"theirs"[..], Metadata::new());
            }
            world
        });
        assert_eq!(world.bucket.uploads_open(), 0);
        if replaced {
            assert_eq!(world.object("a"), &b"theirs"[..]);
            assert_eq!((recovered.uploaded, recovered.kept.len()), (0, 1));
            let kept = std::fs::read(&recovered.kept[0]).unwrap();
            let at = usize::try_from(MIB).unwrap();
            assert_eq!(kept[at..at + 6], *b"edited");
        } else {
            let mut want = pattern(8 * MIB);
            put(&mut want, MIB, b"edited");
            assert_eq!(recovered.uploaded, 1);
            assert!(world.object("a") == want);
            assert!(world.bucket.sent_bytes() - sent.get() <= PART);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        at: u64,
        len: u64,
        seed: u8,
    },
    Append {
        len: u64,
        seed: u8,
    },
    Truncate {
        size: u64,
    },
    Read {
        at: u64,
        len: u64,
    },
    Sync,
    Reopen,
    /// The next upload fails before or after the store has acted.
    Fail {
        op: Op,
        is_late: bool,
    },
}

const SIZE_MAX: u64 = 3 * MIB;

fn step() -> impl Strategy<Value = Step> {
    let at = || prop_oneof![0..SIZE_MAX, (0..24_u64).prop_map(|granule| granule * GRANULE)];
    let len = || prop_oneof![1..5000_u64, 1..(600 * KIB)];
    let op = || {
        prop_oneof![
            Just(Op::UploadComplete),
            Just(Op::UploadPartCopy),
            Just(Op::UploadPart),
            Just(Op::Put)
        ]
    };
    prop_oneof![
        5 => (at(), len(), any::<u8>()).prop_map(|(at, len, seed)| Step::Write { at, len, seed }),
        3 => (len(), any::<u8>()).prop_map(|(len, seed)| Step::Append { len, seed }),
        2 => at().prop_map(|size| Step::Truncate { size }),
        2 => (at(), len()).prop_map(|(at, len)| Step::Read { at, len }),
        3 => Just(Step::Sync),
        2 => Just(Step::Reopen),
        1 => (op(), any::<bool>()).prop_map(|(op, is_late)| Step::Fail { op, is_late }),
    ]
}

fn part_copies() -> impl Strategy<Value = PartCopies> {
    prop_oneof![
        Just(PartCopies::None),
        Just(S3),
        Just(PartCopies::AnyRange { bytes_max: PART }),
        Just(PartCopies::OwnBlocks),
        Just(PartCopies::WholeFirst),
    ]
}

async fn play(
    how: PartCopies,
    steps: Vec<Step>,
) -> Result<(), proptest::test_runner::TestCaseError> {
    let (world, mut handle, mut want) = edited(how, 2 * MIB + 5).await;
    for step in steps {
        match step {
            Step::Write { at, len, seed } => {
                let new = vec![seed; usize::try_from(len).unwrap()];
                world.write(handle, at, &new).await;
                put(&mut want, at, &new);
            }
            Step::Append { len, seed } => {
                let (at, new) = (want.len() as u64, vec![seed; usize::try_from(len).unwrap()]);
                world.write(handle, at, &new).await;
                put(&mut want, at, &new);
            }
            Step::Truncate { size } => {
                world.truncate("a", size).await;
                want.resize(usize::try_from(size).unwrap(), 0);
            }
            Step::Read { at, len } => {
                let read = world.read(handle, at, len).await;
                let at = want.len().min(usize::try_from(at).unwrap());
                let end = want.len().min(at + usize::try_from(len).unwrap());
                prop_assert!(read == want[at..end], "{at}..{end} of {}", want.len());
            }
            Step::Sync => {
                let synced = world.vfs().fsync(handle).await;
                prop_assert!(synced.is_err() || world.object("a") == want, "not what was synced");
            }
            Step::Reopen => {
                let closed = world.close(handle).await;
                prop_assert!(closed.is_err() || world.object("a") == want, "not what was closed");
                handle = world.open("a", Access::ReadWrite).await;
            }
            Step::Fail { op, is_late: true } => world.bucket.lose_next_answer(op),
            Step::Fail { op, is_late: false } => {
                world.bucket.fail_next(op, ErrorKind::Unavailable);
            }
        }
    }
    world.bucket.forget_faults();
    let closed = world.close(handle).await;
    prop_assert!(closed.is_ok(), "{closed:?}");
    prop_assert!(world.object("a") == want, "not what was closed");
    prop_assert!(world.recovered().is_empty() && world.bucket.uploads_open() == 0);
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
    fn whatever_is_edited_is_in_the_bucket_after_each_close(
        how in part_copies(),
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(play(how, steps))?;
    }
}
