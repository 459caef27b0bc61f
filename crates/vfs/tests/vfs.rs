//! The promises of the file system, over a bucket in memory, a store on the real disk, and a kernel
//! that only takes notes.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use quayfs_vfs as vfs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base::{Budget, ByteRange, Errno, Ino, ManualClock, Metrics, Name, Rng};
use bytes::Bytes;
use namespace::{Bucket, BucketOptions, NewNode, Owner, RenameMode, SetAttr};
use remote::fake::{Fake, Op};
use remote::{ErrorKind, Key, Metadata, Remote, Retry, RetryOptions};
use store::{BackingFile, CacheLimit, Store};
use tokio::runtime::Handle;
use transfer::{Fetcher, FetcherOptions, Uploader, UploaderOptions};
use vfs::{
    Access, Backing, Commit, DirtyLimit, Fallocate, Growth, Kernel, Pages, Seek, Vfs, VfsOptions,
    errno,
};

const MIB: u64 = 1 << 20;
const OWNER: Owner = Owner { uid: 7, gid: 7 };
const NODE: NewNode = NewNode { mode: 0o644, owner: OWNER };
const ME: u32 = 100;
const CHILD: u32 = 101;

#[derive(Debug, Default)]
struct Notes {
    registered: AtomicU32,
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

    fn write_back(&self, _ino: Ino, _range: ByteRange) {}
}

/// A file system over `bucket` whose state folder is `dir`.
fn file_system(bucket: &Fake, dir: &Path) -> Arc<Vfs> {
    let clock = Arc::new(ManualClock::default());
    let metrics = Arc::new(Metrics::new());
    let options = store::Options { dir: dir.to_owned(), cache: CacheLimit::Bytes(1 << 30) };
    let store = Store::open(options, clock.clone(), Arc::clone(&metrics)).unwrap();
    let names = BucketOptions {
        store_identity: "fake://b".to_owned(),
        metadata_ttl: Duration::from_secs(1),
        owner: OWNER,
        file_mode: 0o644,
        folder_mode: 0o755,
        nodes_max: 1000,
        ..BucketOptions::default()
    };
    let namespace = Arc::new(Bucket::new(
        Arc::new(bucket.clone()),
        clock.clone(),
        Arc::new(namespace::NoLedger),
        names,
    ));
    let budget = Budget::new(64 * MIB);
    let fetching = FetcherOptions { requests_max: 8, window_bytes_max: 8 * MIB };
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
    let uploading = UploaderOptions { requests_max: 1, part_bytes: MIB };
    let uploader =
        Uploader::new(remote, budget, Arc::new(Rng::seeded(std::process::id().into())), uploading);
    let options = VfsOptions {
        volume: "fake://b".to_owned(),
        file_bytes_max: 1 << 40,
        commit: Commit::Close,
        dirty_limit: DirtyLimit::default(),
    };
    let vfs = Vfs::new(
        (namespace, store),
        (fetcher, uploader),
        (clock, metrics),
        Handle::current(),
        options,
    );
    vfs.attach(Arc::new(Notes::default()));
    vfs
}

struct World {
    bucket: Fake,
    vfs: Arc<Vfs>,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let (bucket, dir) = (Fake::new(), tempfile::tempdir().unwrap());
        let vfs = file_system(&bucket, dir.path());
        World { bucket, vfs, dir }
    }

    fn vfs(&self) -> Arc<Vfs> {
        Arc::clone(&self.vfs)
    }

    fn object(&self, key: &str) -> Option<Bytes> {
        self.bucket.bytes(&Key::from(key))
    }

    async fn lookup(&self, key: &str) -> Ino {
        self.vfs().lookup(Ino::ROOT, name(key)).await.unwrap().ino
    }

    async fn create(&self, key: &str, exclusive: bool) -> (Ino, base::HandleId) {
        let opener = (ME, exclusive);
        let (attr, opened) =
            self.vfs().create(Ino::ROOT, name(key), NODE, Access::ReadWrite, opener).await.unwrap();
        (attr.ino, opened.handle)
    }

    async fn open(&self, ino: Ino, access: Access) -> vfs::Opened {
        self.vfs().open(ino, access, ME).await.unwrap()
    }

    async fn write(&self, handle: base::HandleId, offset: u64, bytes: &[u8]) {
        let written = match self.vfs.try_write(handle, offset, bytes) {
            Some(written) => written.unwrap(),
            None => self.vfs().write(handle, offset, bytes.to_vec()).await.unwrap(),
        };
        assert_eq!(written as usize, bytes.len());
    }

    /// Dies while `handle` is being synced, once `puts` of its tries have come to the store and all
    /// but the last of them went through. What comes after the death finds the same state folder.
    async fn die_while_syncing(self, handle: base::HandleId, puts: usize) -> Grave {
        let World { bucket, vfs, dir } = self;
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

    fn recovered(&self) -> Vec<Vec<u8>> {
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
struct Grave {
    bucket: Fake,
    dir: tempfile::TempDir,
}

impl Grave {
    async fn rise(self) -> (World, vfs::Recovered) {
        let Grave { bucket, dir } = self;
        let world = World { vfs: file_system(&bucket, dir.path()), bucket, dir };
        let recovered = world.vfs.recover().await.unwrap();
        (world, recovered)
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn told<T: std::fmt::Debug>(result: vfs::Result<T>) -> Errno {
    errno(&result.unwrap_err())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_returned_is_in_the_bucket() {
    let world = World::new();
    let (ino, handle) = world.create("a", false).await;
    world.write(handle, 0, b"hello ").await;
    world.write(handle, 6, b"world").await;
    assert_eq!(world.vfs().attr(ino).await.unwrap().size, 11);
    assert_eq!(world.object("a"), None);
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"hello world"[..]);
    world.vfs.release(handle).unwrap();
    assert_eq!(world.vfs.pending(), vfs::Pending::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_without_news_sends_nothing() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b""[..]);
    let calls = world.bucket.calls_total();
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.bucket.calls_total(), calls);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_childs_close_does_not_wait_for_the_bucket() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    world.write(handle, 0, b"x").await;
    let gate = world.bucket.hold(Op::Put);
    world.vfs().flush(handle, CHILD).await.unwrap();
    gate.arrived(1).await;
    assert_eq!(world.object("a"), None);
    drop(gate);
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"x"[..]);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_in_place_keeps_the_rest_of_the_object() {
    let world = World::new();
    let size = usize::try_from(3 * MIB).unwrap();
    let mut want = vec![7; size];
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.vfs().open(ino, Access::ReadWrite, ME).await.unwrap().handle;
    world.write(handle, MIB + 10, b"edited").await;
    assert_eq!(world.vfs().read(handle, MIB + 9, 8).await.unwrap(), b"\x07edited\x07");
    world.vfs().flush(handle, ME).await.unwrap();
    let at = size / 3 + 10;
    want[at..at + 6].copy_from_slice(b"edited");
    assert!(world.object("a").unwrap() == want);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_during_an_upload_is_not_in_it_and_not_lost() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    // Nothing of a file that is in the bucket is sent ahead.
    world.write(handle, 0, b"x").await;
    world.vfs().fsync(handle).await.unwrap();
    let old = vec![b'o'; usize::try_from(3 * MIB).unwrap()];
    world.write(handle, 0, &old).await;
    let gate = world.bucket.hold(Op::UploadPart);
    let syncing = tokio::spawn(world.vfs().fsync(handle));
    // The first part was read; the others are overwritten before they are.
    gate.arrived(1).await;
    world.write(handle, 0, &vec![b'n'; usize::try_from(4 * MIB).unwrap()]).await;
    drop(gate);
    syncing.await.unwrap().unwrap();
    assert!(world.object("a").unwrap() == old, "the version of the fsync, whole");
    world.vfs().flush(handle, ME).await.unwrap();
    let new = world.object("a").unwrap();
    assert!(new.len() as u64 == 4 * MIB && new.iter().all(|&byte| byte == b'n'));
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_lost_a_race_fails_and_its_bytes_are_kept() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"old"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.vfs().open(ino, Access::ReadWrite, ME).await.unwrap().handle;
    world.write(handle, 0, b"mine").await;
    world.bucket.insert(&Key::from("a"), &b"theirs"[..], Metadata::new());
    assert_eq!(told(world.vfs().flush(handle, ME).await), Errno::ESTALE);
    assert_eq!(world.object("a").unwrap(), &b"theirs"[..]);
    assert!(world.recovered().contains(&b"mine".to_vec()));
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_written_whole_wins_and_an_exclusive_one_does_not() {
    let world = World::new();
    for (key, exclusive, want) in [("w", false, &b"mine"[..]), ("x", true, b"theirs")] {
        let (_, handle) = world.create(key, exclusive).await;
        world.write(handle, 0, b"mine").await;
        world.bucket.insert(&Key::from(key), &b"theirs"[..], Metadata::new());
        let closed = world.vfs().flush(handle, ME).await;
        assert_eq!(closed.is_ok(), !exclusive);
        assert_eq!(world.object(key).unwrap(), want);
        world.vfs.release(handle).unwrap();
    }
    assert_eq!(world.recovered().iter().filter(|bytes| **bytes == b"mine").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_close_keeps_the_bytes_and_they_come_later() {
    let world = World::new();
    let (ino, handle) = world.create("a", false).await;
    world.write(handle, 0, b"x").await;
    world.bucket.fail_next(Op::Put, ErrorKind::Unavailable);
    assert_eq!(told(world.vfs().flush(handle, ME).await), Errno::EIO);
    let pending = world.vfs.pending();
    assert_eq!((pending.files, pending.failures.len()), (1, 1));
    world.vfs.release(handle).unwrap();
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("a").unwrap(), &b"x"[..]);
    assert_eq!(world.vfs().attr(ino).await.unwrap().size, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlinked_open_file_lives_on_and_is_never_published() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    world.write(handle, 0, b"ghost").await;
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    assert_eq!(world.vfs().read(handle, 0, 10).await.unwrap(), b"ghost");
    world.vfs().flush(handle, ME).await.unwrap();
    world.vfs.release(handle).unwrap();
    assert_eq!(world.object("a"), None);
    assert_eq!(told(world.vfs().lookup(Ino::ROOT, name("a")).await), Errno::ENOENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn renaming_what_was_never_published_costs_no_copy() {
    let world = World::new();
    let (_, handle) = world.create("a.tmp", false).await;
    world.write(handle, 0, b"x").await;
    world
        .vfs()
        .rename((Ino::ROOT, name("a.tmp")), (Ino::ROOT, name("a")), RenameMode::Replace)
        .await
        .unwrap();
    world.vfs().flush(handle, ME).await.unwrap();
    world.vfs.release(handle).unwrap();
    assert_eq!((world.object("a.tmp"), world.object("a")), (None, Some(Bytes::from_static(b"x"))));
    assert_eq!((world.bucket.calls(Op::Copy), world.bucket.calls(Op::Put)), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_file_with_edits_arrives_with_them() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"old"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.vfs().open(ino, Access::ReadWrite, ME).await.unwrap().handle;
    world.write(handle, 0, b"new").await;
    world
        .vfs()
        .rename((Ino::ROOT, name("a")), (Ino::ROOT, name("b")), RenameMode::Replace)
        .await
        .unwrap();
    world.write(handle, 3, b"er").await;
    world.vfs().flush(handle, ME).await.unwrap();
    world.vfs.release(handle).unwrap();
    assert_eq!((world.object("a"), world.object("b")), (None, Some(Bytes::from_static(b"newer"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_renamed_while_open_is_read_and_edited_on() {
    let world = World::new();
    let mut want = vec![7; usize::try_from(3 * MIB).unwrap()];
    for key in ["a", "c"] {
        world.bucket.insert(&Key::from(key), want.clone(), Metadata::new());
    }
    for (key, to) in [("a", "b"), ("c", "d")] {
        let ino = world.lookup(key).await;
        let handle = world.open(ino, Access::ReadWrite).await.handle;
        assert_eq!(world.vfs().read(handle, 0, 4).await.unwrap(), [7; 4]);
        let (from, to) = ((Ino::ROOT, name(key)), (Ino::ROOT, name(to)));
        world.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
        assert_eq!(world.vfs().read(handle, 2 * MIB, 4).await.unwrap(), [7; 4]);
        world.write(handle, MIB + 1, b"edit").await;
        world.vfs().flush(handle, ME).await.unwrap();
        world.vfs.release(handle).unwrap();
    }
    let at = usize::try_from(MIB + 1).unwrap();
    want[at..at + 4].copy_from_slice(b"edit");
    assert!(world.object("b").unwrap() == want && world.object("d").unwrap() == want);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_after_a_failed_close_does_not_replace_what_came_meanwhile() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    world.write(handle, 0, b"mine").await;
    world.bucket.fail_next(Op::Put, ErrorKind::Unavailable);
    assert_eq!(told(world.vfs().flush(handle, ME).await), Errno::EIO);
    world.bucket.insert(&Key::from("a"), &b"theirs"[..], Metadata::new());
    world.vfs.release(handle).unwrap();
    world.vfs.drain().await;
    assert_eq!(world.object("a").unwrap(), &b"theirs"[..]);
    assert!(world.recovered().contains(&b"mine".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_an_object_that_is_gone_is_kept_and_the_rest_goes_on() {
    let dead = World::new();
    dead.bucket.insert(&Key::from("a"), &b"old"[..], Metadata::new());
    let ino = dead.lookup("a").await;
    let handle = dead.open(ino, Access::ReadWrite).await.handle;
    dead.write(handle, 0, b"new").await;
    let grave = dead.die_while_syncing(handle, 1).await;
    grave.bucket.remove(&Key::from("a"));

    let (alive, recovered) = grave.rise().await;
    assert_eq!((recovered.uploaded, recovered.kept.len(), recovered.waiting), (0, 1, 0));
    assert_eq!(alive.object("a"), None);
    assert!(alive.recovered().contains(&b"new".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_keeps_mode_and_times() {
    let dead = World::new();
    let (_, handle) = dead.create("a", false).await;
    dead.write(handle, 0, b"x").await;
    let grave = dead.die_while_syncing(handle, 1).await;
    let (alive, _) = grave.rise().await;
    let metadata = alive.bucket.meta(&Key::from("a")).unwrap().metadata;
    assert_eq!(metadata.get("mode").map(String::as_str), Some("33188"));
    assert_eq!(metadata.get("uid").map(String::as_str), Some("7"));
    assert!(metadata.contains_key("mtime"));
}

#[tokio::test(flavor = "multi_thread")]
async fn truncation_by_name_is_in_the_bucket_when_it_returns() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"0123456789"[..], Metadata::new());
    let ino = world.lookup("a").await;
    for (size, want) in [(4, &b"0123"[..]), (6, b"0123\0\0"), (0, b"")] {
        let change = SetAttr { size: Some(size), ..SetAttr::default() };
        assert_eq!(world.vfs().set_attr(ino, change).await.unwrap().size, size);
        assert_eq!(world.object("a").unwrap(), want);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_clean_file_is_the_kernels_to_read_and_a_writer_joins_it() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), vec![1; 300_000], Metadata::new());
    let ino = world.lookup("a").await;
    let open = |access| world.open(ino, access);
    let cold = open(Access::Read).await;
    assert_eq!(cold.pages, Pages::Anew);
    let bytes = world.vfs().read(cold.handle, 0, 300_000).await.unwrap();
    assert!(bytes == vec![1; 300_000]);

    // It is whole now, but one open still goes through the page cache.
    let second = open(Access::Read).await;
    assert_eq!(second.pages, Pages::Keep);
    world.vfs.release(cold.handle).unwrap();
    world.vfs.release(second.handle).unwrap();

    let reader = open(Access::Read).await;
    assert_eq!(reader.pages, Pages::Backing(1));
    let writer = open(Access::Write).await;
    assert_eq!(writer.pages, Pages::BackingSeen(1));
    world.write(writer.handle, 299_999, b"22").await;
    world.vfs().flush(writer.handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap().len(), 300_001);
    world.vfs.release(writer.handle).unwrap();
    let third = open(Access::Read).await;
    assert_eq!(third.pages, Pages::Backing(1));
    world.vfs.release(reader.handle).unwrap();
    world.vfs.release(third.handle).unwrap();
    // With nothing open, the next reader begins anew.
    let fourth = open(Access::Read).await;
    assert_eq!(fourth.pages, Pages::Backing(2));
    world.vfs.release(fourth.handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_sealed_bytes_are_uploaded_and_open_ones_kept() {
    let dead = World::new();
    let (_, sealed) = dead.create("sealed", false).await;
    dead.write(sealed, 0, b"sealed").await;
    let (_, open) = dead.create("open", false).await;
    dead.write(open, 0, b"open").await;
    let grave = dead.die_while_syncing(sealed, 1).await;

    let (alive, recovered) = grave.rise().await;
    assert_eq!((recovered.uploaded, recovered.kept.len()), (1, 1));
    assert_eq!(alive.object("sealed").unwrap(), &b"sealed"[..]);
    assert_eq!(alive.object("open"), None);
    assert!(alive.recovered().contains(&b"open".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_what_had_arrived_is_no_conflict() {
    let dead = World::new();
    let (_, handle) = dead.create("a", false).await;
    dead.write(handle, 0, b"there").await;
    // The object is written, its answer is lost, and we die before we have asked again.
    dead.bucket.lose_next_answer(Op::Put);
    let grave = dead.die_while_syncing(handle, 2).await;
    let before = grave.bucket.meta(&Key::from("a")).unwrap();

    let (alive, recovered) = grave.rise().await;
    assert_eq!((recovered.uploaded, recovered.kept.len()), (1, 0));
    assert_eq!(alive.bucket.meta(&Key::from("a")).unwrap().version, before.version);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_close_that_had_arrived_is_no_conflict_for_the_next() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"old"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.open(ino, Access::ReadWrite).await.handle;
    world.write(handle, 0, b"one").await;
    world.bucket.lose_next_answer(Op::Put);
    // What follows fails until the deadline has passed.
    for _ in 0..100 {
        world.bucket.fail_next(Op::Put, ErrorKind::Transient { retry_after: None });
    }
    assert_eq!(told(world.vfs().flush(handle, ME).await), Errno::EIO);
    assert_eq!(world.object("a").unwrap(), &b"one"[..]);
    world.bucket.forget_faults();
    world.write(handle, 0, b"two").await;
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"two"[..]);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_never_replaces_a_newer_object() {
    let dead = World::new();
    let (_, handle) = dead.create("a", false).await;
    dead.write(handle, 0, b"late").await;
    let grave = dead.die_while_syncing(handle, 1).await;
    grave.bucket.insert(&Key::from("a"), &b"newer"[..], Metadata::new());

    let (alive, recovered) = grave.rise().await;
    assert_eq!((recovered.uploaded, recovered.kept.len()), (0, 1));
    assert_eq!(alive.object("a").unwrap(), &b"newer"[..]);
    assert!(alive.recovered().contains(&b"late".to_vec()));
}

// One thread: who waits longest is woken first.
#[tokio::test]
async fn who_waits_for_bytes_gets_them_although_a_writer_takes_them_first() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), vec![7; 300_000], Metadata::new());
    let ino = world.lookup("a").await;
    let writer = world.open(ino, Access::ReadWrite).await.handle;
    let gate = world.bucket.hold(Op::Get);
    let read = |handle| world.vfs().read(handle, 0, 1 << 20);
    let (vfs, first) = (world.vfs(), read(writer));
    let writing = tokio::spawn(async move {
        let read = first.await.unwrap();
        vfs.write(writer, 299_999, b"new".to_vec()).await.unwrap();
        read
    });
    let readers: Vec<_> = (0..10).map(|_| tokio::spawn(read(writer))).collect();
    gate.arrived(1).await;
    drop(gate);
    assert!(writing.await.unwrap() == vec![7; 300_000]);
    for reader in readers {
        let read = reader.await.unwrap().unwrap();
        assert!(read[..299_999] == vec![7; 299_999]);
    }
    world.vfs.release(writer).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_and_room_are_made_in_what_is_not_here() {
    let world = World::new();
    let size = 3 * MIB;
    let mut want = vec![7; usize::try_from(size).unwrap()];
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.open(ino, Access::ReadWrite).await.handle;
    let range = |start, end| ByteRange::new(start, end).unwrap();
    let seek = async |from, what| world.vfs().seek(handle, from, what).await.unwrap();
    assert_eq!(seek(0, Seek::Hole).await, size, "of what is not here nothing is a hole");

    let do_to = async |range, what| world.vfs().fallocate(handle, range, what).await;
    do_to(range(MIB, 2 * MIB), Fallocate::Punch).await.unwrap();
    want[1 << 20..2 << 20].fill(0);
    assert_eq!(world.bucket.calls(Op::Get), 0, "nothing was fetched");
    assert_eq!(seek(0, Seek::Hole).await, MIB);
    assert_eq!(seek(MIB, Seek::Data).await, 2 * MIB);
    do_to(range(0, 4 * MIB), Fallocate::Allocate(Growth::Stays)).await.unwrap();
    assert_eq!(world.vfs().attr(ino).await.unwrap().size, size);
    do_to(range(2 * MIB, 4 * MIB), Fallocate::Zero(Growth::Grows)).await.unwrap();
    assert_eq!(world.vfs().attr(ino).await.unwrap().size, 4 * MIB);
    want[2 << 20..].fill(0);
    want.resize(4 << 20, 0);
    let too_far = range(0, (1 << 40) + 1);
    assert_eq!(told(do_to(too_far, Fallocate::Zero(Growth::Grows)).await), Errno::EFBIG);
    let beyond = world.vfs().seek(handle, 4 * MIB, Seek::Hole).await;
    assert_eq!(told(beyond), Errno::ENXIO);
    world.vfs().flush(handle, ME).await.unwrap();
    assert!(world.object("a").unwrap() == want);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_copied_between_files_and_ends_with_the_source() {
    let world = World::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    world.bucket.insert(&Key::from("a"), bytes.clone(), Metadata::new());
    let ino = world.lookup("a").await;
    let source = world.open(ino, Access::Read).await.handle;
    let (_, target) = world.create("b", false).await;
    let copied = world.vfs().copy((source, 1_000_000), (target, 5), 1 << 40).await.unwrap();
    assert_eq!(copied, 2_000_000);
    let back = world.vfs().copy((target, 0), (source, 0), 10).await;
    assert_eq!(told(back), Errno::EBADF);
    world.vfs().flush(target, ME).await.unwrap();
    let object = world.object("b").unwrap();
    assert!(object[..5] == [0; 5] && object[5..] == bytes[1_000_000..]);
    world.vfs.release(source).unwrap();
    world.vfs.release(target).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_removed_or_replaced_while_open_is_read_to_the_end_and_then_nothing_is_left_of_it() {
    let world = World::new();
    let mut want = vec![7; usize::try_from(3 * MIB).unwrap()];
    want[2_000_000] = 9;
    for key in ["a", "c"] {
        world.bucket.insert(&Key::from(key), want.clone(), Metadata::new());
    }
    world.bucket.insert(&Key::from("b"), &b"other"[..], Metadata::new());
    for (key, replaced) in [("a", false), ("c", true)] {
        let ino = world.lookup(key).await;
        let handle = world.open(ino, Access::ReadWrite).await.handle;
        assert_eq!(world.vfs().read(handle, 0, 4).await.unwrap(), [7; 4]);
        if replaced {
            let (from, to) = ((Ino::ROOT, name("b")), (Ino::ROOT, name(key)));
            world.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
            assert_eq!(world.object(key).unwrap(), &b"other"[..]);
        } else {
            world.vfs().unlink(Ino::ROOT, name(key)).await.unwrap();
            assert_eq!(world.object(key), None);
        }
        let rest = world.vfs().read(handle, 0, u32::try_from(3 * MIB).unwrap()).await.unwrap();
        assert!(rest == want);
        world.write(handle, 5, b"anonymous").await;
        assert_eq!(world.vfs().read(handle, 5, 9).await.unwrap(), b"anonymous");
        world.vfs().flush(handle, ME).await.unwrap();
        world.vfs.release(handle).unwrap();
        world.vfs.drain().await;
        let kept = world.bucket.keys().iter().filter(|key| key.to_string().contains('/')).count();
        assert_eq!(kept, 0, "{:?}", world.bucket.keys());
    }
    assert_eq!(world.object("c").unwrap(), &b"other"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_a_file_that_is_wholly_here_copies_nothing() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), vec![7; 300_000], Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.open(ino, Access::Read).await.handle;
    assert!(world.vfs().read(handle, 0, 300_000).await.unwrap() == vec![7; 300_000]);
    world.vfs().unlink(Ino::ROOT, name("a")).await.unwrap();
    assert!(world.vfs().read(handle, 0, 300_000).await.unwrap() == vec![7; 300_000]);
    assert_eq!(world.bucket.calls(Op::Copy), 0);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_bytes_cannot_be_kept_for_its_readers_is_not_removed() {
    let world = World::new();
    let want = vec![7; usize::try_from(3 * MIB).unwrap()];
    world.bucket.insert(&Key::from("a"), want.clone(), Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.open(ino, Access::Read).await.handle;
    world.bucket.fail_next(Op::Copy, ErrorKind::Denied);
    assert_eq!(told(world.vfs().unlink(Ino::ROOT, name("a")).await), Errno::EACCES);
    assert!(world.object("a").unwrap() == want);
    assert_eq!(world.lookup("a").await, ino);
    assert_eq!(world.vfs().read(handle, 2 * MIB, 4).await.unwrap(), [7; 4]);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_removed_while_its_upload_is_under_way_does_not_come_back() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    world.write(handle, 0, b"x").await;
    let gate = world.bucket.hold(Op::Put);
    let closing = async {
        world.vfs().flush(handle, ME).await.unwrap();
    };
    let removing = async {
        gate.arrived(1).await;
        let unlink = tokio::spawn(world.vfs().unlink(Ino::ROOT, name("a")));
        tokio::task::yield_now().await;
        drop(gate);
        unlink.await.unwrap().unwrap();
    };
    tokio::join!(closing, removing);
    world.vfs.release(handle).unwrap();
    world.vfs.drain().await;
    assert_eq!(world.object("a"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_open_in_a_folder_that_is_renamed_are_read_and_written_on() {
    let world = World::new();
    let want = vec![7; usize::try_from(3 * MIB).unwrap()];
    world.bucket.insert(&Key::from("d/old"), want.clone(), Metadata::new());
    let dir = world.lookup("d").await;
    let old = world.vfs().lookup(dir, name("old")).await.unwrap().ino;
    let reader = world.open(old, Access::Read).await.handle;
    let opener = (ME, false);
    let (_, opened) =
        world.vfs().create(dir, name("new"), NODE, Access::ReadWrite, opener).await.unwrap();
    world.write(opened.handle, 0, b"new").await;
    let (from, to) = ((Ino::ROOT, name("d")), (Ino::ROOT, name("e")));
    world.vfs().rename(from, to, RenameMode::Replace).await.unwrap();
    assert_eq!(world.vfs().read(reader, 2 * MIB, 4).await.unwrap(), [7; 4]);
    world.write(opened.handle, 3, b"er").await;
    world.vfs().flush(opened.handle, ME).await.unwrap();
    assert_eq!(world.object("e/new").unwrap(), &b"newer"[..]);
    assert!(world.object("e/old").unwrap() == want);
    assert!(!world.bucket.keys().iter().any(|key| key.as_bytes().starts_with(b"d/")));
    world.vfs.release(reader).unwrap();
    world.vfs.release(opened.handle).unwrap();
}
