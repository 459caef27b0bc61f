//! Half-open byte ranges, the unit in which every layer speaks of file data.

use std::fmt;

/// The bytes `start..end` of a file. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// Returns `None` for an empty or reversed range, so that no caller has to think about one.
    pub fn new(start: u64, end: u64) -> Option<ByteRange> {
        (start < end).then_some(ByteRange { start, end })
    }

    /// The `len` bytes from `start`; `None` if there are none or they pass the end of `u64`.
    pub fn at(start: u64, len: u64) -> Option<ByteRange> {
        ByteRange::new(start, start.checked_add(len)?)
    }

    /// First byte of the range.
    pub fn start(self) -> u64 {
        self.start
    }

    /// One past the last byte of the range.
    pub fn end(self) -> u64 {
        self.end
    }

    /// How many bytes; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// The part of the range below `end`, if any.
    pub fn below(self, end: u64) -> Option<ByteRange> {
        ByteRange::new(self.start, self.end.min(end))
    }

    /// What both ranges have in common.
    pub fn intersection(self, other: ByteRange) -> Option<ByteRange> {
        ByteRange::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Grows the range outwards to whole blocks.
    #[must_use]
    pub fn aligned(self, block_bytes: u64) -> ByteRange {
        assert!(block_bytes.is_power_of_two());
        let start = self.start & !(block_bytes - 1);
        let end = self.end.next_multiple_of(block_bytes);
        assert!(start <= self.start && self.end <= end);
        ByteRange { start, end }
    }

    /// Cuts the range into consecutive pieces of `bytes`; the last may be shorter.
    pub fn pieces(self, bytes: u64) -> impl Iterator<Item = ByteRange> {
        assert!(0 < bytes);
        let ByteRange { start, end } = self;
        (0..(end - start).div_ceil(bytes)).map(move |i| {
            let from = start + i * bytes;
            ByteRange { start: from, end: end.min(from + bytes) }
        })
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::ByteRange;

    #[test]
    fn an_empty_or_overflowing_range_cannot_be_made() {
        assert_eq!(ByteRange::new(3, 3), None);
        assert_eq!(ByteRange::new(4, 3), None);
        assert_eq!(ByteRange::at(u64::MAX, 1), None);
    }

    proptest! {
        #[test]
        fn pieces_cover_the_range_once(start in 0..9999_u64, len in 1..9999_u64, n in 1..500_u64) {
            let range = ByteRange::at(start, len).unwrap();
            let mut next = range.start();
            for piece in range.pieces(n) {
                prop_assert_eq!(piece.start(), next);
                prop_assert!(piece.len() <= n);
                next = piece.end();
            }
            prop_assert_eq!(next, range.end());
        }
    }
}
