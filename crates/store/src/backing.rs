//! One sparse file on the local disk that holds bytes of one file version, at their own offsets.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::ByteRange;

use crate::disk::Disk;
use crate::lock::{self, Mode};

/// The byte whose lock says who uses the file: shared by the users of a cached one, exclusive for
/// the owner of a staged one and for whoever evicts.
const USE_BYTE: u64 = 0;

/// The byte whose lock is held while the file is made, moved, punched or removed, and while someone
/// asks to use it. Never for long, so that it can be waited for; the other one never is.
const MOVE_BYTE: u64 = 1;

/// It is held while the disk gives up a large file, at most.
const MOVE_PATIENCE: Duration = Duration::from_secs(20);

/// The byte whose lock is held by who fetches the first granule of a cached file, exclusive; those of the next
/// granules follow. Never waited for.
const FIRST_GRANULE_BYTE: u64 = 2;

/// An open backing file, readable and writable.
///
/// Whoever holds one keeps the file from being evicted or punched.
#[derive(Debug)]
pub struct BackingFile {
    file: File,
    inode: u64,
    disk: Arc<Disk>,
}

impl AsFd for BackingFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for BackingFile {
    fn drop(&mut self) {
        self.disk.closed();
    }
}

impl BackingFile {
    /// Takes over an open file.
    pub(crate) fn new(file: File, disk: Arc<Disk>) -> io::Result<BackingFile> {
        let inode = file.metadata()?.ino();
        disk.opened();
        Ok(BackingFile { file, inode, disk })
    }

    /// What it takes of the disk.
    pub(crate) fn disk_bytes(&self) -> io::Result<u64> {
        /// By convention of stat(2), whatever the file system's blocks are.
        const BLOCK_BYTES: u64 = 512;
        Ok(self.file.metadata()?.blocks() * BLOCK_BYTES)
    }

    /// The number of its inode.
    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// How long it is, holes included.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Whether any of it takes space.
    pub(crate) fn is_allocated(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.blocks() != 0)
    }

    /// Cuts it or lets it grow by a hole.
    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Fills `buf` from `offset` on.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.disk.read(&self.file, buf, offset)
    }

    /// Adds the bytes of `range` to `out`.
    pub(crate) fn append(&self, range: ByteRange, out: &mut Vec<u8>) -> io::Result<()> {
        self.disk.append(&self.file, range, out)
    }

    /// Writes all of `bytes` at `offset`.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.write(&self.file, bytes, offset)
    }

    /// Waits until the disk has all of it.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.disk.sync(&self.file)
    }

    /// Gives back the space of `range`, which reads as zeros then.
    pub(crate) fn punch(&self, range: ByteRange) -> io::Result<()> {
        self.disk.punch(&self.file, range)
    }

    /// Takes the space of `range` on the disk, changing neither bytes nor length.
    pub(crate) fn allocate(&self, range: ByteRange) -> io::Result<()> {
        self.disk.allocate(&self.file, range)
    }

    /// The first run of bytes of `range` that may be something else than zeros; `None` if there is
    /// none.
    pub fn data(&self, range: ByteRange) -> io::Result<Option<ByteRange>> {
        self.disk.data(&self.file, range)
    }

    /// Makes this file the same bytes as `from` without copying them, where the disk can.
    pub(crate) fn share_from(&self, from: &BackingFile) -> io::Result<()> {
        self.disk.clone_whole(&from.file, &self.file)
    }

    /// Takes or converts the claim on the file, if nobody stands in the way.
    pub(crate) fn claim(&self, mode: Mode) -> io::Result<bool> {
        lock::attempt(&self.file, USE_BYTE, mode)
    }

    /// Takes a shared claim on the file, unless it is someone's alone. Waits while it is moved.
    pub(crate) fn join(&self) -> io::Result<bool> {
        lock::wait(&self.file, MOVE_BYTE, Mode::Shared, MOVE_PATIENCE)?;
        let is_claimed = self.claim(Mode::Shared);
        lock::release(&self.file, MOVE_BYTE)?;
        is_claimed
    }

    /// Whether nobody else has it open or mapped. A disk that cannot tell has no mappings that
    /// outlive their descriptors either, because the kernel does not take its files for its own.
    pub(crate) fn is_ours_alone(self: &Arc<BackingFile>) -> bool {
        Arc::strong_count(self) == 1 && lock::is_alone(&self.file).unwrap_or(true)
    }

    /// Lets go of the claim.
    pub(crate) fn disclaim(&self) -> io::Result<()> {
        lock::release(&self.file, USE_BYTE)
    }

    /// Takes the granules of a run for as long as what is returned lives, unless another process has one of them.
    pub(crate) fn take_turn(
        self: &Arc<BackingFile>,
        granules: Range<u64>,
    ) -> io::Result<Option<FetchTurn>> {
        let run = (FIRST_GRANULE_BYTE + granules.start, granules.end - granules.start);
        let is_taken = lock::attempt_run(&self.file, run.0, run.1)?;
        Ok(is_taken.then(|| FetchTurn { file: Arc::downgrade(self), run }))
    }

    /// Keeps others waiting who are about to use the file.
    pub(crate) fn moving(self: &Arc<BackingFile>) -> io::Result<Moving> {
        lock::wait(&self.file, MOVE_BYTE, Mode::Exclusive, MOVE_PATIENCE)?;
        Ok(Moving { file: Arc::clone(self) })
    }
}

/// Whether a process has a claim on the file. Takes none itself.
pub(crate) fn is_in_use(file: &File) -> io::Result<bool> {
    lock::is_held(file, USE_BYTE)
}

/// While it lives, no other process fetches these granules of the version.
#[derive(Debug)]
pub struct FetchTurn {
    /// It is no use of the file: what is fetched may have to make room in the same file. When the file is
    /// closed the lock is gone.
    file: Weak<BackingFile>,
    /// The first byte of the lock, and how many.
    run: (u64, u64),
}

impl Drop for FetchTurn {
    fn drop(&mut self) {
        let Some(file) = self.file.upgrade() else { return };
        if let Err(error) = lock::release_run(&file.file, self.run.0, self.run.1) {
            // It goes at the latest when the file is closed.
            tracing::warn!(%error, "cannot let go of a part of a backing file");
        }
    }
}

/// While it lives, others who are about to use the file wait.
#[derive(Debug)]
pub(crate) struct Moving {
    file: Arc<BackingFile>,
}

impl Drop for Moving {
    fn drop(&mut self) {
        if let Err(error) = lock::release(&self.file.file, MOVE_BYTE) {
            // It goes at the latest when the file is closed.
            tracing::warn!(%error, "cannot let go of a backing file");
        }
    }
}
