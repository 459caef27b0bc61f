//! A file system with small parts over a bucket in memory, and a state folder that outlives it.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{Budget, Clock, HandleId, Ino, ManualClock, Metrics, Name, Rng, Share};
use bytes::Bytes;
use namespace::{Bucket, BucketOptions, NewNode, Owner, RenameMode, Returns, SetAttr};
use quayfs_vfs::{Access, Commit, DirtyLimit, Last, Recovered, Result, Vfs, VfsOptions, WriteMode};
use remote::fake::Fake;
use remote::{Key, Naming, PartCopies, PartNumbers, Personality, Remote, Retry, RetryOptions};
use store::{CacheLimit, Faults, Store};
use tokio::runtime::{Handle, Runtime};
use transfer::{Fetcher, FetcherOptions, Tuned, UploadLog, Uploader, UploaderOptions};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// The first parts; twice a granule, as least part too.
pub(crate) const PART: u64 = 256 * KIB;

/// File systems so far.
static LIVES: AtomicU64 = AtomicU64::new(0);

const OWNER: Owner = Owner { uid: 7, gid: 7 };
pub(crate) const NODE: NewNode = NewNode { mode: 0o644, owner: OWNER };

/// What uploads and fetches may hold.
pub(crate) const MEMORY: u64 = 4 * MIB;

/// The process that opens and closes.
pub(crate) const ME: u32 = 100;

/// A store that takes no small parts, and copies parts like this.
pub(crate) fn store_with(part_copies: PartCopies) -> Personality {
    Personality {
        part_bytes_min: 200 * KIB,
        part_bytes_max: 5 << 30,
        parts_max: 10_000,
        object_bytes_max: 5 << 40,
        key_bytes_max: 1024,
        conditional_writes: true,
        part_copies,
        part_numbers: PartNumbers::Rising,
        naming: Naming::OF_KEYS,
    }
}

/// Bytes that tell where they are from.
pub(crate) fn pattern(size: u64) -> Vec<u8> {
    (0..size).map(|i| u8::try_from((i * 2_654_435_761) >> 13 & 0xff).unwrap()).collect()
}

pub(crate) struct World {
    pub(crate) bucket: Fake,
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) disk: Arc<Faults>,
    /// How large parts are of uploads that begin.
    pub(crate) parts: Tuned,
}

/// What is left of a [`World`] that died.
pub(crate) struct Grave {
    pub(crate) bucket: Fake,
    dir: tempfile::TempDir,
}

impl World {
    pub(crate) fn over(bucket: Fake) -> World {
        World::limited(bucket, DirtyLimit::default())
    }

    /// Writers wait while there is so much that the bucket does not have.
    pub(crate) fn limited(bucket: Fake, limit: DirtyLimit) -> World {
        World::in_folder(bucket, tempfile::tempdir().unwrap(), limit)
    }

    fn in_folder(bucket: Fake, dir: tempfile::TempDir, limit: DirtyLimit) -> World {
        let clock = Arc::new(ManualClock::default());
        let setup = Setup { dirty_limit: limit, ..Setup::default() };
        let (disk, parts) = (Arc::clone(&setup.disk), setup.parts.clone());
        let (_, vfs) = file_system(&bucket, dir.path(), clock.clone(), setup);
        World { bucket, vfs, clock, dir, disk, parts }
    }

    /// Writes as programs do: they wait if there is too much.
    pub(crate) async fn write_waiting(&self, handle: HandleId, offset: u64, bytes: &[u8]) {
        self.write(handle, offset, bytes).await;
        self.vfs.wait_for_room().await;
    }

    /// What the state folder takes on the disk.
    /// Without the log of the database, whose place is kept for it.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let mut bytes = 0;
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() {
                    folders.push(entry.path());
                } else if entry.path().extension().is_none_or(|end| end != "db-wal") {
                    bytes += metadata.blocks() * 512;
                }
            }
        }
        bytes
    }

    /// The process goes at once; the state folder stays.
    pub(crate) fn die(self) -> Grave {
        Grave { bucket: self.bucket, dir: self.dir }
    }

    pub(crate) fn vfs(&self) -> Arc<Vfs> {
        Arc::clone(&self.vfs)
    }

    pub(crate) fn object(&self, key: &str) -> Bytes {
        self.bucket.bytes(&Key::from(key)).unwrap()
    }

    pub(crate) async fn ino(&self, key: &str) -> Ino {
        self.vfs().lookup(Ino::ROOT, name(key)).await.unwrap().ino
    }

    pub(crate) async fn open(&self, key: &str, access: Access) -> HandleId {
        let ino = self.ino(key).await;
        self.vfs().open(ino, access, ME).await.unwrap().handle
    }

    pub(crate) async fn create(&self, key: &str) -> HandleId {
        let opener = (ME, false);
        let made =
            self.vfs().create(Ino::ROOT, name(key), NODE, Access::ReadWrite, opener).await.unwrap();
        made.1.handle
    }

    pub(crate) async fn write(&self, handle: HandleId, offset: u64, bytes: &[u8]) {
        let written = match self.vfs.try_write((handle, offset), bytes, WriteMode::Buffered) {
            Some(written) => written.unwrap(),
            None => self
                .vfs()
                .write((handle, offset), bytes.to_vec(), WriteMode::Buffered)
                .await
                .unwrap(),
        };
        assert_eq!(written as usize, bytes.len());
    }

    pub(crate) async fn read(&self, handle: HandleId, offset: u64, len: u64) -> Vec<u8> {
        let len = u32::try_from(len).unwrap();
        self.vfs().read(handle, offset, len).await.unwrap()
    }

    pub(crate) async fn truncate(&self, key: &str, size: u64) {
        let ino = self.ino(key).await;
        let change = SetAttr { size: Some(size), ..SetAttr::default() };
        self.vfs().set_attr(ino, change).await.unwrap();
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) {
        let (from, to) = ((Ino::ROOT, name(from)), (Ino::ROOT, name(to)));
        self.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
    }

    pub(crate) async fn close(&self, handle: HandleId) -> Result<()> {
        let closed = self.vfs().flush(handle, ME).await;
        self.vfs.release(handle).unwrap();
        closed
    }

    /// What is in the recovery folder, notes too.
    pub(crate) fn recovered(&self) -> Vec<Vec<u8>> {
        let folder = std::fs::read_dir(self.dir.path().join("recovery")).unwrap();
        folder.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
    }
}

impl Grave {
    pub(crate) async fn rise(self) -> (World, Recovered) {
        let Grave { bucket, dir } = self;
        let world = World::in_folder(bucket, dir, DirtyLimit::default());
        let recovered = world.vfs.recover().await.unwrap();
        (world, recovered)
    }
}

/// Lives until the end of `life`, with all its tasks, and is found again.
pub(crate) fn killed<L: Future<Output = World>>(
    life: impl FnOnce() -> L,
) -> (World, Recovered, Runtime) {
    killed_behind(|| async { (life().await, ()) })
}

/// As [`killed`]; what comes with the world, such as a shut gate, is dropped after the death.
pub(crate) fn killed_behind<T, L: Future<Output = (World, T)>>(
    life: impl FnOnce() -> L,
) -> (World, Recovered, Runtime) {
    let runtime = Runtime::new().unwrap();
    let (world, held) = runtime.block_on(life());
    let grave = world.die();
    drop(runtime);
    drop(held);
    let runtime = Runtime::new().unwrap();
    let (world, recovered) = runtime.block_on(grave.rise());
    (world, recovered, runtime)
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// What a file system promises.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    commit: Commit,
    returns: Returns,
    dirty_limit: DirtyLimit,
    disk: Arc<Faults>,
    parts: Tuned,
}

impl Default for Setup {
    fn default() -> Setup {
        let (commit, returns) = (Commit::Close, Returns::InBucket);
        let disk = Arc::new(Faults::new());
        Setup { commit, returns, dirty_limit: DirtyLimit::default(), disk, parts: Tuned::of(PART) }
    }
}

impl Setup {
    /// Who closes a file or changes a name waits for nothing.
    pub(crate) fn journaled() -> Setup {
        let (commit, returns) = (Commit::Async, Returns::Journaled);
        Setup { commit, returns, ..Setup::default() }
    }
}

pub(crate) fn file_system(
    bucket: &Fake,
    dir: &Path,
    clock: Arc<dyn Clock>,
    setup: Setup,
) -> (Store, Arc<Vfs>) {
    let Setup { commit, returns, dirty_limit, disk: faults, parts } = setup;
    let metrics = Arc::new(Metrics::new());
    let options = store::Options { dir: dir.to_owned(), cache: CacheLimit::Bytes(1 << 30) };
    let machine = store::World { faults, boot_id: "boot".to_owned() };
    let store = Store::open_in(&machine, options, clock.clone(), Arc::clone(&metrics)).unwrap();
    let names = BucketOptions {
        store_identity: "fake://b".to_owned(),
        metadata_ttl: Duration::from_secs(1),
        owner: OWNER,
        nodes: Share::whole(1000),
        returns,
        ..BucketOptions::default()
    };
    let (bucket, ledger) = (Arc::new(bucket.clone()), Arc::new(namespace::NoLedger));
    let namespace = Arc::new(Bucket::new(bucket.clone(), clock.clone(), ledger, names));
    let budget = Budget::new(MEMORY);
    let retry = RetryOptions { deadline: Duration::from_secs(3), ..RetryOptions::default() };
    let (rng, counted) = (Rng::seeded(7), Arc::clone(&metrics));
    let remote: Arc<dyn Remote> = Arc::new(Retry::new(bucket, retry, clock.clone(), rng, counted));
    let fetcher = Fetcher::new(
        (Arc::clone(&remote), store.clone()),
        budget.clone(),
        Handle::current(),
        Arc::clone(&metrics),
        FetcherOptions { requests_max: 8, window: Tuned::of(MIB), bandwidth: None },
    );
    let log = UploadLog::new(&store, clock.clone(), "fake://b");
    let uploading = UploaderOptions { requests_max: 64, part_bytes: parts, bandwidth: None };
    // No two processes give the same ids to their uploads.
    let seed = u64::from(std::process::id()) << 32 | LIVES.fetch_add(1, Ordering::Relaxed);
    let uploader = Uploader::new((remote, log), budget, Arc::new(Rng::seeded(seed)), uploading);
    let options = VfsOptions {
        volume: "fake://b".to_owned(),
        file_bytes_max: 1 << 40,
        commit,
        dirty_limit,
        upload_delay: quayfs_vfs::UPLOAD_DELAY,
        pending_limit: quayfs_vfs::PendingLimit::of(quayfs_vfs::PENDING_FILES, usize::MAX),
        last: Last::default(),
        trusted_xattrs: quayfs_vfs::TrustedXattrs::Kept,
        learned: Arc::default(),
    };
    let (names, disk) = (namespace, store.clone());
    let world = (clock, metrics);
    (store, Vfs::new((names, disk), (fetcher, uploader), world, Handle::current(), options))
}
