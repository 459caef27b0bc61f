//! A file system over a bucket in memory, a store on the real disk, and a kernel that only takes notes.

use quayfs_vfs as vfs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{Budget, Errno, Ino, ManualClock, Metrics, Name, Rng, Share};
use bytes::Bytes;
use namespace::{Bucket, BucketOptions, NewNode, Owner};
use remote::fake::{Fake, Op};
use remote::{Key, Metadata, Remote, Retry, RetryOptions};
use store::{BackingFile, CacheLimit, Store};
use tokio::runtime::Handle;
use transfer::{Fetcher, FetcherOptions, Tuned, UploadLog, Uploader, UploaderOptions};
use vfs::{
    Access, Backing, Commit, DirtyLimit, Kernel, Last, PageRange, Vfs, VfsOptions, WriteMode, errno,
};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const OWNER: Owner = Owner { uid: 7, gid: 7 };
pub(crate) const NODE: NewNode = NewNode { mode: 0o644, owner: OWNER };
pub(crate) const METADATA_TTL: Duration = Duration::from_secs(1);
pub(crate) const ME: u32 = 100;
pub(crate) const CHILD: u32 = 101;

#[derive(Debug, Default)]
pub(crate) struct Notes {
    registered: AtomicU32,
    dropped: Mutex<Vec<PageRange>>,
    refuses_to_drop: AtomicBool,
}

impl Notes {
    /// The pages that were dropped since the last look.
    pub(crate) fn dropped(&self) -> Vec<PageRange> {
        std::mem::take(&mut self.dropped.lock().unwrap())
    }

    /// Drops no pages from now on.
    pub(crate) fn refuse_to_drop(&self) {
        self.refuses_to_drop.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Registered(u32);

impl Backing for Registered {
    fn id(&self) -> u32 {
        self.0
    }
}

impl Kernel for Notes {
    fn register(&self, _file: &BackingFile) -> Option<Box<dyn Backing>> {
        Some(Box::new(Registered(1 + self.registered.fetch_add(1, Ordering::Relaxed))))
    }

    fn drop_pages(&self, _ino: Ino, pages: PageRange) -> io::Result<()> {
        if self.refuses_to_drop.load(Ordering::Relaxed) {
            return Err(io::Error::other("it does not want to"));
        }
        self.dropped.lock().unwrap().push(pages);
        Ok(())
    }
}

/// A file system over `bucket` whose state folder is `dir`.
fn file_system(
    bucket: &Fake,
    dir: &Path,
    clock: Arc<ManualClock>,
    kernel: &Arc<Notes>,
) -> Arc<Vfs> {
    let metrics = Arc::new(Metrics::new());
    let options = store::Options { dir: dir.to_owned(), cache: CacheLimit::Bytes(1 << 30) };
    let store = Store::open(options, clock.clone(), Arc::clone(&metrics)).unwrap();
    let names = BucketOptions {
        store_identity: "fake://b".to_owned(),
        metadata_ttl: METADATA_TTL,
        owner: OWNER,
        file_mode: 0o644,
        folder_mode: 0o755,
        nodes: Share::whole(1000),
        ..BucketOptions::default()
    };
    let namespace = Arc::new(Bucket::new(
        Arc::new(bucket.clone()),
        clock.clone(),
        Arc::new(namespace::NoLedger),
        names,
    ));
    let budget = Budget::new(64 * MIB);
    let fetching = FetcherOptions { requests_max: 8, window: Tuned::of(8 * MIB), bandwidth: None };
    let retry = RetryOptions { deadline: Duration::from_secs(3), ..RetryOptions::default() };
    let remote: Arc<dyn Remote> = Arc::new(Retry::new(
        Arc::new(bucket.clone()),
        retry,
        clock.clone(),
        Rng::seeded(7),
        Arc::clone(&metrics),
    ));
    let fetcher = Fetcher::new(
        (Arc::clone(&remote), store.clone()),
        budget.clone(),
        Handle::current(),
        Arc::clone(&metrics),
        fetching,
    );
    let log = UploadLog::new(&store, clock.clone(), "fake://b");
    let uploading =
        UploaderOptions { requests_max: 1, part_bytes: Tuned::of(MIB), bandwidth: None };
    let uploader = Uploader::new(
        (remote, log),
        budget,
        Arc::new(Rng::seeded(std::process::id().into())),
        uploading,
    );
    let options = VfsOptions {
        volume: "fake://b".to_owned(),
        file_bytes_max: 1 << 40,
        commit: Commit::Close,
        dirty_limit: DirtyLimit::default(),
        upload_delay: vfs::UPLOAD_DELAY,
        pending_limit: vfs::PendingLimit::of(vfs::PENDING_FILES, usize::MAX),
        last: Last::default(),
        trusted_xattrs: vfs::TrustedXattrs::Kept,
        learned: Arc::default(),
    };
    let vfs = Vfs::new(
        (namespace, store),
        (fetcher, uploader),
        (clock, metrics),
        Handle::current(),
        options,
    );
    let kernel: Arc<dyn Kernel> = kernel.clone();
    vfs.attach(kernel);
    vfs
}

pub(crate) struct World {
    pub(crate) bucket: Fake,
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) kernel: Arc<Notes>,
    clock: Arc<ManualClock>,
    dir: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> World {
        World::over(Fake::new(), tempfile::tempdir().unwrap())
    }

    fn over(bucket: Fake, dir: tempfile::TempDir) -> World {
        let clock = Arc::new(ManualClock::default());
        let kernel = Arc::new(Notes::default());
        let vfs = file_system(&bucket, dir.path(), Arc::clone(&clock), &kernel);
        World { bucket, vfs, kernel, clock, dir }
    }

    pub(crate) fn vfs(&self) -> Arc<Vfs> {
        Arc::clone(&self.vfs)
    }

    pub(crate) fn object(&self, key: &str) -> Option<Bytes> {
        self.bucket.bytes(&Key::from(key))
    }

    /// Others make `bytes` the object, and somebody looks at its name here.
    pub(crate) async fn replaced(&self, key: &str, bytes: &'static [u8]) {
        self.bucket.insert(&Key::from(key), bytes, Metadata::new());
        self.clock.advance(2 * METADATA_TTL);
        let found = self.vfs().lookup(Ino::ROOT, name(key)).await.unwrap();
        assert_eq!(found.size, bytes.len() as u64);
    }

    /// Time goes on.
    pub(crate) fn later(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(crate) async fn lookup(&self, key: &str) -> Ino {
        self.vfs().lookup(Ino::ROOT, name(key)).await.unwrap().ino
    }

    pub(crate) async fn create(&self, key: &str, exclusive: bool) -> (Ino, base::HandleId) {
        let opener = (ME, exclusive);
        let (attr, opened) =
            self.vfs().create(Ino::ROOT, name(key), NODE, Access::ReadWrite, opener).await.unwrap();
        (attr.ino, opened.handle)
    }

    pub(crate) async fn open(&self, ino: Ino, access: Access) -> vfs::Opened {
        self.vfs().open(ino, access, ME).await.unwrap()
    }

    pub(crate) async fn write(&self, handle: base::HandleId, offset: u64, bytes: &[u8]) {
        self.write_as(WriteMode::Buffered, (handle, offset), bytes).await;
    }

    pub(crate) async fn write_as(&self, mode: WriteMode, to: vfs::Place, bytes: &[u8]) {
        let written = match self.vfs.try_write(to, bytes, mode) {
            Some(written) => written.unwrap(),
            None => self.vfs().write(to, bytes.to_vec(), mode).await.unwrap(),
        };
        assert_eq!(written as usize, bytes.len());
    }

    /// Dies while `handle` is being synced, once `puts` of its tries have come to the store and all
    /// but the last of them went through. What comes after the death finds the same state folder.
    pub(crate) async fn die_while_syncing(self, handle: base::HandleId, puts: usize) -> Grave {
        let World { bucket, vfs, kernel: _, clock: _, dir } = self;
        let gate = bucket.hold(Op::Put);
        let syncing = tokio::spawn(Arc::clone(&vfs).fsync(handle));
        gate.let_through(puts - 1);
        gate.arrived(puts).await;
        syncing.abort();
        assert!(syncing.await.unwrap_err().is_cancelled());
        drop(gate);
        drop(vfs);
        Grave { bucket, dir }
    }

    /// The one staged file, which its holder writes to as the kernel does for a mapping.
    pub(crate) fn mapped(&self) -> std::fs::File {
        let mut staged = std::fs::read_dir(self.dir.path().join("staged")).unwrap();
        let path = staged.next().unwrap().unwrap().path();
        std::fs::File::options().write(true).open(path).unwrap()
    }

    pub(crate) fn staged_files(&self) -> usize {
        std::fs::read_dir(self.dir.path().join("staged")).unwrap().count()
    }

    pub(crate) fn recovered(&self) -> Vec<Vec<u8>> {
        let recovery = self.dir.path().join("recovery");
        let mut found = Vec::new();
        let mut folders = vec![recovery];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(std::fs::read(path).unwrap());
                }
            }
        }
        found
    }
}

/// What is left of a [`World`] that died.
pub(crate) struct Grave {
    pub(crate) bucket: Fake,
    dir: tempfile::TempDir,
}

impl Grave {
    pub(crate) fn empty_staged_files(&self) {
        for entry in std::fs::read_dir(self.dir.path().join("staged")).unwrap() {
            std::fs::write(entry.unwrap().path(), b"").unwrap();
        }
    }

    pub(crate) async fn rise(self) -> (World, vfs::Recovered) {
        let Grave { bucket, dir } = self;
        let world = World::over(bucket, dir);
        let recovered = world.vfs.recover().await.unwrap();
        (world, recovered)
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub(crate) fn told<T: std::fmt::Debug>(result: vfs::Result<T>) -> Errno {
    errno(&result.unwrap_err())
}
