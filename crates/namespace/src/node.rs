//! What namespaces speak of: nodes, entries, content.

use base::{Attr, FileKind, Ino, Name, Timestamp};
use remote::{Condition, Extent, Key, Metadata, Version};

/// A name and what it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name in its folder.
    pub name: Name,
    /// What it names.
    pub attr: Attr,
}

/// Who makes a node, and how it is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Permission bits, the umask already taken off.
    pub mode: u16,
    /// Owner and group.
    pub owner: Owner,
}

/// Owner and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// A node without bytes that programs meet at: a pipe, a socket or a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    /// `Fifo`, `Socket`, `CharDevice` or `BlockDevice`.
    pub kind: FileKind,
    /// The device number of a device, else 0.
    pub rdev: u32,
}

/// Whether an extended attribute must, or must not, be there already when it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Either way.
    Set,
    /// Fails with `Exists` if it is there: `XATTR_CREATE`.
    Create,
    /// Fails with `NoAttribute` if it is not there: `XATTR_REPLACE`.
    Replace,
}

/// Why bytes that were noted are not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// There are none: nothing was changed.
    Unchanged,
    /// They are not to be in the bucket.
    Lost,
}

/// The attributes to change; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size, as the bytes on this mount now have it. When they were written is to be said with it.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<Timestamp>,
    /// Last change of the bytes.
    pub mtime: Option<Timestamp>,
    /// Last change of bytes or attributes, if it was not now.
    pub ctime: Option<Timestamp>,
    /// What becomes of the bits that lend somebody's rights.
    pub set_id: SetId,
}

/// What becomes of a file's set-uid and set-gid bits with a change of its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetId {
    /// They stay.
    #[default]
    Kept,
    /// They go, in the same change.
    Dropped,
}

const SET_UID: u16 = 0o4000;
const SET_GID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o0010;

/// `mode` without the bits that lend somebody's rights. Set-gid without execution by the group lends
/// none: it once meant locking.
pub fn without_set_id(mode: u16) -> u16 {
    let lends_group = mode & GROUP_EXECUTES != 0;
    mode & !(SET_UID | if lends_group { SET_GID } else { 0 })
}

/// Which object versions hold a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Names exactly these bytes for all time: what the cache knows the file by. `None` for a file
    /// that has no bytes outside this mount yet.
    pub identity: Option<Vec<u8>>,
    /// Size in bytes.
    pub size: u64,
    /// In order, without gaps, covering the whole file. For a bucket one: the whole object.
    pub extents: Vec<Extent>,
}

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFolder {
    /// Its folder.
    pub folder: Ino,
    /// Its name there.
    pub name: Name,
    /// How many entries of the folder are known.
    pub entries: usize,
}

/// A file beside another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its name in the same folder.
    pub name: Name,
    /// Its number; not held.
    pub ino: Ino,
    /// What it has.
    pub content: Content,
}

/// Where a file's bytes are to be uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The object to write.
    pub key: Key,
    /// What must hold of the object it replaces.
    pub condition: Condition,
    /// To be kept with the object.
    pub metadata: Metadata,
}

/// An upload that the store has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The object that was written.
    pub key: Key,
    /// The version the store gave it.
    pub version: Version,
    /// Size in bytes.
    pub size: u64,
}

/// Changes of names and attributes that the bucket has yet to get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// How many changes of names.
    pub changes: u64,
    /// Of how many names the attributes.
    pub attributes: u64,
    /// Why some of them failed at the last try, or were given up.
    pub failures: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::without_set_id;

    #[test]
    fn what_lends_rights_goes_and_nothing_else() {
        for (mode, want) in [
            (0o4755, 0o755),
            (0o2755, 0o755),
            (0o6711, 0o711),
            (0o2644, 0o2644),
            (0o6644, 0o2644),
            (0o1777, 0o1777),
        ] {
            assert_eq!(without_set_id(mode), want, "{mode:o}");
        }
    }
}

/// What a process noted of bytes that it was to upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belongs {
    /// The object that they were to become.
    pub key: Key,
    /// What had to hold of it.
    pub condition: Condition,
    /// What was to be [said](crate::Namespace::said) of it.
    pub said: Vec<u8>,
}
