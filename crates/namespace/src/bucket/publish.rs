//! A finished upload becomes the file.

use base::{ByteRange, FileKind, Ino};
use remote::{Condition, Extent, Key, Version};

use super::attributes::delay::What;
use super::looks::Source;
use super::nodes::{Bytes, File, Kind, Place, Stored};
use super::shared::Shared;
use super::tree::Tree;
use super::turns::Turn;
use crate::{Abandoned, Content, Error, ErrorKind, NameGuard, Published, Result, Target};

/// Uploads of one file that may have arrived although they failed. Only one of them can be the object,
/// and it is one of the last.
const UPLOADS_MAX: usize = 8;

impl Shared {
    /// Which object holds the bytes of the file `ino`.
    pub(super) fn content(&self, ino: Ino) -> Result<Content> {
        let state = self.state();
        let gone = || Error::node(ErrorKind::Stale, "content", ino);
        let node = state.tree.node(ino).ok_or_else(gone)?;
        let Kind::File(file) = &node.kind else {
            return Err(Error::node(ErrorKind::IsDirectory, "content", ino));
        };
        if node.place == Place::Replaced {
            return Err(gone());
        }
        if state.leaving.contains(&ino) {
            return Err(Error::node(ErrorKind::NotFound, "content", ino));
        }
        Ok(self.content_of(file))
    }

    /// Which object holds the bytes of `file`.
    pub(super) fn content_of(&self, file: &File) -> Content {
        let Some(Stored { key, version, size }) = file.stored_bytes() else {
            return Content { identity: None, size: 0, extents: Vec::new() };
        };
        let extent =
            |range| Extent { range, key: key.clone(), version: version.clone(), object_offset: 0 };
        Content {
            identity: Some(self.identity(key, version)),
            size: *size,
            extents: ByteRange::new(0, *size).map(extent).into_iter().collect(),
        }
    }

    /// Where the bytes of the file `ino` go.
    pub(super) fn target(&self, ino: Ino) -> Result<Target> {
        self.target_at(ino, Tree::key)
    }

    /// Where the bytes of the file `ino` are to be when the folders above it are where their names say.
    pub(super) fn destination(&self, ino: Ino) -> Result<Target> {
        self.target_at(ino, Tree::key_at_last)
    }

    fn target_at(
        &self,
        ino: Ino,
        key: fn(&Tree, &'static str, Ino) -> Result<Key>,
    ) -> Result<Target> {
        let state = self.state();
        let key = key(&state.tree, "target", ino)?;
        let node = state.tree.node(ino).expect("it has a key");
        let Kind::File(file) = &node.kind else {
            return Err(Error::node(ErrorKind::IsDirectory, "target", ino));
        };
        let condition = match file.in_bucket() {
            Some(version) => Condition::Is(version.clone()),
            None => Condition::Absent,
        };
        let metadata = node.looks.metadata(FileKind::File);
        Ok(Target { key, condition, metadata })
    }

    /// An upload to the name of `ino` is about to begin.
    pub(super) fn uploads(&self, ino: Ino, upload: &str, name: &NameGuard) -> Result<()> {
        let mut state = self.state();
        state.tree.key("upload", ino)?;
        let uploads = state.tree.uploads.entry(ino).or_default();
        if UPLOADS_MAX <= uploads.len() {
            uploads.remove(0);
        }
        uploads.push(upload.to_owned());
        // Under the lock of the names: who passes from now on sees the upload.
        if let Some(turn) = name.held::<Turn>() {
            turn.applied();
        }
        Ok(())
    }

    /// The bytes of `ino` are in the bucket.
    pub(super) fn publish(&self, ino: Ino, published: Published) -> Vec<u8> {
        let Published { key, version, size } = published;
        let identity = self.identity(&key, &version);
        let now = self.clock.monotonic();
        let mut state = self.state();
        state.tree.uploads.remove(&ino);
        let current = state.tree.key("publish", ino).is_ok_and(|current| current == key);
        let Some(node) = state.tree.node_mut(ino) else { return identity };
        if node.place == Place::Unlinked {
            // Its removal is still to come: until then it is there for those who have it open.
            node.kind = Kind::File(File::stored(Stored { key, version, size }));
            return identity;
        }
        if !current {
            tracing::warn!(%key, "the file was moved or removed while it was being uploaded");
            return identity;
        }
        node.kind = Kind::File(File::stored(Stored { key, version, size }));
        node.as_of = Some(now);
        if let Place::Named { parent, name } = &node.place {
            self.changes.note(*parent, name);
        }
        drop(state);
        if let Err(error) = self.note_uploaded(ino) {
            tracing::warn!(%error, "the attributes of an upload are not safe from a crash yet");
        }
        identity
    }

    /// Bytes noted for `ino` will not be published.
    pub(super) fn abandon(&self, ino: Ino, why: Abandoned) {
        if self.abandon_in_memory(ino, why)
            && let Err(error) = self.note(ino, What::Attributes)
        {
            tracing::warn!(%error, "the time of a file that was not changed is not safe from a crash yet");
        }
    }

    /// Whether the file keeps a time that somebody gave it.
    fn abandon_in_memory(&self, ino: Ino, why: Abandoned) -> bool {
        let mut state = self.state();
        let Some(node) = state.tree.node_mut(ino) else { return false };
        let (Place::Named { parent, name }, Kind::File(file)) = (&node.place, &mut node.kind)
        else {
            return false;
        };
        let (parent, name) = (*parent, name.clone());
        let is_timed = node.looks.is_timed && why == Abandoned::Unchanged;
        match &file.bytes {
            Bytes::Object(_) => return false,
            Bytes::Edited(stored) => {
                *file = File::stored(stored.clone());
                node.as_of = None;
                if !is_timed {
                    node.looks.source = Source::Doubtful;
                }
            }
            Bytes::Local { .. } => state.tree.detach(ino, &Place::Unlinked),
        }
        // What was told of the name was not looked at while the bytes here counted.
        if let Some(folder) = state.tree.folder_mut(parent) {
            folder.windows.forget(&name);
        }
        is_timed
    }

    /// What names the bytes of one version of an object for all time. The parts are told apart by
    /// their lengths: keys may have any bytes in them.
    fn identity(&self, key: &Key, version: &Version) -> Vec<u8> {
        let mut identity = Vec::new();
        for part in [self.options.store_identity.as_bytes(), key.as_bytes()] {
            let bytes = u32::try_from(part.len()).expect("identities and keys are short");
            identity.extend(bytes.to_be_bytes());
            identity.extend(part);
        }
        identity.extend(version.as_str().as_bytes());
        identity
    }
}
