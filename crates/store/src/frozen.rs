//! A sealed version, kept as it was while the file is written to.
//!
//! Before a granule of the sealed version is overwritten, it is saved at its own offset in a side
//! file. Reading the version takes saved granules from there and all others from the file itself.

use std::io;

use base::ByteRange;

use crate::backing::BackingFile;
use crate::extent::{Moment, Origin};
use crate::granule::{self, GRANULE_BYTES};

/// The sealed version of one staged file.
#[derive(Debug)]
pub(crate) struct Frozen {
    size: u64,
    // The smallest that the file has been since.
    shortest: u64,
    // When it was sealed: what is changed from now on is changed later.
    sealed: Moment,
    // Below this the upload has read all it needs.
    done_to: u64,
    side: Side,
}

#[derive(Debug)]
enum Side {
    /// Nothing of the version was overwritten.
    None,
    /// The granules whose bits are set are in the side file as they were.
    Some { file: BackingFile, saved: Vec<u64> },
    /// The whole version is in the side file.
    Whole { file: BackingFile },
}

impl Side {
    /// Nothing is saved yet in `file`.
    fn beside(size: u64, file: BackingFile) -> io::Result<Side> {
        // What is not written of it reads as zeros.
        file.set_len(size)?;
        let words = granule::index(granule::count(size).div_ceil(64));
        Ok(Side::Some { file, saved: vec![0; words] })
    }
}

impl Frozen {
    /// The version is the first `size` bytes of the file.
    pub(crate) fn new(size: u64, sealed: Moment) -> Frozen {
        Frozen { size, shortest: size, sealed, done_to: 0, side: Side::None }
    }

    /// The version is the first `size` bytes of `file`, a copy.
    pub(crate) fn copied(size: u64, sealed: Moment, file: BackingFile) -> Frozen {
        Frozen { side: Side::Whole { file }, ..Frozen::new(size, sealed) }
    }

    /// The version is the first `size` bytes of the file, and what is saved of it goes to `file`.
    pub(crate) fn beside(size: u64, sealed: Moment, file: BackingFile) -> io::Result<Frozen> {
        Ok(Frozen { side: Side::beside(size, file)?, ..Frozen::new(size, sealed) })
    }

    /// Notes that the file is `size` bytes long now.
    pub(crate) fn cut(&mut self, size: u64) {
        self.shortest = self.shortest.min(size);
    }

    /// The smallest that the file has been since it was sealed.
    pub(crate) fn shortest(&self) -> u64 {
        self.shortest
    }

    /// As what the version `identity`, which it has become, is the origin of the file.
    pub(crate) fn origin(&self, identity: &[u8]) -> Option<Origin> {
        let Frozen { shortest: until, sealed: since, .. } = *self;
        (0 < until).then(|| Origin { identity: identity.into(), until, since })
    }

    /// Below this nothing is kept any more.
    pub(crate) fn done_to(&self) -> u64 {
        self.done_to
    }

    /// What is below `offset` need not be kept any more.
    pub(crate) fn set_done_to(&mut self, offset: u64) {
        self.done_to = self.done_to.max(offset);
    }

    /// Whether there is a side file.
    pub(crate) fn has_side(&self) -> bool {
        match self.side {
            Side::None => false,
            Side::Some { .. } | Side::Whole { .. } => true,
        }
    }

    /// Saves what of the version is in `range` of `main`, which is about to be overwritten or cut.
    pub(crate) fn save(
        &mut self,
        main: &BackingFile,
        range: ByteRange,
        make_side: impl FnOnce() -> io::Result<BackingFile>,
    ) -> io::Result<()> {
        let kept = ByteRange::new(self.done_to, self.size);
        let Some(range) = kept.and_then(|kept| range.intersection(kept)) else { return Ok(()) };
        if let Side::None = self.side {
            self.side = Side::beside(self.size, make_side()?)?;
        }
        let Side::Some { file, saved } = &mut self.side else { return Ok(()) };
        let mut old = Vec::new();
        for granule in granule::touched(range) {
            let (word, bit) = (granule::index(granule / 64), 1 << (granule % 64));
            if saved[word] & bit == 0 {
                let bytes = granule::bytes_of(granule, self.size);
                if main.data(bytes)?.is_some() {
                    old.resize(granule::index(bytes.len()), 0);
                    main.read(&mut old, bytes.start())?;
                    file.write(&old, bytes.start())?;
                }
                saved[word] |= bit;
            }
        }
        Ok(())
    }

    /// Reads bytes of the version.
    pub(crate) fn read(&self, main: &BackingFile, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let Some(range) = ByteRange::at(offset, buf.len() as u64) else { return Ok(()) };
        match &self.side {
            Side::None => main.read(buf, offset),
            Side::Whole { file } => file.read(buf, offset),
            Side::Some { file, saved } => {
                for granule in granule::touched(range) {
                    let is_saved = saved[granule::index(granule / 64)] & (1 << (granule % 64)) != 0;
                    let from = offset.max(granule * GRANULE_BYTES);
                    let to = range.end().min((granule + 1) * GRANULE_BYTES);
                    let part = &mut buf[granule::index(from - offset)..granule::index(to - offset)];
                    if is_saved { file.read(part, from)? } else { main.read(part, from)? }
                }
                Ok(())
            }
        }
    }
}
