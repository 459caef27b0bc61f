//! A file system whose closes do not wait, over a bucket and a journal in memory, and a clock that stands still.

use quayfs_vfs as vfs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{Budget, Clock, Errno, HandleId, Ino, Metrics, Name, Rng, Timestamp};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use namespace::{
    Attributes, Bucket, BucketOptions, Finished, Ledger, LedgerFailed, NewNode, Owner, RecordId,
    RenameMode, Returns,
};
use parking_lot::Mutex;
use remote::fake::{Fake, Gate};
use remote::{Key, Metadata, Remote};
use store::{CacheLimit, Store};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use transfer::{Fetcher, FetcherOptions, Tuned, UploadLog, Uploader, UploaderOptions};
use vfs::{Access, Commit, DirtyLimit, Last, Vfs, VfsOptions, WriteMode, errno};

pub(crate) const OWNER: Owner = Owner { uid: 7, gid: 7 };
pub(crate) const NODE: NewNode = NewNode { mode: 0o644, owner: OWNER };
pub(crate) const ME: u32 = 100;

/// Longer than uploads wait for more to come.
pub(crate) const A_WHILE: Duration = Duration::from_secs(2);

/// What is left of a process that dies ends within this.
const OVER_WITHIN: Duration = Duration::from_secs(30);

/// Looks at what has to happen.
pub(crate) const MANY_LOOKS: usize = 1_000_000;

/// A clock that stands still until it is moved; who sleeps waits for that.
#[derive(Debug)]
pub(crate) struct StillClock {
    now: watch::Sender<Duration>,
}

impl StillClock {
    pub(crate) fn new() -> StillClock {
        StillClock { now: watch::Sender::new(Duration::ZERO) }
    }

    pub(crate) fn advance(&self, by: Duration) {
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

pub(crate) struct World {
    pub(crate) bucket: Fake,
    pub(crate) clock: Arc<StillClock>,
    pub(crate) ledger: Arc<Memory>,
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) dir: tempfile::TempDir,
}

/// A journal in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    last: AtomicU64,
    records: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Memory {
    pub(crate) fn left(&self) -> Vec<(RecordId, Vec<u8>)> {
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
pub(crate) struct Setup {
    pub(crate) upload_delay: Duration,
    pub(crate) pending_limit: Arc<vfs::PendingLimit>,
    pub(crate) dirty_limit: DirtyLimit,
    /// What comes last.
    pub(crate) last: Option<&'static str>,
}

impl Default for Setup {
    fn default() -> Setup {
        let (upload_delay, dirty_limit) = (vfs::UPLOAD_DELAY, DirtyLimit::default());
        let pending_limit = vfs::PendingLimit::of(vfs::PENDING_FILES, usize::MAX);
        Setup { upload_delay, pending_limit, dirty_limit, last: Some("done") }
    }
}

pub(crate) fn file_system(
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
        FetcherOptions { requests_max: 8, window: Tuned::of(8 << 20), bandwidth: None },
    );
    let log = UploadLog::new(&store, Arc::clone(&clock), "fake://b");
    let uploading =
        UploaderOptions { requests_max: 64, part_bytes: Tuned::of(1 << 20), bandwidth: None };
    let uploader = Uploader::new((remote, log), budget, Arc::new(Rng::from_entropy()), uploading);
    let options = VfsOptions {
        volume: "fake://b".to_owned(),
        file_bytes_max: 1 << 40,
        commit: Commit::Async,
        dirty_limit: setup.dirty_limit,
        upload_delay: setup.upload_delay,
        pending_limit: setup.pending_limit,
        last: Last::named(setup.last.into_iter().map(name).collect()),
        trusted_xattrs: vfs::TrustedXattrs::Kept,
        learned: Arc::default(),
    };
    let names = Arc::clone(&namespace);
    let parts = ((namespace as _, store), (fetcher, uploader), (clock, metrics));
    (names, Vfs::new(parts.0, parts.1, parts.2, Handle::current(), options))
}

impl World {
    pub(crate) fn new() -> World {
        World::with(Setup::default())
    }

    pub(crate) fn with_delay(upload_delay: Duration) -> World {
        World::with(Setup { upload_delay, ..Setup::default() })
    }

    pub(crate) fn with(setup: Setup) -> World {
        World::over(Fake::new(), setup)
    }

    pub(crate) fn over(bucket: Fake, setup: Setup) -> World {
        let dir = tempfile::tempdir().unwrap();
        let (clock, ledger) = (Arc::new(StillClock::new()), Arc::new(Memory::default()));
        let (_, vfs) = file_system(&bucket, &clock, &ledger, (dir.path(), setup));
        World { bucket, clock, ledger, vfs, dir }
    }

    pub(crate) fn vfs(&self) -> Arc<Vfs> {
        Arc::clone(&self.vfs)
    }

    pub(crate) fn object(&self, key: &str) -> Option<Bytes> {
        self.bucket.bytes(&Key::from(key))
    }

    pub(crate) async fn create(&self, key: &str) -> (Ino, HandleId) {
        self.create_in(Ino::ROOT, key).await
    }

    pub(crate) async fn create_in(&self, dir: Ino, key: &str) -> (Ino, HandleId) {
        let making = self.vfs().create(dir, name(key), NODE, Access::Write, (ME, false));
        let (attr, opened) = making.await.unwrap();
        (attr.ino, opened.handle)
    }

    pub(crate) async fn write(&self, handle: HandleId, offset: u64, bytes: &[u8]) {
        self.vfs().write((handle, offset), bytes.to_vec(), WriteMode::Buffered).await.unwrap();
    }

    pub(crate) async fn close(&self, handle: HandleId) {
        self.vfs().flush(handle, ME).await.unwrap();
        self.vfs.release(handle).unwrap();
    }

    /// A file that was written and closed.
    pub(crate) async fn closed(&self, key: &str, bytes: &[u8]) -> Ino {
        let (ino, handle) = self.create(key).await;
        self.write(handle, 0, bytes).await;
        self.close(handle).await;
        ino
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) {
        let (from, to) = ((Ino::ROOT, name(from)), (Ino::ROOT, name(to)));
        self.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
    }

    /// A file `a`, or `d/a`, of which an edit was closed, and with the folder also a new file in it.
    pub(crate) async fn edited(is_folder: bool) -> World {
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

    pub(crate) async fn closed_in(&self, dir: Ino, key: &str, bytes: &[u8]) {
        let (_, handle) = self.create_in(dir, key).await;
        self.write(handle, 0, bytes).await;
        self.close(handle).await;
    }

    pub(crate) fn objects(&self) -> Vec<(String, Bytes)> {
        let keys = self.bucket.keys().into_iter();
        keys.map(|key| (key.to_string(), self.bucket.bytes(&key).unwrap())).collect()
    }

    /// Writes `bytes` over the beginning of a file, and closes it.
    pub(crate) async fn overwrite(&self, ino: Ino, bytes: &[u8]) {
        let handle = self.vfs().open(ino, Access::Write, ME).await.unwrap().handle;
        self.write(handle, 0, bytes).await;
        self.close(handle).await;
    }

    /// What is in the recovery folder.
    pub(crate) fn recovery(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path().join("recovery")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Until nothing waits for its upload.
    pub(crate) async fn settled(&self) {
        while self.vfs.pending().files > 0 {
            self.clock.advance(A_WHILE);
            tokio::task::yield_now().await;
        }
    }

    /// Until so many calls have come to the gate.
    pub(crate) async fn until_arrived(&self, gate: &Gate, calls: usize) {
        while gate.arrived(calls).now_or_never().is_none() {
            self.clock.advance(A_WHILE);
            tokio::task::yield_now().await;
        }
    }

    /// Another program writes the object.
    pub(crate) fn put_elsewhere(&self, key: &str) {
        self.bucket.insert(&Key::from(key), "theirs", Metadata::new());
    }

    /// A folder that is there because something is in it.
    pub(crate) async fn folder(&self, folder: &str) -> Ino {
        self.put_elsewhere(&format!("{folder}/old"));
        self.vfs().lookup(Ino::ROOT, name(folder)).await.unwrap().ino
    }

    pub(crate) async fn fsync_fails(&self, folder: Ino) -> Errno {
        errno(&self.vfs().fsync_dir(folder).await.unwrap_err())
    }

    pub(crate) async fn has(&self, file: &str) -> bool {
        self.vfs().lookup(Ino::ROOT, name(file)).await.is_ok()
    }

    /// The process dies, and another one finds what it left.
    pub(crate) async fn dies(self) -> (World, vfs::Recovered) {
        // Who hands out what is due has it for a moment, whenever a file becomes due.
        let over = async {
            while Arc::strong_count(&self.vfs) != 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(OVER_WITHIN, over).await.expect("nothing of it goes on");
        self.buried().rise().await
    }

    pub(crate) fn buried(self) -> Grave {
        let World { bucket, clock, ledger, dir, .. } = self;
        Grave { bucket, clock, ledger, dir }
    }
}

/// What is left of a [`World`] that died.
pub(crate) struct Grave {
    pub(crate) bucket: Fake,
    pub(crate) clock: Arc<StillClock>,
    pub(crate) ledger: Arc<Memory>,
    pub(crate) dir: tempfile::TempDir,
}

impl Grave {
    /// Another process finds it.
    pub(crate) async fn rise(self) -> (World, vfs::Recovered) {
        let (world, finished, recovered) = self.tries_to_rise().await;
        assert_eq!(finished.waiting, 0);
        (world, recovered)
    }

    pub(crate) async fn tries_to_rise(self) -> (World, Finished, vfs::Recovered) {
        let Grave { bucket, clock, ledger, dir } = self;
        let place = (dir.path(), Setup::default());
        let (names, vfs) = file_system(&bucket, &clock, &ledger, place);
        let finished = names.replay(ledger.left()).await;
        let recovered = vfs.recover().await.unwrap();
        (World { bucket, clock, ledger, vfs, dir }, finished, recovered)
    }
}

/// Lives until the end of `life`, with all its tasks, and is found again. What is held then is never done.
pub(crate) fn killed<L: Future<Output = (World, Vec<Gate>)>>(
    life: impl FnOnce() -> L,
) -> (World, vfs::Recovered, Runtime) {
    killed_on(Runtime::new().unwrap(), life)
}

/// As [`killed`], on this runtime.
pub(crate) fn killed_on<L: Future<Output = (World, Vec<Gate>)>>(
    runtime: Runtime,
    life: impl FnOnce() -> L,
) -> (World, vfs::Recovered, Runtime) {
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

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub(crate) fn owned(objects: &[(&str, &'static str)]) -> Vec<(String, Bytes)> {
    objects.iter().map(|&(key, bytes)| (key.to_owned(), Bytes::from(bytes))).collect()
}
