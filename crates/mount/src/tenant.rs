//! A mount that several processes of a user use: the first of them mounts, the last unmounts.
//!
//! ```text
//!   lock of a file     held alone      ──▶ who holds it mounts or unmounts; who comes waits
//!                      held by several ──▶ the mount is there, and stays
//! ```
//!
//! The file tells which mount they have made: one that was there before them is not theirs to take away. The lock goes
//! with a process that dies, and who comes next finds its mount. If nobody comes, the mount goes by itself.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use fuse::Device;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use crate::control;
use crate::runtime_dir;

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

/// Whether something of ours is mounted at `dir` and lets us in.
pub fn is_there(dir: &Path) -> bool {
    fuse::our_mount(dir).is_ok_and(|entry| fs::read_dir(entry.path).is_ok())
}

impl Tenant {
    /// Uses what is at `dir`, or is to be mounted there. Waits for others who are just mounting or unmounting.
    pub fn arrive(dir: &Path) -> io::Result<(Tenant, Arrived)> {
        runtime_dir::make()?;
        let path = runtime_dir::lock(rustix::process::geteuid().as_raw(), dir);
        let lock =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let tenant = Tenant { lock, dir: dir.to_owned(), is_theirs: false };
        if !tenant.is_alone()? {
            tenant.set(FlockOperation::LockShared)?;
            if is_there(dir) {
                return Ok((tenant.at_mount(), Arrived::AtMount));
            }
            // Who mounted has failed, or the mount has died under those who are still there.
            tenant.set(FlockOperation::Unlock)?;
            tenant.set(FlockOperation::LockExclusive)?;
        }
        if !is_there(dir) {
            return Ok((tenant, Arrived::First));
        }
        tenant.set(FlockOperation::LockShared)?;
        Ok((tenant.at_mount(), Arrived::AtMount))
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

/// A mount, in words that are said of no other: the kernel gives device numbers again.
fn noted(device: Device, pid: u32) -> String {
    format!("{device} {pid}")
}

/// If the mount of this process at `dir` was made by those who use it together, and none of them is there any more, as
/// when they were killed: nobody comes until what is returned is dropped.
pub(crate) fn abandoned(dir: &Path) -> Option<File> {
    let path = runtime_dir::lock(rustix::process::geteuid().as_raw(), dir);
    let mut lock = File::options().read(true).write(true).open(path).ok()?;
    let mut words = String::new();
    lock.read_to_string(&mut words).ok()?;
    let device = fuse::our_mount(dir).ok()?.device;
    if words != noted(device, std::process::id()) {
        return None;
    }
    fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(lock)
}
