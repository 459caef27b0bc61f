//! A mount that several processes of a user use: the first of them mounts, the last unmounts.
//!
//! ```text
//!   lock of a file     held alone      ──▶ who holds it mounts or unmounts; who comes waits
//!                      held by several ──▶ the mount is there, and stays
//! ```
//!
//! The file tells which mount they have made: one that was there before them is not theirs to take away. The lock goes
//! with a process that dies, and who comes next finds its mount. If nobody comes, the mount goes by itself.
//!
//! Who has unmounted removes the file while it holds the lock alone. Who waited for that lock then has one of a file that
//! nobody else finds, and begins anew.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fuse::Device;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use crate::control;
use crate::runtime_dir;

/// How often one arrives while others leave before nobody is waited for.
const ARRIVALS_MAX: u32 = 1000;

/// Who uses what is mounted at a folder.
#[derive(Debug)]
pub struct Tenant {
    // Process-wide, so it is opened once: any close of it lets go of the lock.
    lock: File,
    dir: PathBuf,
    /// Whether the mount was made by one of those who use it.
    is_theirs: bool,
}

/// What there is for who arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// A mount, to be used.
    AtMount,
    /// Nothing: others wait until it is mounted, or given up.
    First,
}

/// Whether something of ours is mounted at `dir`, be it that its daemon is dead.
pub fn is_mounted(dir: &Path) -> bool {
    fuse::our_mount(dir).is_ok()
}

/// Whether something of ours is mounted at `dir` and lets us in.
pub fn is_there(dir: &Path) -> bool {
    fuse::our_mount(dir).is_ok_and(|entry| fs::read_dir(entry.path).is_ok())
}

impl Tenant {
    /// Uses what is at `dir`, or is to be mounted there. Waits for others who are just mounting or unmounting.
    pub fn arrive(dir: &Path) -> io::Result<(Tenant, Arrived)> {
        runtime_dir::make()?;
        for _ in 0..ARRIVALS_MAX {
            let tenant = Tenant::open(dir)?;
            let arrived = tenant.take()?;
            if !is_at(&tenant.lock, &place_of(dir))? {
                continue;
            }
            return Ok(match arrived {
                Arrived::AtMount => (tenant.at_mount(), arrived),
                Arrived::First => (tenant, arrived),
            });
        }
        Err(too_many())
    }

    fn open(dir: &Path) -> io::Result<Tenant> {
        let mut options = File::options();
        let lock =
            options.read(true).write(true).create(true).truncate(false).open(place_of(dir))?;
        Ok(Tenant { lock, dir: dir.to_owned(), is_theirs: false })
    }

    /// Waits for the lock: shared if there is a mount, else alone.
    fn take(&self) -> io::Result<Arrived> {
        if !self.is_alone()? {
            self.set(FlockOperation::LockShared)?;
            if is_there(&self.dir) {
                return Ok(Arrived::AtMount);
            }
            // Who mounted has failed, or the mount has died under those who are still there.
            self.set(FlockOperation::Unlock)?;
            self.set(FlockOperation::LockExclusive)?;
        }
        if !is_there(&self.dir) {
            return Ok(Arrived::First);
        }
        self.set(FlockOperation::LockShared)?;
        Ok(Arrived::AtMount)
    }

    fn at_mount(mut self) -> Tenant {
        let mut noted = String::new();
        let read = self.lock.read_to_string(&mut noted);
        self.is_theirs = read.is_ok() && self.mounted().is_ok_and(|now| now == noted);
        self
    }

    /// What is mounted now was mounted by this process, and is for others too.
    pub fn settle(&mut self) -> io::Result<()> {
        let mounted = self.mounted()?;
        self.lock.set_len(0)?;
        self.lock.write_all(mounted.as_bytes())?;
        self.is_theirs = true;
        self.set(FlockOperation::LockShared)
    }

    /// Whether the mount was made by one of those who use it.
    pub fn is_theirs(&self) -> bool {
        self.is_theirs
    }

    /// Whether nobody else uses it; nobody then comes until this is dropped.
    pub fn is_alone(&self) -> io::Result<bool> {
        match fcntl_lock(&self.lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The mount is gone, by who holds the lock alone: nobody needs the file any more. What stays, as of those who were
    /// killed, is for the next who come.
    pub fn vacate(&self) {
        let place = place_of(&self.dir);
        if let Err(error) = fs::remove_file(&place) {
            tracing::debug!(place = %place.display(), %error, "stays");
        }
    }

    /// Uses it no more. Of those who leave at the same time one is told that it was the last: as
    /// [`Tenant::is_alone`].
    pub fn leaves_last(&self) -> io::Result<bool> {
        self.set(FlockOperation::Unlock)?;
        self.is_alone()
    }

    fn set(&self, operation: FlockOperation) -> io::Result<()> {
        loop {
            match fcntl_lock(&self.lock, operation) {
                Err(Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }

    fn mounted(&self) -> io::Result<String> {
        let entry = fuse::our_mount(&self.dir).map_err(io::Error::other)?;
        let status = control::status(&self.dir).map_err(io::Error::other)?;
        Ok(noted(entry.device, status.pid))
    }
}

/// Nobody begins to mount at `dir`, together with others, until what is returned is dropped. Waits for who is about to.
pub(crate) fn keep_from_mounting(dir: &Path) -> io::Result<Tenant> {
    runtime_dir::make()?;
    for _ in 0..ARRIVALS_MAX {
        let tenant = Tenant::open(dir)?;
        tenant.set(FlockOperation::LockShared)?;
        if is_at(&tenant.lock, &place_of(dir))? {
            return Ok(tenant);
        }
    }
    Err(too_many())
}

fn too_many() -> io::Error {
    io::Error::other("others unmount it again and again")
}

/// A mount, in words that are said of no other: the kernel gives device numbers again.
fn noted(device: Device, pid: u32) -> String {
    format!("{device} {pid}")
}

/// The file of `dir`.
fn place_of(dir: &Path) -> PathBuf {
    runtime_dir::lock(rustix::process::geteuid().as_raw(), dir)
}

/// Whether who looks for the file at `path` finds `lock`.
fn is_at(lock: &File, path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) => Ok(found.ino() == lock.metadata()?.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether processes of this user share the mount at `dir` now.
pub(crate) fn is_in_use(dir: &Path) -> bool {
    let lock = File::options().read(true).write(true).open(place_of(dir));
    lock.is_ok_and(|lock| {
        let taken = fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive);
        matches!(taken, Err(Errno::AGAIN | Errno::ACCESS))
    })
}

/// If the mount of this process at `dir` was made by those who use it together, and none of them is there any more, as
/// when they were killed: nobody comes until what is returned is dropped.
pub(crate) fn abandoned(dir: &Path) -> Option<File> {
    let path = place_of(dir);
    let mut lock = File::options().read(true).write(true).open(&path).ok()?;
    let mut words = String::new();
    lock.read_to_string(&mut words).ok()?;
    let device = fuse::our_mount(dir).ok()?.device;
    if words != noted(device, std::process::id()) {
        return None;
    }
    fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    is_at(&lock, &path).ok()?.then_some(lock)
}
