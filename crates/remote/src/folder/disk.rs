//! One folder as a store: its files, its side area, and the lock that orders its writers.
//!
//! Whatever changes which keys exist is done under the lock: among the tasks of this process a
//! mutex, among processes `flock` on a file in the side area. Bytes are written before, outside
//! of it. Readers take no lock, because every change is one rename, one unlink or one attribute.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Clock, Rng, SystemClock};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::fault::{Fault, Outcome};
use super::levels::Levels;
use super::place::SIDE_KEYS;
use super::stamp::Kept;
use super::tree::Tree;
use crate::ErrorKind;

const LOCK: &[u8] = b".quayfs/lock";
pub(super) const TMP: &[u8] = b".quayfs/tmp";
pub(super) const UPLOADS: &[u8] = b".quayfs/uploads";

/// One folder as a store.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) tree: Tree,
    pub(super) clock: SystemClock,
    pub(super) levels: Levels,
    rng: Rng,
    // Invariant: who holds the mutex and has flocked the file in it is the only writer.
    lock: Mutex<Option<OwnedFd>>,
    warned: AtomicBool,
}

/// The right to change which keys exist; given back on drop.
pub(super) struct WriteLock<'a> {
    file: MutexGuard<'a, Option<OwnedFd>>,
}

impl Disk {
    pub(super) fn open(path: &Path) -> Outcome<Disk> {
        Ok(Disk {
            tree: Tree::open(path)?,
            clock: SystemClock::new(),
            levels: Levels::new(),
            rng: Rng::from_entropy(),
            lock: Mutex::new(None),
            warned: AtomicBool::new(false),
        })
    }

    /// Waits for other writers and keeps them out.
    pub(super) fn lock(&self) -> Outcome<WriteLock<'_>> {
        let mut file = self.lock.lock();
        if file.is_none() {
            self.make_side_folder(SIDE_KEYS)?;
            *file = Some(self.tree.open_at(LOCK, OFlags::RDWR | OFlags::CREATE)?);
        }
        let fd = file.as_ref().expect("opened above");
        rustix::io::retry_on_intr(|| rustix::fs::flock(fd, FlockOperation::LockExclusive))?;
        Ok(WriteLock { file })
    }

    /// Makes a folder of the side area, if it is not there.
    pub(super) fn make_side_folder(&self, path: &[u8]) -> Outcome<OwnedFd> {
        let made = self.tree.make_folder(path)?.ok_or_else(|| {
            Fault::new(ErrorKind::Denied, ".quayfs is not a folder, or has none where it needs one")
        })?;
        for changed in &made.changed {
            rustix::fs::fsync(changed)?;
        }
        Ok(made.fd)
    }

    /// A file name that nothing else has.
    pub(super) fn fresh_name(&self) -> String {
        format!("{:032x}", self.rng.id())
    }

    pub(super) fn now(&self) -> base::Timestamp {
        self.clock.wall()
    }

    /// Says once that this disk loses metadata.
    pub(super) fn note_kept(&self, kept: Kept) {
        if kept == Kept::No && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the disk below this folder keeps no extended attributes: \
                 modes, owners and times of objects are not stored"
            );
        }
    }
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        if let Some(fd) = self.file.as_ref() {
            // Fails only for a descriptor that is none; closing it would unlock all the same.
            let unlocked: Result<(), Errno> = rustix::fs::flock(fd, FlockOperation::Unlock);
            debug_assert_eq!(unlocked, Ok(()));
        }
    }
}
