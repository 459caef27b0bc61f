//! The kernel's page cache never answers with bytes older than those of the last close.

use base::{ByteRange, Ino};
use quayfs_vfs::{Access, Opened, PageRange, Pages, WriteMode};
use remote::fake::Op;
use remote::{Key, Metadata};

use crate::rig::{ME, MIB, World};

const ALL: PageRange = PageRange::All;

/// A file that is read through the page cache: the store has too little of it for passthrough.
async fn cold() -> (World, Ino, Opened) {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), vec![1; 3 << 20], Metadata::new());
    let ino = world.lookup("a").await;
    let reader = world.open(ino, Access::Read).await;
    assert_eq!(reader.pages, Pages::Keep, "there are no pages");
    (world, ino, reader)
}

fn pages_of(offset: u64, bytes: u64) -> PageRange {
    PageRange::Of(ByteRange::at(offset, bytes).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_stay_for_opens_of_the_same_version() {
    let (world, ino, reader) = cold().await;
    world.vfs.release(reader.handle).unwrap();
    for access in [Access::Read, Access::ReadWrite, Access::Read] {
        let opened = world.open(ino, access).await;
        assert_eq!(opened.pages, Pages::Keep);
        world.vfs.release(opened.handle).unwrap();
    }
    assert_eq!(world.kernel.dropped(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_write_beside_a_reader_drops_the_pages_it_made_old() {
    let (world, ino, reader) = cold().await;
    let writer = world.open(ino, Access::ReadWrite).await;
    world.write_as(WriteMode::Buffered, (writer.handle, 0), b"seen").await;
    assert_eq!(world.kernel.dropped(), []);
    world.write_as(WriteMode::Direct, (writer.handle, MIB), &[2; 4096]).await;
    assert_eq!(world.kernel.dropped(), [pages_of(MIB, 4096)]);
    for opened in [reader, writer] {
        world.vfs.release(opened.handle).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_write_alone_drops_pages_at_the_next_open_or_close() {
    let (world, ino, reader) = cold().await;
    world.vfs.release(reader.handle).unwrap();
    let writer = world.open(ino, Access::ReadWrite).await;
    let write = async || world.write_as(WriteMode::Direct, (writer.handle, 0), &[2; 4096]).await;
    write().await;
    assert_eq!(world.kernel.dropped(), []);
    let reader = world.open(ino, Access::Read).await;
    assert_eq!((reader.pages, world.kernel.dropped()), (Pages::Keep, vec![ALL]));
    world.vfs.release(reader.handle).unwrap();
    write().await;
    world.vfs().flush(writer.handle, ME).await.unwrap();
    assert_eq!(world.kernel.dropped(), [ALL]);
    let again = world.open(ino, Access::Read).await;
    assert_eq!((again.pages, world.kernel.dropped()), (Pages::Keep, vec![]));
    for opened in [writer, again] {
        world.vfs.release(opened.handle).unwrap();
    }
}

/// A drop beside a buffered write may leave the bytes from before it: the close of that writer drops again.
#[tokio::test(flavor = "multi_thread")]
async fn close_drops_pages_of_writes_beside_another_drop() {
    let (world, ino, reader) = cold().await;
    let (direct, buffered) =
        (world.open(ino, Access::ReadWrite).await, world.open(ino, Access::ReadWrite).await);
    world.write_as(WriteMode::Buffered, (buffered.handle, 0), b"seen").await;
    world.write_as(WriteMode::Direct, (direct.handle, MIB), &[2; 4096]).await;
    world.vfs().flush(direct.handle, ME).await.unwrap();
    assert_eq!(world.kernel.dropped(), [pages_of(MIB, 4096), ALL]);
    world.vfs().flush(buffered.handle, ME).await.unwrap();
    assert_eq!(world.kernel.dropped(), [pages_of(0, 4)]);
    for opened in [reader, direct, buffered] {
        world.vfs.release(opened.handle).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_open_passes_stale_pages_that_cannot_be_dropped() {
    let (world, ino, reader) = cold().await;
    world.kernel.refuse_to_drop();
    let writer = world.open(ino, Access::ReadWrite).await;
    world.write_as(WriteMode::Direct, (writer.handle, 0), &[2; 4096]).await;
    for _ in 0..2 {
        let opened = world.open(ino, Access::Read).await;
        assert_eq!(opened.pages, Pages::PastStale);
        world.vfs.release(opened.handle).unwrap();
    }
    for opened in [reader, writer] {
        world.vfs.release(opened.handle).unwrap();
    }
}

/// A drop waits in the kernel for reads of the pages, and no signal ends that wait.
#[tokio::test(flavor = "multi_thread")]
async fn no_drop_begins_while_a_read_waits_for_the_store() {
    let (world, ino, reader) = cold().await;
    let direct = world.open(ino, Access::ReadWrite).await;
    world.write_as(WriteMode::Direct, (direct.handle, 2 * MIB), &[2; 4096]).await;
    assert_eq!(world.kernel.dropped(), [pages_of(2 * MIB, 4096)]);
    let held = world.bucket.hold(Op::Get);
    let reading = tokio::spawn(world.vfs().read(reader.handle, 0, 4096));
    held.arrived(1).await;
    let opened = world.open(ino, Access::Read).await;
    assert_eq!((opened.pages, world.kernel.dropped()), (Pages::PastStale, vec![]));
    drop(held);
    reading.await.unwrap().unwrap();
    let again = world.open(ino, Access::Read).await;
    assert_eq!((again.pages, world.kernel.dropped()), (Pages::Keep, vec![ALL]));
    for opened in [reader, direct, opened, again] {
        world.vfs.release(opened.handle).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fsync_after_a_drop_keeps_the_pages_of_later_writes() {
    let (world, ino, reader) = cold().await;
    let writers =
        [world.open(ino, Access::ReadWrite).await, world.open(ino, Access::ReadWrite).await];
    let [direct, buffered] = &writers;
    world.write_as(WriteMode::Buffered, (buffered.handle, 0), b"seen").await;
    world.write_as(WriteMode::Direct, (direct.handle, MIB), &[2; 4096]).await;
    world.vfs().fsync(direct.handle).await.unwrap();
    assert_eq!(world.kernel.dropped(), [pages_of(MIB, 4096), ALL]);
    world.vfs().fsync(buffered.handle).await.unwrap();
    assert_eq!(world.kernel.dropped(), [pages_of(0, 4)]);
    for _ in 0..2 {
        world.write_as(WriteMode::Buffered, (buffered.handle, 0), b"more").await;
        world.vfs().fsync(buffered.handle).await.unwrap();
        world.vfs().fsync(reader.handle).await.unwrap();
        assert_eq!(world.kernel.dropped(), []);
    }
    for opened in [&reader, direct, buffered] {
        world.vfs.release(opened.handle).unwrap();
    }
}
