//! Seal, upload, publish, release: the life of a write, in one place.
//!
//! Nothing else lets go of bytes that were not yet in the object store, and this only against the
//! version that the store acknowledged.

use std::sync::Arc;
use std::time::Duration;

use base::{Counter, Errno, Ino};
use namespace::{Abandoned, NameGuard, Published, SetAttr, Target, Unsent};
use remote::{Condition, Key, Original, Version};
use store::{Adopted, Earlier, ErrorKind, Keeping, Rest, Sealed, Staged};
use transfer::{Begun, Download, UploadJob};

use crate::ahead::{Stopped, fits};
use crate::aimed::{Acknowledged, Aimed, Frozen, Times, Upto};
use crate::errno::{Error, Result};
use crate::file::{Announced, File, Named, Overwrite, Turn};
use crate::origin::whole_object;
use crate::publishing::Publishing;
use crate::vfs::{Commit, Unpublished, Vfs};

/// A seal fails when writes make holes over the base faster than they are filled; each needs a new
/// truncation, so a file that does this forever is broken, not busy.
const SEAL_TRIES_MAX: usize = 100;

/// Files that are committed at a time at the end; a store that is down keeps each for the deadline.
const DRAIN_FILES_MAX: usize = 64;

/// Files up to this size are sealed on the thread that closes them: handing them to another costs more.
const SEAL_HERE_BYTES_MAX: u64 = 256 << 10;

/// Why bytes cannot become an object, as far as the store says with a condition that it refuses.
const LOST: &str = "the object was changed or removed by another client";

/// Who notes something of a file has done so by then, unless it waits for who seals it.
const NOTED_WITHIN: Duration = Duration::from_millis(10);

impl Vfs {
    /// Makes what was written to `file` so far its content in the bucket, and waits for it.
    pub(crate) async fn commit(self: &Arc<Self>, file: &Arc<File>) -> Result<()> {
        let turn = file.turn().await;
        self.commit_in_turn(file, &turn, Upto::Now).await
    }

    /// Commits everything, attributes too; returns what could not be, and what nobody has [`heard`](Vfs::heard) of.
    pub async fn drain(self: &Arc<Self>) -> Vec<Unpublished> {
        let committed = self.commit_in_order(self.files.staged(), DRAIN_FILES_MAX).await;
        let mut unpublished = committed.unpublished();
        // What was sent ahead for nothing goes, too.
        drop(self.ending.write().await);
        self.uploader.remove_left().await;
        self.namespace.release(None).await;
        let synced = self.namespace.sync(None).await.map_err(Error::from);
        let Unsent { changes, .. } = self.namespace.unsent();
        unpublished.extend(self.unheard_below(Ino::ROOT));
        *self.left.lock() = None;
        if let (Err(error), 1..) = (&synced, changes) {
            let reason = format!("{changes} change(s) of names: {error}");
            unpublished.push(Unpublished::failed(reason, error));
        } else if let Err(error) = synced {
            // They stand in the journal: no reason to stay mounted. The next mount writes them.
            tracing::warn!(%error, "attributes wait for the next mount to get into the bucket");
            *self.left.lock() = Some(Unpublished::failed(error.to_string(), &error));
        }
        if let Err(error) = self.store.checkpoint() {
            tracing::warn!(%error, "what is cached could not be recorded");
        }
        unpublished
    }

    /// Why attributes could not be brought into the bucket by the last [`Vfs::drain`]: they are in the
    /// journal, and the next mount writes them.
    pub fn left_for_the_next_mount(&self) -> Option<String> {
        self.attributes_left().map(|left| left.reason)
    }

    /// Attributes that the last [`Vfs::drain`] could not bring into the bucket.
    pub fn attributes_left(&self) -> Option<Unpublished> {
        self.left.lock().clone()
    }

    /// [`Vfs::commit`] for who has the file's turn.
    pub(crate) async fn commit_in_turn(
        self: &Arc<Self>,
        file: &Arc<File>,
        turn: &Turn,
        upto: Upto,
    ) -> Result<()> {
        let _publishing = Publishing::begin(self, file);
        // What is lost has no path any more.
        let path = if upto == Upto::Now { None } else { self.namespace.path(file.ino()) };
        let mut committed = self.commit_once(file, turn, upto).await;
        for _ in 0..SEAL_TRIES_MAX {
            if !matches!(committed, Ok(Step::PublishedEarlier | Step::Moving)) {
                break;
            }
            committed = self.commit_once(file, turn, upto).await;
        }
        file.uploading(None);
        let counter = match &committed {
            Ok(Step::Nothing) => return Ok(()),
            Ok(Step::Published | Step::PublishedEarlier) => Counter::UploadsDone,
            Ok(Step::Moving) => return Err(Error::Call(Errno::EBUSY)),
            Err(error) => {
                // The application hears of the failure. What others write from now on is newer than
                // what it was told is lost, so that a later try must not replace it.
                let is_told = match upto {
                    Upto::Now => true,
                    Upto::Acknowledged => self.options.commit == Commit::Close,
                    Upto::Unasked => false,
                };
                if is_told {
                    file.state.write().overwrite = Overwrite::Yields;
                }
                if upto != Upto::Now && error.is_conflict() {
                    // Nobody waits just now: whoever does next hears of it.
                    self.unheard.lock().add(path.into_iter().collect(), error.to_string());
                }
                self.failures.failed(file.ino(), error);
                Counter::UploadsFailed
            }
        };
        self.metrics.add(counter, 1);
        committed.map(|_| ())
    }

    async fn commit_once(
        self: &Arc<Self>,
        file: &Arc<File>,
        turn: &Turn,
        upto: Upto,
    ) -> Result<Step> {
        let Some(staged) = self.rescanned(file).await? else { return Ok(Step::Nothing) };
        // Not to be taken for the one that another writer may have begun meanwhile.
        if !file.is_dirty() || !staged.is_dirty() {
            return Ok(Step::Nothing);
        }
        if self.is_barred(file) {
            return Err(self.keep_barred(file, &staged));
        }
        // What was sent ahead is complete or given up at the end of this.
        let mut stream = file.stream.stop().await;
        // Until the upload is published the file keeps its name, or stays without one.
        let name = self.namespace.settle(file.ino()).await?;
        let earlier = {
            let mut acknowledged = file.acknowledged.lock();
            // It stays promised.
            file.uploading(acknowledged.as_ref().map(|version| version.aimed.upload.as_str()));
            acknowledged.take()
        };
        let is_awaited = upto != Upto::Acknowledged || !self.handles.is_written(file);
        let is_newer_asked = upto != Upto::Acknowledged && staged.is_written();
        let (chosen, step) = match earlier {
            Some(earlier) if !is_newer_asked => (Ok(Frozen::As(earlier)), Step::Published),
            None if self.options.commit == Commit::Async && !is_awaited => {
                return Ok(Step::Nothing);
            }
            earlier => match (self.seal_now(file, &staged).await, earlier) {
                // What the kernel may write to has no room for two versions.
                (Err(Error::Store(error)), Some(earlier)) if error.kind == ErrorKind::Held => {
                    (Ok(Frozen::As(earlier)), Step::PublishedEarlier)
                }
                (unsealed @ (Err(_) | Ok(Frozen::Moving)), earlier) => {
                    *file.acknowledged.lock() = earlier;
                    (unsealed, Step::Nothing)
                }
                (sealed, _) => (sealed, Step::Published),
            },
        };
        match chosen {
            Ok(Frozen::As(chosen)) => {
                // What nobody waits for may be overtaken by a newer version, if that can do without it.
                let may_be_overtaken = self.options.commit == Commit::Async
                    && upto == Upto::Acknowledged
                    && chosen.sealed.size() <= self.stream_from
                    && chosen.sealed.missing().is_empty();
                let lent = may_be_overtaken.then_some(turn);
                self.send((file, &name, lent), &staged, (chosen, step), &mut stream).await
            }
            Ok(Frozen::Nameless) => Ok(Step::Nothing),
            Ok(Frozen::Moving) => Ok(Step::Moving),
            // What our edit left out is gone for good.
            Err(error) if error.is_changed() => Err(self.keep_loser(file, &staged).await),
            Err(error) => Err(error),
        }
    }

    /// Uploads and publishes what was chosen to be; `stream` has what was sent ahead of it. Others may
    /// seal the file meanwhile if its turn is lent.
    async fn send(
        self: &Arc<Self>,
        (file, name, lent): (&Arc<File>, &NameGuard, Option<&Turn>),
        staged: &Arc<Staged>,
        (chosen, step): (Acknowledged, Step),
        stream: &mut Stopped<'_>,
    ) -> Result<Step> {
        let Acknowledged { sealed, aimed } = chosen;
        let sealed = Arc::new(sealed);
        let aimed_now = self.aim_again(file, staged, &aimed).and_then(|now| {
            self.namespace.uploads(file.ino(), &now.upload, name)?;
            Ok(now)
        });
        let uploaded = match aimed_now {
            Ok(now) => {
                let begun = stream.take();
                file.uploading(Some(&now.upload));
                file.seals_for(None);
                if let Some(turn) = lent {
                    turn.let_seal();
                }
                let uploaded = self.upload(file, (staged, &sealed), &now, begun).await;
                if let Some(turn) = lent {
                    file.keep_sealing(turn).await;
                }
                uploaded.map(|version| (now, version))
            }
            Err(error) => {
                file.seals_for(None);
                Err(error)
            }
        };
        let sealed = Arc::into_inner(sealed).expect("the upload, which shared it, is over");
        match uploaded {
            Ok((Aimed { target, written, .. }, version)) => {
                match self.publish(file, staged, sealed, &target, &version) {
                    // Removed meanwhile, and its bytes with it.
                    Err(_) if file.state.read().name == Named::No => return Ok(Step::Nothing),
                    published => published?,
                }
                file.times_published(written);
                file.announce(Announced::No);
                if file.is_dirty() {
                    self.prepare(file).await?;
                }
                Ok(step)
            }
            Err(error) if error.is_nameless() => Ok(Step::Nothing),
            // Removed meanwhile: nobody misses it.
            Err(_) if file.state.read().name == Named::No => Ok(Step::Nothing),
            Err(error) if error.is_changed() => {
                self.store.reject(staged, sealed);
                Err(self.keep_loser(file, staged).await)
            }
            Err(error) if error.is_overtaken() && lent.is_some() => Ok(Step::Nothing),
            Err(error) => {
                let is_overtaken = file.acknowledged.lock().is_some();
                match self.options.commit {
                    Commit::Close => self.store.reject(staged, sealed),
                    Commit::Async if is_overtaken => self.store.reject(staged, sealed),
                    // It stays what a close was told is safe.
                    Commit::Async => {
                        let mut sealed = sealed;
                        sealed.stay();
                        *file.acknowledged.lock() = Some(Acknowledged { sealed, aimed });
                    }
                }
                Err(error)
            }
        }
    }

    /// The staged file, looked through for what the kernel wrote past us; `None` if it is a clean
    /// file again.
    pub(crate) async fn rescanned(&self, file: &File) -> Result<Option<Arc<Staged>>> {
        for _ in 0..SEAL_TRIES_MAX {
            let Some(staged) = file.staged() else { return Ok(None) };
            if !file.is_mapped() {
                return Ok(Some(staged));
            }
            match on_disk(&staged, |staged| staged.rescan()).await {
                Ok(true) => {
                    file.touch(self.clock.wall());
                    return Ok(Some(staged));
                }
                Ok(false) => return Ok(Some(staged)),
                // Somebody's close found that nothing was changed, and put it into the cache.
                Err(Error::Store(error)) if error.kind == ErrorKind::Gone => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Call(Errno::EBUSY))
    }

    /// Tells the names the size and time of what is about to be uploaded; where it goes.
    pub(crate) async fn aim(&self, file: &File, staged: &Staged) -> Result<Aimed> {
        let timing = file.timing.lock().await;
        let written = file.written();
        let size = Some(staged.size());
        let mut change = SetAttr { size, ..SetAttr::default() };
        if let Some(Times { mtime, ctime, atime }) = written {
            change = SetAttr { mtime: Some(mtime), ctime: Some(ctime), atime, ..change };
        }
        self.namespace.set_attr(file.ino(), change).await?;
        drop(timing);
        let revision = self.namespace.revision();
        let target = self.namespace.target(file.ino())?;
        let origin = self.origin(file, &target);
        let said = self.namespace.said(file.ino());
        Ok(Aimed { target, said, origin, written, upload: self.upload_id(file), revision })
    }

    /// The id of the upload that has begun, else a new one.
    fn upload_id(&self, file: &File) -> String {
        file.stream.id().unwrap_or_else(|| self.uploader.new_id())
    }

    /// Freezes the bytes of now, and notes at once with it what they are to become: sealed bytes
    /// whose note is of an earlier upload would be taken for that one after a crash. What is not
    /// changed of an origin may stay there.
    pub(crate) async fn seal(
        &self,
        file: &Arc<File>,
        staged: &Arc<Staged>,
        aimed: &Aimed,
    ) -> Result<Sealed> {
        for _ in 0..SEAL_TRIES_MAX {
            self.fill_what_is_sent(file, staged, aimed.origin.as_ref()).await?;
            // In this order: who changes where it belongs counts that after.
            let notes = *file.noting.lock();
            let note = self.note_aimed(file, staged, aimed)?;
            match self.seal_noted(file, staged, (note, notes)).await {
                Ok(None) => {}
                Err(Error::Store(error)) if error.kind == ErrorKind::Missing => {}
                Ok(Some(sealed)) => return Ok(sealed),
                Err(error) => return Err(error),
            }
        }
        Err(Error::Call(Errno::EBUSY))
    }

    /// `None` if the file was told meanwhile that it belongs elsewhere, or nowhere: the note, which was right
    /// when so many had been written, is of its old name.
    async fn seal_noted(
        &self,
        file: &Arc<File>,
        staged: &Arc<Staged>,
        (note, notes): (Vec<u8>, u64),
    ) -> Result<Option<Sealed>> {
        let earlier = match self.options.commit {
            Commit::Close => Earlier::None,
            Commit::Async => Earlier::GivesWay,
        };
        let is_small = staged.size() <= SEAL_HERE_BYTES_MAX;
        let file = Arc::clone(file);
        let seal = move |staged: &Arc<Staged>| {
            // Who notes something of the file may wait for it, and so is not waited for.
            let is_right = || file.noting.try_lock_for(NOTED_WITHIN).filter(|now| **now == notes);
            staged.seal_while(Some(&note), earlier, is_right)
        };
        if is_small { Ok(seal(staged)?) } else { on_disk(staged, seal).await }
    }

    async fn upload(
        &self,
        file: &File,
        (staged, sealed): (&Arc<Staged>, &Arc<Sealed>),
        aimed: &Aimed,
        begun: Option<Begun>,
    ) -> Result<Version> {
        let Aimed { target, origin, upload, .. } = aimed;
        let base = file.base();
        let mut begun = begun;
        if let Some(useless) = begun.take_if(|begun| !fits(begun, staged, target)) {
            self.uploader.end(&useless).await;
        }
        let job = UploadJob {
            key: &target.key,
            condition: &target.condition,
            metadata: &target.metadata,
            id: upload,
            original: origin.as_ref().and_then(|origin| origin.original(sealed.origin())),
            base: base.as_ref(),
            begun: begun.as_ref(),
        };
        let mut uploaded = self.uploader.upload(sealed, &job).await.map_err(Error::from);
        if uploaded.as_ref().is_err_and(Error::is_changed) {
            if file.state.read().overwrite == Overwrite::Wins {
                let job = UploadJob { condition: &Condition::Always, begun: None, ..job };
                uploaded = self.uploader.upload(sealed, &job).await.map_err(Error::from);
            } else if let Some(ours) = self.follow_unanswered(file, &target.key).await? {
                let (condition, base) = (Condition::Is(ours.version.clone()), file.base());
                let original =
                    Original { key: &target.key, version: &ours.version, size: ours.size };
                // As for the version that it has replaced.
                let original = job.original.map(|_| original);
                let job = UploadJob {
                    condition: &condition,
                    original,
                    base: base.as_ref(),
                    begun: None,
                    ..job
                };
                uploaded = self.uploader.upload(sealed, &job).await.map_err(Error::from);
            }
        }
        match &uploaded {
            Ok(_) => file.answered(),
            Err(error) if error.may_pass() => file.left_unanswered(upload.clone()),
            Err(_) => {}
        }
        uploaded
    }

    /// The upload was acknowledged: the staged bytes are the file, and may become cached ones.
    fn publish(
        &self,
        file: &File,
        staged: &Arc<Staged>,
        sealed: Sealed,
        target: &Target,
        version: &Version,
    ) -> Result<()> {
        let size = sealed.size();
        self.is_no_loss(file);
        // First: who finds nothing pending finds no failure either.
        self.failures.remove(file.ino());
        let mut state = file.state.write();
        let published = Published { key: target.key.clone(), version: version.clone(), size };
        let identity = self.namespace.publish(file.ino(), published);
        self.inodes.with_page_cache(file.ino(), |cache| cache.publish(&identity));
        state.overwrite = Overwrite::Yields;
        match self.store.adopt(staged, sealed, &identity)? {
            Adopted::Clean(cached) => {
                let extents = whole_object(&target.key, version, size);
                state.clean(Download::new(&self.fetcher, cached, extents));
            }
            // Newer bytes, or a kernel that may write some at any moment: it stays staged.
            Adopted::StillDirty | Adopted::Kept => {
                let extents = whole_object(&target.key, version, size);
                self.follow_published(&mut state.bytes, (&identity, extents), size);
            }
        }
        Ok(())
    }

    /// Another client changed or removed the object: ours goes where a person finds it. Open handles go
    /// on with our bytes, which are no longer the file's.
    pub(crate) async fn keep_loser(&self, file: &File, staged: &Arc<Staged>) -> Error {
        let why = match self.namespace.target(file.ino()) {
            Ok(Target { key, condition, .. }) => self.why_lost(&key, &condition).await,
            Err(_) => LOST,
        };
        self.loses(file);
        self.keep_aside(file, staged, why)
    }

    /// Why bytes cannot become the object `key`, of which the store has refused the condition.
    pub(crate) async fn why_lost(&self, key: &Key, condition: &Condition) -> &'static str {
        match (self.uploader.find(key).await, condition) {
            (Ok(Some(_)), Condition::Absent) => "the object was made by another client",
            (Ok(Some(_)), Condition::Is(_) | Condition::Always) => {
                "the object was changed by another client"
            }
            (Ok(None), _) => "the object was removed by another client",
            (Err(error), _) => {
                tracing::debug!(%key, %error, "nothing says how another client changed the object");
                LOST
            }
        }
    }

    /// What `file` comes after will never be in the bucket: it goes where that went.
    fn keep_barred(&self, file: &File, staged: &Arc<Staged>) -> Error {
        if let Some(version) = file.acknowledged.lock().take() {
            self.store.reject(staged, version.sealed);
        }
        let why = "something else of its folder, which it comes after, was not uploaded";
        self.keep_aside(file, staged, why)
    }

    fn keep_aside(&self, file: &File, staged: &Arc<Staged>, why: &'static str) -> Error {
        let note = self.lost_note(file);
        let key = match &note {
            Some(note) => note.key.to_string(),
            None => format!("inode {}", file.ino()),
        };
        let reason = format!("{why}; it was to become {key} in {}", self.options.volume);
        let origin = &note.map(|note| note.to_bytes()).unwrap_or_default();
        let keeping = Keeping { name: &key, reason: &reason, rest: Rest::Base, origin };
        match self.store.to_recovery(staged, keeping) {
            Ok(path) => {
                file.state.write().name = Named::No;
                self.namespace.abandon(file.ino(), Abandoned::Lost);
                file.loses((key, why), path.display().to_string())
            }
            Err(error) => error.into(),
        }
    }

    /// Lets go of a file that is closed and published.
    pub(crate) fn retire(&self, file: &Arc<File>) {
        let Some(file) = self.files.retire(file) else { return };
        file.state.write().retired();
        self.later.with(|line| line.forget(&file));
        self.end_stream(&file);
        if let Some(staged) = file.staged()
            && let Err(error) = self.store.discard(&staged)
        {
            tracing::warn!(%error, "the bytes of an unlinked file could not be removed");
        }
        if file.state.read().name == Named::No {
            let (namespace, ino) = (Arc::clone(&self.namespace), file.ino());
            self.runtime.spawn(async move { namespace.release(Some(ino)).await });
        }
        self.give_back(file.ino(), 1);
    }
}

/// Does what takes as long as the file is large, away from the threads that others need.
async fn on_disk<T: Send + 'static>(
    staged: &Arc<Staged>,
    work: impl FnOnce(&Arc<Staged>) -> store::Result<T> + Send + 'static,
) -> Result<T> {
    let staged = Arc::clone(staged);
    let done = tokio::task::spawn_blocking(move || work(&staged)).await;
    done.map_err(|_| transfer::Error::Stopped)?.map_err(Error::from)
}

/// What [`Vfs::commit_once`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Published,
    /// A version that was acknowledged before; a newer one has to be sealed yet.
    PublishedEarlier,
    /// Nothing: its object is about to move, and that goes first.
    Moving,
}
