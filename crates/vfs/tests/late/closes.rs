//! Closes that return before the bytes are in the bucket, and what brings them there.

use std::time::Duration;

use base::Ino;
use quayfs_vfs as vfs;
use quayfs_vfs::Access;
use remote::fake::Op;
use remote::{Key, Metadata};

use crate::rig::{A_WHILE, ME, Setup, World, name};

#[tokio::test(flavor = "multi_thread")]
async fn a_close_returns_before_the_bytes_are_in_the_bucket_and_they_follow() {
    let world = World::new();
    let gate = world.bucket.hold(Op::Put);
    let ino = world.closed("a", b"hello").await;
    assert_eq!(world.vfs.pending(), vfs::Pending { files: 1, bytes: 5, ..vfs::Pending::default() });
    assert_eq!(world.vfs().attr(ino).await.unwrap().size, 5);
    world.clock.advance(A_WHILE);
    gate.arrived(1).await;
    assert_eq!(world.object("a"), None);
    drop(gate);
    world.settled().await;
    assert_eq!(world.object("a").unwrap(), &b"hello"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_fsync_waits_for_the_bucket_whatever_closes_do() {
    let world = World::new();
    let (_, handle) = world.create("a").await;
    world.write(handle, 0, b"hello").await;
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.object("a"), None);
    world.vfs().fsync(handle).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"hello"[..]);
    world.closed("b", b"b").await;
    world.vfs().fsync_dir(Ino::ROOT).await.unwrap();
    assert_eq!(world.object("b").unwrap(), &b"b"[..]);
    world.closed("c", b"c").await;
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("c").unwrap(), &b"c"[..]);
    assert_eq!(world.bucket.calls(Op::Put), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_long_delay_nothing_is_uploaded_before_somebody_waits_for_it() {
    let world = World::with_delay(Duration::from_hours(1));
    world.closed("a", b"hello").await;
    let (_, handle) = world.create("large").await;
    for at in 0..4 {
        world.write(handle, at << 20, &vec![7; 1 << 20]).await;
    }
    for _ in 0..20 {
        world.clock.advance(A_WHILE);
        tokio::task::yield_now().await;
    }
    assert_eq!((world.bucket.sent_bytes(), world.bucket.uploads_open()), (0, 0));
    world.close(handle).await;
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("a").unwrap(), &b"hello"[..]);
    assert_eq!(world.object("large").unwrap().len(), 4 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_more_may_wait_in_all_buckets_together_a_close_waits_for_its_own() {
    let setup = Setup {
        upload_delay: Duration::from_hours(1),
        pending_limit: vfs::PendingLimit::of(3, usize::MAX),
        ..Setup::default()
    };
    let (one, other) = (World::with(setup.clone()), World::with(setup));
    one.closed("a", b"1").await;
    one.closed("b", b"2").await;
    other.closed("c", b"3").await;
    other.closed("d", b"4").await;
    assert_eq!((one.object("a"), one.object("b"), other.object("c")), (None, None, None));
    assert_eq!(other.object("d").unwrap(), &b"4"[..]);
    assert_eq!(one.vfs.drain().await, []);
    let mut tries = 0..1000;
    loop {
        let file = tries.next().expect("there is room in the end").to_string();
        other.closed(&file, b"5").await;
        if other.object(&file).is_none() {
            return;
        }
        // Those that are in the bucket are due, and leave the line.
        one.clock.advance(Duration::from_hours(2));
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_more_files_may_be_open_a_close_waits_for_its_upload() {
    let setup = Setup {
        upload_delay: Duration::from_hours(1),
        pending_limit: vfs::PendingLimit::of(100, 3),
        ..Setup::default()
    };
    let world = World::with(setup);
    world.bucket.insert(&Key::from("old"), "longer than the edit", Metadata::new());
    let old = world.vfs().lookup(Ino::ROOT, name("old")).await.unwrap().ino;
    world.closed("a", b"1").await;
    assert_eq!(world.object("a"), None);
    // It holds the version that it is an edit of.
    world.overwrite(old, b"SHORT").await;
    assert_eq!(world.object("old").unwrap(), &b"SHORTr than the edit"[..]);
    assert_eq!(world.object("a"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_longer_than_a_part_is_sent_ahead_when_the_delay_is_over() {
    let world = World::with_delay(Duration::from_hours(1));
    let (_, handle) = world.create("large").await;
    let bytes = vec![7; 1 << 20];
    let write = |at: u64| world.write(handle, at << 20, &bytes);
    for at in 0..4 {
        write(at).await;
    }
    world.clock.advance(Duration::from_mins(59));
    write(4).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!((world.bucket.sent_bytes(), world.bucket.uploads_open()), (0, 0));
    world.clock.advance(Duration::from_mins(1));
    let gate = world.bucket.hold(Op::UploadPart);
    write(5).await;
    gate.arrived(1).await;
    drop(gate);
    world.close(handle).await;
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("large").unwrap().len(), 6 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_closed_again_after_it_was_brought_to_the_bucket_early_is_uploaded_too() {
    let world = World::with_delay(Duration::from_hours(1));
    let ino = world.closed("a", b"first").await;
    assert_eq!(world.vfs.drain().await, []);
    world.overwrite(ino, b"again").await;
    for _ in 0..1_000_000 {
        if world.vfs.pending().files == 0 {
            break;
        }
        world.clock.advance(A_WHILE);
        tokio::task::yield_now().await;
    }
    assert_eq!(world.object("a").unwrap(), &b"again"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_closed_again_at_once_is_uploaded_once() {
    let world = World::new();
    let ino = world.closed("a", b"first").await;
    for text in [b"again", b"third"] {
        let handle = world.vfs().open(ino, Access::Write, ME).await.unwrap().handle;
        world.write(handle, 0, text).await;
        world.close(handle).await;
    }
    world.settled().await;
    assert_eq!(world.object("a").unwrap(), &b"third"[..]);
    assert_eq!(world.bucket.calls(Op::Put), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_files_are_uploaded_at_a_time() {
    let world = World::new();
    let gate = world.bucket.hold(Op::Put);
    for number in 0..40 {
        world.closed(&format!("file{number}"), b"x").await;
    }
    world.clock.advance(A_WHILE);
    gate.arrived(4).await;
    // While that many are as fast as ever, twice as many are tried.
    for done in 1..=12 {
        world.clock.advance(Duration::from_millis(5));
        gate.let_through(1);
        gate.arrived(done + 4).await;
    }
    gate.arrived(12 + 8).await;
    drop(gate);
    world.settled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_closed_is_in_the_bucket_although_the_process_died() {
    let world = World::new();
    world.closed("a", b"hello").await;
    world.closed("gone", b"gone").await;
    world.vfs().unlink(Ino::ROOT, name("gone")).await.unwrap();
    let (unlinked, handle) = world.create("unlinked while open").await;
    world.write(handle, 0, b"unlinked").await;
    world.vfs().flush(handle, ME).await.unwrap();
    world.vfs().unlink(Ino::ROOT, name("unlinked while open")).await.unwrap();
    assert_eq!(world.vfs().attr(unlinked).await.unwrap().nlink, 0);
    world.closed("old name", b"moved").await;
    world.rename("old name", "new name").await;
    let (world, recovered) = world.dies().await;
    assert_eq!((recovered.uploaded, recovered.kept.len()), (2, 0));
    assert_eq!(world.object("a").unwrap(), &b"hello"[..]);
    assert_eq!(world.object("new name").unwrap(), &b"moved"[..]);
    assert_eq!(world.bucket.keys().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_upload_is_tried_again_and_survives_the_process_all_the_same() {
    let world = World::new();
    world.bucket.fail_next(Op::Put, remote::ErrorKind::Unavailable);
    world.closed("a", b"hello").await;
    world.clock.advance(A_WHILE);
    while world.vfs.pending().failures.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.vfs.pending().files, 1);
    world.settled().await;
    assert_eq!(world.object("a").unwrap(), &b"hello"[..]);
    assert!(world.vfs.pending().failures.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_does_not_try_file_after_file_while_the_store_does_not_answer() {
    const FILES: usize = 200;
    // As many as are tried at a time, and those that were begun when the first of these failed.
    const TRIED_MAX: usize = 2 * 64;
    let world = World::new();
    for number in 0..FILES {
        world.closed(&format!("file{number}"), b"bytes").await;
        world.bucket.fail_next(Op::Put, remote::ErrorKind::Unavailable);
    }
    let left = world.vfs.drain().await;
    let (untried, failed) = left.split_last().unwrap();
    assert!(64 <= failed.len() && failed.len() < TRIED_MAX, "{}", failed.len());
    let want = format!("{} more file(s) were not tried", FILES - failed.len());
    assert!(untried.reason.starts_with(&want), "{untried:?}");
    assert_eq!(world.bucket.calls(Op::Put), failed.len() as u64);
    world.bucket.forget_faults();
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.objects().len(), FILES);
}
