//! State of one file or directory on this host, for `quayfs info`.

use std::sync::Arc;

use base::{Attr, ByteRange, FileKind, Ino};
use remote::{Condition, Key, Version};

use crate::errno::Result;
use crate::pending::Stage;
use crate::vfs::Vfs;

/// State of one file or directory on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Attributes, as `stat` shows them.
    pub attr: Attr,
    /// Path in the volume; `None` for an unlinked file.
    pub path: Option<Vec<u8>>,
    /// Key of the object that holds the file, or will hold it; `None` for a directory or an unlinked file.
    pub key: Option<Key>,
    /// Version of that object which the file was read from; `None` if the bucket has none yet.
    pub version: Option<Version>,
    /// Bytes of that version in the cache.
    pub cached_bytes: u64,
    /// Whether a pin covers the path.
    pub is_pinned: bool,
    /// Open handles of the file.
    pub handles: u64,
    /// Progress of the upload; `None` if the bucket has all bytes.
    pub upload: Option<Stage>,
    /// Reason for which the last try of the upload failed.
    pub upload_error: Option<String>,
    /// Files at or below the path with bytes that the bucket lacks.
    pub pending_files: u64,
}

impl Vfs {
    /// Returns the state of `ino` on this host. Sends a request to the store only if its attributes have expired.
    pub async fn inspect(self: &Arc<Self>, ino: Ino) -> Result<Inspection> {
        let attr = Arc::clone(self).attr(ino).await?;
        let path = self.path(ino);
        let pins = self.store.pins(&self.options.volume).paths()?;
        let is_pinned =
            path.as_ref().is_some_and(|path| pins.iter().any(|pin| is_at_or_below(path, pin)));
        let mut found = Inspection {
            attr,
            path,
            key: None,
            version: None,
            cached_bytes: 0,
            is_pinned,
            handles: 0,
            upload: None,
            upload_error: None,
            pending_files: 0,
        };
        let pending = self.staged_below(ino).into_iter().filter(|file| file.is_dirty());
        found.pending_files = pending.count() as u64;
        if attr.kind != FileKind::File {
            return Ok(found);
        }
        // An unlinked file has no target.
        if let Ok(target) = self.namespace.target(ino) {
            found.key = Some(target.key);
            found.version = match target.condition {
                Condition::Is(version) => Some(version),
                Condition::Absent | Condition::Always => None,
            };
        }
        found.upload_error = self.failures.all().remove(&ino);
        if let Some(file) = self.files.find(ino) {
            found.handles = self.handles.count(&file);
            found.upload = file.is_dirty().then(|| self.stage_of(&file));
        }
        if let Some(source) = self.source_of(ino).await?
            && source.cached().is_some()
        {
            let all = ByteRange::new(0, source.size());
            let lacking_bytes = all.map_or(0, |range| source.lacks_bytes(range));
            found.cached_bytes = source.size().saturating_sub(lacking_bytes);
        }
        Ok(found)
    }
}

/// Whether `path` is `top` or below it; both relative to the top of the volume.
fn is_at_or_below(path: &[u8], top: &[u8]) -> bool {
    match path.strip_prefix(top) {
        Some(rest) => top.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_at_or_below;

    #[test]
    fn pin_covers_its_path_and_what_is_below() {
        for (path, pin, want) in [
            ("a/b", "a", true),
            ("a", "a", true),
            ("ab", "a", false),
            ("a", "", true),
            ("", "", true),
            ("a", "a/b", false),
        ] {
            assert_eq!(is_at_or_below(path.as_bytes(), pin.as_bytes()), want, "{path} {pin}");
        }
    }
}
