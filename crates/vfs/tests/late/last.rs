//! Files that come last: `done`, in whichever folder.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Errno, Ino, Metrics, SystemClock};
use namespace::RenameMode;
use parking_lot::Mutex;
use quayfs_vfs as vfs;
use quayfs_vfs::{DirtyLimit, Next, errno};
use remote::fake::Op;
use remote::{Key, Metadata};
use store::{CacheLimit, Store};
use tokio::runtime::Runtime;

use crate::rig::{A_WHILE, Grave, ME, NODE, OWNER, Setup, World, killed, name, owned};

/// Looks at what must not happen.
const LOOKS: usize = 20;

/// Looks at what has to happen.
const MANY_LOOKS: usize = 1_000_000;

impl World {
    /// Another program writes the object.
    fn put_elsewhere(&self, key: &str) {
        self.bucket.insert(&Key::from(key), "theirs", Metadata::new());
    }

    /// A folder that is there because something is in it.
    async fn folder(&self, folder: &str) -> Ino {
        self.put_elsewhere(&format!("{folder}/old"));
        self.vfs().lookup(Ino::ROOT, name(folder)).await.unwrap().ino
    }

    /// An edit is closed of what another program replaces then.
    async fn lost(&self, file: &str) {
        self.bucket.insert(&Key::from(file), "longer than the edit", Metadata::new());
        let ino = self.vfs().lookup(Ino::ROOT, name(file)).await.unwrap().ino;
        self.overwrite(ino, b"ours").await;
        self.put_elsewhere(file);
    }

    /// Two folders, in the first of which a rename is refused.
    async fn refused(&self) -> (Ino, Ino) {
        let (one, two) = (self.folder("one").await, self.folder("two").await);
        self.vfs().lookup(one, name("old")).await.unwrap();
        self.bucket.fail_next(Op::Copy, remote::ErrorKind::Denied);
        let (from, to) = ((one, name("old")), (one, name("new")));
        self.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
        (one, two)
    }

    async fn fsync_fails(&self, folder: Ino) -> Errno {
        errno(&self.vfs().fsync_dir(folder).await.unwrap_err())
    }

    async fn has(&self, file: &str) -> bool {
        self.vfs().lookup(Ino::ROOT, name(file)).await.is_ok()
    }
}

impl Grave {
    /// Changes what is noted of staged files: these bytes, at this place.
    fn notes<const N: usize>(&self, change: impl Fn(&[u8]) -> Option<(usize, &'static [u8; N])>) {
        let cache = CacheLimit::Bytes(1 << 30);
        let options = store::Options { dir: self.dir.path().to_owned(), cache };
        let clock = Arc::new(SystemClock::new());
        let store = Store::open(options, clock, Arc::new(Metrics::new())).unwrap();
        for mut orphan in store.orphans().unwrap() {
            if let Some((at, bytes)) = change(&orphan.note) {
                orphan.note[at..at + N].copy_from_slice(bytes);
                orphan.staged.set_note(&orphan.note).unwrap();
            }
        }
    }
}

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
    assert_eq!(left, [Next::TryAgain, Next::TryAgain]);
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

#[test]
fn what_is_held_back_by_who_is_killed_with_the_daemon_does_not_come() {
    let (world, recovered, runtime) = killed(|| async {
        let world = World::new();
        let (_, hold) = world.create("done.held").await;
        world.closed("done", b"0").await;
        world.close(hold).await;
        (world, vec![])
    });
    assert_eq!((recovered.uploaded, recovered.kept.len()), (1, 1), "{recovered:?}");
    assert_eq!(world.object("done"), None);
    drop((world, runtime));
}

#[test]
fn what_is_held_back_by_a_file_that_the_bucket_has_does_not_come_in_the_next_life() {
    let (world, recovered, runtime) = killed(|| async {
        let world = World::new();
        let (_, hold) = world.create("done.held").await;
        world.vfs().fsync(hold).await.unwrap();
        world.closed("done", b"0").await;
        world.closed("other", b"bytes").await;
        (world, vec![])
    });
    assert_eq!((recovered.uploaded, recovered.kept.len()), (1, 1), "{recovered:?}");
    assert_eq!(world.object("done"), None);
    assert!(world.object("done.held").is_some());
    drop((world, runtime));
}

#[test]
fn what_was_held_back_waits_for_the_removal_of_what_held_it() {
    let (runtime, removals) = (Runtime::new().unwrap(), Mutex::new(None));
    let grave = runtime.block_on(async {
        let world = World::new();
        let (_, hold) = world.create("done.held").await;
        world.vfs().fsync(hold).await.unwrap();
        world.closed("done", b"0").await;
        *removals.lock() = Some(world.bucket.hold(Op::Delete));
        world.vfs().unlink(Ino::ROOT, name("done.held")).await.unwrap();
        world.buried()
    });
    drop((runtime, removals));
    let runtime = Runtime::new().unwrap();
    let grave = runtime.block_on(async {
        grave.bucket.fail_next(Op::Delete, remote::ErrorKind::Unavailable);
        let (world, finished, recovered) = grave.tries_to_rise().await;
        assert_eq!((finished.waiting, recovered.waiting), (1, 1), "{recovered:?}");
        assert_eq!(world.objects(), owned(&[("done.held", "")]));
        world.buried()
    });
    drop(runtime);
    let runtime = Runtime::new().unwrap();
    let (world, recovered) = runtime.block_on(grave.rise());
    assert_eq!((recovered.uploaded, recovered.kept.len()), (1, 0), "{recovered:?}");
    assert_eq!(world.objects(), owned(&[("done", "0")]));
}

/// What came last in `folder`, in the next life, if the store does not take the next question after a key.
async fn last_without_answer(folder: &str) -> vfs::Recovered {
    let world = World::new();
    world.put_elsewhere(&format!("{folder}old"));
    let mut dir = Ino::ROOT;
    for part in folder.split_terminator('/') {
        dir = world.vfs().lookup(dir, name(part)).await.unwrap().ino;
    }
    world.closed_in(dir, "done", b"0").await;
    world.bucket.fail_next(Op::Head, remote::ErrorKind::Unsupported);
    let (_, recovered) = world.dies().await;
    recovered
}

#[tokio::test]
async fn what_comes_last_waits_where_nobody_tells_what_holds_it_back_unless_no_key_is_so_long() {
    let recovered = last_without_answer("").await;
    assert_eq!((recovered.uploaded, recovered.waiting), (0, 1), "{recovered:?}");
    let recovered = last_without_answer(&format!("{}/", "x".repeat(253)).repeat(4)).await;
    assert_eq!((recovered.uploaded, recovered.waiting), (1, 0), "{recovered:?}");
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

#[test]
fn what_comes_last_does_so_in_the_next_life_too() {
    let (world, recovered, runtime) = killed(|| async {
        let world = World::new();
        let gate = world.bucket.hold(Op::Put);
        world.closed("done", b"0").await;
        world.closed("other", b"bytes").await;
        (world, vec![gate])
    });
    assert_eq!(recovered.uploaded, 2);
    let time = |key| world.bucket.meta(&Key::from(key)).unwrap().version;
    assert!(time("other").as_str() < time("done").as_str(), "versions of this store count up");
    drop((world, runtime));
}

#[test]
fn what_comes_last_goes_where_a_file_of_its_folder_went() {
    let (world, recovered, runtime) = killed(|| async {
        let world = World::new();
        let gate = world.bucket.hold(Op::Put);
        world.closed("done", b"0").await;
        let (_, handle) = world.create("other").await;
        world.write(handle, 0, b"never closed").await;
        (world, vec![gate])
    });
    assert_eq!((recovered.uploaded, recovered.kept.len()), (0, 2));
    assert_eq!(world.object("done"), None);
    drop((world, runtime));
}

#[test]
fn what_comes_last_goes_where_a_file_of_its_folder_went_also_while_others_wait() {
    let (world, recovered, runtime) = killed(|| async {
        let world = World::new();
        world.put_elsewhere("three/old");
        let (two, three) = (world.folder("two").await, world.folder("three").await);
        world.closed("done", b"0").await;
        let (_, handle) = world.create("other").await;
        world.write(handle, 0, b"never closed").await;
        world.closed_in(two, "waits", b"bytes").await;
        world.closed_in(two, "done", b"0").await;
        world.closed_in(three, "done", b"0").await;
        // Nothing is uploaded in this life: its clock stands still.
        world.bucket.fail_next(Op::Put, remote::ErrorKind::Unavailable);
        (world, vec![])
    });
    assert_eq!((recovered.kept.len(), recovered.waiting, recovered.uploaded), (2, 2, 1));
    assert_eq!((world.object("done"), world.object("two/done")), (None, None));
    assert_eq!(world.object("three/done").unwrap(), &b"0"[..]);
    // The next one knows nothing of what went to the recovery folder.
    let grave = world.buried();
    drop(runtime);
    let runtime = Runtime::new().unwrap();
    let (world, recovered) = runtime.block_on(grave.rise());
    assert_eq!((recovered.kept.len(), recovered.waiting, recovered.uploaded), (0, 0, 2));
    assert_eq!(world.object("done"), None);
    assert_eq!(world.object("two/done").unwrap(), &b"0"[..]);
    drop((world, runtime));
}

#[test]
fn what_was_never_closed_and_is_empty_is_not_kept_and_keeps_back_what_comes_last() {
    let (world, recovered, runtime) = killed(|| async {
        let world = World::new();
        let gate = world.bucket.hold(Op::Put);
        world.closed("done", b"0").await;
        world.create("done.held").await;
        (world, vec![gate])
    });
    assert_eq!((recovered.uploaded, recovered.kept.len()), (0, 1), "{:?}", recovered.kept);
    assert_eq!((world.object("done"), world.object("done.held")), (None, None));
    drop((world, runtime));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_after_a_file_that_lost_goes_where_that_went_and_not_into_the_next_life() {
    let world = World::new();
    world.lost("other").await;
    world.closed("done", b"0").await;
    world.settled().await;
    assert_eq!(world.recovery().len(), 4, "two files, and a description of each");
    assert_eq!(world.object("other").unwrap(), &b"theirs"[..]);
    // Nobody waited for it then: who waits next hears of it, once.
    let told = world.vfs.drain().await;
    // Its name goes a moment after its bytes: who waits has waited for that, too.
    assert!(!world.has("done").await);
    assert!(told.len() == 2 && told.iter().all(|told| told.next == Next::Lost), "{told:?}");
    world.vfs.heard(&told);
    assert_eq!(world.vfs.drain().await, []);
    // Whoever closes another one hears of it then.
    let (_, handle) = world.create("done").await;
    world.write(handle, 0, b"1").await;
    world.vfs().flush(handle, ME).await.unwrap_err();
    world.vfs.release(handle).unwrap();
    assert_eq!(world.recovery().len(), 6);
    assert_eq!(world.vfs.drain().await, []);
    // Until there is what it comes after.
    let other = world.vfs().lookup(Ino::ROOT, name("other")).await.unwrap().ino;
    world.overwrite(other, b"again").await;
    assert_eq!(world.vfs.drain().await, []);
    world.closed("done", b"2").await;
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("done").unwrap(), &b"2"[..]);
    for _ in 0..MANY_LOOKS {
        if Arc::strong_count(&world.vfs) == 1 {
            break;
        }
        world.clock.advance(A_WHILE);
        tokio::task::yield_now().await;
    }
    let (world, recovered) = world.dies().await;
    assert_eq!((recovered.uploaded, recovered.waiting), (0, 0));
    assert_eq!(world.object("done").unwrap(), &b"2"[..]);
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

#[test]
fn what_got_its_name_by_a_rename_comes_last_in_the_next_life_although_nothing_notes_it() {
    let runtime = Runtime::new().unwrap();
    let (grave, gates) = runtime.block_on(async {
        let world = World::new();
        world.put_elsewhere("temp");
        let gates = [world.bucket.hold(Op::Put), world.bucket.hold(Op::Copy)];
        let ino = world.vfs().lookup(Ino::ROOT, name("temp")).await.unwrap().ino;
        world.overwrite(ino, b"0").await;
        world.closed("other", b"bytes").await;
        world.rename("temp", "done").await;
        (world.buried(), gates)
    });
    drop(runtime);
    drop(gates);
    grave.notes(|note| note.windows(4).position(|part| part == b"done").map(|at| (at, b"temp")));
    let runtime = Runtime::new().unwrap();
    let (world, recovered) = runtime.block_on(grave.rise());
    assert_eq!(recovered.uploaded, 2);
    let time = |key| world.bucket.meta(&Key::from(key)).unwrap().version;
    assert!(time("other").as_str() < time("done").as_str(), "versions of this store count up");
}
