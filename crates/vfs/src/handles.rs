//! Open files and folders, by the number the kernel gives back with each request.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::{ByteRange, Errno, HandleId};
use parking_lot::{Mutex, RwLock};
use store::BackingFile;

use crate::access::Access;
use crate::dir::Dir;
use crate::errno::{Error, Result};
use crate::file::File;
use crate::io_mode::Kind;
use crate::page_cache::{Unsettled, WriteMode};

/// One open of a file.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) file: Arc<File>,
    pub(crate) access: Access,
    /// The process that opened it: its close waits for the bucket, a child's does not.
    pub(crate) opener: u32,
    /// The backing file, if the kernel may write to it past us, through a mapping. While it is held
    /// here the store does not take the file for a clean one.
    pub(crate) lent: Option<Arc<BackingFile>>,
    /// What it counts as in the file's I/O.
    pub(crate) kind: Kind,
    /// Buffered writes that a drop of pages may have run beside.
    pub(crate) unsettled: Mutex<Unsettled>,
    /// When it was opened, on the monotonic clock.
    pub(crate) opened: Duration,
    /// Whether somebody has begun to close it, and nothing was done by it since. There may be no other close to come:
    /// the kernel tells of the last one's end only after the program has gone on.
    pub(crate) closes: AtomicBool,
}

impl Handle {
    /// Something is done by it: whoever does that has yet to close it.
    pub(crate) fn goes_on(&self) {
        // Seldom set, and looked at by all who write.
        if self.closes.load(Ordering::Relaxed) {
            self.closes.store(false, Ordering::SeqCst);
        }
    }

    /// A write of `len` bytes at `offset` begins.
    pub(crate) fn wrote(&self, (offset, len): (u64, usize), mode: WriteMode) {
        if let (WriteMode::Buffered, Some(range)) = (mode, ByteRange::at(offset, len as u64)) {
            self.unsettled.lock().wrote(range);
        }
    }
}

/// All open files and folders of a mount.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    files: RwLock<HashMap<HandleId, Arc<Handle>>>,
    dirs: RwLock<HashMap<HandleId, Arc<Dir>>>,
    last: AtomicU64,
}

impl Handles {
    pub(crate) fn add_file(&self, handle: Handle) -> HandleId {
        let id = self.next();
        self.files.write().insert(id, Arc::new(handle));
        id
    }

    pub(crate) fn file(&self, id: HandleId) -> Result<Arc<Handle>> {
        self.files.read().get(&id).cloned().ok_or(Error::Call(Errno::EBADF))
    }

    /// Whether someone has `file` open in a way that lets them map it for writing.
    pub(crate) fn is_mappable(&self, file: &Arc<File>) -> bool {
        let files = self.files.read();
        files
            .values()
            .any(|handle| handle.access == Access::ReadWrite && Arc::ptr_eq(&handle.file, file))
    }

    /// Whether someone has `file` open, beside those who are just about to.
    pub(crate) fn is_open(&self, file: &Arc<File>) -> bool {
        self.files.read().values().any(|handle| Arc::ptr_eq(&handle.file, file))
    }

    /// Number of open handles of `file`.
    pub(crate) fn count(&self, file: &Arc<File>) -> u64 {
        let files = self.files.read();
        files.values().filter(|handle| Arc::ptr_eq(&handle.file, file)).count() as u64
    }

    /// Whether someone has `file` open for writing.
    pub(crate) fn is_written(&self, file: &Arc<File>) -> bool {
        let files = self.files.read();
        files.values().any(|handle| handle.access.writes() && Arc::ptr_eq(&handle.file, file))
    }

    /// Whether someone has `file` open for writing whose close is sure to come.
    pub(crate) fn is_to_be_closed(&self, file: &Arc<File>) -> bool {
        let is_to_come =
            |handle: &Handle| handle.access.writes() && !handle.closes.load(Ordering::SeqCst);
        let files = self.files.read();
        files.values().any(|handle| is_to_come(handle) && Arc::ptr_eq(&handle.file, file))
    }

    /// How often `file` is open for writing.
    pub(crate) fn writers(&self, file: &Arc<File>) -> usize {
        self.written().iter().filter(|other| Arc::ptr_eq(other, file)).count()
    }

    /// The files that someone has open for writing, each as often as it is.
    pub(crate) fn written(&self) -> Vec<Arc<File>> {
        let files = self.files.read();
        let written = files.values().filter(|handle| handle.access.writes());
        written.map(|handle| Arc::clone(&handle.file)).collect()
    }

    pub(crate) fn remove_file(&self, id: HandleId) -> Result<Arc<Handle>> {
        self.files.write().remove(&id).ok_or(Error::Call(Errno::EBADF))
    }

    pub(crate) fn add_dir(&self, dir: Dir) -> HandleId {
        let id = self.next();
        self.dirs.write().insert(id, Arc::new(dir));
        id
    }

    pub(crate) fn dir(&self, id: HandleId) -> Result<Arc<Dir>> {
        self.dirs.read().get(&id).cloned().ok_or(Error::Call(Errno::EBADF))
    }

    pub(crate) fn remove_dir(&self, id: HandleId) -> Result<Arc<Dir>> {
        self.dirs.write().remove(&id).ok_or(Error::Call(Errno::EBADF))
    }

    fn next(&self) -> HandleId {
        HandleId(1 + self.last.fetch_add(1, Ordering::Relaxed))
    }
}
