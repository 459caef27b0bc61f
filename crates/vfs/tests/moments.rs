//! Deaths at single moments of a rename: what closes were told is safe is found under one name.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{Clock, HandleId, Ino, Timestamp};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use namespace::RenameMode;
use quayfs_vfs::{Access, Recovered, Vfs, WriteMode};
use remote::Key;
use remote::fake::{Fake, Op};
use store::Store;
use tokio::sync::watch;
use world::{ME, NODE, Setup, file_system, name};

/// A clock that stands still until it is moved; who sleeps waits for that.
#[derive(Debug)]
pub(crate) struct StillClock {
    now: watch::Sender<Duration>,
}

impl StillClock {
    pub(crate) fn new() -> StillClock {
        StillClock { now: watch::Sender::new(Duration::ZERO) }
    }
}

impl Clock for StillClock {
    fn wall(&self) -> Timestamp {
        let now = self.monotonic();
        Timestamp { secs: 1_700_000_000 + now.as_secs().cast_signed(), nanos: now.subsec_nanos() }
    }

    fn monotonic(&self) -> Duration {
        *self.now.borrow()
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        let (mut now, until) = (self.now.subscribe(), self.monotonic() + delay);
        async move {
            // The clock of a world that is over never moves again.
            let _ = now.wait_for(|now| until <= *now).await;
        }
        .boxed()
    }
}

/// More than is sealed on the thread that closes it.
const LARGE_BYTES: usize = 300 << 10;

/// What is left of a process that dies ends within this.
const OVER_WITHIN: Duration = Duration::from_secs(30);

/// A mount whose closes do not wait, and whose uploads never become due.
struct World {
    bucket: Fake,
    store: Store,
    vfs: Arc<Vfs>,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        World::over(Fake::new(), tempfile::tempdir().unwrap())
    }

    fn over(bucket: Fake, dir: tempfile::TempDir) -> World {
        let clock = Arc::new(StillClock::new());
        let (store, vfs) = file_system(&bucket, dir.path(), clock, Setup::journaled());
        World { bucket, store, vfs, dir }
    }

    fn vfs(&self) -> Arc<Vfs> {
        Arc::clone(&self.vfs)
    }

    fn object(&self, key: &str) -> Option<Bytes> {
        self.bucket.bytes(&Key::from(key))
    }

    async fn write(&self, handle: HandleId, offset: u64, bytes: &[u8]) {
        self.vfs().write((handle, offset), bytes.to_vec(), WriteMode::Buffered).await.unwrap();
    }

    /// A file that was written and closed.
    async fn closed(&self, key: &str, bytes: &[u8]) {
        let making = self.vfs().create(Ino::ROOT, name(key), NODE, Access::Write, (ME, false));
        let handle = making.await.unwrap().1.handle;
        self.write(handle, 0, bytes).await;
        self.vfs().flush(handle, ME).await.unwrap();
        self.vfs.release(handle).unwrap();
    }

    async fn rename(&self, from: &str, to: &str) {
        let (from, to) = ((Ino::ROOT, name(from)), (Ino::ROOT, name(to)));
        self.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
    }

    /// The process dies, and another one finds what it left.
    async fn dies(self) -> (World, Recovered) {
        let World { bucket, store, vfs, dir } = self;
        // Who hands out what is due has it for a moment, whenever a file becomes due.
        let over = async {
            while Arc::strong_count(&vfs) != 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(OVER_WITHIN, over).await.expect("nothing of it goes on");
        drop((store, vfs));
        let world = World::over(bucket, dir);
        let recovered = world.vfs.recover().await.unwrap();
        (world, recovered)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_just_when_a_closed_file_takes_the_name_of_another_loses_neither() {
    let world = World::new();
    world.bucket.insert(&Key::from("b"), "first", remote::Metadata::new());
    let edited = world.vfs().lookup(Ino::ROOT, name("b")).await.unwrap().ino;
    let handle = world.vfs().open(edited, Access::Write, ME).await.unwrap().handle;
    world.write(handle, 0, b"again").await;
    world.vfs().flush(handle, ME).await.unwrap();
    world.closed("a", b"new").await;
    world.store.die_at_an_empty_note();
    let (from, to) = ((Ino::ROOT, name("a")), (Ino::ROOT, name("b")));
    let died = tokio::spawn(world.vfs().rename(from, to, RenameMode::Replace)).await;
    assert!(died.unwrap_err().is_panic());
    let (world, recovered) = world.dies().await;
    assert_eq!(recovered.kept, Vec::<PathBuf>::new());
    let found = (world.object("a"), world.object("b"));
    let (old, new) = (&b"again"[..], &b"new"[..]);
    let is_before = found.0.as_deref() == Some(new) && found.1.as_deref() == Some(old);
    let is_after = found.0.is_none() && found.1.as_deref() == Some(new);
    assert!(is_before || is_after, "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_just_when_a_file_goes_on_from_a_name_that_it_took_loses_nothing() {
    let world = World::new();
    world.bucket.insert(&Key::from("b"), "first", remote::Metadata::new());
    world.closed("a", b"anew").await;
    world.rename("a", "b").await;
    // What is removed is removed, and more does not happen.
    world.bucket.lose_next_answer(Op::Delete);
    let _gate = world.bucket.hold(Op::Copy);
    let (from, to) = ((Ino::ROOT, name("b")), (Ino::ROOT, name("c")));
    let _renamed_or_not = world.vfs().rename(from, to, RenameMode::Replace).await;
    let (world, recovered) = world.dies().await;
    assert_eq!(recovered.kept, Vec::<PathBuf>::new());
    let found = (world.object("b"), world.object("c"));
    let is_there = |object: &Option<Bytes>| object.as_deref() == Some(&b"anew"[..]);
    assert!(is_there(&found.0) || is_there(&found.1), "{found:?}");
}

/// When the process dies that seals a file.
#[derive(Clone, Copy, Debug)]
enum Dies {
    /// Just when the bytes are sealed: the program has not heard yet that its close is over.
    Sealed,
    Closed,
}

/// Lets `meanwhile` happen while a large file, `a`, which was closed once before, is being sealed, whose process
/// dies thereafter.
fn died(when: Dies, meanwhile: impl AsyncFnOnce(&World)) -> (World, Recovered) {
    // What reads a large file has a thread of its own, and here there is one.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let world = World::new();
        world.closed("a", &vec![1; LARGE_BYTES]).await;
        let ino = world.vfs().lookup(Ino::ROOT, name("a")).await.unwrap().ino;
        let handle = world.vfs().open(ino, Access::Write, ME).await.unwrap().handle;
        world.write(handle, 0, &vec![2; LARGE_BYTES]).await;
        let (go_on, stopped) = std::sync::mpsc::channel::<()>();
        let thread = tokio::task::spawn_blocking(move || stopped.recv());
        let mut closing = Box::pin(world.vfs().flush(handle, ME));
        assert!(futures::poll!(&mut closing).is_pending(), "it waits for the thread");
        meanwhile(&world).await;
        go_on.send(()).unwrap();
        thread.await.unwrap().unwrap();
        // It comes after the seal.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        match when {
            Dies::Sealed => drop(closing),
            Dies::Closed => closing.await.unwrap(),
        }
        world.dies().await
    })
}

#[test]
fn a_large_file_that_is_removed_while_it_is_sealed_does_not_come_back() {
    for when in [Dies::Sealed, Dies::Closed] {
        let (world, recovered) = died(when, async |world| {
            world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
        });
        assert_eq!((recovered.uploaded, recovered.kept), (0, Vec::<PathBuf>::new()), "{when:?}");
        assert_eq!(world.bucket.keys(), []);
    }
}

#[test]
fn a_large_file_that_is_renamed_while_it_is_sealed_is_found_under_its_new_name() {
    for (when, byte) in [(Dies::Sealed, 1), (Dies::Closed, 2)] {
        let (world, recovered) = died(when, async |world| world.rename("a", "b").await);
        assert_eq!(recovered.uploaded, 1, "{when:?}");
        assert_eq!(world.bucket.keys(), [Key::from("b")]);
        assert!(world.object("b").unwrap() == vec![byte; LARGE_BYTES], "{when:?}");
    }
}

#[test]
fn a_large_file_that_is_replaced_while_it_is_sealed_does_not_come_back() {
    for when in [Dies::Sealed, Dies::Closed] {
        let (world, recovered) = died(when, async |world| {
            world.closed("b", b"instead").await;
            world.rename("b", "a").await;
        });
        assert_eq!((recovered.uploaded, recovered.kept), (1, Vec::<PathBuf>::new()), "{when:?}");
        assert_eq!(world.bucket.keys(), [Key::from("a")]);
        assert_eq!(world.object("a").unwrap(), "instead", "{when:?}");
    }
}
