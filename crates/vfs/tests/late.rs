//! The promises of closes that do not wait for the bucket.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use quayfs_vfs as vfs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{Budget, Clock, HandleId, Ino, Metrics, Name, Rng, Timestamp};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use namespace::{Attributes, Bucket, BucketOptions, NewNode, NoLedger, Owner, RenameMode, Returns};
use remote::fake::{Fake, Op};
use remote::{Key, Remote};
use store::{CacheLimit, Store};
use tokio::runtime::Handle;
use tokio::sync::watch;
use transfer::{Fetcher, FetcherOptions, Uploader, UploaderOptions};
use vfs::{Access, Commit, DirtyLimit, Vfs, VfsOptions};

const OWNER: Owner = Owner { uid: 7, gid: 7 };
const NODE: NewNode = NewNode { mode: 0o644, owner: OWNER };
const ME: u32 = 100;

/// Longer than uploads wait for more to come.
const A_WHILE: Duration = Duration::from_secs(1);

/// A clock that stands still until it is moved; who sleeps waits for that.
#[derive(Debug)]
struct StillClock {
    now: watch::Sender<Duration>,
}

impl StillClock {
    fn new() -> StillClock {
        StillClock { now: watch::Sender::new(Duration::ZERO) }
    }

    fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now += by);
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

struct World {
    bucket: Fake,
    clock: Arc<StillClock>,
    vfs: Arc<Vfs>,
    dir: tempfile::TempDir,
}

fn file_system(bucket: &Fake, clock: &Arc<StillClock>, dir: &Path) -> Arc<Vfs> {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
    let metrics = Arc::new(Metrics::new());
    let options = store::Options { dir: dir.to_owned(), cache: CacheLimit::Bytes(1 << 30) };
    let store = Store::open(options, Arc::clone(&clock), Arc::clone(&metrics)).unwrap();
    let remote: Arc<dyn Remote> = Arc::new(bucket.clone());
    let names = BucketOptions {
        owner: OWNER,
        attributes: Attributes::Off,
        returns: Returns::Journaled,
        ..BucketOptions::default()
    };
    let namespace =
        Arc::new(Bucket::new(Arc::clone(&remote), Arc::clone(&clock), Arc::new(NoLedger), names));
    let budget = Budget::new(64 << 20);
    let fetcher = Fetcher::new(
        (Arc::clone(&remote), store.clone()),
        budget.clone(),
        Handle::current(),
        Arc::clone(&metrics),
        FetcherOptions { requests_max: 8, window_bytes_max: 8 << 20 },
    );
    let uploading = UploaderOptions { requests_max: 64, part_bytes: 1 << 20 };
    let uploader = Uploader::new(remote, budget, Arc::new(Rng::from_entropy()), uploading);
    let options = VfsOptions {
        volume: "fake://b".to_owned(),
        file_bytes_max: 1 << 40,
        commit: Commit::Async,
        dirty_limit: DirtyLimit::default(),
    };
    Vfs::new((namespace, store), (fetcher, uploader), (clock, metrics), Handle::current(), options)
}

impl World {
    fn new() -> World {
        let (bucket, dir) = (Fake::new(), tempfile::tempdir().unwrap());
        let clock = Arc::new(StillClock::new());
        let vfs = file_system(&bucket, &clock, dir.path());
        World { bucket, clock, vfs, dir }
    }

    fn vfs(&self) -> Arc<Vfs> {
        Arc::clone(&self.vfs)
    }

    fn object(&self, key: &str) -> Option<Bytes> {
        self.bucket.bytes(&Key::from(key))
    }

    async fn create(&self, key: &str) -> (Ino, HandleId) {
        let making = self.vfs().create(Ino::ROOT, name(key), NODE, Access::Write, (ME, false));
        let (attr, opened) = making.await.unwrap();
        (attr.ino, opened.handle)
    }

    async fn write(&self, handle: HandleId, offset: u64, bytes: &[u8]) {
        self.vfs().write(handle, offset, bytes.to_vec()).await.unwrap();
    }

    async fn close(&self, handle: HandleId) {
        self.vfs().flush(handle, ME).await.unwrap();
        self.vfs.release(handle).unwrap();
    }

    /// A file that was written and closed.
    async fn closed(&self, key: &str, bytes: &[u8]) -> Ino {
        let (ino, handle) = self.create(key).await;
        self.write(handle, 0, bytes).await;
        self.close(handle).await;
        ino
    }

    async fn rename(&self, from: &str, to: &str) {
        let (from, to) = ((Ino::ROOT, name(from)), (Ino::ROOT, name(to)));
        self.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
    }

    /// Until nothing waits for its upload.
    async fn settled(&self) {
        while self.vfs.pending().files > 0 {
            self.clock.advance(A_WHILE);
            tokio::task::yield_now().await;
        }
    }

    /// The process dies, and another one finds what it left.
    async fn dies(self) -> (World, vfs::Recovered) {
        let World { bucket, clock, vfs, dir } = self;
        assert_eq!(Arc::strong_count(&vfs), 1, "nothing of it goes on");
        drop(vfs);
        let vfs = file_system(&bucket, &clock, dir.path());
        let recovered = vfs.recover().await.unwrap();
        (World { bucket, clock, vfs, dir }, recovered)
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

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
async fn a_file_that_is_removed_at_once_is_never_uploaded() {
    let world = World::new();
    world.closed("a", b"hello").await;
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    world.closed("b", b"b").await;
    world.settled().await;
    assert_eq!((world.object("a"), world.bucket.calls(Op::Put)), (None, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_under_another_name_and_renamed_costs_one_request() {
    let world = World::new();
    world.closed("target", b"old").await;
    world.settled().await;
    let before = world.bucket.calls_total();
    world.closed("target.tmp", b"new").await;
    world.rename("target.tmp", "target").await;
    world.settled().await;
    assert_eq!(world.object("target").unwrap(), &b"new"[..]);
    assert_eq!(world.object("target.tmp"), None);
    assert_eq!(world.bucket.calls(Op::Put), 2);
    assert_eq!(world.bucket.calls(Op::Copy) + world.bucket.calls(Op::Delete), 0);
    // That and what was asked about the two names.
    assert!(world.bucket.calls_total() <= before + 1 + 4, "{}", world.bucket.calls_total());
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
    gate.arrived(40).await;
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
async fn an_edit_that_was_closed_is_uploaded_before_its_file_or_folder_is_moved() {
    // A crash in between would find the edit under a name whose object has moved.
    for is_folder in [false, true] {
        let world = World::new();
        let (from, key) = if is_folder { ("d", "d/a") } else { ("a", "a") };
        world.bucket.insert(&Key::from(key), "first", remote::Metadata::new());
        let mut top = world.vfs().lookup(Ino::ROOT, name(from)).await.unwrap().ino;
        if is_folder {
            top = world.vfs().lookup(top, name("a")).await.unwrap().ino;
        }
        let handle = world.vfs().open(top, Access::Write, ME).await.unwrap().handle;
        world.write(handle, 0, b"again").await;
        world.close(handle).await;
        assert_eq!(world.object(key).unwrap(), &b"first"[..]);
        let gate = world.bucket.hold(Op::Copy);
        let vfs = world.vfs();
        let names = ((Ino::ROOT, name(from)), (Ino::ROOT, name("to")));
        let renaming = tokio::spawn(vfs.rename(names.0, names.1, RenameMode::Replace));
        gate.arrived(1).await;
        assert_eq!(world.object(key).unwrap(), &b"again"[..]);
        drop(gate);
        renaming.await.unwrap().unwrap();
        assert_eq!(world.vfs.drain().await, []);
        let to = if is_folder { "to/a" } else { "to" };
        assert_eq!(world.object(to).unwrap(), &b"again"[..]);
        assert_eq!(world.object(key), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_on_its_way_to_a_new_name_is_read_and_written() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), "first", remote::Metadata::new());
    world.bucket.insert(&Key::from("c"), "other", remote::Metadata::new());
    let ino = world.vfs().lookup(Ino::ROOT, name("a")).await.unwrap().ino;
    let gate = world.bucket.hold(Op::Copy);
    world.rename("a", "b").await;
    world.rename("c", "d").await;
    gate.arrived(2).await;
    let found = world.vfs().lookup(Ino::ROOT, name("b")).await.unwrap().ino;
    assert_eq!(found, ino);
    let reader = world.vfs().open(ino, Access::Read, ME).await.unwrap().handle;
    let read = world.vfs().read(reader, 0, 5).await.unwrap();
    assert_eq!(&read[..], b"first", "from where it still is");
    let writer = world.vfs().open(ino, Access::Write, ME).await.unwrap().handle;
    world.write(writer, 5, b" and more").await;
    let vfs = world.vfs();
    let closing = tokio::spawn(async move { vfs.flush(writer, ME).await });
    gate.let_through(2);
    closing.await.unwrap().unwrap();
    world.vfs.release(writer).unwrap();
    let read = world.vfs().read(reader, 0, 14).await.unwrap();
    assert_eq!(&read[..], b"first and more");
    let other = world.vfs().lookup(Ino::ROOT, name("d")).await.unwrap().ino;
    let handle = world.vfs().open(other, Access::Read, ME).await.unwrap().handle;
    let read = world.vfs().read(handle, 0, 5).await.unwrap();
    assert_eq!(&read[..], b"other");
    drop(gate);
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("b").unwrap(), &b"first and more"[..]);
    assert_eq!(world.object("d").unwrap(), &b"other"[..]);
    assert_eq!(world.bucket.keys().len(), 2);
}
