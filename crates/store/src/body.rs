//! What a staged file holds: its own bytes, what shows through, what is sealed, what is summed.

use std::io;
use std::sync::Arc;

use base::{ByteRange, crc32c};

use crate::backing::BackingFile;
use crate::cached::Cached;
use crate::extent::{Extents, Sum};
use crate::frozen::Frozen;
use crate::granule::{self, GRANULE_BYTES};
use crate::residency::{Epoch, Residency};

/// A staged file's bytes and what is known of them.
#[derive(Debug)]
pub(crate) struct Body {
    /// The file.
    pub file: Arc<BackingFile>,
    /// How long it is.
    pub size: u64,
    /// What shows through where nothing was written.
    pub base: Option<View>,
    /// What is in the file itself.
    pub extents: Extents,
    /// Where the newest bytes live.
    pub residency: Residency,
    /// The sealed version, while one is out.
    pub frozen: Option<Frozen>,
    /// The last seal.
    pub epoch: Epoch,
    /// Whether the kernel may write to the file without telling us.
    pub lent: Lent,
    /// The version that the bucket has of it, while it is clean.
    pub published: Option<Box<[u8]>>,
    /// Where the file is.
    pub home: Home,
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
    /// The base.
    pub cached: Arc<Cached>,
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

impl Body {
    /// The bytes of `file`, `size` of them, all in it.
    pub(crate) fn new(file: Arc<BackingFile>, size: u64, residency: Residency) -> Body {
        Body {
            file,
            size,
            base: None,
            extents: Extents::default(),
            residency,
            frozen: None,
            epoch: 0,
            lent: Lent::Never,
            published: None,
            home: Home::Staging,
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

    /// Makes the checksum of every granule whole; reads what was not written from front to back.
    pub(crate) fn complete_sums(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        let zeros = crc32c(&vec![0; granule::index(GRANULE_BYTES)]);
        for granule in 0..granule::count(self.size) {
            let place = granule::bytes_of(granule, self.size);
            let sum = self.extents.sum(granule);
            let from = place.start() + u64::from(sum.len);
            let is_hole = self.extents.is_untouched(granule) && sum.len == 0;
            if is_hole && place.len() == GRANULE_BYTES {
                // A file may be one hole of terabytes.
                self.extents.set_sum(granule, whole_sum(zeros, place));
            } else if from < place.end() {
                bytes.resize(granule::index(place.end() - from), 0);
                if self.extents.is_untouched(granule) {
                    bytes.fill(0);
                } else {
                    self.file.read(&mut bytes, from)?;
                }
                let crc = match sum.len {
                    0 => crc32c(&bytes),
                    _ => crc32c::crc32c_append(sum.crc, &bytes),
                };
                self.extents.set_sum(granule, whole_sum(crc, place));
            }
        }
        Ok(())
    }

    /// Finds the granules that do not match their checksums any more and sums them anew; whether
    /// there were any.
    pub(crate) fn rescan(&mut self) -> io::Result<bool> {
        let mut is_changed = false;
        let mut bytes = Vec::new();
        for granule in 0..granule::count(self.size) {
            let place = granule::bytes_of(granule, self.size);
            bytes.resize(granule::index(place.len()), 0);
            self.file.read(&mut bytes, place.start())?;
            let known = self.extents.sum(granule);
            let sum = whole_sum(crc32c(&bytes), place);
            if known != sum {
                // What is not summed to its end was written through us, and is dirty anyway.
                is_changed |= known.len == sum.len;
                self.extents.set_sum(granule, sum);
            }
        }
        Ok(is_changed)
    }
}

fn whole_sum(crc: u32, place: ByteRange) -> Sum {
    Sum { crc, len: u32::try_from(place.len()).expect("a granule is small") }
}
