//! What a daemon that died left behind: sealed versions are uploaded, the rest is kept for people.

use std::path::PathBuf;
use std::slice;
use std::sync::Arc;

use remote::{Condition, Original};
use store::{Orphan, OrphanState, Staged};
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

impl Vfs {
    /// Finishes what dead daemons of this volume began; before the first request.
    pub async fn recover(&self) -> Result<Recovered> {
        let mut recovered = Recovered::default();
        for Orphan { staged, note, state } in self.store.orphans()? {
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
            self.clear_stream(&note).await;
            match state {
                OrphanState::Sealed => self.replay(&staged, &note, &mut recovered).await?,
                OrphanState::Open => {
                    let why = "written, but neither closed nor synced, when quayfs ended";
                    recovered.kept.push(self.keep(&staged, &note, why)?);
                }
            }
        }
        Ok(recovered)
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
            recovered.kept.push(self.keep(staged, note, why)?);
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
        let mut uploaded = self.uploader.upload(&sealed, &job).await.map_err(Error::from);
        if uploaded.as_ref().is_err_and(Error::is_changed) {
            let tries = slice::from_ref(&note.upload);
            match self.uploader.written_by(&note.key, tries).await {
                Ok(Some(meta)) => uploaded = Ok(meta.version),
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
            Err(error) if error.may_pass() => {
                tracing::warn!(key = %note.key, %error, "what an earlier mount left has to wait");
                self.store.reject(staged, sealed);
                recovered.waiting += 1;
            }
            Err(error) => {
                self.store.reject(staged, sealed);
                let why = format!("its upload was cut short, and cannot be finished: {error}");
                recovered.kept.push(self.keep(staged, note, &why)?);
            }
        }
        Ok(())
    }

    fn keep(&self, staged: &Arc<Staged>, note: &Note, why: &str) -> Result<PathBuf> {
        Ok(self.store.to_recovery(staged, &note.key.to_string(), why)?)
    }
}
