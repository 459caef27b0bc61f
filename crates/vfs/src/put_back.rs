//! Bytes of the recovery folder go back to where they belong, or to another name.

use std::sync::Arc;

use base::{ByteRange, FileKind, Ino, Name};
use namespace::{Abandoned, ErrorKind, NewNode, Owner};
use remote::{Condition, Key, Metadata, Original};
use store::KeptFile;
use transfer::KeptJob;

use crate::errno::{Error, Result};
use crate::note::Note;
use crate::vfs::Vfs;

/// Where bytes of the recovery folder are to go.
#[derive(Clone, Copy, Debug)]
pub enum PutBackTo<'a> {
    /// Where they belong.
    Home,
    /// A path of names below the mounted folder; its folder exists.
    Path(&'a [Name]),
}

/// Why bytes were not put back. The bucket is as it was.
#[derive(Debug, thiserror::Error)]
pub enum NotPutBack {
    /// The note does not say where the bytes belong.
    #[error("its note does not say where it belongs")]
    NoOrigin,
    /// Other bytes have the name.
    #[error("{0} is in use by another version or a folder")]
    Taken(Key),
    /// Bytes are missing that are nowhere.
    #[error("{0} bytes of it were never on this machine, and the version that had them is gone")]
    Incomplete(u64),
    /// The note lists some of the missing bytes only, or zeros of the file among them.
    #[error("which of its bytes were never on this machine is not known")]
    Fragmented,
    /// Anything else.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Where bytes are to go, and under which condition.
#[derive(Debug)]
struct Aim {
    key: Key,
    condition: Condition,
}

impl Vfs {
    /// Uploads `kept`, with the attributes that its note has, and returns its object when the store has acknowledged it.
    /// No object is replaced but the version that the file was made from.
    pub async fn put_back(
        &self,
        kept: &Arc<KeptFile>,
        to: PutBackTo<'_>,
    ) -> std::result::Result<Key, NotPutBack> {
        let note = kept.origin().and_then(Note::from_bytes).ok_or(NotPutBack::NoOrigin)?;
        let missing = kept.missing().ok_or(NotPutBack::Fragmented)?;
        let Aim { key, condition } = match to {
            PutBackTo::Home => self.aim_home(&note).await?,
            PutBackTo::Path(names) => self.aim_at_path(names).await?,
        };
        // What is missing is in the version that the file was made from.
        let base = match (&note.condition, missing) {
            (_, []) => None,
            (Condition::Is(version), _) => {
                let found = self.uploader.find(&note.key).await.map_err(Error::from)?;
                Some(found.filter(|meta| meta.version == *version))
            }
            (Condition::Absent | Condition::Always, _) => Some(None),
        };
        let base = base.map(|base| base.ok_or_else(|| NotPutBack::Incomplete(sum(missing))));
        let base = base.transpose()?;
        let original = base.as_ref().map(|meta| Original {
            key: &note.key,
            version: &meta.version,
            size: meta.size,
        });
        let metadata: &Metadata = &note.metadata;
        let job = KeptJob { key: &key, condition: &condition, metadata, original, missing };
        let uploaded = self.uploader.upload_kept(kept, &job).await.map_err(Error::from);
        match uploaded {
            Ok(version) => {
                self.namespace.restored(&key, &version, &note.said);
                Ok(key)
            }
            Err(error) if error.is_changed() => Err(NotPutBack::Taken(key)),
            Err(error) => Err(error.into()),
        }
    }

    async fn aim_home(&self, note: &Note) -> std::result::Result<Aim, NotPutBack> {
        let key = note.key.clone();
        let found = self.uploader.find(&key).await.map_err(Error::from)?;
        let condition = match (found, &note.condition) {
            (Some(meta), Condition::Is(version)) if meta.version == *version => {
                Condition::Is(meta.version)
            }
            (Some(_), _) => return Err(NotPutBack::Taken(key)),
            (None, _) => Condition::Absent,
        };
        if self.uploader.is_folder(&key).await.map_err(Error::from)? {
            return Err(NotPutBack::Taken(key));
        }
        Ok(Aim { key, condition })
    }

    /// The object that a new file of this path becomes.
    async fn aim_at_path(&self, names: &[Name]) -> std::result::Result<Aim, NotPutBack> {
        let Some((name, folders)) = names.split_last() else {
            return Err(NotPutBack::Taken(Key::from("")));
        };
        let mut folder = Ino::ROOT;
        for name in folders {
            let entry = self.namespace.lookup(folder, name).await.map_err(Error::from)?;
            if entry.attr.kind != FileKind::Directory {
                let error = namespace::Error::name(ErrorKind::NotDirectory, "lookup", name);
                return Err(Error::from(error).into());
            }
            folder = entry.attr.ino;
        }
        let key = self.new_key(folder, name).await?;
        Ok(Aim { key, condition: Condition::Absent })
    }

    async fn new_key(&self, folder: Ino, name: &Name) -> Result<Key> {
        let new = NewNode { mode: 0o600, owner: Owner { uid: 0, gid: 0 } };
        let ino = self.namespace.create(folder, name, new).await?.attr.ino;
        let target = self.namespace.target(ino);
        // Only its key was asked for.
        self.namespace.abandon(ino, Abandoned::Lost);
        Ok(target?.key)
    }
}

fn sum(runs: &[ByteRange]) -> u64 {
    runs.iter().map(|run| run.len()).sum()
}
