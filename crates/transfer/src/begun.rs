//! An upload that was begun while its file was still being written, and what was sent of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::ByteRange;
use remote::{Key, Metadata, Original, PartNumber, PartTag, UploadId, Version};
use store::{Moment, Sealed, Staged};

use crate::buffers::Buffers;
use crate::parts::Grid;
use crate::plan::{Piece, Source};

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
    /// Parts that begin here or behind are sent ahead. What is before it was there already, and the
    /// store copies what of it is not changed.
    pub first: u64,
    /// How it is cut, whatever the next upload will be.
    pub grid: Grid,
    staged: Arc<Staged>,
    /// What is taken for one part is there for the next until the upload is over.
    buffers: Arc<Buffers>,
    // By where they begin.
    parts: BTreeMap<u64, Early>,
}

/// A part that was made ahead.
#[derive(Debug)]
pub struct Early {
    pub(crate) number: PartNumber,
    pub(crate) range: ByteRange,
    pub(crate) bytes: EarlyBytes,
    pub(crate) tag: PartTag,
}

/// Which bytes a part has that was made ahead.
#[derive(Debug)]
pub(crate) enum EarlyBytes {
    /// Those of the file at this moment.
    Of(Moment),
    /// Those of this version of this object.
    Copied(Key, Version),
}

impl Begun {
    /// An upload of `staged` of which nothing is sent.
    pub(crate) fn new(
        (key, upload): (Key, UploadId),
        id: String,
        metadata: Metadata,
        (staged, first, grid): (&Arc<Staged>, u64, Grid),
        buffers: Arc<Buffers>,
    ) -> Begun {
        let (staged, parts) = (Arc::clone(staged), BTreeMap::new());
        Begun { key, upload, id, metadata, first, grid, staged, buffers, parts }
    }

    /// Notes a part that was sent.
    pub fn sent(&mut self, part: Early) {
        self.parts.insert(part.range.start(), part);
    }

    /// The memory for its parts.
    pub(crate) fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// What it is an upload of.
    pub(crate) fn staged(&self) -> &Arc<Staged> {
        &self.staged
    }

    /// Whether the parts are of this staged file.
    pub fn is_of(&self, staged: &Arc<Staged>) -> bool {
        Arc::ptr_eq(&self.staged, staged)
    }

    /// The receipt of a part, if it was made as it is in `sealed`; `original` is what the store may
    /// copy from.
    pub(crate) fn tag(
        &self,
        (number, piece): (PartNumber, Piece),
        sealed: &Sealed,
        original: Option<Original<'_>>,
    ) -> Option<PartTag> {
        let range = piece.range;
        let early = self.parts.get(&range.start())?;
        if (early.number, early.range) != (number, range) {
            return None;
        }
        let is_same = match (&early.bytes, piece.source) {
            (EarlyBytes::Of(moment), Source::Sent) => {
                *moment < sealed.moment() && !self.staged.is_written_since(range, *moment)
            }
            (EarlyBytes::Copied(key, version), Source::Copied) => {
                original.is_some_and(|original| (original.key, original.version) == (key, version))
            }
            (EarlyBytes::Of(_), Source::Copied) | (EarlyBytes::Copied(..), Source::Sent) => false,
        };
        is_same.then(|| early.tag.clone())
    }
}
