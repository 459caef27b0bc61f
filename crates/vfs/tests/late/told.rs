//! What was lost or given up is told to who waits next, and what comes last does not come before that.

use base::{Errno, Ino};
use namespace::RenameMode;
use quayfs_vfs::Next;
use remote::fake::Op;
use remote::{Key, Metadata};

use crate::rig::{ME, NODE, Setup, World, name};

impl World {
    /// Two folders, in the first of which a rename is refused.
    async fn refused(&self) -> (Ino, Ino) {
        let (one, two) = (self.folder("one").await, self.folder("two").await);
        self.vfs().lookup(one, name("old")).await.unwrap();
        self.bucket.fail_next(Op::Copy, remote::ErrorKind::Denied);
        let (from, to) = ((one, name("old")), (one, name("new")));
        self.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
        (one, two)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_name_that_was_given_up_who_waits_next_hears_and_what_comes_last_does_not_come() {
    let world = World::new();
    let (one, two) = (world.folder("one").await, world.folder("two").await);
    world.vfs().lookup(one, name("old")).await.unwrap();
    let gate = world.bucket.hold(Op::Copy);
    world.bucket.fail_next(Op::Copy, remote::ErrorKind::Denied);
    let (from, to) = ((one, name("old")), (one, name("new")));
    world.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
    for folder in [one, two] {
        world.closed_in(folder, "done", b"0").await;
    }
    drop(gate);
    let told = world.vfs.sync_below(one).await;
    let nexts: Vec<Next> = told.iter().map(|told| told.next).collect();
    assert_eq!(nexts, [Next::Lost, Next::MakeAgain], "{told:?}");
    for words in ["one/", "make it again"] {
        assert!(told[1].reason.contains(words), "{told:?}");
    }
    assert!(world.object("one/old").is_some() && world.object("one/new").is_none());
    assert_eq!((world.object("one/done"), world.recovery().len()), (None, 2));
    world.vfs.heard(&told);
    assert_eq!(world.vfs.drain().await, []);
    assert!(world.object("two/done").is_some());
    // Who has heard of it may go on.
    world.closed_in(one, "done", b"1").await;
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("one/done").unwrap(), &b"1"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_fsync_of_a_folder_fails_once_if_a_name_below_it_was_given_up() {
    let world = World::with(Setup { last: None, ..Setup::default() });
    let (one, two) = world.refused().await;
    world.vfs().fsync_dir(two).await.unwrap();
    assert_eq!(world.fsync_fails(one).await, Errno::EIO);
    world.vfs().fsync_dir(one).await.unwrap();
    assert_eq!(world.vfs.drain().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_fsync_that_hears_of_what_was_given_up_what_comes_last_above_does_not_come_either()
{
    let world = World::new();
    let gate = world.bucket.hold(Op::Copy);
    let (one, two) = world.refused().await;
    world.closed("done", b"0").await;
    drop(gate);
    for _ in 0..2 {
        assert_eq!(world.fsync_fails(one).await, Errno::EIO);
    }
    world.vfs().fsync_dir(two).await.unwrap();
    // By then it may be in the recovery folder, or goes there now.
    world.fsync_fails(Ino::ROOT).await;
    assert_eq!(world.object("done"), None);
    let told = world.vfs.drain().await;
    assert!(told.iter().any(|told| told.next == Next::MakeAgain), "{told:?}");
    world.vfs.heard(&told);
    world.vfs().fsync_dir(one).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_tells_of_a_name_that_was_given_up_once() {
    let world = World::new();
    world.put_elsewhere("a");
    world.vfs().lookup(Ino::ROOT, name("a")).await.unwrap();
    world.bucket.fail_next(Op::Delete, remote::ErrorKind::Denied);
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    let told = world.vfs.drain().await;
    assert!(told.len() == 1 && told[0].reason.contains('a'), "{told:?}");
    world.vfs.heard(&told);
    assert_eq!(world.vfs.drain().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_has_heard_of_is_told_again_and_what_comes_last_does_not_come_until_then() {
    let world = World::new();
    let (one, _) = world.refused().await;
    let told = world.vfs.drain().await;
    assert!(told.len() == 1 && told[0].next == Next::MakeAgain, "{told:?}");
    // Who was to hear it is gone.
    let (_, handle) = world.create_in(one, "done").await;
    world.write(handle, 0, b"0").await;
    world.vfs().flush(handle, ME).await.unwrap_err();
    world.vfs.release(handle).unwrap();
    let again = world.vfs.sync_below(one).await;
    assert_eq!(again, told);
    assert_eq!(world.object("one/done"), None);
    world.vfs.heard(&again);
    assert_eq!(world.vfs.drain().await, []);
    world.closed_in(one, "done", b"1").await;
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("one/done").unwrap(), &b"1"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_file_that_lost_while_nobody_waited_who_waits_for_its_folder_next_hears_once() {
    let world = World::new();
    let keys = ["one/old", "two/old"];
    for key in keys {
        world.bucket.insert(&Key::from(key), "longer than the edit", Metadata::new());
    }
    let one = world.vfs().lookup(Ino::ROOT, name("one")).await.unwrap().ino;
    let two = world.vfs().lookup(Ino::ROOT, name("two")).await.unwrap().ino;
    for folder in [one, two] {
        let ino = world.vfs().lookup(folder, name("old")).await.unwrap().ino;
        world.overwrite(ino, b"ours").await;
    }
    for key in &keys {
        world.put_elsewhere(key);
    }
    world.settled().await;
    assert_eq!(world.recovery().len(), 4, "two files, and a description of each");
    let told = world.vfs.sync_below(one).await;
    assert!(told.len() == 1 && told[0].reason.contains("one/old"), "{told:?}");
    world.vfs.heard(&told);
    assert_eq!(world.vfs.sync_below(one).await, []);
    let told = world.vfs.drain().await;
    assert!(told.len() == 1 && told[0].reason.contains("two/old"), "{told:?}");
    assert_eq!(told[0].next, Next::Lost);
    world.vfs.heard(&told);
    assert_eq!(world.vfs.drain().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_in_a_folder_is_nothing_to_the_one_that_is_made_in_its_place() {
    let world = World::new();
    let dir = world.folder("d").await;
    world.bucket.insert(&Key::from("d/f"), "longer than the edit", Metadata::new());
    let ino = world.vfs().lookup(dir, name("f")).await.unwrap().ino;
    world.overwrite(ino, b"ours").await;
    world.put_elsewhere("d/f");
    world.settled().await;
    let told = world.vfs.drain().await;
    assert!(told.len() == 1 && told[0].next == Next::Lost, "{told:?}");
    for file in ["f", "old"] {
        world.vfs().unlink(dir, name(file)).await.unwrap();
    }
    world.vfs().rmdir(Ino::ROOT, name("d")).await.unwrap();
    world.vfs.forget(dir, 1);
    let again = world.vfs().mkdir(Ino::ROOT, name("d"), NODE).await.unwrap().ino;
    assert_eq!(again, dir, "numbers are made of paths");
    world.closed_in(again, "done", b"0").await;
    world.settled().await;
    assert_eq!(world.object("d/done").unwrap(), &b"0"[..]);
}
