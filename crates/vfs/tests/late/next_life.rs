//! What comes last, where the process dies before it: the next one keeps the order.

use std::sync::Arc;

use base::{Ino, Metrics, SystemClock};
use parking_lot::Mutex;
use quayfs_vfs as vfs;
use quayfs_vfs::Next;
use remote::fake::{Fake, Op};
use remote::{Key, Metadata, Personality, Remote as _};
use store::{CacheLimit, Store};
use tokio::runtime::Runtime;

use crate::rig::{A_WHILE, Grave, MANY_LOOKS, ME, Setup, World, killed, name, owned};

impl World {
    /// An edit is closed of what another program replaces then.
    async fn lost(&self, file: &str) {
        self.bucket.insert(&Key::from(file), "longer than the edit", Metadata::new());
        let ino = self.vfs().lookup(Ino::ROOT, name(file)).await.unwrap().ino;
        self.overwrite(ino, b"ours").await;
        self.put_elsewhere(file);
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
async fn last_without_answer(world: World, folder: &str) -> vfs::Recovered {
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
    let recovered = last_without_answer(World::new(), "").await;
    assert_eq!((recovered.uploaded, recovered.waiting), (0, 1), "{recovered:?}");
    let deep = format!("{}/", "x".repeat(253)).repeat(4);
    let recovered = last_without_answer(World::new(), &deep).await;
    assert_eq!((recovered.uploaded, recovered.waiting), (1, 0), "{recovered:?}");
    // As where a long prefix is mounted.
    let short = Personality { key_bytes_max: "done".len(), ..Fake::new().personality() };
    let recovered = last_without_answer(World::over(Fake::with(short), Setup::default()), "").await;
    assert_eq!((recovered.uploaded, recovered.waiting), (1, 0), "{recovered:?}");
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
