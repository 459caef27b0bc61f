//! What is written, read and kept of the bytes of one file.

use base::{ByteRange, Errno, Ino, Timestamp};
use namespace::SetAttr;
use quayfs_vfs as vfs;
use quayfs_vfs::{Access, Fallocate, Growth, Pages, Seek, WriteMode};
use remote::fake::Op;
use remote::{Key, Metadata};

use crate::rig::{CHILD, ME, MIB, NODE, World, name, told};

#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_returned_is_in_the_bucket() {
    let world = World::new();
    let (ino, handle) = world.create("a", false).await;
    world.write(handle, 0, b"hello ").await;
    world.write(handle, 6, b"world").await;
    assert_eq!(world.vfs().attr(ino).await.unwrap().size, 11);
    assert_eq!(world.object("a"), None);
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"hello world"[..]);
    world.vfs.release(handle).unwrap();
    // The time at which it was written waits for others of its folder.
    let want = vfs::Pending { attributes: 1, ..vfs::Pending::default() };
    assert_eq!(world.vfs.pending(), want);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_without_news_sends_nothing() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b""[..]);
    let calls = world.bucket.calls_total();
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.bucket.calls_total(), calls);
    world.vfs.release(handle).unwrap();
}

/// The kernel tells only later that the open is over.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_close_that_changed_nothing_what_others_put_is_seen_at_once() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"0123"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let reader = world.open(ino, Access::Read).await;
    let bytes = async || world.vfs().read(reader.handle, 0, 10).await.unwrap();
    assert_eq!(bytes().await, b"0123");
    let writer = world.open(ino, Access::Write).await;
    let same = SetAttr { size: Some(4), ..SetAttr::default() };
    world.vfs().set_attr(ino, same).await.unwrap();
    world.bucket.insert(&Key::from("a"), &b"of others"[..], Metadata::new());
    let size = async || world.vfs().lookup(Ino::ROOT, name("a")).await.unwrap().size;
    assert_eq!(size().await, 4, "what is being written counts");
    world.vfs().flush(writer.handle, ME).await.unwrap();
    assert_eq!(size().await, 9);
    world.vfs.release(writer.handle).unwrap();
    assert_eq!(size().await, 9);
    // Who has the old one open reads on in it, and nothing is left of it after that.
    assert_eq!(bytes().await, b"0123");
    world.vfs.release(reader.handle).unwrap();
    assert_eq!(world.staged_files(), 0);
}

/// As of a shell that has opened it for a command.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_cut_an_empty_file_and_writes_by_another_descriptor_wins() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b""[..], Metadata::new());
    let ino = world.lookup("a").await;
    let writer = world.open(ino, Access::Write).await;
    let nothing = SetAttr { size: Some(0), ..SetAttr::default() };
    world.vfs().set_attr(ino, nothing).await.unwrap();
    world.vfs().flush(writer.handle, ME).await.unwrap();
    world.bucket.insert(&Key::from("a"), &b"of others"[..], Metadata::new());
    world.vfs().lookup(Ino::ROOT, name("a")).await.unwrap();
    world.write(writer.handle, 0, b"mine").await;
    world.vfs().flush(writer.handle, ME).await.unwrap();
    world.vfs.release(writer.handle).unwrap();
    assert_eq!(world.object("a").unwrap(), &b"mine"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_childs_close_does_not_wait_for_the_bucket() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    world.write(handle, 0, b"x").await;
    let gate = world.bucket.hold(Op::Put);
    world.vfs().flush(handle, CHILD).await.unwrap();
    gate.arrived(1).await;
    assert_eq!(world.object("a"), None);
    drop(gate);
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"x"[..]);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_in_place_keeps_the_rest_of_the_object() {
    let world = World::new();
    let size = usize::try_from(3 * MIB).unwrap();
    let mut want = vec![7; size];
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.vfs().open(ino, Access::ReadWrite, ME).await.unwrap().handle;
    world.write(handle, MIB + 10, b"edited").await;
    assert_eq!(world.vfs().read(handle, MIB + 9, 8).await.unwrap(), b"\x07edited\x07");
    world.vfs().flush(handle, ME).await.unwrap();
    let at = size / 3 + 10;
    want[at..at + 6].copy_from_slice(b"edited");
    assert!(world.object("a").unwrap() == want);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_during_an_upload_is_not_in_it_and_not_lost() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    // Nothing is sent ahead of what is overwritten in place.
    let old = vec![b'o'; usize::try_from(3 * MIB).unwrap()];
    world.write(handle, 0, &vec![b'x'; old.len()]).await;
    world.vfs().fsync(handle).await.unwrap();
    world.write(handle, 0, &old).await;
    let gate = world.bucket.hold(Op::UploadPart);
    let syncing = tokio::spawn(world.vfs().fsync(handle));
    // The first part was read; the others are overwritten before they are.
    gate.arrived(1).await;
    world.write(handle, 0, &vec![b'n'; usize::try_from(4 * MIB).unwrap()]).await;
    drop(gate);
    syncing.await.unwrap().unwrap();
    assert!(world.object("a").unwrap() == old, "the version of the fsync, whole");
    world.vfs().flush(handle, ME).await.unwrap();
    let new = world.object("a").unwrap();
    assert!(new.len() as u64 == 4 * MIB && new.iter().all(|&byte| byte == b'n'));
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn truncation_by_name_is_in_the_bucket_when_it_returns() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"0123456789"[..], Metadata::new());
    let ino = world.lookup("a").await;
    for (size, want) in [(4, &b"0123"[..]), (6, b"0123\0\0"), (0, b"")] {
        let change = SetAttr { size: Some(size), ..SetAttr::default() };
        assert_eq!(world.vfs().set_attr(ino, change).await.unwrap().size, size);
        assert_eq!(world.object("a").unwrap(), want);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn truncation_by_name_is_in_the_bucket_when_it_returns_also_while_somebody_reads() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"0123456789"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let reader = world.open(ino, Access::Read).await;
    for (size, want) in [(4, &b"0123"[..]), (0, b"")] {
        let change = SetAttr { size: Some(size), ..SetAttr::default() };
        world.vfs().set_attr(ino, change).await.unwrap();
        assert_eq!(world.object("a").unwrap(), want);
        assert_eq!(world.vfs().read(reader.handle, 0, 10).await.unwrap(), want);
    }
    world.vfs.release(reader.handle).unwrap();
    assert_eq!(world.bucket.calls(Op::Put), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn truncation_by_name_right_after_a_close_is_in_the_bucket_when_it_returns() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"0123456789"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let writer = world.open(ino, Access::Write).await;
    let cut = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    world.vfs().set_attr(ino, cut(6)).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"0123456789"[..], "it goes with the close");
    world.vfs().flush(writer.handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"012345"[..]);
    // The kernel tells of the end of what is closed only after the program has gone on.
    world.vfs().set_attr(ino, cut(4)).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"0123"[..]);
    world.vfs.release(writer.handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn truncation_goes_with_the_close_of_who_goes_on_with_the_file() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"0123456789"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let writer = world.open(ino, Access::Write).await.handle;
    let cut = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    // As by a shell, which makes its output of it.
    world.vfs().flush(writer, ME).await.unwrap();
    world.vfs().set_attr_by(writer, ino, cut(8)).await.unwrap();
    world.vfs().set_attr(ino, cut(6)).await.unwrap();
    assert_eq!(world.bucket.calls(Op::Put), 0);
    world.vfs().flush(writer, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"012345"[..]);
    world.write(writer, 0, b"ab").await;
    world.vfs().set_attr(ino, cut(4)).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"012345"[..]);
    world.vfs().flush(writer, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"ab23"[..]);
    // The last who had it may be a child: its close is over as well.
    world.write(writer, 0, b"cd").await;
    world.vfs().flush(writer, ME + 1).await.unwrap();
    world.vfs().set_attr(ino, cut(3)).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"cd2"[..]);
    world.vfs.release(writer).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_clean_file_is_the_kernels_to_read_and_a_writer_joins_it() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), vec![1; 300_000], Metadata::new());
    let ino = world.lookup("a").await;
    let open = |access| world.open(ino, access);
    let cold = open(Access::Read).await;
    assert_eq!(cold.pages, Pages::Keep);
    let bytes = world.vfs().read(cold.handle, 0, 300_000).await.unwrap();
    assert!(bytes == vec![1; 300_000]);

    // It is whole now, but one open still goes through the page cache.
    let second = open(Access::Read).await;
    assert_eq!(second.pages, Pages::Keep);
    world.vfs.release(cold.handle).unwrap();
    world.vfs.release(second.handle).unwrap();

    let reader = open(Access::Read).await;
    assert_eq!(reader.pages, Pages::Backing(1));
    let writer = open(Access::Write).await;
    assert_eq!(writer.pages, Pages::BackingSeen(1));
    world.write(writer.handle, 299_999, b"22").await;
    world.vfs().flush(writer.handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap().len(), 300_001);
    world.vfs.release(writer.handle).unwrap();
    let third = open(Access::Read).await;
    assert_eq!(third.pages, Pages::Backing(1));
    world.vfs.release(reader.handle).unwrap();
    world.vfs.release(third.handle).unwrap();
    // With nothing open, the next reader begins anew.
    let fourth = open(Access::Read).await;
    assert_eq!(fourth.pages, Pages::Backing(2));
    world.vfs.release(fourth.handle).unwrap();
}

/// Time goes on by what is slept, and made files tell it.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_waits_for_who_makes_the_file_until_he_goes_on_with_it() {
    let world = World::new();
    let make = async |key| {
        let opener = (ME, true);
        world.vfs().create(Ino::ROOT, name(key), NODE, Access::Write, opener).await.unwrap()
    };
    let (first, maker) = make("a").await;
    assert_eq!(maker.pages, Pages::Seen);
    let reader = world.open(first.ino, Access::Read).await;
    assert!(matches!(reader.pages, Pages::Backing(_)), "{reader:?}");
    let (second, other) = make("b").await;
    assert!(first.mtime < second.mtime, "nobody waited for the maker");
    world.write(other.handle, 0, b"he goes on").await;
    let writer = world.open(second.ino, Access::Write).await;
    assert!(matches!(writer.pages, Pages::BackingSeen(_)), "{writer:?}");
    let (third, last) = make("c").await;
    assert_eq!(second.mtime, third.mtime, "somebody waited for nothing");
    for opened in [maker, reader, other, writer, last] {
        world.vfs.release(opened.handle).unwrap();
    }
}

// One thread: who waits longest is woken first.
#[tokio::test]
async fn who_waits_for_bytes_gets_them_although_a_writer_takes_them_first() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), vec![7; 300_000], Metadata::new());
    let ino = world.lookup("a").await;
    let writer = world.open(ino, Access::ReadWrite).await.handle;
    let gate = world.bucket.hold(Op::Get);
    let read = |handle| world.vfs().read(handle, 0, 1 << 20);
    let (vfs, first) = (world.vfs(), read(writer));
    let writing = tokio::spawn(async move {
        let read = first.await.unwrap();
        vfs.write((writer, 299_999), b"new".to_vec(), WriteMode::Buffered).await.unwrap();
        read
    });
    let readers: Vec<_> = (0..10).map(|_| tokio::spawn(read(writer))).collect();
    gate.arrived(1).await;
    drop(gate);
    assert!(writing.await.unwrap() == vec![7; 300_000]);
    for reader in readers {
        let read = reader.await.unwrap().unwrap();
        assert!(read[..299_999] == vec![7; 299_999]);
    }
    world.vfs.release(writer).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_and_room_are_made_in_what_is_not_here() {
    let world = World::new();
    let size = 3 * MIB;
    let mut want = vec![7; usize::try_from(size).unwrap()];
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.open(ino, Access::ReadWrite).await.handle;
    let range = |start, end| ByteRange::new(start, end).unwrap();
    let seek = async |from, what| world.vfs().seek(handle, from, what).await.unwrap();
    assert_eq!(seek(0, Seek::Hole).await, size, "of what is not here nothing is a hole");

    let do_to = async |range, what| world.vfs().fallocate(handle, range, what).await;
    do_to(range(MIB, 2 * MIB), Fallocate::Punch).await.unwrap();
    want[1 << 20..2 << 20].fill(0);
    assert_eq!(world.bucket.calls(Op::Get), 0, "nothing was fetched");
    assert_eq!(seek(0, Seek::Hole).await, MIB);
    assert_eq!(seek(MIB, Seek::Data).await, 2 * MIB);
    do_to(range(0, 4 * MIB), Fallocate::Allocate(Growth::Stays)).await.unwrap();
    assert_eq!(world.vfs().attr(ino).await.unwrap().size, size);
    do_to(range(2 * MIB, 4 * MIB), Fallocate::Zero(Growth::Grows)).await.unwrap();
    assert_eq!(world.vfs().attr(ino).await.unwrap().size, 4 * MIB);
    want[2 << 20..].fill(0);
    want.resize(4 << 20, 0);
    let too_far = range(0, (1 << 40) + 1);
    assert_eq!(told(do_to(too_far, Fallocate::Zero(Growth::Grows)).await), Errno::EFBIG);
    let beyond = world.vfs().seek(handle, 4 * MIB, Seek::Hole).await;
    assert_eq!(told(beyond), Errno::ENXIO);
    world.vfs().flush(handle, ME).await.unwrap();
    assert!(world.object("a").unwrap() == want);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_copied_between_files_and_ends_with_the_source() {
    let world = World::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    world.bucket.insert(&Key::from("a"), bytes.clone(), Metadata::new());
    let ino = world.lookup("a").await;
    let source = world.open(ino, Access::Read).await.handle;
    let (_, target) = world.create("b", false).await;
    let copied = world.vfs().copy((source, 1_000_000), (target, 5), 1 << 40).await.unwrap();
    assert_eq!(copied, 2_000_000);
    let back = world.vfs().copy((target, 0), (source, 0), 10).await;
    assert_eq!(told(back), Errno::EBADF);
    world.vfs().flush(target, ME).await.unwrap();
    let object = world.object("b").unwrap();
    assert!(object[..5] == [0; 5] && object[5..] == bytes[1_000_000..]);
    world.vfs.release(source).unwrap();
    world.vfs.release(target).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_leaves_the_bytes_as_they_were_needs_no_place_for_its_time() {
    let world = World::new();
    let newer = br#"{"quayfs-attributes":2}"#;
    world.bucket.insert(&Key::from(".quayfs-attributes"), &newer[..], Metadata::new());
    world.bucket.insert(&Key::from("empty"), &b""[..], Metadata::new());
    let nothing = SetAttr { size: Some(0), ..SetAttr::default() };
    let cut = async |ino| world.vfs().set_attr(ino, nothing).await;
    let ino = world.lookup("empty").await;
    assert_eq!(cut(ino).await.unwrap().size, 0, "by its name");
    let opened = world.open(ino, Access::Write).await.handle;
    assert_eq!(cut(ino).await.unwrap().size, 0, "while it is open");
    let given = SetAttr { mtime: Some(Timestamp { secs: 7, nanos: 0 }), ..nothing };
    assert_eq!(told(world.vfs().set_attr(ino, given).await), Errno::EOPNOTSUPP, "it was asked for");
    let (made, handle) = world.create("new", false).await;
    assert_eq!(cut(made).await.unwrap().size, 0);
    world.write(handle, 0, b"0123").await;
    let range = ByteRange::new(0, 4).unwrap();
    let room = Fallocate::Allocate(Growth::Grows);
    world.vfs().fallocate(handle, range, room).await.unwrap();
    for handle in [opened, handle] {
        world.vfs().flush(handle, ME).await.unwrap();
        world.vfs.release(handle).unwrap();
    }
    assert_eq!(world.object("new").unwrap(), &b"0123"[..]);
}
