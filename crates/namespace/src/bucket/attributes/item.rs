//! What an attribute object says of one name.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{FileKind, Timestamp};
use remote::Version;

/// Extended attributes, by name.
pub(in crate::bucket) type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// What they take at most as text.
pub(in crate::bucket) fn text_bytes(xattrs: &Xattrs) -> usize {
    // A byte of a name is at most three letters, and three of a value are four.
    xattrs.iter().map(|(name, value)| name.len() * 3 + value.len().div_ceil(3) * 4 + 8).sum()
}

/// What the key of an object has behind the prefix of its folder; for a folder, what its own prefix
/// has: with a slash at its end.
pub(in crate::bucket) type Label = Vec<u8>;

/// The label of the mounted folder itself, in its own attribute object.
pub(in crate::bucket) const OWN: &[u8] = b"";

/// What deviates from what a listing tells and a mount assumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bucket) struct Item {
    pub(in crate::bucket) kind: FileKind,
    /// Permission bits; as the mount assumes if `None`, and so is what follows.
    pub(in crate::bucket) mode: Option<u16>,
    pub(in crate::bucket) uid: Option<u32>,
    pub(in crate::bucket) gid: Option<u32>,
    /// Else when the object was last taken in by its store.
    pub(in crate::bucket) mtime: Option<Timestamp>,
    /// Else as `mtime`.
    pub(in crate::bucket) atime: Option<Timestamp>,
    /// Else as `mtime`.
    pub(in crate::bucket) ctime: Option<Timestamp>,
    /// The number of a device, else 0.
    pub(in crate::bucket) rdev: u32,
    /// Where a symbolic link points.
    pub(in crate::bucket) target: Option<Arc<Vec<u8>>>,
    /// `None` if there are none.
    pub(in crate::bucket) xattrs: Option<Arc<Xattrs>>,
    /// The object that it speaks of, and no other one of that name; `None` for a folder.
    pub(in crate::bucket) version: Option<Version>,
}

impl Item {
    /// Nothing deviates.
    pub(in crate::bucket) fn plain(kind: FileKind, version: Option<Version>) -> Item {
        Item {
            kind,
            mode: None,
            uid: None,
            gid: None,
            mtime: None,
            atime: None,
            ctime: None,
            rdev: 0,
            target: None,
            xattrs: None,
            version,
        }
    }

    /// Whether nothing deviates that is worth an entry; that something was changed once is not.
    pub(in crate::bucket) fn is_plain(&self) -> bool {
        let bare = Item { ctime: self.ctime, ..Item::plain(self.kind, self.version.clone()) };
        matches!(self.kind, FileKind::File | FileKind::Directory) && *self == bare
    }

    /// Whether it speaks of a folder.
    pub(in crate::bucket) fn is_folder(&self) -> bool {
        self.kind == FileKind::Directory
    }
}
