//! What a daemon that died left behind: sealed versions are uploaded, the rest is kept for people.

use std::path::PathBuf;
use std::slice;
use std::sync::Arc;

use namespace::Belongs;
use remote::{Condition, Key, Meta, Original, Version};
use store::{Orphan, OrphanState, Sealed, Staged, Store};
use transfer::UploadJob;

use crate::errno::{Error, Result};
use crate::last::holder_of;
use crate::note::Note;
use crate::origin::is_whole;
use crate::vfs::Vfs;

/// What became of the bytes of daemons that died.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Sealed versions that are in the bucket now.
    pub uploaded: u64,
    /// Where the bytes are that nobody was promised, or that came too late.
    pub kept: Vec<PathBuf>,
    /// Sealed versions that the store did not take now; the next mount tries again.
    pub waiting: u64,
}

/// Why bytes are kept that nobody was promised.
pub(crate) const NEVER_CLOSED: &str = "written, but neither closed nor synced, when quayfs ended";

/// What is to be finished.
#[derive(Debug)]
struct Left {
    staged: Arc<Staged>,
    note: Note,
    state: OrphanState,
}

/// Why something is kept that comes last.
const AFTER_LOST: &str = "something else of its folder, which it comes after, was not uploaded";

/// Why something is kept that somebody held back.
const HELD_BACK: &str = "the file of its name and `.held`, which holds it back, was not removed";

/// How it goes, for who comes last.
#[derive(Debug, Default)]
struct Course {
    recovered: Recovered,
    /// What waits for the next mount, with what comes after it.
    waiting: Vec<Key>,
    /// Whether of something that waits nobody knows where it belongs.
    is_any_unplaced: bool,
    /// Sealed, with their objects, the first one at the end. They go before what they come after is given up: of that
    /// the next mount would know nothing.
    last: Vec<(Orphan, Key)>,
}

impl Course {
    fn waits(&mut self, key: Key) {
        self.recovered.waiting += 1;
        self.waiting.push(key);
    }

    /// Takes out what comes after `key`.
    fn take_after(&mut self, key: &Key) -> Vec<(Orphan, Key)> {
        self.last.extract_if(.., |(_, last)| is_beside(last, key)).collect()
    }

    fn is_before_its_turn(&self, last: &Key) -> bool {
        self.is_any_unplaced || self.waiting.iter().any(|key| is_beside(last, key))
    }
}

/// Whether `other` is in the folder of `key`, or below it.
fn is_beside(key: &Key, other: &Key) -> bool {
    let bytes = key.as_bytes();
    let folder = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    other.as_bytes().starts_with(&bytes[..folder])
}

impl Vfs {
    /// Finishes what dead daemons of this volume began; before the first request.
    pub async fn recover(&self) -> Result<Recovered> {
        self.recover_telling(|_| {}).await
    }

    /// As [`Vfs::recover`]; tells how many files are still to be uploaded, before the first and after each.
    pub async fn recover_telling(&self, mut tell: impl FnMut(u64)) -> Result<Recovered> {
        self.uploader.adopt_left()?;
        self.remove_left().await;
        let mut course = Course::default();
        let mut first = Vec::new();
        let orphans = self.store.orphans()?;
        let mut uploads: u64 = orphans.iter().map(|orphan| self.uploads(orphan)).sum();
        tell(uploads);
        let mut done = |upload: u64| {
            uploads -= upload;
            tell(uploads);
        };
        for orphan in orphans {
            match self.came_last(&orphan).await {
                Some(key) => course.last.push((orphan, key)),
                None => first.push(orphan),
            }
        }
        course.last.reverse();
        for orphan in first {
            let upload = self.uploads(&orphan);
            if let Some(left) = self.place(orphan, &mut course).await? {
                self.finish(left, &mut course).await?;
            }
            done(upload);
        }
        // Those that come last do so here, too.
        while let Some((orphan, _)) = course.last.pop() {
            let upload = self.uploads(&orphan);
            match self.place(orphan, &mut course).await? {
                Some(left) if course.is_before_its_turn(&left.note.key) => {
                    course.waits(left.note.key);
                }
                Some(left) => self.finish_last(left, &mut course).await?,
                None => {}
            }
            done(upload);
        }
        if !course.is_any_unplaced {
            self.namespace.carried_all();
        }
        Ok(course.recovered)
    }

    /// How many uploads there are of `orphan`: one, if it is a closed file of this volume.
    fn uploads(&self, orphan: &Orphan) -> u64 {
        let is_ours =
            Note::from_bytes(&orphan.note).is_some_and(|note| note.volume == self.options.volume);
        (is_ours && orphan.state == OrphanState::Sealed).into()
    }

    /// What there is to be finished of `orphan`, if anything is; where it belongs now.
    async fn place(&self, orphan: Orphan, course: &mut Course) -> Result<Option<Left>> {
        let Orphan { staged, note, state } = orphan;
        if note.is_empty() {
            // The bytes of a file that had lost its name.
            self.store.discard(&staged)?;
            return Ok(None);
        }
        // What is unreadable or of another volume stays for who can read it.
        let Some(note) = Note::from_bytes(&note) else { return Ok(None) };
        if note.volume != self.options.volume {
            return Ok(None);
        }
        let noted = note.key.clone();
        if let Some(note) = self.where_it_belongs(&staged, note, state).await? {
            return Ok(Some(Left { staged, note, state }));
        }
        course.is_any_unplaced = true;
        course.waits(noted);
        Ok(None)
    }

    /// Finishes what comes last, if the bucket has nobody who holds it back: he had it brought there, and did not come
    /// to remove it.
    async fn finish_last(&self, left: Left, course: &mut Course) -> Result<()> {
        let holder = holder_of(&left.note.key);
        if self.uploader.key_bytes_max() < holder.as_bytes().len() {
            // Nobody has one.
            return self.finish(left, course).await;
        }
        match self.uploader.find(&holder).await.map_err(Error::from) {
            Ok(None) => self.finish(left, course).await,
            // He did come.
            Ok(Some(_)) if self.namespace.is_to_go(&holder) => {
                course.waits(left.note.key);
                Ok(())
            }
            Ok(Some(_)) => self.give_up(&left.staged, &left.note, HELD_BACK, course),
            // Who may not list is not told either that there is none.
            Err(error) if error.is_denied() => self.finish(left, course).await,
            Err(error) => {
                tracing::warn!(key = %left.note.key, %error, "what an earlier mount left has to wait");
                course.waits(left.note.key);
                Ok(())
            }
        }
    }

    async fn finish(&self, left: Left, course: &mut Course) -> Result<()> {
        let Left { staged, note, state } = left;
        if self.options.last.is_held_by(note.key.as_bytes()) {
            // Who held something back did not come to an end.
            self.keep_after(&note.key, course)?;
        }
        match state {
            OrphanState::Sealed => self.replay(&staged, &note, course).await,
            OrphanState::Open if note.leaves_nothing(staged.size()) => {
                // What comes after it does not come all the same.
                self.keep_after(&note.key, course)?;
                Ok(self.store.discard(&staged)?)
            }
            OrphanState::Open => self.give_up(&staged, &note, NEVER_CLOSED, course),
        }
    }

    /// What was to become what `note` says goes to the recovery folder, after what comes after it.
    fn give_up(
        &self,
        staged: &Arc<Staged>,
        note: &Note,
        why: &str,
        course: &mut Course,
    ) -> Result<()> {
        self.keep_after(&note.key, course)?;
        course.recovered.kept.push(keep(&self.store, staged, note, why)?);
        Ok(())
    }

    /// What comes after `key`, which the bucket will not have, goes to the recovery folder.
    fn keep_after(&self, key: &Key, course: &mut Course) -> Result<()> {
        for (Orphan { staged, note, .. }, key) in course.take_after(key) {
            let Some(note) = Note::from_bytes(&note) else { continue };
            let note = Note { key, ..note };
            course.recovered.kept.push(keep(&self.store, &staged, &note, AFTER_LOST)?);
        }
        Ok(())
    }

    /// The object of a sealed version that comes last, by the name that it has now: it may have been renamed after its
    /// bytes were noted.
    async fn came_last(&self, orphan: &Orphan) -> Option<Key> {
        if self.options.last.is_empty() || orphan.state == OrphanState::Open {
            return None;
        }
        let Note { volume, upload, key, condition, said, .. } = Note::from_bytes(&orphan.note)?;
        if volume != self.options.volume {
            return None;
        }
        let noted = key.clone();
        let belongs = self.namespace.carried(&upload, Belongs { key, condition, said }).await;
        // What has to wait does so there, whatever its name will be.
        let key = belongs.ok().flatten().map_or(noted, |belongs| belongs.key);
        self.options.last.has_key(&key).then_some(key)
    }

    /// Removes uploads in parts that nobody completes any more; to be called now and then.
    pub async fn remove_left(&self) {
        self.uploader.remove_left().await;
    }

    /// The note of what was renamed names its new object from now on. `None` if that has to wait.
    async fn where_it_belongs(
        &self,
        staged: &Staged,
        note: Note,
        state: OrphanState,
    ) -> Result<Option<Note>> {
        if state == OrphanState::Open {
            return Ok(Some(note));
        }
        let (key, condition, said) = (note.key.clone(), note.condition.clone(), note.said.clone());
        match self.namespace.carried(&note.upload, Belongs { key, condition, said }).await {
            Ok(Some(Belongs { key, condition, said })) => {
                let moved = Note { key, condition, said, ..note.clone() };
                if moved != note {
                    staged.set_note(&moved.to_bytes())?;
                }
                Ok(Some(moved))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                tracing::warn!(key = %note.key, %error, "what an earlier mount left has to wait");
                Ok(None)
            }
        }
    }

    /// Uploads a sealed version, if the object is still the one that it replaces.
    async fn replay(&self, staged: &Arc<Staged>, note: &Note, course: &mut Course) -> Result<()> {
        let sealed = Arc::new(staged.seal()?);
        // What was not changed is nowhere but in the version that is to be replaced.
        let original = match (&note.condition, note.origin_bytes) {
            (Condition::Is(version), Some(size)) => {
                Some(Original { key: &note.key, version, size })
            }
            (Condition::Is(_) | Condition::Absent | Condition::Always, _) => None,
        };
        if !is_whole(&sealed, original.as_ref()) {
            let sealed = Arc::into_inner(sealed).expect("nobody else has it");
            self.store.reject(staged, sealed);
            let why = "its upload was cut short, and nothing says where the rest of it is";
            return self.give_up(staged, note, why, course);
        }
        let base = original
            .map(|original| self.read_past_cache(original.key, original.version, original.size));
        let job = UploadJob {
            key: &note.key,
            condition: &note.condition,
            metadata: &note.metadata,
            id: &note.upload,
            original,
            base: base.as_ref(),
            begun: None,
        };
        let mut uploaded = self.upload_left(&sealed, note, &job).await;
        if uploaded.as_ref().is_err_and(Error::is_changed) && !note.after.is_empty() {
            match self.uploader.written_by(&note.key, &note.after).await {
                // What its earlier self made of the object is not newer.
                Ok(Some(meta)) => uploaded = self.upload_over(&sealed, (note, &job), &meta).await,
                Ok(None) => {}
                Err(error) => uploaded = Err(error.into()),
            }
        }
        let sealed = Arc::into_inner(sealed).expect("the upload, which shared it, is over");
        match uploaded {
            Ok(version) => {
                self.namespace.recovered(&version, &note.said);
                // The bucket has them: what is here is only a copy, which the cache does without.
                drop(sealed);
                self.store.discard(staged)?;
                course.recovered.uploaded += 1;
            }
            // Other credentials may write it.
            Err(error) if error.may_pass() || error.is_denied() => {
                tracing::warn!(key = %note.key, %error, "what an earlier mount left has to wait");
                self.store.reject(staged, sealed);
                course.waits(note.key.clone());
            }
            Err(error) => {
                self.store.reject(staged, sealed);
                let why = if error.is_changed() {
                    self.why_lost(&note.key, &note.condition).await.to_owned()
                } else {
                    error.to_string()
                };
                let why = format!("its upload was cut short, and cannot be finished: {why}");
                self.give_up(staged, note, &why, course)?;
            }
        }
        Ok(())
    }

    /// Uploads as `job` says; what arrived before counts.
    async fn upload_left(
        &self,
        sealed: &Arc<Sealed>,
        note: &Note,
        job: &UploadJob<'_>,
    ) -> Result<Version> {
        let uploaded = self.uploader.upload(sealed, job).await.map_err(Error::from);
        if !uploaded.as_ref().is_err_and(Error::is_changed) {
            return uploaded;
        }
        let tries = slice::from_ref(&note.upload);
        match self.uploader.written_by(&note.key, tries).await? {
            Some(meta) => Ok(meta.version),
            None => uploaded,
        }
    }

    /// As [`Vfs::upload_left`], in the place of the version that `meta` tells of, and with what it lacks
    /// from there.
    async fn upload_over(
        &self,
        sealed: &Arc<Sealed>,
        (note, job): (&Note, &UploadJob<'_>),
        Meta { version, size, .. }: &Meta,
    ) -> Result<Version> {
        let condition = Condition::Is(version.clone());
        let original = job.original.map(|_| Original { key: &note.key, version, size: *size });
        let base = original
            .map(|original| self.read_past_cache(original.key, original.version, original.size));
        let job = UploadJob { condition: &condition, original, base: base.as_ref(), ..*job };
        self.upload_left(sealed, note, &job).await
    }
}

/// Moves bytes that were to become what `note` says to the recovery folder, with that and why they did not.
pub(crate) fn keep(
    store: &Store,
    staged: &Arc<Staged>,
    note: &Note,
    why: &str,
) -> store::Result<PathBuf> {
    let key = note.key.to_string();
    // Where the rest of an edit is, or of a file that was published to make room.
    let object = match &note.condition {
        Condition::Is(version) => Some(format!("{key} (version {})", version.as_str())),
        Condition::Absent | Condition::Always => None,
    };
    let rest = object.as_deref().map_or(store::Rest::Base, store::Rest::Object);
    let reason = format!("{why}; it was to become {key} in {}", note.volume);
    let origin = &note.to_bytes();
    store.to_recovery(staged, store::Keeping { name: &key, reason: &reason, rest, origin })
}
