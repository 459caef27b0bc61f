//! Files that are renamed and removed while they are in use.

use base::{Errno, Ino};
use bytes::Bytes;
use namespace::RenameMode;
use quayfs_vfs::{Access, Pages};
use remote::fake::Op;
use remote::{ErrorKind, Key, Metadata};

use crate::rig::{ME, MIB, NODE, World, name, told};

#[tokio::test(flavor = "multi_thread")]
async fn an_unlinked_open_file_lives_on_and_is_never_published() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    world.write(handle, 0, b"ghost").await;
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    assert_eq!(world.vfs().read(handle, 0, 10).await.unwrap(), b"ghost");
    world.vfs().flush(handle, ME).await.unwrap();
    world.vfs.release(handle).unwrap();
    assert_eq!(world.object("a"), None);
    assert_eq!(told(world.vfs().lookup(Ino::ROOT, name("a")).await), Errno::ENOENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn renaming_what_was_never_published_costs_no_copy() {
    let world = World::new();
    let (_, handle) = world.create("a.tmp", false).await;
    world.write(handle, 0, b"x").await;
    world
        .vfs()
        .rename((Ino::ROOT, name("a.tmp")), (Ino::ROOT, name("a")), RenameMode::Replace)
        .await
        .unwrap();
    world.vfs().flush(handle, ME).await.unwrap();
    world.vfs.release(handle).unwrap();
    assert_eq!((world.object("a.tmp"), world.object("a")), (None, Some(Bytes::from_static(b"x"))));
    assert_eq!((world.bucket.calls(Op::Copy), world.bucket.calls(Op::Put)), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_file_with_edits_arrives_with_them() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"old"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.vfs().open(ino, Access::ReadWrite, ME).await.unwrap().handle;
    world.write(handle, 0, b"new").await;
    world
        .vfs()
        .rename((Ino::ROOT, name("a")), (Ino::ROOT, name("b")), RenameMode::Replace)
        .await
        .unwrap();
    world.write(handle, 3, b"er").await;
    world.vfs().flush(handle, ME).await.unwrap();
    world.vfs.release(handle).unwrap();
    assert_eq!((world.object("a"), world.object("b")), (None, Some(Bytes::from_static(b"newer"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_renamed_while_open_is_read_and_edited_on() {
    let world = World::new();
    let mut want = vec![7; usize::try_from(3 * MIB).unwrap()];
    for key in ["a", "c"] {
        world.bucket.insert(&Key::from(key), want.clone(), Metadata::new());
    }
    for (key, to) in [("a", "b"), ("c", "d")] {
        let ino = world.lookup(key).await;
        let handle = world.open(ino, Access::ReadWrite).await.handle;
        assert_eq!(world.vfs().read(handle, 0, 4).await.unwrap(), [7; 4]);
        let (from, to) = ((Ino::ROOT, name(key)), (Ino::ROOT, name(to)));
        world.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
        assert_eq!(world.vfs().read(handle, 2 * MIB, 4).await.unwrap(), [7; 4]);
        world.write(handle, MIB + 1, b"edit").await;
        world.vfs().flush(handle, ME).await.unwrap();
        world.vfs.release(handle).unwrap();
    }
    let at = usize::try_from(MIB + 1).unwrap();
    want[at..at + 4].copy_from_slice(b"edit");
    assert!(world.object("b").unwrap() == want && world.object("d").unwrap() == want);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_removed_or_replaced_while_open_is_read_to_the_end_and_then_nothing_is_left_of_it() {
    let world = World::new();
    let mut want = vec![7; usize::try_from(3 * MIB).unwrap()];
    want[2_000_000] = 9;
    for key in ["a", "c"] {
        world.bucket.insert(&Key::from(key), want.clone(), Metadata::new());
    }
    world.bucket.insert(&Key::from("b"), &b"other"[..], Metadata::new());
    for (key, replaced) in [("a", false), ("c", true)] {
        let ino = world.lookup(key).await;
        let handle = world.open(ino, Access::ReadWrite).await.handle;
        assert_eq!(world.vfs().read(handle, 0, 4).await.unwrap(), [7; 4]);
        if replaced {
            let (from, to) = ((Ino::ROOT, name("b")), (Ino::ROOT, name(key)));
            world.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
            assert_eq!(world.object(key).unwrap(), &b"other"[..]);
        } else {
            world.vfs().unlink(Ino::ROOT, name(key)).await.unwrap();
            assert_eq!(world.object(key), None);
        }
        let rest = world.vfs().read(handle, 0, u32::try_from(3 * MIB).unwrap()).await.unwrap();
        assert!(rest == want);
        world.write(handle, 5, b"anonymous").await;
        assert_eq!(world.vfs().read(handle, 5, 9).await.unwrap(), b"anonymous");
        world.vfs().flush(handle, ME).await.unwrap();
        world.vfs.release(handle).unwrap();
        world.vfs.drain().await;
        let kept = world.bucket.keys().iter().filter(|key| key.to_string().contains('/')).count();
        assert_eq!(kept, 0, "{:?}", world.bucket.keys());
    }
    assert_eq!(world.object("c").unwrap(), &b"other"[..]);
}

/// As on S3, the version of an object is a checksum of its bytes.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_replaced_file_open_sees_no_edit_of_a_new_one_with_the_same_bytes() {
    for read_first in [false, true] {
        let world = World::new();
        world.bucket.versions_are_checksums();
        let old = vec![7; 300_000];
        for key in ["f", "t"] {
            world.bucket.insert(&Key::from(key), old.clone(), Metadata::new());
        }
        let ino = world.lookup("f").await;
        let cold = world.open(ino, Access::Read).await;
        assert!(world.vfs().read(cold.handle, 0, 400_000).await.unwrap() == old);
        world.vfs.release(cold.handle).unwrap();
        let first = world.open(ino, Access::Read).await;
        assert!(matches!(first.pages, Pages::Backing(_)), "{first:?}");
        let (from, to) = ((Ino::ROOT, name("t")), (Ino::ROOT, name("f")));
        world.vfs().rename(from, to, RenameMode::Replace).await.unwrap();

        let ino = world.lookup("f").await;
        let mut opened = Vec::new();
        if read_first {
            opened.push(world.open(ino, Access::Read).await);
            assert!(!matches!(opened[0].pages, Pages::Backing(_)), "no writer could join");
        }
        opened.push(world.open(ino, Access::ReadWrite).await);
        for new in &opened {
            assert!(world.vfs().read(new.handle, 0, 400_000).await.unwrap() == old);
        }
        world.write(opened[opened.len() - 1].handle, 5, b"edit").await;
        for new in opened {
            assert_eq!(world.vfs().read(new.handle, 4, 6).await.unwrap(), b"\x07edit\x07");
            world.vfs().flush(new.handle, ME).await.unwrap();
            world.vfs.release(new.handle).unwrap();
        }
        assert!(world.vfs().read(first.handle, 0, 400_000).await.unwrap() == old);
        assert_eq!(world.object("f").unwrap()[4..10], b"\x07edit\x07"[..]);
        world.vfs.release(first.handle).unwrap();
        let last = world.open(ino, Access::Read).await;
        assert!(matches!(last.pages, Pages::Backing(_)), "{last:?}");
        world.vfs.release(last.handle).unwrap();
    }
}

/// As on S3, the version of an object is a checksum of its bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_made_with_the_bytes_of_a_removed_one_that_is_open_is_written_while_the_kernel_reads_it()
 {
    let world = World::new();
    world.bucket.versions_are_checksums();
    let old = vec![7; 300_000];
    world.bucket.insert(&Key::from("f"), old.clone(), Metadata::new());
    let ino = world.lookup("f").await;
    let removed = world.open(ino, Access::Read).await.handle;
    assert!(world.vfs().read(removed, 0, 400_000).await.unwrap() == old);
    world.vfs().unlink(Ino::ROOT, name("f")).await.unwrap();

    let made = world.vfs().create(Ino::ROOT, name("f"), NODE, Access::Write, (ME, false));
    let (attr, maker) = made.await.unwrap();
    world.write(maker.handle, 0, &old).await;
    let reader = world.open(attr.ino, Access::Read).await;
    assert!(matches!(reader.pages, Pages::Backing(_)), "{reader:?}");
    world.vfs().flush(maker.handle, ME).await.unwrap();
    world.vfs.release(maker.handle).unwrap();

    let writer = world.open(attr.ino, Access::ReadWrite).await;
    assert!(matches!(writer.pages, Pages::BackingSeen(_)), "{writer:?}");
    world.write(writer.handle, 5, b"edit").await;
    world.vfs().flush(writer.handle, ME).await.unwrap();
    assert_eq!(world.object("f").unwrap()[4..10], b"\x07edit\x07"[..]);
    assert!(world.vfs().read(removed, 0, 400_000).await.unwrap() == old);
    for handle in [writer.handle, reader.handle, removed] {
        world.vfs.release(handle).unwrap();
    }
    let last = world.open(attr.ino, Access::Read).await;
    assert_eq!(world.vfs().read(last.handle, 4, 6).await.unwrap(), b"\x07edit\x07");
    world.vfs.release(last.handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_a_file_that_is_wholly_here_copies_nothing() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), vec![7; 300_000], Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.open(ino, Access::Read).await.handle;
    assert!(world.vfs().read(handle, 0, 300_000).await.unwrap() == vec![7; 300_000]);
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    assert!(world.vfs().read(handle, 0, 300_000).await.unwrap() == vec![7; 300_000]);
    assert_eq!(world.bucket.calls(Op::Copy), 0);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_bytes_cannot_be_kept_for_its_readers_is_not_removed() {
    let world = World::new();
    let want = vec![7; usize::try_from(3 * MIB).unwrap()];
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.open(ino, Access::Read).await.handle;
    world.bucket.fail_next(Op::Copy, ErrorKind::Denied);
    assert_eq!(told(world.vfs().unlink(Ino::ROOT, name("a")).await), Errno::EACCES);
    assert!(world.object("a").unwrap() == want);
    assert_eq!(world.lookup("a").await, ino);
    assert_eq!(world.vfs().read(handle, 2 * MIB, 4).await.unwrap(), [7; 4]);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_removed_while_its_upload_is_under_way_does_not_come_back() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    world.write(handle, 0, b"x").await;
    let gate = world.bucket.hold(Op::Put);
    let closing = async {
        world.vfs().flush(handle, ME).await.unwrap();
    };
    let removing = async {
        gate.arrived(1).await;
        let unlink = tokio::spawn(world.vfs().unlink(Ino::ROOT, name("a")));
        tokio::task::yield_now().await;
        drop(gate);
        unlink.await.unwrap().unwrap();
    };
    tokio::join!(closing, removing);
    world.vfs.release(handle).unwrap();
    world.vfs.drain().await;
    assert_eq!(world.object("a"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_open_in_a_folder_that_is_renamed_are_read_and_written_on() {
    let world = World::new();
    let want = vec![7; usize::try_from(3 * MIB).unwrap()];
    world.bucket.insert(&Key::from("d/old"), want.clone(), Metadata::new());
    let dir = world.lookup("d").await;
    let old = world.vfs().lookup(dir, name("old")).await.unwrap().ino;
    let reader = world.open(old, Access::Read).await.handle;
    let opener = (ME, false);
    let (_, opened) =
        world.vfs().create(dir, name("new"), NODE, Access::ReadWrite, opener).await.unwrap();
    world.write(opened.handle, 0, b"new").await;
    let (from, to) = ((Ino::ROOT, name("d")), (Ino::ROOT, name("e")));
    world.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
    assert_eq!(world.vfs().read(reader, 2 * MIB, 4).await.unwrap(), [7; 4]);
    world.write(opened.handle, 3, b"er").await;
    world.vfs().flush(opened.handle, ME).await.unwrap();
    assert_eq!(world.object("e/new").unwrap(), &b"newer"[..]);
    assert!(world.object("e/old").unwrap() == want);
    assert!(!world.bucket.keys().iter().any(|key| key.as_bytes().starts_with(b"d/")));
    world.vfs.release(reader).unwrap();
    world.vfs.release(opened.handle).unwrap();
}
