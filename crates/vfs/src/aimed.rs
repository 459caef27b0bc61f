//! What a version of a file is to become: where it goes, from what it was made, with which times.

use base::Timestamp;
use namespace::Target;
use remote::{Key, Original, Version};
use store::{Sealed, Staged};

/// When a file was last changed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Its bytes, or what `utimens` said of them.
    pub(crate) mtime: Timestamp,
    /// Its bytes or attributes.
    pub(crate) ctime: Timestamp,
    /// The access time, if it follows the writes.
    pub(crate) atime: Option<Timestamp>,
}

/// Where the version is that an upload is to replace.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// What its bytes are known by. Only a file that was made from just these has some of them.
    pub(crate) identity: Vec<u8>,
    pub(crate) key: Key,
    pub(crate) version: Version,
    pub(crate) size: u64,
}

impl Origin {
    /// The object, to copy from, if what was made from the version `identity` has bytes of it.
    pub(crate) fn original(&self, identity: Option<&[u8]>) -> Option<Original<'_>> {
        let Origin { key, version, size, .. } = self;
        let is_same = identity.is_some_and(|identity| identity == self.identity);
        is_same.then_some(Original { key, version, size: *size })
    }

    /// How large the version is, if `staged` was made from it.
    pub(crate) fn size_for(&self, staged: &Staged) -> Option<u64> {
        self.original(staged.origin().as_deref()).map(|original| original.size)
    }
}

/// Where an upload goes.
#[derive(Clone, Debug)]
pub(crate) struct Aimed {
    pub(crate) target: Target,
    /// What else is to be said of the file then.
    pub(crate) said: Vec<u8>,
    /// What it replaces.
    pub(crate) origin: Option<Origin>,
    /// The times that go with it.
    pub(crate) written: Option<Times>,
    /// Its id.
    pub(crate) upload: String,
    /// The [`revision`](namespace::Namespace::revision) of the names that all this is of, or an earlier one.
    pub(crate) revision: u64,
}

/// What became of the try to freeze the bytes of a file.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(crate) enum Frozen {
    /// They are, and are noted.
    As(Acknowledged),
    /// It has no name any more.
    Nameless,
    /// Its object is on its way to another name, and nobody could say after a crash what was made of which.
    Moving,
}

/// What is to be in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upto {
    /// All that was written.
    Now,
    /// All that was written, although nobody asks for it.
    Unasked,
    /// What a close was told is safe, or, if nobody is about to close the file, all of it.
    Acknowledged,
}

/// A version that a close was told is safe, and that nobody uploads yet.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    pub(crate) sealed: Sealed,
    pub(crate) aimed: Aimed,
}
