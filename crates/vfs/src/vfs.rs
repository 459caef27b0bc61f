//! [`Vfs`]: what all operations share.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use base::{Clock, Ino, Metrics, Unheard};
use namespace::{Namespace, Unsent};
use parking_lot::Mutex;
use remote::{Extent, Learned};
use store::Store;
use tokio::runtime::Handle as Runtime;
use transfer::{Download, Fetcher, Uploader};

use crate::errno::Result;
use crate::failures::Failures;
use crate::files::Files;
use crate::handles::Handles;
use crate::inodes::{Inodes, Left};
use crate::kernel::Kernel;
use crate::last::Last;
use crate::limit::DirtyLimit;
use crate::neighbours::Beside;
use crate::page_cache::DROPS_MAX;
use crate::reopened::Again;
use crate::waiting::{Later, PendingLimit, Relief};
use crate::xattr_names::TrustedXattrs;

/// What a file system is made of and bounded by.
#[derive(Debug)]
pub struct VfsOptions {
    /// Names the endpoint and bucket; in the notes of staged files.
    pub volume: String,
    /// The largest file that the store takes.
    pub file_bytes_max: u64,
    /// What a close waits for.
    pub commit: Commit,
    /// How much that the bucket does not have may be here before writers wait.
    pub dirty_limit: DirtyLimit,
    /// How long an upload waits after a close that does not wait for it. Files that are removed, renamed or written
    /// again by then cost one upload, or none.
    pub upload_delay: Duration,
    /// How many files may wait for their upload. From half of that on they wait for their turn only, beyond that a
    /// close waits for the bucket.
    pub pending_limit: Arc<PendingLimit>,
    /// Which files come after all else of their folder, where closes do not wait.
    pub last: Last,
    /// Whether `trusted.*` attributes are part of the file system.
    pub trusted_xattrs: TrustedXattrs,
    /// What has shown of the store.
    pub learned: Arc<Learned>,
}

/// The upload delay of who has no reason for another: as long as other hosts believe what they know of names.
pub const UPLOAD_DELAY: Duration = Duration::from_secs(1);

/// [`VfsOptions::pending_limit`] of who may have many files open.
pub const PENDING_FILES: usize = 16_384;

/// What a close waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The bucket.
    Close,
    /// The local disk: what was written is in the bucket soon, whatever happens to this process.
    Async,
}

/// A file system over a namespace, a local store and transfers.
#[derive(Debug)]
pub struct Vfs {
    pub(crate) namespace: Arc<dyn Namespace>,
    pub(crate) store: Store,
    pub(crate) fetcher: Fetcher,
    pub(crate) uploader: Arc<Uploader>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) runtime: Runtime,
    pub(crate) options: VfsOptions,
    pub(crate) inodes: Inodes,
    pub(crate) files: Files,
    pub(crate) handles: Handles,
    /// Small files that are fetched before they are opened.
    pub(crate) beside: Beside,
    /// Files that may be opened again soon.
    pub(crate) again: Arc<Again>,
    /// Uploads that nobody waits for.
    pub(crate) later: Later,
    /// Writers that wait for room.
    pub(crate) relief: Relief,
    /// Why the last try to publish a file failed.
    pub(crate) failures: Failures,
    /// Files that lost to somebody else's, by folder and name: what comes last there does not come.
    pub(crate) lost: Mutex<BTreeSet<(Ino, Vec<u8>)>>,
    /// Which files went to the recovery folder while nobody waited for them.
    pub(crate) unheard: Mutex<Unheard>,
    /// Why attributes were left for the next mount by the last [`Vfs::drain`].
    pub(crate) left: Mutex<Option<Unpublished>>,
    /// Files of this length are worth sending ahead.
    pub(crate) stream_from: u64,
    /// For tasks of its own.
    pub(crate) me: Weak<Vfs>,
    /// Held by who removes what was sent ahead.
    pub(crate) ending: Arc<tokio::sync::RwLock<()>>,
    /// Whether the kernel takes the store's backing files, once that is known.
    pub(crate) takes_backing: OnceLock<bool>,
    /// For drops of pages.
    pub(crate) dropping: Arc<tokio::sync::Semaphore>,
    kernel: OnceLock<Arc<dyn Kernel>>,
}

/// What the bucket does not have yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Files with bytes to publish.
    pub files: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// Changes of names that are made here and in the journal.
    pub changes: u64,
    /// Names with changes of attributes that are made here and in the journal.
    pub attributes: u64,
    /// Why some of all these failed at the last try.
    pub failures: Vec<String>,
}

/// What could not be brought into the bucket before the end: a file, or a change of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpublished {
    /// What, and why.
    pub reason: String,
    /// What its writer can do.
    pub next: Next,
    /// What [`Vfs::heard`] knows it by; none of what is told for as long as it is so.
    pub news: Option<News>,
}

/// Something that failed for good while nobody waited for it, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A file that lost to somebody else's.
    Lost(u64),
    /// A change of a name that was given up.
    GivenUp(u64),
}

/// What can be done about what is not in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It may go well another time.
    TryAgain,
    /// The store refuses it: repeats do not help until a person has mended the cause.
    Refused,
    /// Somebody who has another file open holds it back: it comes by itself when that is closed.
    Wait,
    /// Others were there first: the bytes are in the recovery folder.
    Lost,
    /// It was a change of a name, and is undone: whoever still wants it makes it again.
    MakeAgain,
}

impl Vfs {
    /// A file system of these parts.
    pub fn new(
        (namespace, store): (Arc<dyn Namespace>, Store),
        (fetcher, uploader): (Fetcher, Uploader),
        (clock, metrics): (Arc<dyn Clock>, Arc<Metrics>),
        runtime: Runtime,
        options: VfsOptions,
    ) -> Arc<Vfs> {
        let inodes = Inodes::default();
        // The kernel never looks the root up and never forgets it.
        inodes.refer(Ino::ROOT);
        let vfs = Arc::new_cyclic(|me| Vfs {
            stream_from: uploader.part_bytes(),
            me: Weak::clone(me),
            ending: Arc::default(),
            relief: Relief::new(options.dirty_limit),
            later: Later::new(Arc::clone(&options.pending_limit)),
            namespace,
            store,
            fetcher,
            uploader: Arc::new(uploader),
            clock,
            metrics,
            runtime,
            options,
            inodes,
            files: Files::default(),
            handles: Handles::default(),
            beside: Beside::default(),
            again: Arc::default(),
            failures: Failures::default(),
            lost: Mutex::default(),
            unheard: Mutex::default(),
            left: Mutex::default(),
            takes_backing: OnceLock::new(),
            dropping: Arc::new(tokio::sync::Semaphore::new(DROPS_MAX)),
            kernel: OnceLock::new(),
        });
        let users = Arc::downgrade(&vfs);
        vfs.namespace.attach(users);
        vfs
    }

    /// Makes the kernel known; before the first request.
    ///
    /// # Panics
    ///
    /// If there is one already.
    pub fn attach(&self, kernel: Arc<dyn Kernel>) {
        assert!(self.kernel.set(kernel).is_ok(), "a file system is mounted once");
    }

    pub(crate) fn kernel(&self) -> Option<&Arc<dyn Kernel>> {
        self.kernel.get()
    }

    /// What the bucket does not have yet.
    pub fn pending(&self) -> Pending {
        let dirty = self.files.dirty();
        let Unsent { changes, attributes, failures } = self.namespace.unsent();
        Pending {
            files: dirty.len() as u64,
            bytes: dirty.iter().map(|file| file.size()).sum(),
            changes,
            attributes,
            failures: self.failures.all().into_values().chain(failures).collect(),
        }
    }

    /// Reads of the version `identity`, which `extents` hold.
    pub(crate) fn download(
        &self,
        identity: &[u8],
        size: u64,
        extents: Vec<Extent>,
    ) -> Result<Arc<Download>> {
        if let Some(under_way) = self.beside.under_way(identity) {
            return Ok(under_way);
        }
        match self.store.cached(identity, size) {
            Ok(cached) => Ok(Download::new(&self.fetcher, cached, extents)),
            Err(error) if error.kind == store::ErrorKind::Full => {
                Ok(Download::uncached(&self.fetcher, (identity, size), extents))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives back references to an inode; the last lets the names forget it.
    pub(crate) fn give_back(&self, ino: Ino, count: u64) {
        if self.inodes.give_back(ino, count) == Left::None {
            self.namespace.forget(ino);
        }
    }
}
