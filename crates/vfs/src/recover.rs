//! What a daemon that died left behind: sealed versions are uploaded, the rest is kept for people.

use std::path::PathBuf;
use std::slice;
use std::sync::Arc;

use namespace::Belongs;
use remote::{Condition, Key, Meta, Original, Version};
use store::{Orphan, OrphanState, Sealed, Staged, Store};
use transfer::UploadJob;

use crate::errno::{Error, Result};
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

/// Whether it is known of all bytes where they belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    All,
    Some,
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
        let mut recovered = Recovered::default();
        self.uploader.adopt_left()?;
        self.remove_left().await;
        let mut found = Found::All;
        // Those that come last do so here, too.
        let (first, last) = self.in_order(self.store.orphans()?).await;
        let first = first.into_iter().map(|orphan| (orphan, false));
        let last = last.into_iter().map(|orphan| (orphan, true));
        // What went to the recovery folder instead.
        let mut lost = Vec::new();
        for (Orphan { staged, note, state }, comes_last) in first.chain(last) {
            let kept_before = recovered.kept.len();
            if note.is_empty() {
                // The bytes of a file that had lost its name.
                self.store.discard(&staged)?;
                continue;
            }
            // What is unreadable or of another volume stays for who can read it.
            let Some(note) = Note::from_bytes(&note) else { continue };
            if note.volume != self.options.volume {
                continue;
            }
            let Some(note) = self.where_it_belongs(&staged, note, state).await? else {
                found = Found::Some;
                recovered.waiting += 1;
                continue;
            };
            match state {
                OrphanState::Sealed if comes_last && 0 < recovered.waiting => {
                    recovered.waiting += 1;
                }
                OrphanState::Sealed
                    if comes_last && lost.iter().any(|key| is_beside(&note.key, key)) =>
                {
                    let why =
                        "something else of its folder, which it comes after, was not uploaded";
                    recovered.kept.push(keep(&self.store, &staged, &note, why)?);
                }
                OrphanState::Sealed => self.replay(&staged, &note, &mut recovered).await?,
                // What comes after it does not come all the same.
                OrphanState::Open if note.leaves_nothing(staged.size()) => {
                    self.store.discard(&staged)?;
                    lost.push(note.key.clone());
                }
                OrphanState::Open => {
                    recovered.kept.push(keep(&self.store, &staged, &note, NEVER_CLOSED)?);
                }
            }
            if kept_before < recovered.kept.len() {
                lost.push(note.key);
            }
        }
        if found == Found::All {
            self.namespace.carried_all();
        }
        Ok(recovered)
    }

    /// Those that come last apart from the others.
    async fn in_order(&self, orphans: Vec<Orphan>) -> (Vec<Orphan>, Vec<Orphan>) {
        if self.options.last.is_empty() {
            return (orphans, Vec::new());
        }
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for orphan in orphans {
            let comes_last = self.came_last(&orphan).await;
            (if comes_last { &mut last } else { &mut first }).push(orphan);
        }
        (first, last)
    }

    /// By the name that it has now: it may have been renamed after its bytes were noted.
    async fn came_last(&self, orphan: &Orphan) -> bool {
        let Some(Note { volume, upload, key, condition, said, .. }) =
            Note::from_bytes(&orphan.note)
        else {
            return false;
        };
        let noted_key = key.clone();
        let belongs = match orphan.state {
            OrphanState::Sealed if volume == self.options.volume => {
                self.namespace.carried(&upload, Belongs { key, condition, said }).await
            }
            OrphanState::Sealed | OrphanState::Open => Ok(None),
        };
        // What has to wait does so there, whatever its name will be.
        let key = belongs.ok().flatten().map_or(noted_key, |belongs| belongs.key);
        self.options.last.has_key(&key)
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
    async fn replay(
        &self,
        staged: &Arc<Staged>,
        note: &Note,
        recovered: &mut Recovered,
    ) -> Result<()> {
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
            recovered.kept.push(keep(&self.store, staged, note, why)?);
            return Ok(());
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
                recovered.uploaded += 1;
            }
            // Other credentials may write it.
            Err(error) if error.may_pass() || error.is_denied() => {
                tracing::warn!(key = %note.key, %error, "what an earlier mount left has to wait");
                self.store.reject(staged, sealed);
                recovered.waiting += 1;
            }
            Err(error) => {
                self.store.reject(staged, sealed);
                let why = format!("its upload was cut short, and cannot be finished: {error}");
                recovered.kept.push(keep(&self.store, staged, note, &why)?);
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
    store.to_recovery(staged, &key, &reason, rest)
}
