//! Sums the bytes of a staged file that were not summed as they were written. What is a hole on the
//! disk is not read: the sum of zeros is known.

use std::io;

use base::{ByteRange, crc32c};

use crate::backing::BackingFile;
use crate::extent::Sum;
use crate::granule::{self, GRANULE_BYTES};

/// How much is read of a file before others get their turn.
const TURN_BYTES: u64 = 1 << 20;

/// How many granules are looked at before others get their turn: a hole costs no reading, but time.
const TURN_GRANULES: u64 = 8192;

/// A granule of them.
static ZEROS: [u8; 128 << 10] = [0; 128 << 10];
const _: () = assert!(ZEROS.len() as u64 == GRANULE_BYTES, "a granule of zeros");

/// A walk over all granules of a file, which may take several turns.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Where it goes on.
    pub next: u64,
    /// How much was read in all turns.
    pub read_bytes: u64,
    /// Whether others get a turn in between.
    pace: Pace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    InTurns,
    AtOnce,
}

/// Whether there is more to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walked {
    /// The turn is over.
    Some,
    /// All granules were seen.
    All,
}

impl Walk {
    /// A walk that lets others in.
    pub(crate) fn in_turns() -> Walk {
        Walk { next: 0, read_bytes: 0, pace: Pace::InTurns }
    }

    /// A walk in one turn.
    pub(crate) fn at_once() -> Walk {
        Walk { next: 0, read_bytes: 0, pace: Pace::AtOnce }
    }

    /// Goes on over the granules of a file of `size` bytes for one turn, calling `each`.
    pub(crate) fn turn(
        &mut self,
        file: &BackingFile,
        size: u64,
        mut each: impl FnMut(u64, &mut Summer<'_>) -> io::Result<()>,
    ) -> io::Result<Walked> {
        let mut summer = Summer::new(file);
        let first = self.next;
        while self.next < granule::count(size) {
            let is_long = TURN_BYTES <= summer.read_bytes || TURN_GRANULES <= self.next - first;
            if self.pace == Pace::InTurns && is_long {
                self.read_bytes += summer.read_bytes;
                return Ok(Walked::Some);
            }
            each(self.next, &mut summer)?;
            self.next += 1;
        }
        self.read_bytes += summer.read_bytes;
        Ok(Walked::All)
    }
}

/// What is read of a file at a time, and what is known of its holes. For as long as nobody changes
/// the file.
pub(crate) struct Summer<'a> {
    file: &'a BackingFile,
    bytes: Vec<u8>,
    // The sum of a granule of them; made when it is first needed.
    sum_of_zeros: Option<u32>,
    // The last hole that was found.
    hole: Option<ByteRange>,
    read_bytes: u64,
}

impl Summer<'_> {
    /// Sums bytes of `file`.
    pub(crate) fn new(file: &BackingFile) -> Summer<'_> {
        Summer { file, bytes: Vec::new(), sum_of_zeros: None, hole: None, read_bytes: 0 }
    }

    /// The sum of all of `place`, a granule, of which `known` is summed already.
    pub(crate) fn sum(&mut self, place: ByteRange, known: Sum) -> io::Result<Sum> {
        let len = u32::try_from(place.len()).expect("a granule is small");
        let mut sum = known;
        while sum.len < len {
            let rest = ByteRange::new(place.start() + u64::from(sum.len), place.end());
            let rest = rest.expect("some of it is not summed");
            let data = self.data(rest)?;
            let zeros = data.map_or(rest.len(), |data| data.start() - rest.start());
            sum = if zeros == GRANULE_BYTES {
                Sum { crc: *self.sum_of_zeros.get_or_insert_with(|| crc32c(&ZEROS)), len }
            } else {
                extend(sum, &ZEROS[..granule::index(zeros)])
            };
            if let Some(data) = data {
                self.bytes.resize(granule::index(data.len()), 0);
                self.file.read(&mut self.bytes, data.start())?;
                self.read_bytes += data.len();
                sum = extend(sum, &self.bytes);
            }
        }
        Ok(sum)
    }

    /// The first run of `range` that is no hole.
    fn data(&mut self, range: ByteRange) -> io::Result<Option<ByteRange>> {
        if let Some(hole) = self.hole
            && hole.intersection(range) == Some(range)
        {
            return Ok(None);
        }
        // Asked without an end: a large hole is then asked for once.
        let all = ByteRange::new(range.start(), u64::MAX).expect("a file does not reach so far");
        let data = self.file.data(all)?;
        let hole_end = data.map_or(u64::MAX, ByteRange::start);
        self.hole = ByteRange::new(range.start(), hole_end);
        Ok(data.and_then(|data| data.intersection(range)))
    }
}

fn extend(sum: Sum, bytes: &[u8]) -> Sum {
    let crc = match sum.len {
        0 => crc32c(bytes),
        _ => crc32c::crc32c_append(sum.crc, bytes),
    };
    Sum { crc, len: sum.len + u32::try_from(bytes.len()).expect("a granule is small") }
}
