//! How a file is cut into parts under a provider's limits; pure.

use base::ByteRange;
use remote::{PartNumber, Personality};

/// How to send a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// In one request.
    Whole,
    /// In parts of this many bytes; the last may be shorter.
    Parts { part_bytes: u64 },
    /// Not at all: no object may be that large.
    TooLarge,
}

/// Decides how to send `size` bytes in parts of about `wish_bytes`.
///
/// Parts grow where the store would not take as many of them; offsets then map to part numbers by
/// division alone, whatever the file's history.
pub(crate) fn plan(size: u64, wish_bytes: u64, store: Personality) -> Plan {
    let part_bytes = wish_bytes.clamp(store.part_bytes_min, store.part_bytes_max);
    if store.object_bytes_max < size {
        return Plan::TooLarge;
    }
    if size <= part_bytes {
        return Plan::Whole;
    }
    let least = size.div_ceil(u64::from(store.parts_max));
    let part_bytes = part_bytes.max(least.next_multiple_of(1 << 20));
    if store.part_bytes_max < part_bytes { Plan::TooLarge } else { Plan::Parts { part_bytes } }
}

/// The parts of a file of `size` bytes, in order.
pub(crate) fn parts(size: u64, part_bytes: u64) -> impl Iterator<Item = (PartNumber, ByteRange)> {
    let whole = ByteRange::new(0, size).into_iter();
    (1..).map(PartNumber).zip(whole.flat_map(move |whole| whole.pieces(part_bytes)))
}

#[cfg(test)]
mod tests {
    use remote::{PartCopies, Personality};

    use super::{Plan, parts, plan};

    const MIB: u64 = 1 << 20;
    const S3: Personality = Personality {
        part_bytes_min: 5 * MIB,
        part_bytes_max: 5 << 30,
        parts_max: 10_000,
        object_bytes_max: 5 << 40,
        conditional_writes: true,
        part_copies: PartCopies::AnyRange { bytes_max: 5 << 30 },
    };

    #[test]
    fn parts_grow_only_where_the_store_counts_them_out() {
        for (size, want) in [
            (0, Plan::Whole),
            (16 * MIB, Plan::Whole),
            (16 * MIB + 1, Plan::Parts { part_bytes: 16 * MIB }),
            (10_000 * 16 * MIB, Plan::Parts { part_bytes: 16 * MIB }),
            (10_000 * 16 * MIB + 1, Plan::Parts { part_bytes: 17 * MIB }),
            (5 << 40, Plan::Parts { part_bytes: 525 * MIB }),
            ((5 << 40) + 1, Plan::TooLarge),
        ] {
            assert_eq!(plan(size, 16 * MIB, S3), want, "{size}");
        }
    }

    #[test]
    fn a_wish_below_the_stores_least_part_is_raised() {
        assert_eq!(plan(6 * MIB, MIB, S3), Plan::Parts { part_bytes: 5 * MIB });
    }

    #[test]
    fn parts_are_numbered_from_one_and_cover_the_file() {
        let parts: Vec<_> = parts(33 * MIB, 16 * MIB).collect();
        assert_eq!(parts.len(), 3);
        assert_eq!((parts[0].0.0, parts[2].0.0), (1, 3));
        assert_eq!((parts[0].1.start(), parts[2].1.end()), (0, 33 * MIB));
    }
}
