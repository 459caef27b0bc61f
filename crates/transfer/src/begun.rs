//! An upload that was begun while its file was still being written, and what was sent of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::ByteRange;
use remote::{Key, Metadata, PartTag, UploadId};
use store::{Moment, Sealed, Staged};

/// An upload that was begun before its file was whole.
#[derive(Debug)]
pub struct Begun {
    /// The object that it is to become.
    pub key: Key,
    /// As the store names it.
    pub upload: UploadId,
    /// The id that it carries, from [`Uploader::new_id`].
    pub id: String,
    /// What the object will carry.
    pub metadata: Metadata,
    staged: Arc<Staged>,
    // By where they begin.
    parts: BTreeMap<u64, Early>,
}

/// A part that was sent ahead.
#[derive(Debug)]
pub struct Early {
    range: ByteRange,
    /// It has the bytes of this moment.
    moment: Moment,
    tag: PartTag,
}

impl Early {
    /// The part `range` with the bytes of `moment`.
    pub(crate) fn new(range: ByteRange, moment: Moment, tag: PartTag) -> Early {
        Early { range, moment, tag }
    }
}

impl Begun {
    /// An upload of `staged` of which nothing is sent.
    pub(crate) fn new(
        (key, upload): (Key, UploadId),
        id: String,
        metadata: Metadata,
        staged: &Arc<Staged>,
    ) -> Begun {
        Begun { key, upload, id, metadata, staged: Arc::clone(staged), parts: BTreeMap::new() }
    }

    /// Notes a part that was sent.
    pub fn sent(&mut self, part: Early) {
        self.parts.insert(part.range.start(), part);
    }

    /// Whether the parts are of this staged file.
    pub fn is_of(&self, staged: &Arc<Staged>) -> bool {
        Arc::ptr_eq(&self.staged, staged)
    }

    /// The receipt of the part `range`, if it was sent as it is in `sealed`.
    pub(crate) fn tag(&self, range: ByteRange, sealed: &Sealed) -> Option<PartTag> {
        let early = self.parts.get(&range.start()).filter(|early| early.range == range)?;
        let is_before = early.moment < sealed.moment();
        let is_same = is_before && !self.staged.is_written_since(range, early.moment);
        is_same.then(|| early.tag.clone())
    }
}
