//! Files that are removed before they are in the bucket.

use base::Ino;
use namespace::SetAttr;
use quayfs_vfs::Access;
use remote::Key;
use remote::fake::Op;

use crate::rig::{A_WHILE, ME, OWNER, World, killed, name};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_is_cut_and_opened_also_while_its_removal_is_under_way() {
    let world = World::new();
    let ino = world.closed("a", b"hello").await;
    world.settled().await;
    let handle = world.vfs().open(ino, Access::ReadWrite, ME).await.unwrap().handle;
    let gate = world.bucket.hold(Op::Delete);
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    let cut = SetAttr { size: Some(3), ..SetAttr::default() };
    assert_eq!(world.vfs().set_attr(ino, cut).await.unwrap().size, 3);
    let again = world.vfs().open(ino, Access::Read, ME).await.unwrap().handle;
    assert_eq!(world.vfs().read(again, 0, 9).await.unwrap(), b"hel");
    drop(gate);
    for handle in [again, handle] {
        world.close(handle).await;
    }
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.objects(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_removed_at_once_is_never_uploaded() {
    let world = World::new();
    world.closed("a", b"hello").await;
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    world.closed("b", b"b").await;
    world.settled().await;
    assert_eq!((world.object("a"), world.bucket.calls(Op::Put)), (None, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_removed_at_once_although_it_is_just_being_uploaded() {
    let world = World::new();
    let gate = world.bucket.hold(Op::Put);
    world.closed("a", b"first").await;
    world.clock.advance(A_WHILE);
    gate.arrived(1).await;
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    world.closed("a", b"again").await;
    gate.let_through(1);
    drop(gate);
    world.settled().await;
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("a").unwrap(), &b"again"[..]);
    assert!(world.vfs.pending().failures.is_empty());
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.bucket.keys().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_file_that_was_removed_while_it_was_uploaded_is_not_taken_for_it() {
    let world = World::new();
    let gate = world.bucket.hold(Op::Put);
    let ino = world.closed("a", b"first").await;
    world.clock.advance(A_WHILE);
    gate.arrived(1).await;
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    world.vfs.forget(ino, 1);
    let link = world.vfs().symlink(Ino::ROOT, name("a"), b"there".to_vec(), OWNER).await.unwrap();
    drop(gate);
    world.settled().await;
    assert_eq!(world.vfs().readlink(link.ino).await.unwrap(), b"there");
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.vfs().readlink(link.ino).await.unwrap(), b"there");
    assert_eq!(world.object("a").unwrap(), &b"there"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_a_file_that_was_removed_while_it_was_uploaded_has_all_of_it() {
    let world = World::new();
    let gate = world.bucket.hold(Op::Put);
    let ino = world.closed("a", b"hello").await;
    let reader = world.vfs().open(ino, Access::Read, ME).await.unwrap().handle;
    world.clock.advance(A_WHILE);
    gate.arrived(1).await;
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    drop(gate);
    world.settled().await;
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(&world.vfs().read(reader, 0, 5).await.unwrap()[..], b"hello");
    assert_eq!(world.bucket.keys().len(), 0);
    world.vfs.release(reader).unwrap();
}

#[test]
fn a_file_that_was_removed_while_it_was_uploaded_does_not_come_back_whenever_the_process_dies() {
    for has_arrived in [false, true] {
        let (world, recovered, _runtime) = killed(async || {
            let world = World::new();
            let (gate, removals) = (world.bucket.hold(Op::Put), world.bucket.hold(Op::Delete));
            world.closed("a", b"first").await;
            world.clock.advance(A_WHILE);
            gate.arrived(1).await;
            world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
            world.closed("b", b"b").await;
            if has_arrived {
                gate.let_through(1);
                removals.arrived(1).await;
                world.closed("a", b"again").await;
            }
            (world, vec![gate, removals])
        });
        let mut want = vec![Key::from("b")];
        if has_arrived {
            want.insert(0, Key::from("a"));
            assert_eq!(world.object("a").unwrap(), &b"again"[..]);
        }
        assert_eq!(world.bucket.keys(), want);
        assert_eq!((recovered.uploaded, recovered.kept.len()), (want.len() as u64, 0));
        assert!(world.ledger.left().is_empty());
    }
}
