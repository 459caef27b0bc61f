//! Granules, stripes and pieces: how a file is cut up, and the arithmetic of it.
//!
//! ```text
//! granule   128 KiB        the unit of presence and of checksums
//! stripe    64 granules    8 MiB, the unit in which incomplete files are evicted; one word of bits
//! piece     16 stripes     128 MiB, one row of the database
//! ```

use std::ops::Range;

use base::ByteRange;

/// The unit in which bytes are here or not.
pub const GRANULE_BYTES: u64 = 128 * 1024;

/// Granules of a stripe: the bits of one word.
pub(crate) const STRIPE_GRANULES: u64 = 64;

/// Granules of a piece: one row of the database.
pub(crate) const PIECE_GRANULES: u64 = 1024;

/// What the smallest bit of data takes on the local disk.
const BLOCK_BYTES: u64 = 4096;

/// How many granules a file of `size` bytes has; the last may be short.
pub(crate) fn count(size: u64) -> u64 {
    size.div_ceil(GRANULE_BYTES)
}

/// The granules that `range` touches.
pub(crate) fn touched(range: ByteRange) -> Range<u64> {
    range.start() / GRANULE_BYTES..count(range.end())
}

/// The bytes of granule `granule` in a file of `size` bytes.
pub(crate) fn bytes_of(granule: u64, size: u64) -> ByteRange {
    let start = granule * GRANULE_BYTES;
    ByteRange::new(start, size.min(start + GRANULE_BYTES)).expect("the granule is in the file")
}

/// What granule `granule` of a file of `size` bytes takes on the disk.
pub(crate) fn disk_bytes(granule: u64, size: u64) -> u64 {
    on_disk(bytes_of(granule, size).len())
}

/// What `bytes` take on the disk.
pub(crate) fn on_disk(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// A granule's piece, as an index, and its place in it.
pub(crate) fn place(granule: u64) -> (usize, usize) {
    (index(granule / PIECE_GRANULES), index(granule % PIECE_GRANULES))
}

/// How many granules piece `piece` of a file of `granules` granules has.
pub(crate) fn granules_in(piece: usize, granules: u64) -> usize {
    index((granules - piece as u64 * PIECE_GRANULES).min(PIECE_GRANULES))
}

/// A number of granules, pieces or bytes in memory as an index.
pub(crate) fn index(n: u64) -> usize {
    usize::try_from(n).expect("memory is 64 bits wide")
}
