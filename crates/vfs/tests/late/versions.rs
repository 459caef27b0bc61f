//! Files that are closed again before an earlier version is in the bucket.

use base::Ino;
use quayfs_vfs::Access;
use remote::Key;
use remote::fake::Op;

use crate::rig::{A_WHILE, ME, World, killed, name};

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_was_closed_survives_although_the_file_was_written_again() {
    let world = World::new();
    let ino = world.closed("a", b"closed").await;
    let handle = world.vfs().open(ino, Access::Write, ME).await.unwrap().handle;
    world.write(handle, 0, b"WRITTEN SINCE").await;
    let (world, recovered) = world.dies().await;
    assert_eq!(recovered.uploaded, 1);
    assert_eq!(world.object("a").unwrap(), &b"closed"[..]);
    let kept: Vec<_> = recovered.kept.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert_eq!(kept, [b"WRITTEN SINCE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_was_closed_is_uploaded_while_the_file_is_written_again() {
    let world = World::new();
    let ino = world.closed("a", b"closed").await;
    let handle = world.vfs().open(ino, Access::Write, ME).await.unwrap().handle;
    world.write(handle, 0, b"WRITTEN SINCE").await;
    world.clock.advance(A_WHILE);
    while world.object("a").is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.object("a").unwrap(), &b"closed"[..]);
    world.close(handle).await;
    world.settled().await;
    assert_eq!(world.object("a").unwrap(), &b"WRITTEN SINCE"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_does_not_wait_for_the_upload_of_an_earlier_version() {
    let world = World::new();
    let gate = world.bucket.hold(Op::Put);
    let ino = world.closed("a", b"first").await;
    world.clock.advance(A_WHILE);
    gate.arrived(1).await;
    world.overwrite(ino, b"again").await;
    world.overwrite(ino, b"third").await;
    assert_eq!(world.object("a"), None);
    gate.let_through(1);
    while world.object("a").is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.object("a").unwrap(), &b"first"[..], "what was sealed");
    drop(gate);
    world.settled().await;
    assert_eq!(world.object("a").unwrap(), &b"third"[..]);
    assert_eq!(world.bucket.calls(Op::Put), 2);
    assert!(world.vfs.pending().failures.is_empty());
    let reader = world.vfs().open(ino, Access::Read, ME).await.unwrap().handle;
    assert_eq!(&world.vfs().read(reader, 0, 5).await.unwrap()[..], b"third");
    world.vfs.release(reader).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_fails_after_a_newer_close_does_not_bring_back_the_older_bytes() {
    let world = World::new();
    for loses in [false, true] {
        let key = if loses { "b" } else { "a" };
        let gate = world.bucket.hold(Op::Put);
        if loses {
            world.bucket.lose_next_answer(Op::Put);
        } else {
            world.bucket.fail_next(Op::Put, remote::ErrorKind::Unavailable);
        }
        let ino = world.closed(key, b"first").await;
        world.clock.advance(A_WHILE);
        gate.arrived(1).await;
        world.overwrite(ino, b"again").await;
        drop(gate);
        world.settled().await;
        assert_eq!(world.object(key).unwrap(), &b"again"[..]);
        assert!(world.recovery().is_empty());
    }
}

#[test]
fn the_later_of_two_closed_versions_is_in_the_bucket_although_the_process_dies_in_between() {
    for was_there in [false, true] {
        for has_arrived in [false, true] {
            let (world, recovered, _runtime) = killed(async || {
                let world = World::new();
                if was_there {
                    world.bucket.insert(&Key::from("a"), "older", remote::Metadata::new());
                    world.vfs().lookup(Ino::ROOT, name("a")).await.unwrap();
                }
                let gate = world.bucket.hold(Op::Put);
                let ino = if was_there {
                    let ino = world.vfs().lookup(Ino::ROOT, name("a")).await.unwrap().ino;
                    world.overwrite(ino, b"first").await;
                    ino
                } else {
                    world.closed("a", b"first").await
                };
                world.clock.advance(A_WHILE);
                gate.arrived(1).await;
                world.overwrite(ino, b"again").await;
                if has_arrived {
                    gate.let_through(1);
                    while world.object("a").is_none_or(|object| object != b"first"[..]) {
                        tokio::task::yield_now().await;
                    }
                }
                (world, vec![gate])
            });
            let what = format!("there {was_there}, arrived {has_arrived}");
            assert_eq!(world.object("a").unwrap(), &b"again"[..], "{what} {recovered:?}");
            assert_eq!((recovered.uploaded, recovered.kept.len()), (1, 0), "{what}");
        }
    }
}
