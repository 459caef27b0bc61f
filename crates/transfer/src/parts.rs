//! Where a file is cut into parts, under a provider's limits; pure.
//!
//! The cuts depend on the store and on the wished size alone, never on the file: what is at an offset
//! is in the same part whatever else becomes of the file. So that the parts suffice for the largest
//! object, those further back are larger.

use base::ByteRange;
use remote::{PartNumber, Personality};

/// The shares of a store's parts, in percent, and how many times larger than the first they are. With
/// parts of 16 MiB and 10,000 of them: 16 MiB up to 15.6 GiB, 64 MiB up to 140.6 GiB, 256 MiB up to
/// 640.6 GiB, and 1 GiB up to 5.5 TiB.
const TIERS: [(u64, u64); 4] = [(10, 1), (20, 4), (20, 16), (50, 64)];

/// Enough for edits all over a file of which more is appended.
const SPARE_MAX: u32 = 100;

/// Where files are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    tiers: [Tier; TIERS.len()],
    /// So many numbers the largest object leaves over, as far as they are of use.
    spare: u32,
}

/// Parts of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tier {
    start: u64,
    end: u64,
    part_bytes: u64,
}

impl Grid {
    /// Parts of about `wish_bytes` for `store`.
    pub(crate) fn new(wish_bytes: u64, store: Personality) -> Grid {
        let first_bytes = wish_bytes.clamp(store.part_bytes_min, store.part_bytes_max);
        let parts_max = u64::from(store.parts_max);
        let mut parts_left = parts_max;
        let mut start = 0_u64;
        let tiers = TIERS.map(|(percent, times)| {
            let is_last = times == TIERS[TIERS.len() - 1].1;
            let parts = if is_last { parts_left } else { parts_max * percent / 100 };
            parts_left -= parts;
            let mut part_bytes = first_bytes.saturating_mul(times);
            if is_last && 0 < parts {
                let least = store.object_bytes_max.saturating_sub(start).div_ceil(parts);
                part_bytes = part_bytes.max(least.next_multiple_of(1 << 20));
            }
            let part_bytes = part_bytes.min(store.part_bytes_max);
            let end = start.saturating_add(part_bytes.saturating_mul(parts));
            let tier = Tier { start, end, part_bytes };
            start = end;
            tier
        });
        let mut grid = Grid { tiers, spare: 0 };
        let largest = grid.reach().min(store.object_bytes_max);
        let PartNumber(last) = grid.number_at(largest.saturating_sub(1));
        grid.spare = store.parts_max.saturating_sub(last).min(SPARE_MAX);
        grid
    }

    /// The size of the first part. What is no larger goes in one request.
    pub(crate) fn first_bytes(&self) -> u64 {
        self.tiers[0].part_bytes
    }

    /// How long a file may be.
    pub(crate) fn reach(&self) -> u64 {
        self.tiers[TIERS.len() - 1].end
    }

    /// The part that `offset`, below the reach, is in.
    pub(crate) fn part_at(&self, offset: u64) -> ByteRange {
        let tier = self.tiers.iter().find(|tier| offset < tier.end);
        let Tier { start, part_bytes, .. } = *tier.expect("the offset is within reach");
        let from = start + (offset - start) / part_bytes * part_bytes;
        ByteRange::at(from, part_bytes).expect("a part is not empty")
    }

    /// The part of a file that `offset` is in; `None` beyond the reach.
    pub fn part_of(&self, offset: u64) -> Option<ByteRange> {
        (offset < self.reach()).then(|| self.part_at(offset))
    }

    /// Where the first part begins that has nothing of the first `kept` bytes; `None` beyond the reach.
    pub(crate) fn first_ahead(&self, kept: u64) -> Option<u64> {
        match kept.checked_sub(1) {
            None => Some(0),
            Some(last) => self.part_of(last).map(ByteRange::end),
        }
    }

    /// The number of the part that begins at `start`, from 1.
    pub(crate) fn number_at(&self, start: u64) -> PartNumber {
        let before: u64 = self
            .tiers
            .iter()
            .map(|tier| start.min(tier.end).saturating_sub(tier.start) / tier.part_bytes)
            .sum();
        PartNumber(1 + u32::try_from(before).expect("a store counts its parts so"))
    }

    /// The number of a part that is sent ahead and begins at `start`. Those of a file that was there
    /// are sent from `first` on, and what comes before `first` may take some numbers more than it has
    /// parts.
    pub(crate) fn number_ahead(&self, start: u64, first: u64) -> PartNumber {
        let PartNumber(number) = self.number_at(start);
        PartNumber(if first == 0 { number } else { number + self.spare })
    }

    /// The parts of a file of `size` bytes, in order; the last may be shorter than others.
    pub(crate) fn parts(&self, size: u64) -> impl Iterator<Item = ByteRange> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let part = ByteRange::new(from, size).map(|_| self.part_at(from))?.below(size)?;
            from = part.end();
            Some(part)
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use base::ByteRange;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use remote::{Naming, PartCopies, PartNumbers, Personality};

    use super::Grid;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    pub(crate) const S3: Personality = Personality {
        part_bytes_min: 5 * MIB,
        part_bytes_max: 5 << 30,
        parts_max: 10_000,
        object_bytes_max: 5 << 40,
        key_bytes_max: 1024,
        conditional_writes: true,
        part_copies: PartCopies::AnyRange { bytes_max: 5 << 30 },
        part_numbers: PartNumbers::Rising,
        naming: Naming::OF_KEYS,
    };

    #[test]
    fn parts_grow_with_the_offset_until_they_suffice_for_the_largest_object() {
        let grid = Grid::new(16 * MIB, S3);
        for (offset, part_bytes) in [
            (0, 16 * MIB),
            (16_000 * MIB - 1, 16 * MIB),
            (16_000 * MIB, 64 * MIB),
            (16_000 * MIB + 128_000 * MIB, 256 * MIB),
            (5 << 40, GIB),
        ] {
            assert_eq!(grid.part_at(offset).len(), part_bytes, "{offset}");
        }
        assert!(5 << 40 <= grid.reach());
        assert!(grid.parts(5 << 40).count() <= 10_000);
    }

    #[test]
    fn a_wish_below_the_stores_least_part_is_raised() {
        assert_eq!(Grid::new(MIB, S3).first_bytes(), 5 * MIB);
    }

    #[test]
    fn small_wishes_reach_the_largest_object_by_larger_last_parts() {
        let grid = Grid::new(5 * MIB, S3);
        assert!(5 << 40 <= grid.reach());
        let many = Personality { parts_max: 50_000, object_bytes_max: 100 << 40, ..S3 };
        assert!(100 << 40 <= Grid::new(16 * MIB, many).reach());
    }

    proptest! {
        #[test]
        fn parts_cover_a_file_once_and_are_the_same_for_every_size(
            (wish, size, larger) in (1..(64 * MIB), 1..(40_u64 << 40), 0..(1_u64 << 40)),
            parts_max in 1..20_000_u32,
        ) {
            let store = Personality { parts_max, part_bytes_min: 1, ..S3 };
            let grid = Grid::new(wish, store);
            let size = size % grid.reach() + 1;
            // As many as make sense in a test.
            let parts: Vec<ByteRange> = grid.parts(size).take(3000).collect();
            let mut next = 0;
            for (at, part) in parts.iter().enumerate() {
                prop_assert_eq!(part.start(), next);
                prop_assert!(part.len() <= store.part_bytes_max);
                prop_assert_eq!(grid.number_at(part.start()).0 as usize, at + 1);
                // No file is longer than an object may be, even where its parts would reach farther.
                if part.start() < store.object_bytes_max {
                    prop_assert!(grid.number_ahead(part.start(), 1).0 <= parts_max);
                }
                prop_assert!(at < 3000 && (at as u64) < u64::from(parts_max));
                next = part.end();
            }
            prop_assert!(next == size || parts.len() == 3000);
            let longer = grid.parts((size + larger).min(grid.reach()));
            for (part, same) in parts.iter().zip(longer) {
                prop_assert!(*part == same || part.end() == size && part.start() == same.start());
            }
        }
    }
}
