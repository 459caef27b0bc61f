//! Files that come last: `done`, in whichever folder.

use std::time::Duration;

use base::{Clock, Errno, Ino};
use quayfs_vfs::{DirtyLimit, Next};
use remote::fake::Op;

use crate::rig::{A_WHILE, MANY_LOOKS, NODE, OWNER, Setup, World, name};

/// Looks at what must not happen.
const LOOKS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_comes_last_is_uploaded_when_the_bucket_has_all_else_of_its_folder() {
    let world = World::new();
    let gate = world.bucket.hold(Op::Put);
    world.closed("done", b"0").await;
    world.closed("other", b"bytes").await;
    world.vfs().symlink(Ino::ROOT, name("link"), b"other".to_vec(), OWNER).await.unwrap();
    // The file and the link are on their way, and the one that comes last is not.
    world.until_arrived(&gate, 2).await;
    assert_eq!(world.object("done"), None);
    gate.let_through(2);
    world.until_arrived(&gate, 3).await;
    let (link, other) = (world.object("link"), world.object("other"));
    assert!(link.is_some() && other.is_some() && world.object("done").is_none());
    drop(gate);
    world.settled().await;
    assert_eq!(world.object("done").unwrap(), &b"0"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_file_that_comes_last_nothing_of_its_folder_waits_for_the_delay() {
    for (delay, is_hurried) in [(50, true), (61, false)] {
        let world = World::with_delay(Duration::from_secs(delay));
        world.closed("other", b"bytes").await;
        world.closed("done", b"0").await;
        let begun = world.clock.monotonic();
        for _ in 0..MANY_LOOKS {
            if world.object("done").is_some() {
                break;
            }
            // All looks together are shorter than the delay.
            world.clock.advance(if is_hurried { Duration::from_micros(40) } else { A_WHILE });
            tokio::task::yield_now().await;
        }
        assert_eq!(world.object("other").unwrap(), &b"bytes"[..]);
        assert_eq!(world.object("done").unwrap(), &b"0"[..]);
        let took = world.clock.monotonic().saturating_sub(begun);
        assert_eq!(took < Duration::from_secs(50), is_hurried);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_renamed_to_one_that_comes_last_waits_no_longer_than_such_a_one() {
    let world = World::with_delay(Duration::from_secs(50));
    world.closed("done.tmp", b"0").await;
    let begun = world.clock.monotonic();
    world.rename("done.tmp", "done").await;
    while world.object("done").is_none() {
        world.clock.advance(Duration::from_micros(40));
        tokio::task::yield_now().await;
    }
    assert!(world.clock.monotonic().saturating_sub(begun) < Duration::from_secs(50));
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_who_need_room_do_not_bring_what_comes_last_before_its_turn() {
    let dirty_limit = DirtyLimit::Bytes(1 << 20);
    let world = World::with(Setup {
        dirty_limit,
        upload_delay: Duration::from_hours(1),
        ..Setup::default()
    });
    world.closed("done", b"0").await;
    let (_, handle) = world.create("other").await;
    world.write(handle, 0, &vec![7; 1 << 20]).await;
    // Nothing could be freed, and the limit has yielded.
    assert!(world.vfs.has_room() && world.object("done").is_none());
    world.close(handle).await;
    assert_eq!(world.vfs.drain().await, []);
    assert!(world.object("other").is_some() && world.object("done").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_comes_last_waits_for_one_that_is_still_written() {
    let world = World::new();
    let (_, handle) = world.create("other").await;
    world.closed("done", b"0").await;
    for _ in 0..20 {
        world.clock.advance(A_WHILE);
        tokio::task::yield_now().await;
    }
    assert_eq!(world.object("done"), None);
    world.write(handle, 0, b"bytes").await;
    world.close(handle).await;
    world.settled().await;
    assert_eq!(world.object("done").unwrap(), &b"0"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_back_waits_for_a_close_also_when_the_bucket_has_what_holds_it() {
    let world = World::new();
    let folder = world.folder("one").await;
    let (_, hold) = world.create_in(folder, "done.held").await;
    world.vfs().fsync_dir(folder).await.unwrap();
    assert!(world.object("one/done.held").is_some(), "somebody waited for it");
    world.closed_in(folder, "done", b"0").await;
    assert_eq!(world.fsync_fails(folder).await, Errno::EBUSY);
    let left = world.vfs.drain().await;
    assert!(left.len() == 1 && left[0].next == Next::Wait, "{left:?}");
    // What could not be brought there weighs more than who holds it back.
    world.closed_in(folder, "other", b"bytes").await;
    world.bucket.fail_next(Op::Put, remote::ErrorKind::Denied);
    let left: Vec<Next> = world.vfs.drain().await.iter().map(|left| left.next).collect();
    assert_eq!(left, [Next::Refused, Next::TryAgain]);
    for _ in 0..LOOKS {
        world.clock.advance(A_WHILE);
        tokio::task::yield_now().await;
    }
    assert_eq!(world.object("one/done"), None);
    // A folder beside it is held back by nobody.
    world.closed("done", b"1").await;
    world.vfs().unlink(folder, name("done.held")).await.unwrap();
    world.close(hold).await;
    world.settled().await;
    assert_eq!(world.object("one/done").unwrap(), &b"0"[..]);
    assert!(world.object("done").is_some() && world.object("one/done.held").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_back_by_who_is_killed_does_not_come() {
    let world = World::new();
    let (_, hold) = world.create("done.held").await;
    world.closed("done", b"0").await;
    // As the kernel does it for him.
    world.close(hold).await;
    world.settled().await;
    assert_eq!((world.object("done"), world.recovery().len()), (None, 2));
    let told = world.vfs.drain().await;
    assert!(told.iter().all(|told| told.next == Next::Lost), "{told:?}");
    world.vfs.heard(&told);
    // The next one holds it back anew, and comes to its end.
    let (_, hold) = world.create("again.held").await;
    world.close(hold).await;
    world.vfs().unlink(Ino::ROOT, name("done.held")).await.unwrap();
    let (_, hold) = world.create("done.held").await;
    world.closed("done", b"1").await;
    world.vfs().unlink(Ino::ROOT, name("done.held")).await.unwrap();
    world.close(hold).await;
    world.settled().await;
    assert_eq!(world.object("done").unwrap(), &b"1"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_fails_keeps_back_what_comes_last() {
    let world = World::new();
    world.closed("done", b"0").await;
    world.closed("other", b"bytes").await;
    world.bucket.fail_next(Op::Put, remote::ErrorKind::Denied);
    let left = world.vfs.drain().await;
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[1].reason.contains("kept back"), "{left:?}");
    assert_eq!(world.object("done"), None);
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("done").unwrap(), &b"0"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_last_waits_for_names_of_its_own_folder_only() {
    let world = World::new();
    let (elsewhere, folder) = (world.folder("elsewhere").await, world.folder("d").await);
    let below = world.vfs().mkdir(folder, name("below"), NODE).await.unwrap().ino;
    let gate = world.bucket.hold(Op::Delete);
    world.vfs().unlink(elsewhere, name("old")).await.unwrap();
    world.until_arrived(&gate, 1).await;
    let links = world.bucket.hold(Op::Put);
    world.vfs().symlink(below, name("link"), b"there".to_vec(), OWNER).await.unwrap();
    world.until_arrived(&links, 1).await;
    world.closed_in(folder, "done", b"0").await;
    for _ in 0..LOOKS {
        world.clock.advance(A_WHILE);
        tokio::task::yield_now().await;
    }
    assert_eq!(world.object("d/done"), None, "the link comes first");
    drop(links);
    world.settled().await;
    assert_eq!(world.object("d/done").unwrap(), &b"0"[..]);
    assert!(world.object("elsewhere/old").is_some());
    drop(gate);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_keeps_back_only_what_comes_after_what_failed() {
    let world = World::new();
    let (one, two) = (world.folder("one").await, world.folder("two").await);
    for folder in [one, two] {
        world.closed_in(folder, "done", b"0").await;
    }
    world.closed_in(one, "other", b"bytes").await;
    world.bucket.fail_next(Op::Put, remote::ErrorKind::Denied);
    let left = world.vfs.drain().await;
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!((world.object("one/done"), world.object("two/done").is_some()), (None, true));
}
