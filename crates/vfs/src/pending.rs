//! Which files the bucket does not have yet, for people who ask.

use base::Ino;

use crate::file::File;
use crate::vfs::Vfs;

/// A file that the bucket does not have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingFile {
    /// The names above and of it, with slashes between them; `None` if it has no name any more.
    pub path: Option<Vec<u8>>,
    /// How long it is.
    pub bytes: u64,
    /// How far it is.
    pub stage: Stage,
}

/// How far the upload of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing was tried yet, or it is still being written.
    Waiting,
    /// It is being uploaded.
    UnderWay,
    /// The last try failed, for this reason.
    Failed(String),
}

impl Vfs {
    /// How many small files are uploaded at a time, as things are.
    pub fn small_uploads_at_a_time(&self) -> u32 {
        self.later.with(|line| line.pace())
    }

    /// The files that the bucket does not have yet, at most `files_max`: first what failed, then what is
    /// under way.
    pub fn pending_files(&self, files_max: usize) -> Vec<PendingFile> {
        let mut dirty = self.files.dirty();
        let failures = self.failures.all();
        let is_failed = |ino: Ino| failures.contains_key(&ino);
        dirty.sort_by_key(|file| {
            (!is_failed(file.ino()), file.upload_under_way().is_none(), file.ino())
        });
        dirty.truncate(files_max);
        let pending = dirty.iter().map(|file| PendingFile {
            path: self.path(file.ino()),
            bytes: file.size(),
            stage: stage(file, failures.get(&file.ino())),
        });
        pending.collect()
    }

    /// Progress of the upload of `file`, which has bytes that the bucket lacks.
    pub(crate) fn stage_of(&self, file: &File) -> Stage {
        stage(file, self.failures.all().get(&file.ino()))
    }

    /// The names above and of `ino` with slashes between them; `None` if it has none.
    pub fn path(&self, ino: Ino) -> Option<Vec<u8>> {
        self.namespace.path(ino)
    }
}

/// Progress of the upload of `file`, whose last try failed for the reason `failed`, if it did.
fn stage(file: &File, failed: Option<&String>) -> Stage {
    match (file.upload_under_way(), failed) {
        (Some(_), _) => Stage::UnderWay,
        (None, Some(reason)) => Stage::Failed(reason.clone()),
        (None, None) => Stage::Waiting,
    }
}
