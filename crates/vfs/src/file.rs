//! One file that is open or has bytes the bucket does not have: where its bytes are, and who holds it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::{Attr, Ino, Timestamp};
use namespace::SetAttr;
use parking_lot::{Mutex, RwLock};
use store::Staged;
use tokio::sync::OwnedMutexGuard;
use transfer::Download;

use crate::access::SET_ID;
use crate::ahead::Stream;
use crate::aimed::{Acknowledged, Times};
use crate::errno::{Error, Result};
use crate::io_mode::IoMode;
use crate::page_locks::PageLocks;
use crate::source::Source;

/// The right to change what is published of a file, and to seal it.
#[derive(Debug)]
pub(crate) struct Turn {
    _publishing: OwnedMutexGuard<()>,
    /// `None` while others may seal.
    sealing: Mutex<Option<Sealing>>,
}

/// The right to seal a file.
pub(crate) type Sealing = OwnedMutexGuard<()>;

/// A file in use. One for each inode, shared by all its handles.
#[derive(Debug)]
pub(crate) struct File {
    ino: Ino,
    /// How many bring it into the bucket.
    publishing: AtomicU32,
    /// Held by who commits it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Held by who seals it, or takes the answer to an upload; taken after the turn.
    sealing: Arc<tokio::sync::Mutex<()>>,
    /// Writers hold it shared for a moment; who publishes the file to make room keeps them out.
    pub(crate) gate: tokio::sync::RwLock<()>,
    /// Held by requests that the kernel has pages locked for.
    pub(crate) page_locks: PageLocks,
    /// Reads and writes of bytes hold it shared, so that bytes do not change place under them.
    pub(crate) state: RwLock<State>,
    /// What of it is sent ahead.
    pub(crate) stream: Stream,
    /// Its size, as readers here see it. Beside the state, because a seal may keep the staged file
    /// for as long as it is large, and `stat` must not wait for that.
    size: AtomicU64,
    /// When it was last changed here, until that is published.
    written: Mutex<Option<Times>>,
    /// Whether the access time follows the writes: the file was made here, and no process has set the time since.
    /// Then one time is enough for its object. Changes under the lock of `written` only.
    atime_follows: AtomicBool,
    /// Held by who tells the names its times, or changes them there: nobody tells older ones.
    pub(crate) timing: tokio::sync::Mutex<()>,
    /// The upload that is under way.
    uploading: Mutex<Option<String>>,
    // The upload for which it is being sealed.
    seals_for: Mutex<Option<String>>,
    /// Uploads of it that may have arrived although they failed, the last few.
    unanswered: Mutex<Vec<String>>,
    /// Whether the names know that its bytes are being changed here.
    announced: AtomicBool,
    /// What a close was told is safe and is not uploaded yet. Taken by who holds the turn.
    pub(crate) acknowledged: Mutex<Option<Acknowledged>>,
    /// The file whose name it is just getting, and which loses it by that.
    pub(crate) replaces: Mutex<Option<Arc<File>>>,
    /// Held while the staged file is told where it belongs, by those who just asked the names; counts
    /// the notes that may be of a moment ago.
    pub(crate) noting: Mutex<u64>,
    /// The last note of its staged bytes: what they belong to when the names have forgotten it.
    last_note: Mutex<Vec<u8>>,
    /// Whether it has set-uid or set-gid bits, as far as was told.
    set_id: AtomicBool,
    /// Who made it may not have his answer yet.
    being_made: AtomicBool,
    /// Set once its bytes were moved to the recovery folder.
    lost: OnceLock<Lost>,
}

/// Where the bytes of a file went that lost its object to somebody else's.
#[derive(Debug)]
struct Lost {
    key: String,
    why: &'static str,
    kept: String,
}

impl Lost {
    fn error(&self) -> Error {
        Error::Conflict { key: self.key.clone(), why: self.why, kept: self.kept.clone() }
    }
}

/// Whether the names know that a file's bytes are being changed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    Yes,
    No,
}

/// Only one of them can be the object, and it is one of the last.
const UNANSWERED_MAX: usize = 8;

/// What can change of a file in use.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) bytes: Bytes,
    pub(crate) io: IoMode,
    pub(crate) mapped: Mapped,
    pub(crate) name: Named,
    pub(crate) overwrite: Overwrite,
}

/// Where the newest bytes of a file are.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// In the bucket; here as far as they were fetched.
    Clean(Source),
    /// Here only, or about to be: a staged file takes the writes.
    Staged {
        staged: Arc<Staged>,
        /// What shows through where nothing was written.
        base: Option<Source>,
    },
}

/// Whether the kernel may write to the backing file past us, through a shared mapping.
///
/// ```text
///   Never ──open──▶ Open ──last close──▶ Closed ──open──▶ Open
///     ◀──────────── it is a clean file again ─────┘
/// ```
///
/// A mapping of a backing file outlives its descriptor, and no request says when it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapped {
    Never,
    Open { handles: u32 },
    Closed,
}

impl Mapped {
    /// A handle was opened through which the backing file can be mapped for writing.
    pub(crate) fn opened(self) -> Mapped {
        match self {
            Mapped::Never | Mapped::Closed => Mapped::Open { handles: 1 },
            Mapped::Open { handles } => Mapped::Open { handles: handles + 1 },
        }
    }

    /// Such a handle was closed.
    pub(crate) fn closed(self) -> Mapped {
        match self {
            Mapped::Open { handles: 1 } => Mapped::Closed,
            Mapped::Open { handles } => Mapped::Open { handles: handles - 1 },
            Mapped::Never | Mapped::Closed => panic!("a close in {self:?}"),
        }
    }
}

/// Whether the file still has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Yes,
    /// Unlinked or replaced: its bytes live as long as its handles and are never published.
    No,
}

/// What the next upload does to an object that someone else put in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// The file was written whole, from nothing: as on a local disk, the last writer wins.
    Wins,
    /// It is an edit of one version, or was created exclusively: it must not replace another.
    Yields,
}

impl Turn {
    /// Others may seal the file from now on, until [`File::keep_sealing`].
    pub(crate) fn let_seal(&self) {
        *self.sealing.lock() = None;
    }
}

impl File {
    pub(crate) fn new(ino: Ino, bytes: Bytes, overwrite: Overwrite) -> File {
        let size = match &bytes {
            Bytes::Clean(download) => download.size(),
            Bytes::Staged { staged, .. } => staged.size(),
        };
        File {
            ino,
            publishing: AtomicU32::new(0),
            size: AtomicU64::new(size),
            turn: Arc::default(),
            sealing: Arc::default(),
            gate: tokio::sync::RwLock::default(),
            page_locks: PageLocks::default(),
            stream: Stream::default(),
            state: RwLock::new(State {
                bytes,
                io: IoMode::Idle,
                mapped: Mapped::Never,
                name: Named::Yes,
                overwrite,
            }),
            written: Mutex::new(None),
            atime_follows: AtomicBool::new(false),
            timing: tokio::sync::Mutex::default(),
            uploading: Mutex::default(),
            seals_for: Mutex::default(),
            unanswered: Mutex::default(),
            announced: AtomicBool::new(false),
            acknowledged: Mutex::default(),
            replaces: Mutex::default(),
            noting: Mutex::default(),
            last_note: Mutex::default(),
            set_id: AtomicBool::new(false),
            being_made: AtomicBool::new(false),
            lost: OnceLock::new(),
        }
    }

    /// Its bytes are at `kept` from now on, also those that are yet to be written, and never in the object `key`, and
    /// why.
    pub(crate) fn loses(&self, (key, why): (String, &'static str), kept: String) -> Error {
        self.lost.get_or_init(|| Lost { key, why, kept }).error()
    }

    /// Fails if its bytes will never be in the bucket: nobody who writes it is to be told that they are.
    pub(crate) fn check_not_lost(&self) -> Result<()> {
        self.lost.get().map_or(Ok(()), |lost| Err(lost.error()))
    }

    pub(crate) fn ino(&self) -> Ino {
        self.ino
    }

    /// Waits for the right to change what is published.
    pub(crate) async fn turn(&self) -> Turn {
        let publishing = Arc::clone(&self.turn).lock_owned().await;
        let sealing = Mutex::new(Some(self.sealing().await));
        Turn { _publishing: publishing, sealing }
    }

    /// Waits for the right to seal it; an upload that may be overtaken is not waited for.
    pub(crate) async fn sealing(&self) -> Sealing {
        Arc::clone(&self.sealing).lock_owned().await
    }

    /// Only who has the turn may seal it.
    pub(crate) async fn keep_sealing(&self, turn: &Turn) {
        if turn.sealing.lock().is_none() {
            let sealing = self.sealing().await;
            *turn.sealing.lock() = Some(sealing);
        }
    }

    /// Somebody begins to bring it into the bucket.
    pub(crate) fn begins_publishing(&self) {
        self.publishing.fetch_add(1, Ordering::Relaxed);
    }

    /// He is done, or gave up.
    pub(crate) fn ends_publishing(&self) {
        self.publishing.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether somebody brings it into the bucket.
    pub(crate) fn is_publishing(&self) -> bool {
        0 < self.publishing.load(Ordering::Relaxed)
    }

    /// Whether somebody has that right, or waits for it.
    pub(crate) fn is_committing(&self) -> bool {
        self.turn.try_lock().is_err()
    }

    /// The staged file, if writes were or may be made.
    pub(crate) fn staged(&self) -> Option<Arc<Staged>> {
        match &self.state.read().bytes {
            Bytes::Clean(_) => None,
            Bytes::Staged { staged, .. } => Some(Arc::clone(staged)),
        }
    }

    /// Where what a staged file lacks is fetched from.
    pub(crate) fn base(&self) -> Option<Arc<Download>> {
        match &self.state.read().bytes {
            Bytes::Clean(_) => None,
            Bytes::Staged { base, .. } => base.as_deref().cloned(),
        }
    }

    /// The staged file, and where what it lacks is fetched from, if there is anything of that.
    pub(crate) fn staged_over(&self) -> Option<(Arc<Staged>, Arc<Download>)> {
        match &self.state.read().bytes {
            Bytes::Staged { staged, base: Some(base) } => {
                Some((Arc::clone(staged), Arc::clone(base)))
            }
            Bytes::Staged { base: None, .. } | Bytes::Clean(_) => None,
        }
    }

    /// Whether what it lacks is still fetched from `base`.
    pub(crate) fn is_based_on(&self, base: &Arc<Download>) -> bool {
        self.base().is_some_and(|current| Arc::ptr_eq(&current, base))
    }

    /// Whether its bytes are still those of `download`, and read from there.
    pub(crate) fn is_read_from(&self, download: &Arc<Download>) -> bool {
        match &self.state.read().bytes {
            Bytes::Clean(current) => Arc::ptr_eq(current, download),
            Bytes::Staged { .. } => false,
        }
    }

    /// Whether what it lacks is fetched from another version than `identity`.
    pub(crate) fn is_read_elsewhere(&self, identity: &[u8]) -> bool {
        match &self.state.read().bytes {
            Bytes::Clean(source) | Bytes::Staged { base: Some(source), .. } => {
                source.identity() != identity
            }
            Bytes::Staged { base: None, .. } => false,
        }
    }

    /// Whether nothing of it has to be fetched any more.
    pub(crate) fn is_whole(&self) -> bool {
        match &self.state.read().bytes {
            Bytes::Clean(download) | Bytes::Staged { base: Some(download), .. } => {
                download.cached().is_some_and(|cached| cached.is_complete())
            }
            Bytes::Staged { base: None, .. } => true,
        }
    }

    /// Whether nothing is lost when it is forgotten, if nobody has it open.
    pub(crate) fn is_spent(&self) -> bool {
        let state = self.state.read();
        !matches!((&state.bytes, state.name), (Bytes::Staged { .. }, Named::Yes))
    }

    /// Whether the kernel may have written to the backing file past us.
    pub(crate) fn is_mapped(&self) -> bool {
        self.state.read().mapped != Mapped::Never
    }

    /// Whether a mapping may have outlived its descriptors, so that bytes may still change unseen.
    pub(crate) fn is_lingering(&self) -> bool {
        let state = self.state.read();
        state.mapped == Mapped::Closed && state.name == Named::Yes && !state.is_dirty()
    }

    /// Whether there are bytes here that the bucket should have and has not.
    pub(crate) fn is_dirty(&self) -> bool {
        self.state.read().is_dirty()
    }

    /// Its size, as readers here see it.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Bytes were written up to `end`; under the state's guard.
    pub(crate) fn reaches(&self, end: u64) {
        self.size.fetch_max(end, Ordering::AcqRel);
    }

    /// It was cut or grown; under the state's guard.
    pub(crate) fn resized(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// Notes the time at which the file is made.
    pub(crate) fn made(&self, now: Timestamp) {
        let mut written = self.written.lock();
        self.atime_follows.store(true, Ordering::Relaxed);
        *written = Some(Times { mtime: now, ctime: now, atime: Some(now) });
    }

    /// Notes the time of a write.
    pub(crate) fn touch(&self, now: Timestamp) {
        let mut written = self.written.lock();
        let atime = self.atime_follows.load(Ordering::Relaxed).then_some(now);
        *written = Some(Times { mtime: now, ctime: now, atime });
    }

    /// Notes that attributes were changed at `now`, and the times that `change` gives.
    /// Names know the attributes; of a file with unpublished bytes they do not know the times.
    pub(crate) fn attributes_changed(&self, change: &SetAttr, now: Timestamp) {
        let mut written = self.written.lock();
        if change.atime.is_some() {
            self.atime_follows.store(false, Ordering::Relaxed);
        }
        if let Some(times) = &mut *written {
            let atime = if change.atime.is_some() { None } else { times.atime };
            *times = Times { mtime: change.mtime.unwrap_or(times.mtime), ctime: now, atime };
        }
    }

    /// When it was last changed, if that is not published yet.
    pub(crate) fn written(&self) -> Option<Times> {
        *self.written.lock()
    }

    /// These times have reached the names; later ones have not.
    pub(crate) fn times_published(&self, published: Option<Times>) {
        let mut written = self.written.lock();
        if *written == published {
            *written = None;
            self.atime_follows.store(false, Ordering::Relaxed);
        }
    }

    /// `attr` as of now: names know the published size and time only.
    pub(crate) fn overlay(&self, attr: &mut Attr) {
        self.mode_is(attr.mode);
        attr.size = self.size();
        if let Some(Times { mtime, ctime, atime }) = self.written() {
            attr.mtime = mtime;
            attr.atime = atime.unwrap_or(attr.atime);
            // Names tell of what is no change of the bytes, such as a name less.
            attr.ctime = attr.ctime.max(ctime);
        }
    }

    /// These are its permission bits now.
    pub(crate) fn mode_is(&self, mode: u16) {
        self.set_id.store(mode & SET_ID != 0, Ordering::Relaxed);
    }

    /// Whether it has set-uid or set-gid bits.
    pub(crate) fn has_set_id(&self) -> bool {
        self.set_id.load(Ordering::Relaxed)
    }

    /// Who makes it is answered now.
    pub(crate) fn begins_being_made(&self) {
        self.being_made.store(true, Ordering::Release);
    }

    /// Something was done with it through an open handle: who made it has his answer.
    pub(crate) fn goes_on(&self) {
        self.being_made.store(false, Ordering::Release);
    }

    /// Whether who makes it may not have his answer yet.
    pub(crate) fn is_being_made(&self) -> bool {
        self.being_made.load(Ordering::Acquire)
    }

    /// The upload `id` failed in a way that leaves open whether it arrived.
    pub(crate) fn left_unanswered(&self, id: String) {
        let mut unanswered = self.unanswered.lock();
        if unanswered.len() == UNANSWERED_MAX {
            unanswered.remove(0);
        }
        unanswered.push(id);
    }

    /// Remembers the last note of its staged bytes.
    pub(crate) fn noted(&self, note: &[u8]) {
        note.clone_into(&mut self.last_note.lock());
    }

    /// The last note of its staged bytes; empty if there was none.
    pub(crate) fn last_note(&self) -> Vec<u8> {
        self.last_note.lock().clone()
    }

    /// This upload is under way from now on, if any is.
    pub(crate) fn uploading(&self, upload: Option<&str>) {
        *self.uploading.lock() = upload.map(str::to_owned);
    }

    /// The upload that is under way.
    pub(crate) fn upload_under_way(&self) -> Option<String> {
        self.uploading.lock().clone()
    }

    /// What is being sealed from now on, if anything is, is for this upload.
    pub(crate) fn seals_for(&self, upload: Option<&str>) {
        *self.seals_for.lock() = upload.map(str::to_owned);
    }

    /// The upload for which something is being sealed.
    pub(crate) fn sealed_for(&self) -> Option<String> {
        self.seals_for.lock().clone()
    }

    /// Uploads that may have arrived, or may yet, before another one.
    pub(crate) fn earlier_uploads(&self) -> Vec<String> {
        self.unanswered.lock().iter().cloned().chain(self.uploading.lock().clone()).collect()
    }

    /// Uploads that may have arrived although they failed.
    pub(crate) fn unanswered(&self) -> Vec<String> {
        self.unanswered.lock().clone()
    }

    /// A later upload was acknowledged: what became of those before it does not matter any more.
    pub(crate) fn answered(&self) {
        self.unanswered.lock().clear();
    }

    /// Whether the names know that its bytes are being changed here.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Acquire)
    }

    /// The names were told, or have taken the change for published.
    pub(crate) fn announce(&self, announced: Announced) {
        self.announced.store(announced == Announced::Yes, Ordering::Release);
    }
}

impl State {
    /// The same bytes are to be fetched from elsewhere from now on.
    pub(crate) fn follow(&mut self, moved: Arc<Download>) {
        match &mut self.bytes {
            Bytes::Clean(download) | Bytes::Staged { base: Some(download), .. } => {
                *download = moved.into();
            }
            Bytes::Staged { base: None, .. } => {}
        }
    }

    /// Nobody will use the file any more: whoever takes its version for writing disturbs nobody.
    pub(crate) fn retired(&mut self) {
        match &mut self.bytes {
            Bytes::Clean(source) | Bytes::Staged { base: Some(source), .. } => source.let_go(),
            Bytes::Staged { base: None, .. } => {}
        }
    }

    /// The bucket has the bytes, and nobody writes them.
    pub(crate) fn clean(&mut self, download: Arc<Download>) {
        self.bytes = Bytes::Clean(download.into());
        self.mapped = Mapped::Never;
    }

    pub(crate) fn is_dirty(&self) -> bool {
        match (&self.bytes, self.name) {
            (Bytes::Staged { staged, .. }, Named::Yes) => staged.is_dirty(),
            (Bytes::Staged { .. }, Named::No) | (Bytes::Clean(_), _) => false,
        }
    }
}
