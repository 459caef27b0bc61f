//! open, create, release; chooses passthrough.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::{Attr, Counter, Errno, HandleId, Ino, Name};
use namespace::{Content, NewNode};
use parking_lot::Mutex;
use store::{BackingFile, Base, ErrorKind};

use crate::access::Access;
use crate::errno::{Error, Result, errno};
use crate::file::{Bytes, File, Named, Overwrite, State};
use crate::files::Entered;
use crate::handles::Handle;
use crate::io_mode::{Choice, Kind, Lent, Opening, Otherwise, Whole};
use crate::kernel::PageRange;
use crate::page_cache::{Content as PageContent, Dropped, Fit, InodeLock, PageCache, Unsettled};
use crate::vfs::Vfs;

/// An open file, and how the kernel is to read and write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Names the open in later requests.
    pub handle: HandleId,
    /// Where reads and writes go.
    pub pages: Pages,
}

/// Where the reads and writes of an open go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Through the page cache, after the kernel has dropped what it has of this file.
    Anew,
    /// Through the page cache, which may keep what it has of this file.
    Keep,
    /// To the registered backing file, past us.
    Backing(u32),
    /// To us, and mappings to the registered backing file.
    BackingSeen(u32),
    /// To us.
    Seen,
    /// To us, because the page cache has stale pages that could not be dropped in time.
    PastStale,
}

impl Pages {
    /// What the open counts as.
    fn kind(self) -> Kind {
        match self {
            Pages::Seen => Kind::Direct,
            Pages::Anew
            | Pages::Keep
            | Pages::PastStale
            | Pages::Backing(_)
            | Pages::BackingSeen(_) => Kind::Other,
        }
    }
}

/// A file may be closed by others between our look at it and our open, but not for ever.
const ENTER_TRIES_MAX: usize = 100;

/// Between looks whether who made a file has gone on with it, and how many there are: who is just not running
/// will be by then.
const MAKER_DELAY: Duration = Duration::from_millis(1);
const MAKER_LOOKS_MAX: usize = 50;

/// Tries to drop stale pages before an open leaves that to the kernel: writes past the page cache may keep coming.
const DROP_TRIES_MAX: usize = 3;

/// Pages of a file that are older than its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StalePages {
    /// The open has to wait until they are dropped.
    HoldUp,
    /// The kernel drops them after the answer. The inode is new: it has none.
    KernelDrops,
    /// The open passes them by, with a request for each call. A drop by the kernel would wait for the same reads as the
    /// drop that was given up.
    PassBy,
}

/// Result of an attempt to open.
enum Attempt {
    Opened(Opened),
    /// Stale pages hold it up.
    Stale,
}

/// The process that opens, and whether the name had to be free.
pub(crate) type Opener = (u32, bool);

impl Vfs {
    /// Opens a file for the process `opener`.
    pub async fn open(self: Arc<Self>, ino: Ino, access: Access, opener: u32) -> Result<Opened> {
        match access {
            Access::Read => {}
            Access::Write | Access::ReadWrite => self.namespace.check_allowed(ino).await?,
        }
        let file = self.enter(ino).await?;
        self.wait_for_maker(&file).await;
        let opened = match self.open_found(&file, access, opener).await {
            Ok(opened) => opened,
            Err(error) => {
                self.files.leave(&file);
                self.retire(&file);
                return Err(error);
            }
        };
        if access == Access::Read {
            self.look_beside(&file);
            self.looks_while_used(ino);
            self.check_restored(ino, opened).await?;
        }
        Ok(opened)
    }

    /// Opens `file`, which has a name already, and drops stale pages before.
    async fn open_found(
        self: &Arc<Self>,
        file: &Arc<File>,
        access: Access,
        opener: u32,
    ) -> Result<Opened> {
        let how = (access, Opening::Found);
        for _ in 0..DROP_TRIES_MAX {
            match self.open_entered(file, how, opener, StalePages::HoldUp)? {
                Attempt::Opened(opened) => return Ok(opened),
                Attempt::Stale => {
                    match self.drop_pages(file, PageRange::All, InodeLock::Free).await {
                        Dropped::All => {}
                        Dropped::Some => break,
                    }
                }
            }
        }
        self.open_at_once(file, how, opener, StalePages::PassBy)
    }

    /// Opens `file`; `stale` holds nothing up.
    fn open_at_once(
        self: &Arc<Self>,
        file: &Arc<File>,
        how: (Access, Opening),
        opener: u32,
        stale: StalePages,
    ) -> Result<Opened> {
        match self.open_entered(file, how, opener, stale)? {
            Attempt::Opened(opened) => Ok(opened),
            Attempt::Stale => unreachable!("stale pages hold nothing up"),
        }
    }

    /// Waits until the kernel is known to have taken the answer to who made `file`, or has had long enough:
    /// passthrough must not begin before.
    async fn wait_for_maker(&self, file: &File) {
        for _ in 0..MAKER_LOOKS_MAX {
            if !file.is_being_made() {
                return;
            }
            self.clock.sleep(MAKER_DELAY).await;
        }
    }

    /// Closes a file again that is said to be in an archive and cannot be read: its bytes may be here, or
    /// it may have been restored, which only a try tells.
    async fn check_restored(self: &Arc<Self>, ino: Ino, opened: Opened) -> Result<()> {
        let content = self.namespace.content_now(ino);
        let is_said = content.is_ok_and(|content| {
            let mut extents = content.extents.iter();
            extents.any(|extent| self.options.learned.may_be_archived(&extent.version))
        });
        if !is_said {
            return Ok(());
        }
        match Arc::clone(self).read(opened.handle, 0, 1).await {
            Err(error) if errno(&error) == Errno::EBUSY => {
                self.release(opened.handle)?;
                Err(error)
            }
            // What else is wrong will be told to who reads.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Makes a file and opens it. `opener` is the process, and whether it asked for `O_EXCL`.
    pub async fn create(
        self: Arc<Self>,
        parent: Ino,
        name: Name,
        node: NewNode,
        access: Access,
        (opener, exclusive): Opener,
    ) -> Result<(Attr, Opened)> {
        let entry = self.namespace.create(parent, &name, node).await?;
        let ino = entry.attr.ino;
        let made = self.files.enter(ino, || {
            let target = self.namespace.target(ino)?;
            let note = self.note(&target, "").to_bytes();
            let staged = self.store.stage(&note, Base::Empty)?;
            let overwrite = if exclusive { Overwrite::Yields } else { Overwrite::Wins };
            Ok(File::new(ino, Bytes::Staged { staged, base: None }, overwrite))
        });
        let file = match made {
            Ok((file, _)) => file,
            Err(error) => {
                // Nothing of it is in the bucket: the name just goes.
                self.namespace.unlink(parent, &name).await?;
                return Err(error);
            }
        };
        self.inodes.refer(ino);
        file.made(entry.attr.mtime);
        // Of another file that had this number.
        self.inodes.with_page_cache(ino, PageCache::bypass);
        let opened = match self.open_at_once(
            &file,
            (access, Opening::Made),
            opener,
            StalePages::KernelDrops,
        ) {
            Ok(opened) => opened,
            Err(error) => {
                let unlinked = self.namespace.unlink(parent, &name).await;
                self.files.unname(ino);
                self.files.leave(&file);
                self.retire(&file);
                return Err(unlinked.err().map_or(error, Error::from));
            }
        };
        if opened.pages == Pages::Seen {
            file.begins_being_made();
        }
        match self.hand_out(entry.attr) {
            Ok(attr) => Ok((attr, opened)),
            Err(error) => {
                self.release(opened.handle)?;
                Err(error)
            }
        }
    }

    /// The last descriptor and mapping of an open are gone.
    pub fn release(self: &Arc<Self>, handle: HandleId) -> Result<()> {
        let closed = self.handles.file(handle)?;
        if closed.access.writes() {
            // Before it holds nothing back.
            self.is_closed_for_good(&closed.file);
        }
        drop(closed);
        let handle = self.handles.remove_file(handle)?;
        let file = Arc::clone(&handle.file);
        let (was_lent, kind) = (handle.lent.is_some(), handle.kind);
        let read_since = (!handle.access.writes()).then_some(handle.opened);
        drop(handle);
        file.goes_on();
        let mut state = file.state.write();
        state.io.close(kind);
        if was_lent {
            state.mapped = state.mapped.closed();
        }
        drop(state);
        self.files.leave(&file);
        if file.is_mapped() {
            // Its bytes must be looked through, which takes as long as it is large.
            self.commit_later(&file);
            return Ok(());
        }
        if let Err(error) = self.restore(&file) {
            tracing::warn!(ino = %file.ino(), %error, "a closed file could not be put into the cache");
        }
        if file.is_dirty() {
            // What a failed close left; what others are still writing has their close to come.
            if !self.handles.is_written(&file) {
                self.commit_after(&file, self.delay_of(&file));
            }
        } else {
            self.retire(&file);
            if let Some(opened) = read_since {
                self.looks_after_use(file.ino(), opened);
            }
        }
        Ok(())
    }

    /// The file `ino` with one more handle, its bytes looked up if it is not in use.
    pub(crate) async fn enter(self: &Arc<Self>, ino: Ino) -> Result<Arc<File>> {
        for _ in 0..ENTER_TRIES_MAX {
            let content = match self.files.find(ino) {
                Some(_) => None,
                None => Some(self.namespace.content(ino).await?),
            };
            let entered = self.files.enter(ino, || match content {
                Some(content) => self.file_of(ino, content),
                None => Err(Error::Call(Errno::EBUSY)),
            });
            match entered {
                // It was in use a moment ago and is not any more: look it up.
                Err(Error::Call(Errno::EBUSY)) => {}
                Err(error) => return Err(error),
                Ok((file, entered)) => {
                    if entered == Entered::Made {
                        self.inodes.refer(ino);
                        if let Some(attr) = self.namespace.hold_listed(ino) {
                            file.mode_is(attr.mode);
                        }
                    }
                    let checked = self.check_entered(&file, entered);
                    if checked.is_err() {
                        self.files.leave(&file);
                        self.retire(&file);
                    }
                    return checked.map(|()| file);
                }
            }
        }
        Err(Error::Call(Errno::EBUSY))
    }

    /// Only from now on the names know that the file is in use: what they said of it before may be
    /// of a name that is gone, or of an object that has moved.
    fn check_entered(&self, file: &Arc<File>, entered: Entered) -> Result<()> {
        let now = self.namespace.content_now(file.ino()).map_err(Error::from);
        match (entered, now) {
            // What others have open is kept for all who have it, also while its removal is under way.
            (Entered::InUse, Err(error)) if error.is_nameless() && self.handles.is_open(file) => {
                Ok(())
            }
            (_, Err(error)) if error.is_nameless() => Err(error),
            (Entered::InUse, _) => Ok(()),
            (Entered::Made, Err(error)) => Err(error),
            (Entered::Made, Ok(now)) => {
                self.namespace.target(file.ino())?;
                self.follow(file, now)
            }
        }
    }

    fn file_of(&self, ino: Ino, content: Content) -> Result<File> {
        // A file without an identity has bytes here only, so it would be in use.
        let identity = content.identity.ok_or(Error::Call(Errno::ESTALE))?;
        let download = self.download(&identity, content.size, content.extents)?;
        Ok(File::new(ino, Bytes::Clean(download.into()), Overwrite::Yields))
    }

    fn open_entered(
        self: &Arc<Self>,
        file: &Arc<File>,
        (access, opening): (Access, Opening),
        opener: u32,
        stale: StalePages,
    ) -> Result<Attempt> {
        let mut state = file.state.write();
        if access.writes() {
            self.check_writable(file, state.name)?;
        }
        let pages = self.answer(file, &mut state, (access, opening), stale)?;
        let Some(pages) = pages else { return Ok(Attempt::Stale) };
        let lent = match (&state.bytes, pages, access) {
            (Bytes::Staged { staged, .. }, Pages::BackingSeen(_), Access::ReadWrite) => {
                let lent = staged.passthrough();
                Some(lent.inspect_err(|_| state.io.close(pages.kind()))?)
            }
            _ => None,
        };
        if lent.is_some() {
            state.mapped = state.mapped.opened();
        }
        let (file_too, kind, opened) = (Arc::clone(file), pages.kind(), self.clock.monotonic());
        let closes = AtomicBool::new(false);
        let drops = self.inodes.with_page_cache(file.ino(), |cache| cache.drops());
        let unsettled = Mutex::new(Unsettled::new(drops.unwrap_or_default()));
        let handle =
            Handle { file: file_too, access, opener, lent, kind, unsettled, opened, closes };
        // Still under the guard: who restores the file sees that somebody may write it.
        let handle = self.handles.add_file(handle);
        drop(state);
        if access.writes() {
            self.begins_to_hold(file);
        }
        Ok(Attempt::Opened(Opened { handle, pages }))
    }

    /// Decides how the kernel does this open's I/O, and notes it; `None` if stale pages hold it up.
    fn answer(
        &self,
        file: &File,
        state: &mut State,
        (access, opening): (Access, Opening),
        stale: StalePages,
    ) -> Result<Option<Pages>> {
        let (here, whole) = self.whole_file(state);
        let otherwise = match state.io.choose((access, opening), here) {
            Choice::Cached => Otherwise::Cached,
            Choice::Direct => Otherwise::Direct,
            Choice::Join => return self.on_backing(file, state, (access, None)).map(Some),
            Choice::Begin(otherwise) => {
                match self.begin_on_backing(file, state, (access, whole))? {
                    Some(pages) => return Ok(Some(pages)),
                    None => otherwise,
                }
            }
        };
        if otherwise == Otherwise::Direct {
            state.io.open_direct();
            // Only the mapping of another open than that of who writes fills pages.
            let is_filled = state.io.fills_pages_beside_a_writer();
            let spoil = if is_filled { PageCache::pass } else { PageCache::bypass };
            self.inodes.with_page_cache(file.ino(), spoil);
            return Ok(Some(Pages::Seen));
        }
        let content = match &state.bytes {
            Bytes::Clean(download) => PageContent::Version(download.identity()),
            Bytes::Staged { .. } => PageContent::Staged,
        };
        let fit = self.inodes.with_page_cache(file.ino(), |cache| cache.open(content));
        let pages = match (fit.unwrap_or(Fit::Stale), stale) {
            (Fit::Keep, _) => Pages::Keep,
            (Fit::Stale, StalePages::KernelDrops) => Pages::Anew,
            (Fit::Stale, StalePages::PassBy) => Pages::PastStale,
            (Fit::Stale, StalePages::HoldUp) => return Ok(None),
        };
        state.io.open_cached();
        Ok(Some(pages))
    }

    /// The first open on the backing file; `None` if the kernel does not take it, or if it is not ours alone
    /// to write to.
    fn begin_on_backing(
        &self,
        file: &File,
        state: &mut State,
        (access, whole): (Access, Option<Arc<BackingFile>>),
    ) -> Result<Option<Pages>> {
        let registered = whole.and_then(|file| {
            let backing = self.kernel()?.register(&file)?;
            Some(Lent { backing, _file: Some(file) })
        });
        if registered.is_none() {
            return Ok(None);
        }
        let pages = match self.on_backing(file, state, (access, registered)) {
            // Another mount of this host uses it.
            Err(Error::Store(error)) if error.kind == ErrorKind::Held => return Ok(None),
            opened => opened?,
        };
        self.metrics.add(Counter::PassthroughOpens, 1);
        self.inodes.with_page_cache(file.ino(), PageCache::bypass);
        Ok(Some(pages))
    }

    /// An open on the backing file, which is registered just now or is already.
    fn on_backing(
        &self,
        file: &File,
        state: &mut State,
        (access, begun): (Access, Option<Lent>),
    ) -> Result<Pages> {
        if !access.writes() {
            return Ok(Pages::Backing(state.io.open_backing(begun)));
        }
        self.stage_in_place(file, state)?;
        Ok(Pages::BackingSeen(state.io.open_backing(begun)))
    }

    /// Whether all of a file is here in a form that the kernel takes, and the backing file then.
    fn whole_file(&self, state: &State) -> (Whole, Option<Arc<BackingFile>>) {
        let (here, whole) = match (&state.bytes, state.name) {
            (Bytes::Clean(download), Named::Yes) => {
                // A writer may join, and has to have it for himself.
                let ours = download.cached().filter(|cached| !cached.is_shared());
                (Whole::Clean, ours.and_then(|cached| cached.passthrough()))
            }
            (Bytes::Staged { staged, .. }, Named::Yes) => {
                let taken = staged.to_read().filter(|file| self.is_taken(file));
                (Whole::Staged, taken)
            }
            (Bytes::Clean(_) | Bytes::Staged { .. }, Named::No) => (Whole::No, None),
        };
        if whole.is_some() { (here, whole) } else { (Whole::No, None) }
    }

    /// Whether the kernel takes backing files of the store's disk, as the first one shows.
    fn is_taken(&self, file: &BackingFile) -> bool {
        let Some(kernel) = self.kernel() else { return false };
        *self.takes_backing.get_or_init(|| kernel.register(file).is_some())
    }

    /// Takes the clean backing file, which the kernel reads, for writing: it stays the same file on
    /// the disk, because the kernel cannot be given another while it is open.
    fn stage_in_place(&self, file: &File, state: &mut State) -> Result<()> {
        let Bytes::Clean(download) = &state.bytes else { return Ok(()) };
        let note = self.note_of(file, state.name, "")?;
        let cached = download.cached().ok_or(Error::Call(Errno::ENOSPC))?;
        let staged = self.store.stage(&note, Base::Take(Arc::clone(cached)))?;
        self.inodes.with_page_cache(file.ino(), |cache| cache.edit(download.identity()));
        state.bytes = Bytes::Staged { staged, base: None };
        Ok(())
    }

    /// Makes sure that writes to `file` have a staged file to go to.
    pub(crate) fn stage(&self, file: &File) -> Result<()> {
        let mut state = file.state.write();
        let Bytes::Clean(download) = &state.bytes else { return Ok(()) };
        let cached = download.cached().ok_or(Error::Call(Errno::ENOSPC))?;
        let whole = cached.is_complete();
        if state.io.is_passthrough() {
            return self.stage_in_place(file, &mut state);
        }
        if whole {
            match self.stage_in_place(file, &mut state) {
                // Another mount of this host uses it, or a file that lost its name to this one: it is only a
                // base then.
                Err(Error::Store(error)) if error.kind == ErrorKind::Held => {}
                done => return done,
            }
        }
        let Bytes::Clean(download) = &state.bytes else { return Ok(()) };
        let cached = Arc::clone(download.cached().ok_or(Error::Call(Errno::ENOSPC))?);
        let bytes = cached.size();
        let note = self.note_of(file, state.name, "")?;
        let staged = self.store.stage(&note, Base::Over { cached, bytes })?;
        self.inodes.with_page_cache(file.ino(), |cache| cache.edit(download.identity()));
        let base = Some(Arc::clone(download).into());
        state.bytes = Bytes::Staged { staged, base };
        Ok(())
    }
}
