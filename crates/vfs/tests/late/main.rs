//! The promises of closes that do not wait for the bucket.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod last;
mod times;

use quayfs_vfs as vfs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{Budget, Clock, HandleId, Ino, Metrics, Name, Rng, Timestamp};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use namespace::{
    Attributes, Bucket, BucketOptions, Ledger, LedgerFailed, NewNode, Owner, RecordId, RenameMode,
    Returns, SetAttr,
};
use parking_lot::Mutex;
use remote::fake::{Fake, Gate, Op};
use remote::{Key, Remote};
use store::{CacheLimit, Store};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use transfer::{Fetcher, FetcherOptions, Tuned, UploadLog, Uploader, UploaderOptions};
use vfs::{Access, Commit, DirtyLimit, Last, Vfs, VfsOptions};

const OWNER: Owner = Owner { uid: 7, gid: 7 };
const NODE: NewNode = NewNode { mode: 0o644, owner: OWNER };
const ME: u32 = 100;

/// Longer than uploads wait for more to come.
const A_WHILE: Duration = Duration::from_secs(2);

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
        self.sleep_until(self.monotonic() + delay)
    }

    fn sleep_until(&self, due: Duration) -> BoxFuture<'static, ()> {
        let mut now = self.now.subscribe();
        async move {
            // The clock of a world that is over never moves again.
            let _ = now.wait_for(|now| due <= *now).await;
        }
        .boxed()
    }
}

struct World {
    bucket: Fake,
    clock: Arc<StillClock>,
    ledger: Arc<Memory>,
    vfs: Arc<Vfs>,
    dir: tempfile::TempDir,
}

/// A journal in memory.
#[derive(Debug, Default)]
struct Memory {
    last: AtomicU64,
    records: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Memory {
    fn left(&self) -> Vec<(RecordId, Vec<u8>)> {
        let records = self.records.lock();
        records.iter().map(|(&id, record)| (RecordId(id), record.clone())).collect()
    }
}

impl Ledger for Memory {
    fn append(&self, record: &[u8]) -> Result<RecordId, LedgerFailed> {
        let id = 1 + self.last.fetch_add(1, Ordering::Relaxed);
        self.records.lock().insert(id, record.to_vec());
        Ok(RecordId(id))
    }

    fn strike(&self, records: &[RecordId]) {
        let mut left = self.records.lock();
        for id in records {
            left.remove(&id.0);
        }
    }

    fn number(&self, _path: &[u8]) -> Option<Ino> {
        None
    }

    fn is_kept(&self, _number: Ino) -> bool {
        false
    }

    fn set_number(&self, _path: &[u8], _number: Option<Ino>) {}
}

/// What differs between the tests' mounts.
#[derive(Clone)]
struct Setup {
    upload_delay: Duration,
    pending_limit: Arc<vfs::PendingLimit>,
    dirty_limit: DirtyLimit,
    /// What comes last.
    last: Option<&'static str>,
}

impl Default for Setup {
    fn default() -> Setup {
        let (upload_delay, dirty_limit) = (vfs::UPLOAD_DELAY, DirtyLimit::default());
        let pending_limit = vfs::PendingLimit::of(vfs::PENDING_FILES);
        Setup { upload_delay, pending_limit, dirty_limit, last: Some("done") }
    }
}

fn file_system(
    bucket: &Fake,
    clock: &Arc<StillClock>,
    ledger: &Arc<Memory>,
    (dir, setup): (&Path, Setup),
) -> (Arc<Bucket>, Arc<Vfs>) {
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
    let ledger = Arc::clone(ledger) as Arc<dyn Ledger>;
    let namespace = Arc::new(Bucket::new(Arc::clone(&remote), Arc::clone(&clock), ledger, names));
    let budget = Budget::new(64 << 20);
    let fetcher = Fetcher::new(
        (Arc::clone(&remote), store.clone()),
        budget.clone(),
        Handle::current(),
        Arc::clone(&metrics),
        FetcherOptions { requests_max: 8, window: Tuned::of(8 << 20) },
    );
    let log = UploadLog::new(&store, Arc::clone(&clock), "fake://b");
    let uploading = UploaderOptions { requests_max: 64, part_bytes: Tuned::of(1 << 20) };
    let uploader = Uploader::new((remote, log), budget, Arc::new(Rng::from_entropy()), uploading);
    let options = VfsOptions {
        volume: "fake://b".to_owned(),
        file_bytes_max: 1 << 40,
        commit: Commit::Async,
        dirty_limit: setup.dirty_limit,
        upload_delay: setup.upload_delay,
        pending_limit: setup.pending_limit,
        last: Last::named(setup.last.into_iter().map(name).collect()),
        learned: Arc::default(),
    };
    let names = Arc::clone(&namespace);
    let parts = ((namespace as _, store), (fetcher, uploader), (clock, metrics));
    (names, Vfs::new(parts.0, parts.1, parts.2, Handle::current(), options))
}

impl World {
    fn new() -> World {
        World::with(Setup::default())
    }

    fn with_delay(upload_delay: Duration) -> World {
        World::with(Setup { upload_delay, ..Setup::default() })
    }

    fn with(setup: Setup) -> World {
        let (bucket, dir) = (Fake::new(), tempfile::tempdir().unwrap());
        let (clock, ledger) = (Arc::new(StillClock::new()), Arc::new(Memory::default()));
        let (_, vfs) = file_system(&bucket, &clock, &ledger, (dir.path(), setup));
        World { bucket, clock, ledger, vfs, dir }
    }

    fn vfs(&self) -> Arc<Vfs> {
        Arc::clone(&self.vfs)
    }

    fn object(&self, key: &str) -> Option<Bytes> {
        self.bucket.bytes(&Key::from(key))
    }

    async fn create(&self, key: &str) -> (Ino, HandleId) {
        self.create_in(Ino::ROOT, key).await
    }

    async fn create_in(&self, dir: Ino, key: &str) -> (Ino, HandleId) {
        let making = self.vfs().create(dir, name(key), NODE, Access::Write, (ME, false));
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

    /// What is in the recovery folder.
    fn recovery(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path().join("recovery")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Until nothing waits for its upload.
    async fn settled(&self) {
        while self.vfs.pending().files > 0 {
            self.clock.advance(A_WHILE);
            tokio::task::yield_now().await;
        }
    }

    /// Until so many calls have come to the gate.
    async fn until_arrived(&self, gate: &Gate, calls: usize) {
        while gate.arrived(calls).now_or_never().is_none() {
            self.clock.advance(A_WHILE);
            tokio::task::yield_now().await;
        }
    }

    /// The process dies, and another one finds what it left.
    async fn dies(self) -> (World, vfs::Recovered) {
        assert_eq!(Arc::strong_count(&self.vfs), 1, "nothing of it goes on");
        self.buried().rise().await
    }

    fn buried(self) -> Grave {
        let World { bucket, clock, ledger, dir, .. } = self;
        Grave { bucket, clock, ledger, dir }
    }
}

/// What is left of a [`World`] that died.
struct Grave {
    bucket: Fake,
    clock: Arc<StillClock>,
    ledger: Arc<Memory>,
    dir: tempfile::TempDir,
}

impl Grave {
    /// Another process finds it.
    async fn rise(self) -> (World, vfs::Recovered) {
        let Grave { bucket, clock, ledger, dir } = self;
        let place = (dir.path(), Setup::default());
        let (names, vfs) = file_system(&bucket, &clock, &ledger, place);
        assert_eq!(names.replay(ledger.left()).await.waiting, 0);
        let recovered = vfs.recover().await.unwrap();
        (World { bucket, clock, ledger, vfs, dir }, recovered)
    }
}

/// Lives until the end of `life`, with all its tasks, and is found again. What is held then is never done.
fn killed<L: Future<Output = (World, Vec<Gate>)>>(
    life: impl FnOnce() -> L,
) -> (World, vfs::Recovered, Runtime) {
    let runtime = Runtime::new().unwrap();
    let (grave, gates) = runtime.block_on(async {
        let (world, gates) = life().await;
        (world.buried(), gates)
    });
    drop(runtime);
    drop(gates);
    let runtime = Runtime::new().unwrap();
    let (world, recovered) = runtime.block_on(grave.rise());
    (world, recovered, runtime)
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
        pending_limit: vfs::PendingLimit::of(3),
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

impl World {
    /// A file `a`, or `d/a`, of which an edit was closed, and with the folder also a new file in it.
    async fn edited(is_folder: bool) -> World {
        let world = World::new();
        let (top, key) = if is_folder { ("d", "d/a") } else { ("a", "a") };
        world.bucket.insert(&Key::from(key), "first", remote::Metadata::new());
        let mut ino = world.vfs().lookup(Ino::ROOT, name(top)).await.unwrap().ino;
        if is_folder {
            world.closed_in(ino, "new", b"new").await;
            ino = world.vfs().lookup(ino, name("a")).await.unwrap().ino;
        }
        world.overwrite(ino, b"again").await;
        assert_eq!(world.object(key).unwrap(), &b"first"[..]);
        world
    }

    async fn closed_in(&self, dir: Ino, key: &str, bytes: &[u8]) {
        let (_, handle) = self.create_in(dir, key).await;
        self.write(handle, 0, bytes).await;
        self.close(handle).await;
    }

    fn objects(&self) -> Vec<(String, Bytes)> {
        let keys = self.bucket.keys().into_iter();
        keys.map(|key| (key.to_string(), self.bucket.bytes(&key).unwrap())).collect()
    }
}

fn owned(objects: &[(&str, &'static str)]) -> Vec<(String, Bytes)> {
    objects.iter().map(|&(key, bytes)| (key.to_owned(), Bytes::from(bytes))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_closed_and_not_uploaded_is_renamed_at_once_and_gets_there() {
    for is_folder in [false, true] {
        let world = World::edited(is_folder).await;
        let gate = world.bucket.hold(Op::Copy);
        world.rename(if is_folder { "d" } else { "a" }, "to").await;
        gate.arrived(1).await;
        if is_folder {
            let to = world.vfs().lookup(Ino::ROOT, name("to")).await.unwrap().ino;
            world.closed_in(to, "newer", b"newer").await;
        }
        assert_eq!(world.bucket.calls(Op::Put), 0);
        drop(gate);
        assert_eq!(world.vfs.drain().await, []);
        let want: &[_] = if is_folder {
            &[("to/a", "again"), ("to/new", "new"), ("to/newer", "newer")]
        } else {
            &[("to", "again")]
        };
        assert_eq!(world.objects(), owned(want));
        assert!(world.ledger.left().is_empty());
        assert!(world.recovery().is_empty());
    }
}

#[test]
fn what_was_closed_is_under_the_new_name_of_its_file_or_folder_whenever_the_process_dies() {
    for is_folder in [false, true] {
        for held in [Op::Copy, Op::Delete] {
            let (world, recovered, runtime) = killed(async || {
                let world = World::edited(is_folder).await;
                let gate = world.bucket.hold(held);
                world.rename(if is_folder { "d" } else { "a" }, "to").await;
                gate.arrived(1).await;
                if is_folder {
                    let to = world.vfs().lookup(Ino::ROOT, name("to")).await.unwrap().ino;
                    world.closed_in(to, "newer", b"newer").await;
                }
                (world, vec![gate])
            });
            let want: &[_] = if is_folder {
                &[("to/a", "again"), ("to/new", "new"), ("to/newer", "newer")]
            } else {
                &[("to", "again")]
            };
            assert_eq!(world.objects(), owned(want), "{held:?} {recovered:?}");
            assert_eq!((recovered.waiting, recovered.kept.len()), (0, 0));
            assert!(world.ledger.left().is_empty());
            drop((world, runtime));
        }
    }
}

#[test]
fn what_was_closed_below_a_renamed_folder_is_under_its_new_name_although_its_recovery_dies_too() {
    let runtime = Runtime::new().unwrap();
    let (grave, gates) = runtime.block_on(async {
        let world = World::edited(true).await;
        let gate = world.bucket.hold(Op::Copy);
        world.rename("d", "to").await;
        gate.arrived(1).await;
        (world.buried(), gate)
    });
    drop(runtime);
    drop(gates);
    // The next process makes the move, and dies before it has looked for what goes along.
    let runtime = Runtime::new().unwrap();
    let grave = runtime.block_on(async {
        let Grave { bucket, clock, ledger, dir } = grave;
        let place = (dir.path(), Setup::default());
        let (names, vfs) = file_system(&bucket, &clock, &ledger, place);
        assert_eq!(names.replay(ledger.left()).await.waiting, 0);
        drop(vfs);
        Grave { bucket, clock, ledger, dir }
    });
    drop(runtime);
    let runtime = Runtime::new().unwrap();
    let (world, recovered) = runtime.block_on(grave.rise());
    let want = [("to/a", "again"), ("to/new", "new")];
    assert_eq!(world.objects(), owned(&want), "{recovered:?}");
    assert_eq!((recovered.waiting, recovered.kept.len()), (0, 0));
    assert!(world.ledger.left().is_empty());
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

impl World {
    /// Writes `bytes` over the beginning of a file, and closes it.
    async fn overwrite(&self, ino: Ino, bytes: &[u8]) {
        let handle = self.vfs().open(ino, Access::Write, ME).await.unwrap().handle;
        self.write(handle, 0, bytes).await;
        self.close(handle).await;
    }
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
