//! Which granules of a staged file are in it, when they were changed, and running checksums of them.
//!
//! A running checksum covers the first `len` bytes of its granule. A writer that appends extends it
//! from the bytes in hand, so that sealing a file written from front to back reads nothing.

use std::collections::BTreeMap;

use base::{ByteRange, crc32c};

use crate::granule::{self, GRANULE_BYTES, PIECE_GRANULES};
use crate::granule_set::GranuleSet;
use crate::piece::PieceV1;

/// A moment in the life of a staged file: they are counted, and each seal begins a new one. Bytes of
/// a version that was there before are of moment 0.
pub type Moment = u32;

/// The version of which the bucket has what was not changed of a file.
#[derive(Debug)]
pub(crate) struct Origin {
    /// Which one.
    pub identity: Box<[u8]>,
    /// Nothing beyond this is left of it.
    pub until: u64,
    /// What was changed after this moment is not of it.
    pub since: Moment,
}

/// The granules and checksums of one staged file.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    // Invariant: a granule whose piece is not here was never written to or filled in.
    pieces: BTreeMap<usize, Piece>,
    // The bucket has what was not written after this moment.
    published: Moment,
    // Invariant: so many granules were written after that.
    dirty: u64,
}

#[derive(Debug, Default)]
struct Piece {
    granules: Vec<Granule>,
    // Whether a checksum changed since the pieces were last taken for the database.
    unsaved: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Granule {
    is_here: bool,
    // When what it has of the version below was last changed.
    changed: Moment,
    // When it was last written.
    written: Moment,
    sum: Sum,
}

impl Piece {
    // Below `visible` what is not in the file shows through, and has no checksum.
    fn row(&self, at: usize, size: u64, visible: u64) -> PieceV1 {
        let mut row = PieceV1::empty(granule::granules_in(at, granule::count(size)));
        for (in_piece, granule) in self.granules.iter().enumerate() {
            let start = (at as u64 * PIECE_GRANULES + in_piece as u64) * GRANULE_BYTES;
            if granule.is_here || visible <= start {
                row.insert(in_piece, granule.sum.crc);
            }
        }
        row
    }
}

/// The checksum of the first `len` bytes of a granule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// CRC32C of these bytes.
    pub crc: u32,
    /// How many.
    pub len: u32,
}

impl Extents {
    /// Whether the bytes of `granule` were put into the file.
    pub(crate) fn is_here(&self, granule: u64) -> bool {
        self.existing(granule).is_some_and(|granule| granule.is_here)
    }

    /// Notes that the bytes of `granule` are in the file.
    pub(crate) fn insert(&mut self, granule: u64) {
        self.granule(granule).is_here = true;
    }

    /// Notes that `granule` is changed at the moment `now`.
    pub(crate) fn change(&mut self, granule: u64, now: Moment) {
        self.granule(granule).changed = now;
    }

    /// Whether anything of `range` was written after the moment `since`.
    pub(crate) fn is_written_since(&self, range: ByteRange, since: Moment) -> bool {
        granule::touched(range)
            .any(|granule| self.existing(granule).is_some_and(|granule| since < granule.written))
    }

    /// How many granules the bucket does not have as they are.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty
    }

    /// The bucket has everything as it was in the moment `published`.
    pub(crate) fn published(&mut self, published: Moment) {
        self.published = published;
        self.count_dirty();
    }

    fn count_dirty(&mut self) {
        let published = self.published;
        self.dirty = self.known().filter(|(_, granule)| published < granule.written).count() as u64;
    }

    /// The granules of the first `end` bytes that were not changed after the moment `since`.
    pub(crate) fn unchanged(&self, end: u64, since: Moment) -> GranuleSet {
        let mut set = GranuleSet::all_of(end);
        for (number, granule) in self.known() {
            if since < granule.changed {
                set.remove(number);
            }
        }
        set
    }

    /// The granules of the first `end` bytes that are not in the file.
    pub(crate) fn missing(&self, end: u64) -> GranuleSet {
        let mut set = GranuleSet::all_of(end);
        for (number, granule) in self.known() {
            if granule.is_here {
                set.remove(number);
            }
        }
        set
    }

    /// What is known of the checksum of `granule`.
    pub(crate) fn sum(&self, granule: u64) -> Sum {
        self.existing(granule).map(|granule| granule.sum).unwrap_or_default()
    }

    /// Notes the checksum of the first `len` bytes of `granule`.
    pub(crate) fn set_sum(&mut self, granule: u64, sum: Sum) {
        self.granule(granule).sum = sum;
        self.piece(granule).unsaved = true;
    }

    /// Notes that `bytes` are about to be written at `offset`: what they change is not summed until
    /// [`wrote`](Extents::wrote) says that they are there.
    pub(crate) fn will_write(&mut self, range: ByteRange, now: Moment) {
        for granule in granule::touched(range) {
            let start = granule * GRANULE_BYTES;
            let from = range.start().saturating_sub(start);
            let published = self.published;
            let state = self.granule(granule);
            let is_newly_dirty = state.written <= published;
            state.written = now;
            if from < u64::from(state.sum.len) {
                state.sum = Sum::default();
            }
            self.piece(granule).unsaved = true;
            self.dirty += u64::from(is_newly_dirty);
        }
    }

    /// Notes that `bytes` were written at `offset`.
    pub(crate) fn wrote(&mut self, offset: u64, bytes: &[u8]) {
        let Some(range) = ByteRange::at(offset, bytes.len() as u64) else { return };
        for granule in granule::touched(range) {
            let start = granule * GRANULE_BYTES;
            let from = range.start().max(start);
            let to = range.end().min(start + GRANULE_BYTES);
            let part = &bytes[granule::index(from - offset)..granule::index(to - offset)];
            let state = self.granule(granule);
            // Only what continues the sum can extend it; a sum of nothing continues at zero.
            if from - start == u64::from(state.sum.len) {
                let crc = match state.sum.len {
                    0 => crc32c(part),
                    _ => crc32c::crc32c_append(state.sum.crc, part),
                };
                let len = u32::try_from(to - start).expect("a granule is small");
                state.sum = Sum { crc, len };
            }
        }
    }

    /// Notes that `range` is about to become zeros without a write. What was never touched is not
    /// touched by this: a hole may be of terabytes.
    pub(crate) fn will_punch(&mut self, range: ByteRange, now: Moment) {
        let granules = granule::touched(range);
        let (first, last) = (granules.start, granules.end - 1);
        let pieces = granule::place(first).0..=granule::place(last).0;
        for (&at, piece) in self.pieces.range_mut(pieces) {
            let start = at as u64 * PIECE_GRANULES;
            for (granule, state) in (start..).zip(&mut piece.granules) {
                let from = range.start().saturating_sub(granule * GRANULE_BYTES);
                if granules.contains(&granule) {
                    self.dirty += u64::from(state.written <= self.published);
                    state.written = now;
                    if from < u64::from(state.sum.len) {
                        state.sum = Sum::default();
                    }
                }
            }
            piece.unsaved = true;
        }
    }

    /// Notes that the file was cut to `size` bytes, or grew to it by a hole.
    pub(crate) fn resized(&mut self, size: u64) {
        let granules = granule::count(size);
        self.pieces.split_off(&granule::index(granules.div_ceil(PIECE_GRANULES)));
        self.cut_last(granules, size);
        self.count_dirty();
    }

    fn cut_last(&mut self, granules: u64, size: u64) {
        let Some(mut last) = self.pieces.last_entry() else { return };
        let first_of_piece = *last.key() as u64 * PIECE_GRANULES;
        let piece = last.get_mut();
        piece.unsaved = true;
        piece.granules.truncate(granule::index(granules.saturating_sub(first_of_piece)));
        if let Some(at) = granules.checked_sub(1 + first_of_piece)
            && let Some(granule) = piece.granules.get_mut(granule::index(at))
        {
            let len = granule::bytes_of(granules - 1, size).len();
            if len < u64::from(granule.sum.len) {
                granule.sum = Sum::default();
            }
        }
    }

    /// The pieces of a file of `size` bytes, of which a version shows through below `visible`, whose
    /// checksums changed; they count as saved from now on. Every granule that is here must be summed.
    pub(crate) fn take_unsaved(&mut self, size: u64, visible: u64) -> Vec<(usize, PieceV1)> {
        let mut rows = Vec::new();
        for (&at, piece) in &mut self.pieces {
            if std::mem::take(&mut piece.unsaved) {
                rows.push((at, piece.row(at, size, visible)));
            }
        }
        rows
    }

    /// All pieces of such a file. Every granule that is here must be summed.
    pub(crate) fn rows(&self, size: u64, visible: u64) -> Vec<(usize, PieceV1)> {
        self.pieces.iter().map(|(&at, piece)| (at, piece.row(at, size, visible))).collect()
    }

    /// Takes over the checksums of a piece of a file of `size` bytes, all of it in the file.
    pub(crate) fn load(&mut self, piece: usize, row: &PieceV1, size: u64) {
        for (at, crc) in row.present() {
            let granule = piece as u64 * PIECE_GRANULES + at as u64;
            let len = granule::bytes_of(granule, size).len();
            let len = u32::try_from(len).expect("a granule is small");
            self.set_sum(granule, Sum { crc, len });
            self.insert(granule);
        }
    }

    /// Marks the pieces of `rows` as unsaved again: the database did not take them.
    pub(crate) fn give_back_unsaved(&mut self, rows: &[(usize, PieceV1)]) {
        for (at, _) in rows {
            if let Some(piece) = self.pieces.get_mut(at) {
                piece.unsaved = true;
            }
        }
    }

    fn known(&self) -> impl Iterator<Item = (u64, &Granule)> {
        self.pieces
            .iter()
            .flat_map(|(&at, piece)| (at as u64 * PIECE_GRANULES..).zip(&piece.granules))
    }

    fn existing(&self, granule: u64) -> Option<&Granule> {
        let (piece, at) = granule::place(granule);
        self.pieces.get(&piece)?.granules.get(at)
    }

    fn piece(&mut self, granule: u64) -> &mut Piece {
        self.pieces.entry(granule::place(granule).0).or_default()
    }

    fn granule(&mut self, granule: u64) -> &mut Granule {
        let (_, at) = granule::place(granule);
        let granules = &mut self.piece(granule).granules;
        if granules.len() <= at {
            granules.resize_with(at + 1, Granule::default);
        }
        &mut granules[at]
    }
}

#[cfg(test)]
mod tests {
    use base::crc32c;
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    use super::Extents;
    use crate::granule::{self, GRANULE_BYTES};

    #[test]
    fn appending_keeps_the_sum_of_the_whole_granule() {
        let mut extents = Extents::default();
        write(&mut extents, 0, b"hello ");
        write(&mut extents, 6, b"world");
        assert_eq!(extents.sum(0).crc, crc32c(b"hello world"));
        assert_eq!(extents.sum(0).len, 11);
    }

    #[test]
    fn what_is_dirty_is_counted_by_granules_until_it_is_published() {
        let mut extents = Extents::default();
        let at = |granule: u64| base::ByteRange::at(granule * GRANULE_BYTES, 10).unwrap();
        for (granule, want) in [(0, 1), (0, 1), (3, 2)] {
            extents.will_write(at(granule), 1);
            assert_eq!(extents.dirty(), want);
        }
        // A seal begins the moment 2.
        extents.will_write(at(3), 2);
        extents.published(1);
        assert_eq!(extents.dirty(), 1);
        extents.will_write(at(0), 2);
        assert_eq!(extents.dirty(), 2);
        extents.will_punch(at(3), 3);
        extents.resized(GRANULE_BYTES);
        assert_eq!(extents.dirty(), 1);
        extents.published(3);
        assert_eq!(extents.dirty(), 0);
    }

    #[test]
    fn rewriting_the_middle_forgets_the_sum() {
        let mut extents = Extents::default();
        write(&mut extents, 0, b"hello world");
        write(&mut extents, 3, b"x");
        assert_eq!(extents.sum(0).len, 0);
    }

    proptest! {
        #[test]
        fn a_sum_is_never_of_other_bytes(
            steps in prop::collection::vec((0..3 * GRANULE_BYTES, 1..2000_usize, 0..3_u8), 1..60),
        ) {
            let mut extents = Extents::default();
            let mut model: Vec<u8> = Vec::new();
            for (n, (offset, len, kind)) in steps.into_iter().enumerate() {
                let at = match kind {
                    0 => granule::index(offset),
                    1 => model.len(),
                    _ => {
                        model.resize(granule::index(offset), 0);
                        extents.resized(offset);
                        continue;
                    }
                };
                let bytes = vec![u8::try_from(n).unwrap(); len * 40];
                let end = at + bytes.len();
                if model.len() < end {
                    model.resize(end, 0);
                }
                model[at..end].copy_from_slice(&bytes);
                write(&mut extents, at as u64, &bytes);
                for granule in 0..granule::count(model.len() as u64) {
                    let sum = extents.sum(granule);
                    let start = granule::index(granule * GRANULE_BYTES);
                    let summed = &model[start..start + sum.len as usize];
                    prop_assert_eq!(sum.crc, if summed.is_empty() { 0 } else { crc32c(summed) });
                }
            }
        }
    }

    fn write(extents: &mut Extents, offset: u64, bytes: &[u8]) {
        let range = base::ByteRange::at(offset, bytes.len() as u64).unwrap();
        extents.will_write(range, 1);
        extents.wrote(offset, bytes);
    }
}
