//! What a staged file holds: its own bytes, what shows through, what is sealed, what is summed.

use std::io;
use std::sync::Arc;

use base::ByteRange;

use crate::backing::BackingFile;
use crate::cached::Cached;
use crate::error::Result;
use crate::extent::{Extents, Moment, Origin, Sum};
use crate::frozen::Frozen;
use crate::granule::{self, GRANULE_BYTES};
use crate::granule_set::GranuleSet;
use crate::residency::{Epoch, Residency};
use crate::sums::{Walk, Walked};

/// A staged file's bytes and what is known of them.
#[derive(Debug)]
pub(crate) struct Body {
    /// The file.
    pub file: Arc<BackingFile>,
    /// How long it is.
    pub size: u64,
    /// What shows through where nothing was written.
    pub base: Option<View>,
    /// The version that it was made from, as long as something of it is left.
    pub origin: Option<Origin>,
    /// What is changed now is changed at this moment.
    pub now: Moment,
    /// When it was last made shorter.
    pub cut_at: Moment,
    /// What is in the file itself.
    pub extents: Extents,
    /// Where the newest bytes live.
    pub residency: Residency,
    /// The sealed version, while one is out.
    pub frozen: Option<Frozen>,
    /// The last seal.
    pub epoch: Epoch,
    /// Whether the record says that the bytes are those of the last seal.
    pub recorded: Recorded,
    /// Whether the kernel may write to the file without telling us.
    pub lent: Lent,
    /// The version that the bucket has of it, while it is clean.
    pub published: Option<Box<[u8]>>,
    /// Where the file is.
    pub home: Home,
}

/// What the record says of a staged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// They are as they were sealed, with a checksum of each.
    AsSealed,
    /// They are as they were sealed, and those that showed through from the base then have no checksum.
    AsSealedOverBase,
    /// Something else.
    Otherwise,
}

/// Where a staged file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// In staging, on its way to the bucket.
    Staging,
    /// In the recovery folder: whoever has it open goes on with it, but it is nobody's file.
    Recovery,
}

/// The part of a base that shows through.
#[derive(Debug)]
pub(crate) struct View {
    /// The base; nothing of it is at hand without.
    pub cached: Option<Arc<Cached>>,
    /// It shows through below this, never more of it than at the file's smallest size.
    pub visible: u64,
}

/// Whether the backing file was handed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lent {
    /// Never.
    Never,
    /// It may have been written to through a shared mapping; checksums tell.
    ToKernel,
}

impl View {
    /// Reads into `buf` if all of it is at hand.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        self.cached.as_ref().map_or(Ok(false), |cached| cached.read(offset, buf))
    }
}

impl Body {
    /// The bytes of `file`, `size` of them, all in it.
    pub(crate) fn new(file: Arc<BackingFile>, size: u64, residency: Residency) -> Body {
        Body {
            file,
            size,
            base: None,
            origin: None,
            now: 1,
            cut_at: 0,
            extents: Extents::default(),
            residency,
            frozen: None,
            epoch: 0,
            recorded: Recorded::Otherwise,
            lent: Lent::Never,
            published: None,
            home: Home::Staging,
        }
    }

    /// What the bucket does not have of it, on the disk. What the kernel writes past us is not counted.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        match self.home {
            Home::Staging => {
                let granules = self.extents.dirty().saturating_mul(GRANULE_BYTES);
                granules.min(granule::on_disk(self.size))
            }
            // Nothing can be done about it here.
            Home::Recovery => 0,
        }
    }

    /// Notes that bytes in `range` are about to change.
    pub(crate) fn will_differ(&mut self, range: ByteRange) {
        // What is being uploaded may be what it was made from by the next time.
        let origin = self.origin.as_ref().map_or(0, |origin| origin.until);
        let until = self.frozen.as_ref().map_or(0, Frozen::shortest).max(origin);
        for granule in range.below(until).into_iter().flat_map(granule::touched) {
            self.extents.change(granule, self.now);
        }
    }

    /// What is as in the version that it was made from.
    pub(crate) fn unchanged(&self) -> GranuleSet {
        let origin = self.origin.as_ref();
        origin.map(|origin| self.extents.unchanged(origin.until, origin.since)).unwrap_or_default()
    }

    /// What must be taken from the base of the granule in which it stops showing through, if the
    /// file goes on there.
    pub(crate) fn edge(&self) -> Option<ByteRange> {
        let visible = self.visible();
        let is_within = visible < self.size && !visible.is_multiple_of(GRANULE_BYTES);
        if is_within { self.wanted(visible / GRANULE_BYTES) } else { None }
    }

    /// What must be taken from the base.
    pub(crate) fn missing_all(&self) -> GranuleSet {
        self.extents.missing(self.visible())
    }

    /// It is `size` bytes long from now on.
    pub(crate) fn cut(&mut self, size: u64) {
        if size < self.size {
            self.extents.resized(size);
            self.cut_at = self.now;
        }
        self.size = size;
        if let Some(view) = &mut self.base {
            view.visible = view.visible.min(size);
        }
        self.base.take_if(|view| view.visible == 0);
        if let Some(origin) = &mut self.origin {
            origin.until = origin.until.min(size);
        }
        self.origin.take_if(|origin| origin.until == 0);
        if let Some(frozen) = &mut self.frozen {
            frozen.cut(size);
        }
    }

    /// Where the base stops showing through.
    pub(crate) fn visible(&self) -> u64 {
        self.base.as_ref().map_or(0, |view| view.visible)
    }

    /// What of `granule` must be taken from the base, if it must.
    pub(crate) fn wanted(&self, granule: u64) -> Option<ByteRange> {
        let start = granule * GRANULE_BYTES;
        let wanted = ByteRange::new(start, self.visible().min(start + GRANULE_BYTES))?;
        (!self.extents.is_here(granule)).then_some(wanted)
    }

    /// The first run of bytes of `range` that must be taken from the base.
    pub(crate) fn missing(&self, range: ByteRange) -> Option<ByteRange> {
        let range = range.below(self.visible())?;
        let mut granules = granule::touched(range);
        let first = granules.find_map(|granule| self.wanted(granule))?;
        let mut end = first.end();
        for granule in granules {
            match self.wanted(granule) {
                Some(wanted) => end = wanted.end(),
                None => break,
            }
        }
        ByteRange::new(first.start(), end)
    }

    /// Makes the checksum of every granule that is here whole, as far as one turn of `walk` goes.
    pub(crate) fn complete_sums(&mut self, walk: &mut Walk) -> io::Result<Walked> {
        let visible = self.visible();
        let Body { file, extents, size, .. } = self;
        walk.turn(file, *size, |granule, summer| {
            let place = granule::bytes_of(granule, *size);
            let known = extents.sum(granule);
            let is_here = visible <= place.start() || extents.is_here(granule);
            if is_here && u64::from(known.len) < place.len() {
                extents.set_sum(granule, summer.sum(place, known)?);
            }
            Ok(())
        })
    }

    /// Finds the granules that do not match their checksums any more and sums them anew, as far as
    /// one turn of `walk` goes; whether there were any.
    pub(crate) fn rescan(&mut self, walk: &mut Walk) -> io::Result<(Walked, bool)> {
        let mut is_changed = false;
        let Body { file, extents, size, now, .. } = self;
        let walked = walk.turn(file, *size, |granule, summer| {
            let place = granule::bytes_of(granule, *size);
            let known = extents.sum(granule);
            let sum = summer.sum(place, Sum::default())?;
            if known != sum {
                extents.change(granule, *now);
                // What is not summed to its end was written through us, and is dirty anyway.
                is_changed |= known.len == sum.len;
                extents.set_sum(granule, sum);
            }
            Ok(())
        })?;
        Ok((walked, is_changed))
    }
}
