//! What the tests of the store share: a state folder, and bytes that tell where they are from.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

use base::{ByteRange, ManualClock, Metrics, SystemClock};
use quayfs_store::{
    CacheLimit, Cached, ErrorKind, Faults, GRANULE_BYTES, GranuleSet, Options, Outcome, Staged,
    Store, World,
};

/// One granule as a length in memory.
pub(crate) const GRANULE: usize = GRANULE_BYTES as usize;

/// A mebibyte as a length in memory.
pub(crate) const MIB: usize = 1 << 20;

/// A state folder that goes with the test.
pub(crate) struct Folder {
    dir: tempfile::TempDir,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) faults: Arc<Faults>,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder {
            dir: tempfile::tempdir().unwrap(),
            metrics: Arc::new(Metrics::new()),
            faults: Arc::new(Faults::new()),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Opens the store with room for all that tests do.
    pub(crate) fn open(&self) -> Store {
        self.open_with(CacheLimit::Bytes(1 << 40), "boot 1")
    }

    pub(crate) fn open_with(&self, cache: CacheLimit, boot_id: &str) -> Store {
        open_at(self.path(), cache, boot_id, &self.faults, &self.metrics)
    }

    /// As [`Folder::open_with`], where time passes only when the test says so.
    pub(crate) fn open_by(&self, clock: &Arc<ManualClock>, cache: CacheLimit) -> Store {
        let world = World { faults: Arc::clone(&self.faults), boot_id: "boot 1".to_owned() };
        let options = Options { dir: self.path(), cache };
        let (clock, metrics) = (Arc::clone(clock), Arc::clone(&self.metrics));
        Store::open_in(&world, options, clock, metrics).unwrap()
    }

    /// How many files of it this process has open.
    pub(crate) fn descriptors(&self) -> usize {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let paths = open.filter_map(|open| std::fs::read_link(open.path()).ok());
        paths.filter(|path| path.starts_with(self.path())).count()
    }

    /// The files in a part of the folder.
    pub(crate) fn files(&self, part: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut todo = vec![self.path().join(part)];
        while let Some(folder) = todo.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    todo.push(path);
                } else {
                    found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        found
    }
}

pub(crate) fn open_at(
    dir: PathBuf,
    cache: CacheLimit,
    boot_id: &str,
    faults: &Arc<Faults>,
    metrics: &Arc<Metrics>,
) -> Store {
    let world = World { faults: Arc::clone(faults), boot_id: boot_id.to_owned() };
    let options = Options { dir, cache };
    Store::open_in(&world, options, Arc::new(SystemClock::new()), Arc::clone(metrics)).unwrap()
}

/// `len` bytes from `offset` on of the file that `seed` determines.
pub(crate) fn bytes(seed: u8, offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len)
        .map(|at| {
            let word =
                (at as u64 / 8 + u64::from(seed) * 0x1_0001).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word.to_le_bytes()[at % 8]
        })
        .collect()
}

pub(crate) fn range(start: usize, end: usize) -> ByteRange {
    ByteRange::new(start as u64, end as u64).unwrap()
}

/// Fills what is missing of `range` from `content`.
pub(crate) fn fill(cached: &Cached, content: &[u8], range: ByteRange) {
    while let Some(missing) = cached.missing(range) {
        let (start, end) = (missing.start() as usize, missing.end() as usize);
        cached.fill(missing.start(), &content[start..end]).unwrap();
    }
}

/// A version that is all here.
pub(crate) fn complete(store: &Store, identity: &[u8], content: &[u8]) -> Arc<Cached> {
    let cached = store.cached(identity, content.len() as u64).unwrap();
    if !content.is_empty() {
        fill(&cached, content, range(0, content.len()));
    }
    cached
}

/// Reads a cached range that is here.
pub(crate) fn read(cached: &Cached, start: usize, end: usize) -> Vec<u8> {
    let mut buf = vec![0xee; end - start];
    assert!(cached.read(start as u64, &mut buf).unwrap(), "{start}..{end} is not here");
    buf
}

/// Writes, taking what is needed of the base from `base`.
pub(crate) fn write(staged: &Staged, base: &[u8], offset: usize, bytes: &[u8]) {
    while let Outcome::Needs(range) = staged.write(offset as u64, bytes).unwrap() {
        let (start, end) = (range.start() as usize, range.end() as usize);
        staged.fill(range.start(), &base[start..end]).unwrap();
    }
}

/// All bytes of a staged file, taking what is needed of the base from `base`.
pub(crate) fn content(staged: &Staged, base: &[u8]) -> Vec<u8> {
    let mut buf = vec![0xee; staged.size() as usize];
    while let Outcome::Needs(range) = staged.read(0, &mut buf).unwrap() {
        let (start, end) = (range.start() as usize, range.end() as usize);
        staged.fill(range.start(), &base[start..end]).unwrap();
    }
    buf
}

/// The runs of `range` that are in a set.
pub(crate) fn runs(set: &GranuleSet, range: ByteRange) -> Vec<ByteRange> {
    let mut found = Vec::new();
    let mut from = range.start();
    while let Some(run) = ByteRange::new(from, range.end()).and_then(|rest| set.first_run(rest)) {
        from = run.end();
        found.push(run);
    }
    found
}

/// All bytes of a sealed version.
pub(crate) fn sealed_content(sealed: &quayfs_store::Sealed) -> Vec<u8> {
    let mut buf = vec![0xee; sealed.size() as usize];
    sealed.read(0, &mut buf).unwrap();
    buf
}

pub(crate) fn kind<T: std::fmt::Debug>(result: quayfs_store::Result<T>) -> ErrorKind {
    result.unwrap_err().kind
}

/// All bytes of a version that is complete.
pub(crate) fn content_of(cached: &Cached) -> Vec<u8> {
    read(cached, 0, cached.size() as usize)
}

/// What cached versions take of the disk.
pub(crate) fn on_disk(folder: &Folder) -> u64 {
    let objects = folder.path().join("objects");
    let of = |folder: std::fs::DirEntry| std::fs::read_dir(folder.path()).unwrap();
    let files = std::fs::read_dir(objects).unwrap().flat_map(|folder| of(folder.unwrap()));
    files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum()
}

/// Changes a byte of the only backing file.
pub(crate) fn damage(folder: &Folder, offset: u64) {
    let shard = std::fs::read_dir(folder.path().join("objects")).unwrap().next().unwrap();
    let path = std::fs::read_dir(shard.unwrap().path()).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(b"\x5a", offset).unwrap();
}
