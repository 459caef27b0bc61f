//! Writers that have written more than may wait here, and what is done so that they can go on.

mod world;

use futures::FutureExt;
use quayfs_vfs::{Access, DirtyLimit, WriteMode};
use remote::fake::{Fake, Op};
use remote::{ErrorKind, Key, Metadata, PartCopies};
use world::{KIB, MEMORY, MIB, PART, World, killed, pattern, store_with};

const S3: PartCopies = PartCopies::AnyRange { bytes_max: 5 << 30 };

fn limited(how: PartCopies, bytes: u64) -> World {
    World::limited(Fake::with(store_with(how)), DirtyLimit::Bytes(bytes))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_written_too_much_waits_until_a_file_that_was_closed_is_uploaded() {
    let world = limited(S3, MIB);
    let handle = world.create("a").await;
    world.write(handle, 0, b"begun").await;
    let closed = world.create("closed").await;
    world.write(closed, 0, &pattern(PART)).await;
    let gate = world.bucket.hold(Op::Put);
    let closing = tokio::spawn(world.vfs().flush(closed, world::ME));
    gate.arrived(1).await;
    let written = world
        .vfs
        .try_write((handle, 0), &pattern(MIB - PART), WriteMode::Buffered)
        .unwrap()
        .unwrap();
    assert!(u64::from(written) == MIB - PART && !world.vfs.has_room());
    let vfs = world.vfs();
    let mut waiting = Box::pin(vfs.wait_for_room());
    assert!((&mut waiting).now_or_never().is_none());
    drop(gate);
    waiting.await;
    closing.await.unwrap().unwrap();
    assert!(world.vfs.has_room());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_any_size_is_written_with_little_room() {
    for how in [S3, PartCopies::WholeFirst, PartCopies::OwnBlocks] {
        let limit = 8 * MIB;
        let world = limited(how, limit);
        let handle = world.create("a").await;
        let want = pattern(100 * MIB + 77);
        let (mut most, mut dirtiest) = (0, 0);
        for (at, bytes) in (0..).step_by(1 << 20).zip(want.chunks(1 << 20)) {
            world.write_waiting(handle, at, bytes).await;
            dirtiest = dirtiest.max(world.vfs.dirty().unwrap().bytes);
            if at % (8 * MIB) == 0 {
                most = most.max(world.disk_bytes());
            }
        }
        assert!(dirtiest < limit, "{how:?}: {dirtiest} bytes were dirty");
        assert!(most < 4 * limit, "{how:?}: {most} bytes on the disk");
        world.close(handle).await.unwrap();
        assert!(world.object("a") == want, "{how:?}");
        let sent = world.bucket.sent_bytes();
        assert!(sent <= 110 * MIB, "{how:?}: {sent} bytes were sent");
        assert_eq!(world.bucket.uploads_open(), 0);
        // What went is read back.
        let handle = world.open("a", Access::Read).await;
        assert!(world.read(handle, 0, 200 * MIB).await == want, "{how:?}: not what was read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_published_to_make_room_is_read_and_overwritten_through_the_same_handle() {
    let world = limited(S3, 8 * MIB);
    let handle = world.create("a").await;
    let mut want = pattern(32 * MIB);
    for (at, bytes) in (0..).step_by(1 << 20).zip(want.chunks(1 << 20)) {
        world.write_waiting(handle, at, bytes).await;
    }
    assert!(world.bucket.calls(Op::UploadComplete) > 1);
    for place in [0, 3 * MIB + 5, 20 * MIB] {
        world.write_waiting(handle, place, b"again").await;
        let place = usize::try_from(place).unwrap();
        want[place..place + 5].copy_from_slice(b"again");
    }
    assert!(world.read(handle, 0, 64 * MIB).await == want);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_hold_no_more_memory_than_they_may_however_many_files_are_written_at_once() {
    const FILES: usize = 500;
    let world = World::over(Fake::with(store_with(S3)));
    let want = pattern(4 * PART + 77);
    let gate = world.bucket.hold(Op::UploadPart);
    let mut handles = Vec::new();
    for number in 0..FILES {
        let handle = world.create(&format!("file{number}")).await;
        world.write_waiting(handle, 0, &want).await;
        handles.push(handle);
    }
    let at_once = usize::try_from(MEMORY / PART).unwrap();
    gate.arrived(at_once).await;
    let closing = handles.into_iter().map(|handle| world.close(handle));
    let closing = futures::future::join_all(closing);
    drop(gate);
    assert!(closing.await.into_iter().all(|closed| closed.is_ok()));
    assert_eq!(world.bucket.sent_at_a_time(), MEMORY);
    for number in 0..FILES {
        assert!(world.object(&format!("file{number}")) == want);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_gets_room_from_what_was_uploaded_while_the_file_was_written() {
    let world = limited(S3, 1 << 40);
    let handle = world.create("a").await;
    let mut want = pattern(20 * MIB);
    world.write(handle, 0, &want).await;
    let gate = world.bucket.hold(Op::UploadComplete);
    let syncing = tokio::spawn(world.vfs().fsync(handle));
    gate.arrived(1).await;
    world.write(handle, 20 * MIB, b"little").await;
    drop(gate);
    syncing.await.unwrap().unwrap();
    let gate = world.bucket.hold(Op::UploadComplete);
    world.disk.full_after(0);
    let writing = tokio::spawn(world.vfs().write(
        (handle, 20 * MIB + 6),
        b" more".to_vec(),
        WriteMode::Buffered,
    ));
    gate.arrived(1).await;
    world.disk.heal();
    drop(gate);
    assert_eq!(writing.await.unwrap().unwrap(), 5);
    want.extend(b"little");
    assert!(world.object("a") == want, "what made room");
    assert!(world.disk_bytes() < 10 * MIB, "{} bytes on the disk", world.disk_bytes());
    world.close(handle).await.unwrap();
    want.extend(b" more");
    assert!(world.object("a") == want);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_gets_room_from_the_file_that_is_about_to_be_written_on() {
    let world = limited(S3, 1 << 40);
    let handle = world.create("a").await;
    let mut want = pattern(20 * MIB);
    world.write(handle, 0, &want).await;
    world.vfs().fsync(handle).await.unwrap();
    world.disk.full_after(0);
    let written =
        world.vfs().write((handle, 20 * MIB), b" more".to_vec(), WriteMode::Buffered).await;
    assert_eq!(written.unwrap(), 5);
    assert!(world.disk_bytes() < 10 * MIB, "{} bytes on the disk", world.disk_bytes());
    world.disk.heal();
    world.close(handle).await.unwrap();
    want.extend(b" more");
    assert!(world.object("a") == want);
}

/// As on S3, the version of an object is a checksum of its bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_takes_nothing_from_a_replaced_file_through_a_new_one_with_the_same_bytes() {
    let world = limited(S3, 1 << 40);
    world.bucket.versions_are_checksums();
    let old = pattern(3 * PART);
    for key in ["f", "t"] {
        world.bucket.insert(&Key::from(key), old.clone(), Metadata::new());
    }
    let replaced = world.open("f", Access::Read).await;
    assert!(world.read(replaced, 0, MIB).await == old);
    world.rename("t", "f").await;
    let new = world.open("f", Access::Read).await;
    assert!(world.read(new, 0, MIB).await == old);
    let writer = world.create("a").await;
    world.disk.full_after(0);
    assert!(
        world.vfs().write((writer, 0), b"no room".to_vec(), WriteMode::Buffered).await.is_err()
    );
    world.disk.heal();
    assert!(world.bucket.remove(&Key::from("f")));
    for handle in [replaced, new] {
        assert!(world.read(handle, 0, MIB).await == old);
        world.close(handle).await.unwrap();
    }
    world.close(writer).await.unwrap();
}

/// Also where the object that comes of it is the same version: then the base can still be read.
#[tokio::test(flavor = "multi_thread")]
async fn who_reads_past_a_full_disk_while_the_file_is_published_gets_all_that_was_asked_for() {
    for is_same in [false, true] {
        let world = limited(S3, 1 << 40);
        world.bucket.versions_are_checksums();
        let mut want = pattern(16 * PART);
        world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
        let handle = world.open("a", Access::ReadWrite).await;
        let (start, end) = (usize::try_from(PART).unwrap(), usize::try_from(2 * PART).unwrap());
        if !is_same {
            want[start..end].fill(9);
        }
        world.write(handle, PART, &want[start..end]).await;
        world.disk.tell_room(0);
        let gate = world.bucket.hold(Op::Get);
        let reading = tokio::spawn(world.vfs().read(handle, 0, u32::try_from(2 * PART).unwrap()));
        gate.arrived(1).await;
        world.vfs().fsync(handle).await.unwrap();
        drop(gate);
        let read = reading.await.unwrap().unwrap();
        assert_eq!(read.len(), end, "same bytes: {is_same}");
        assert!(read == want[..end] && world.object("a") == want);
        world.close(handle).await.unwrap();
    }
}

#[test]
fn a_death_leaves_what_was_published_to_make_room_and_keeps_what_followed() {
    let want = pattern(21 * MIB);
    let (world, recovered, _runtime) = killed(|| async {
        let world = limited(S3, 8 * MIB);
        let handle = world.create("a").await;
        for (at, bytes) in (0..).step_by(1 << 20).zip(want.chunks(1 << 20)) {
            world.write_waiting(handle, at, bytes).await;
        }
        world
    });
    let object = world.object("a");
    assert!(8 * MIB <= object.len() as u64 && want.starts_with(&object));
    assert_eq!((recovered.kept.len(), world.bucket.uploads_open()), (1, 0));
    let kept = std::fs::read(&recovered.kept[0]).unwrap();
    assert!(kept.len() == want.len() && kept[object.len()..] == want[object.len()..]);
    let told = world.recovered().into_iter().find_map(|bytes| String::from_utf8(bytes).ok());
    let told = told.expect("there is a note");
    assert!(told.contains("the bucket has them, as far as it reaches, in the object a"), "{told}");
    assert!(told.contains("\n0.."), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn small_files_that_are_open_keep_nobody_waiting() {
    let world = limited(S3, MIB);
    let mut handles = Vec::new();
    for number in 0..40 {
        let handle = world.create(&format!("file{number}")).await;
        world.write_waiting(handle, 0, &pattern(200 * KIB)).await;
        handles.push(handle);
    }
    assert_eq!(world.bucket.keys(), []);
    for handle in handles {
        world.close(handle).await.unwrap();
    }
    assert_eq!(world.bucket.keys().len(), 40);
    assert_eq!(world.vfs.dirty().unwrap().bytes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_overwritten_in_place_is_not_published_before_it_is_closed() {
    let world = limited(S3, MIB);
    let mut want = pattern(4 * MIB);
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let handle = world.open("a", Access::ReadWrite).await;
    for place in (0..4 * MIB).step_by(64 << 10) {
        world.write_waiting(handle, place, b"again").await;
        let at = usize::try_from(place).unwrap();
        want[at..at + 5].copy_from_slice(b"again");
    }
    assert!(MIB < world.vfs.dirty().unwrap().bytes);
    assert_eq!(world.bucket.calls(Op::UploadCreate) + world.bucket.calls(Op::Put), 0);
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_takes_nothing_fails_no_write() {
    let world = limited(S3, MIB);
    let handle = world.create("a").await;
    let want = pattern(6 * MIB);
    for (at, bytes) in (0..).step_by(1 << 18).zip(want.chunks(1 << 18)) {
        for op in [Op::UploadCreate, Op::UploadPart, Op::UploadComplete, Op::UploadPartCopy] {
            world.bucket.fail_next(op, ErrorKind::Denied);
        }
        world.write_waiting(handle, at, bytes).await;
    }
    world.bucket.forget_faults();
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_copies_nothing_is_sent_a_file_once_however_small_the_limit() {
    let world = limited(PartCopies::None, MIB);
    let handle = world.create("a").await;
    let want = pattern(8 * MIB);
    for (at, bytes) in (0..).step_by(1 << 18).zip(want.chunks(1 << 18)) {
        world.write_waiting(handle, at, bytes).await;
    }
    world.close(handle).await.unwrap();
    assert!(world.object("a") == want);
    assert_eq!(world.bucket.sent_bytes(), 8 * MIB);
}
