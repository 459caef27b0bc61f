//! What waits in a state folder: files and changes that dead mounts left for the next one, and what processes that
//! live still work on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::FileKind;
use namespace::{Bucket, LeftChange, RecordId};
use serde::Serialize;
use store::{Op, OpKind, StagedFiles, WaitingKind};

use crate::config::Config;
use crate::error::Error;
use crate::ledger;
use crate::working::{self, Working};

/// What waits in a state folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Files for the next mount.
    pub waiting: Vec<Waiting>,
    /// Changes of names and attributes for the next mount.
    pub changes: Vec<WaitingChange>,
    /// Processes that have not done everything yet. What they work on is for no other mount while they live.
    pub working: Vec<Working>,
}

/// A file that a mount left in a state folder for the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// Where it is.
    #[serde(serialize_with = "crate::spelling::serialize")]
    pub path: PathBuf,
    /// How many bytes of it become what is said.
    pub bytes: u64,
    /// The endpoint and bucket that it was for, if it says so.
    pub volume: Option<String>,
    /// The object that it is to become, if it says so.
    pub key: Option<String>,
    /// What the next mount does with it.
    pub fate: Fate,
    /// Whether an earlier state of the file is uploaded, and these bytes are what was written to it since.
    pub is_newer: bool,
}

/// What the next mount does with what an earlier one left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It was closed or synced: it is brought into the bucket.
    Uploaded,
    /// It was neither, or nothing is recorded of it: it goes to the recovery folder.
    Kept,
}

/// A change that a mount left in a state folder for the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitingChange {
    /// The endpoint and bucket that it is for.
    pub volume: String,
    /// What is to be done there.
    #[serde(flatten)]
    pub change: Change,
}

/// What is to be done in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Change {
    /// A file goes, or an empty folder, whose key ends with a slash.
    Remove {
        /// Its key.
        key: String,
    },
    /// A file or a folder gets another name.
    Rename {
        /// Its old key.
        key: String,
        /// Its new one.
        to: String,
    },
    /// What a rename that failed has copied goes again.
    UndoRename {
        /// The key that stays.
        key: String,
        /// The one that does not.
        to: String,
    },
    /// Two names change places.
    Exchange {
        /// One key.
        key: String,
        /// The other.
        to: String,
    },
    /// Something is made that is no file of bytes.
    Make {
        /// Its key.
        key: String,
        /// What: `folder`, `link` and the like.
        kind: &'static str,
    },
    /// Attributes are written.
    Attributes {
        /// Of the names in this folder.
        key: String,
        /// Of how many of them.
        names: u64,
    },
    /// Something that only a newer program knows.
    Unknown,
}

/// What waits in the state folder `state_dir`; of files and changes only those of the bucket of `config`, if it is
/// given.
pub fn left(state_dir: &Path, config: Option<&Config>) -> Result<Left, Error> {
    let failed = |source| Error::State { dir: state_dir.to_owned(), source };
    // First: who dies after it has told what it works on leaves that to be found.
    let mut working = working::on(state_dir);
    let StagedFiles { waiting, in_use } = store::waiting(state_dir).map_err(failed)?;
    let journaled = store::journaled(state_dir).map_err(failed)?;
    if working.is_empty() {
        let changes = changes(&journaled.in_use).len() as u64;
        working.push(Working { files: in_use, changes, ..Working::default() });
    }
    working.retain(|working| !working.is_done());
    let volume = config.map(Config::volume);
    let is_wanted = |of: Option<&String>| match (&volume, of) {
        (Some(volume), Some(of)) => volume == of,
        // What says nothing of itself may be of any bucket.
        (None, _) | (_, None) => true,
    };
    let is_missed = |waiting: &store::Waiting| match waiting.kind {
        WaitingKind::Unrecorded => true,
        WaitingKind::Open if vfs::leaves_nothing(&waiting.note, waiting.bytes) => false,
        // What had lost its name says nothing of itself, and nobody waits for it.
        WaitingKind::Sealed | WaitingKind::Newer | WaitingKind::Open => !waiting.note.is_empty(),
    };
    let mut files: Vec<Waiting> = waiting.into_iter().filter(is_missed).map(file).collect();
    files.retain(|file| is_wanted(file.volume.as_ref()));
    let mut changes = changes(&journaled.left);
    changes.retain(|change| is_wanted(Some(&change.volume)));
    Ok(Left { waiting: files, changes, working })
}

fn file(store::Waiting { path, bytes, note, kind }: store::Waiting) -> Waiting {
    let goes = vfs::destination(&note).map(|to| (to.volume, to.key.to_string()));
    let (volume, key) = goes.unzip();
    let fate = match kind {
        WaitingKind::Sealed => Fate::Uploaded,
        WaitingKind::Newer | WaitingKind::Open | WaitingKind::Unrecorded => Fate::Kept,
    };
    Waiting { path, bytes, volume, key, fate, is_newer: kind == WaitingKind::Newer }
}

/// What `ops` are about to do with names and attributes, by volume.
pub(crate) fn changes(ops: &[Op]) -> Vec<WaitingChange> {
    let mut volumes: BTreeMap<String, Vec<(RecordId, Vec<u8>)>> = BTreeMap::new();
    for op in ops.iter().filter(|op| op.kind == OpKind::Names) {
        let Some((volume, record)) = ledger::split(&op.payload) else { continue };
        let records = volumes.entry(volume.to_owned()).or_default();
        records.push((RecordId(op.id.number()), record.to_vec()));
    }
    let of_volume = |(volume, records): (String, _)| {
        let changes = Bucket::changes_left(records).into_iter().map(Change::from);
        changes.map(move |change| WaitingChange { volume: volume.clone(), change })
    };
    volumes.into_iter().flat_map(of_volume).collect()
}

impl From<LeftChange> for Change {
    fn from(change: LeftChange) -> Change {
        match change {
            LeftChange::Removal { key } => Change::Remove { key: key.to_string() },
            LeftChange::Rename { from, to } => {
                Change::Rename { key: from.to_string(), to: to.to_string() }
            }
            LeftChange::FailedRename { from, to } => {
                Change::UndoRename { key: from.to_string(), to: to.to_string() }
            }
            LeftChange::Exchange { one, other } => {
                Change::Exchange { key: one.to_string(), to: other.to_string() }
            }
            LeftChange::Making { key, kind } => {
                Change::Make { key: key.to_string(), kind: word(kind) }
            }
            LeftChange::Attributes { folder, names } => {
                Change::Attributes { key: folder.to_string(), names }
            }
            LeftChange::Unknown => Change::Unknown,
        }
    }
}

fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "folder",
        FileKind::Symlink => "link",
        FileKind::Fifo => "pipe",
        FileKind::Socket => "socket",
        FileKind::CharDevice | FileKind::BlockDevice => "device",
    }
}
