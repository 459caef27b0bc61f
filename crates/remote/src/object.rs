//! Objects as values: versions, conditions, pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ByteRange, Timestamp};
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::{Key, Naming, Result};

/// What distinguishes an object's bytes from those it had before or will have: an etag or a
/// generation. Opaque, compared for equality only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(Arc<str>);

impl Version {
    /// A version as the provider spells it.
    pub fn new(text: &str) -> Version {
        Version(text.into())
    }

    /// The provider's spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name in the metadata under which a write carries an id of its own, so that a writer whose
/// answer was lost can tell its own success from somebody else's change.
pub const UPLOAD_ID: &str = "quayfs-upload";

/// User metadata: lower-case names, text values.
pub type Metadata = BTreeMap<String, String>;

/// What is known of an object without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Size in bytes.
    pub size: u64,
    /// Which bytes it has now.
    pub version: Version,
    /// When the store last took it in.
    pub modified: Timestamp,
    /// What its writer said of it.
    pub metadata: Metadata,
}

/// What is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original<'a> {
    /// The object.
    pub key: &'a Key,
    /// Which bytes of it.
    pub version: &'a Version,
    /// How many they are: some stores copy large ones in another way.
    pub size: u64,
}

/// What must hold of the object that a write replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing: the write wins.
    Always,
    /// There is no object of that name.
    Absent,
    /// The object is this version.
    Is(Version),
}

/// How an object is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutOptions {
    /// What must hold for the write to happen.
    pub condition: Condition,
    /// Kept with the object.
    pub metadata: Metadata,
}

/// The bytes of a [`get`](crate::Remote::get), in order, in pieces as the network gives them.
pub type Body = BoxStream<'static, Result<Bytes>>;

/// What a [`get_whole`](crate::Remote::get_whole) brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// The object is still the version that the caller named.
    Same,
    /// It is another one: this.
    New(Meta, Bytes),
}

/// An upload in parts, as the provider names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UploadId(pub String);

/// The place of a part in its object, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartNumber(pub u32);

/// The store's receipt for a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartTag(pub String);

/// An upload in parts that is neither complete nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Its id.
    pub upload: UploadId,
    /// When it was begun, by the store's clock.
    pub since: Timestamp,
    /// Whether it has parts, or may have: then somebody knows of it.
    pub has_parts: bool,
}

/// How many unfinished uploads of a key are told at most. Who aborts them asks again.
pub(crate) const UNFINISHED_MAX: usize = 1000;

/// How many pages of buckets are read at most, a thousand each: an account of more is told in part.
pub(crate) const BUCKET_PAGES_MAX: u32 = 10;

/// The longest key that every store takes.
pub(crate) const KEY_BYTES_MAX: usize = 1024;

/// Which keys to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// Only keys that begin with this.
    pub prefix: Key,
    /// Fold what follows the first `/` behind the prefix into one entry.
    pub delimited: bool,
    /// Only keys greater than this one; a folded prefix counts as greater if any of its keys may be.
    pub start_after: Option<Key>,
    /// Where an earlier page ended: its `next`. Used instead of `start_after`.
    pub continuation: Option<String>,
    /// At most this many entries, 1 to 1,000.
    pub entries_max: u16,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An object. Its metadata is empty where the store's listings do not tell it (S3).
    Object(Key, Meta),
    /// All keys that begin with this, which ends in `/`.
    Prefix(Key),
}

impl Entry {
    /// The key or prefix of the line.
    pub fn key(&self) -> &Key {
        match self {
            Entry::Object(key, _) | Entry::Prefix(key) => key,
        }
    }
}

/// Part of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In byte order of their keys, and after those of the pages before, unless
    /// [`ListOrder`](crate::ListOrder) says otherwise.
    pub entries: Vec<Entry>,
    /// What to ask for the rest with; `None` at the end.
    pub next: Option<String>,
}

/// What a store can do, and within which limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Personality {
    /// The smallest part of an upload, but for the last.
    pub part_bytes_min: u64,
    /// The largest part, and the largest object of a single put.
    pub part_bytes_max: u64,
    /// The most parts of one upload.
    pub parts_max: u32,
    /// The largest object.
    pub object_bytes_max: u64,
    /// The longest key.
    pub key_bytes_max: usize,
    /// Whether `Condition::Is` and `Condition::Absent` are checked on put and complete.
    pub conditional_writes: bool,
    /// Which parts of an upload may be copied from an object.
    pub part_copies: PartCopies,
    /// Which numbers the parts of an upload may have.
    pub part_numbers: PartNumbers,
    /// What folders are, and how names change.
    pub naming: Naming,
}

/// Which numbers the parts of an upload may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartNumbers {
    /// Any, as long as they rise.
    Rising,
    /// From 1, and none is left out.
    Consecutive,
}

/// What [`upload_part_copy`](crate::Remote::upload_part_copy) can make a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartCopies {
    /// Nothing.
    None,
    /// Any range of any object.
    AnyRange {
        /// At most so many bytes of it.
        bytes_max: u64,
    },
    /// Blocks of the object that is to be replaced: what they cover exactly.
    OwnBlocks,
    /// A whole object, as the first part.
    WholeFirst,
}

/// A range of a file that is a range of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where in the file.
    pub range: ByteRange,
    /// The object.
    pub key: Key,
    /// The version of the object.
    pub version: Version,
    /// Where in the object the range begins.
    pub object_offset: u64,
}
