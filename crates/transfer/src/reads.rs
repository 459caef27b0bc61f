//! What to fetch of a file besides what is read of it: ahead of streams, where jumps usually go, and all of it
//! once much of it was wanted; pure.

use std::collections::HashSet;

use base::ByteRange;
use store::GRANULE_BYTES;

use crate::falls::Falls;
use crate::habit::Habit;
use crate::readahead::{Ahead, Cursors, Follows, Found, Limits};

/// A file is hot when it would have come as a whole in the time that its readers have waited for parts of it.
/// A wait, with those for what is near that mostly follow, takes about this part of a second,
const WAITS_PER_SECOND: u64 = 4;
/// in which so many bytes come at least: an eighth of a file is worth the whole anywhere,
const WAIT_BYTES_MIN: u64 = 8 * GRANULE_BYTES;
/// and at most: a fast network alone does not make a file hot.
const WAIT_BYTES_MAX: u64 = 256 * GRANULE_BYTES;
/// Fewer waits say nothing.
const HOT_GRANULES_MIN: u64 = 4;

/// Larger files are never fetched as a whole because parts of them are hot.
const HOT_BYTES_MAX: u64 = 512 << 20;

/// Of a file that is looked at from its beginning, this part of it at its end is guessed: TIFF, ZIP, Parquet and
/// many others have tables there.
const TAIL_PART: u64 = 128;
const TAIL_BYTES_MAX: u64 = 8 * GRANULE_BYTES;
/// Smaller files are soon here anyway.
const TAIL_FROM_BYTES: u64 = TAIL_PART * GRANULE_BYTES;

/// What to fetch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// This.
    Ahead(Ahead),
    /// All that is missing, if the cache has room for it.
    Whole(Ahead),
}

/// How a file is read.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    cursors: Cursors,
    falls: Falls,
    habit: Habit,
    /// Jumps wanted these granules, and they were not here. Streams want no more than they read.
    missed: HashSet<u64>,
    /// Whether it was ever read; the first read goes on with no stream.
    is_begun: bool,
}

impl Reads {
    /// Accounts for one read of a file of `size` bytes.
    pub(crate) fn on_read(
        &mut self,
        (read, found): (ByteRange, Found),
        size: u64,
        limits: Limits,
    ) -> Vec<Wish> {
        match self.cursors.on_read((read, found), size, limits) {
            Follows::Stream(ahead) => {
                self.habit.went_on(read);
                ahead.map(Wish::Ahead).into_iter().collect()
            }
            Follows::Behind => {
                self.habit.went_on(read);
                self.falls.on_read(read, limits).into_iter().map(Wish::Ahead).collect()
            }
            Follows::None => self.on_jump((read, found), size, limits),
        }
    }

    fn on_jump(
        &mut self,
        (read, found): (ByteRange, Found),
        size: u64,
        limits: Limits,
    ) -> Vec<Wish> {
        let ahead = |range| Ahead { range, piece_bytes: limits.piece_bytes_min };
        let guesses = self.habit.jumped(read, size).into_iter();
        let tail = self.tail(read, size);
        let below = self.falls.on_read(read, limits);
        let mut wishes: Vec<_> =
            guesses.chain(tail).map(ahead).chain(below).map(Wish::Ahead).collect();
        if found == Found::Missing && self.warms(read, size, limits) {
            // There may be no room for it, or not for long: then it is hot again as late as now.
            self.missed.clear();
            // In small pieces: who wants one of them does not wait for a large one.
            wishes.extend(ByteRange::new(0, size).map(|all| Wish::Whole(ahead(all))));
        }
        wishes
    }

    /// The end of a large file, if this read is the first one and at the beginning.
    fn tail(&mut self, read: ByteRange, size: u64) -> Option<ByteRange> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if !is_first || GRANULE_BYTES <= read.start() || size < TAIL_FROM_BYTES {
            return None;
        }
        ByteRange::new(size - (size / TAIL_PART).min(TAIL_BYTES_MAX), size)
    }

    /// Whether the file becomes hot by this read of what is not here.
    fn warms(&mut self, read: ByteRange, size: u64, limits: Limits) -> bool {
        if HOT_BYTES_MAX < size {
            return false;
        }
        let end = read.end().min(size).div_ceil(GRANULE_BYTES);
        self.missed.extend(read.start() / GRANULE_BYTES..end);
        let missed = self.missed.len() as u64;
        // The window is what comes in a second.
        let wait_bytes = limits.window_bytes_max / WAITS_PER_SECOND;
        let wait_bytes = wait_bytes.clamp(WAIT_BYTES_MIN, WAIT_BYTES_MAX);
        HOT_GRANULES_MIN <= missed && size <= missed * wait_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use base::ByteRange;
    use store::GRANULE_BYTES;

    use super::{HOT_BYTES_MAX, Reads, Wish};
    use crate::readahead::{Found, Limits};

    const MIB: u64 = 1 << 20;
    const LIMITS: Limits = Limits {
        window_bytes_min: MIB / 2,
        window_bytes_max: 64 * MIB,
        piece_bytes_min: MIB,
        piece_bytes_max: 8 * MIB,
        granule_bytes: GRANULE_BYTES,
    };

    /// Reads single granules anywhere; after how many all was wished for.
    fn hot_after(size: u64, found: Found, second_bytes: u64) -> Option<u64> {
        let mut reads = Reads::default();
        let limits = Limits { window_bytes_max: second_bytes, ..LIMITS };
        (1..=size / GRANULE_BYTES).find(|number| {
            let granule = number * 7919 % (size / GRANULE_BYTES);
            let read = ByteRange::at(granule * GRANULE_BYTES, 4096).unwrap();
            let wishes = reads.on_read((read, found), size, limits);
            wishes.iter().any(|wish| matches!(wish, Wish::Whole(_)))
        })
    }

    #[test]
    fn a_file_is_wanted_whole_when_it_would_have_come_while_its_parts_were_waited_for() {
        let (size, small) = (1024 * GRANULE_BYTES, 8 * GRANULE_BYTES);
        let large = 4 * size;
        assert_eq!(hot_after(large, Found::Missing, 128 * MIB), Some(16));
        assert_eq!(hot_after(large, Found::Missing, 1024 * MIB), Some(16));
        assert_eq!(hot_after(size, Found::Missing, 64 * MIB), Some(8));
        assert_eq!(hot_after(size, Found::Missing, MIB), Some(128), "an eighth of it");
        assert_eq!(hot_after(small, Found::Missing, MIB), Some(4));
        assert_eq!(hot_after(size, Found::Here, 128 * MIB), None);
        assert_eq!(hot_after(HOT_BYTES_MAX + GRANULE_BYTES, Found::Missing, 128 * MIB), None);
    }

    #[test]
    fn what_was_wanted_whole_and_is_missed_again_is_wanted_whole_again() {
        let (mut reads, size) = (Reads::default(), 1024 * GRANULE_BYTES);
        let mut wholes = Vec::new();
        for number in 1..=512 {
            let read = ByteRange::at(number * 7919 % 1024 * GRANULE_BYTES, 4096).unwrap();
            let wishes = reads.on_read((read, Found::Missing), size, LIMITS);
            if wishes.iter().any(|wish| matches!(wish, Wish::Whole(_))) {
                wholes.push(number);
            }
        }
        assert_eq!(wholes.first(), Some(&8));
        assert!(wholes.windows(2).all(|two| two[1] - two[0] == 8), "{wholes:?}");
    }

    #[test]
    fn a_small_file_that_was_evicted_is_read_ahead_as_at_first() {
        for size in [MIB, 4 * MIB, 9 * MIB / 2] {
            let mut reads = Reads::default();
            for pass in 0..6 {
                let mut here = HashSet::new();
                let mut waits = 0;
                for granule in 0..size / GRANULE_BYTES {
                    let read = ByteRange::at(granule * GRANULE_BYTES, GRANULE_BYTES).unwrap();
                    let found = if here.contains(&granule) { Found::Here } else { Found::Missing };
                    waits += u32::from(found == Found::Missing);
                    for wish in reads.on_read((read, found), size, LIMITS) {
                        let (Wish::Ahead(ahead) | Wish::Whole(ahead)) = wish;
                        let (start, end) = (ahead.range.start(), ahead.range.end());
                        here.extend(start / GRANULE_BYTES..end.div_ceil(GRANULE_BYTES));
                    }
                }
                assert!(waits <= 2, "{waits} waits in pass {pass} of {size} bytes");
            }
        }
    }

    /// What is guessed when a file of `size` bytes is read first at `first`, and then at its beginning.
    fn guessed_at_first(size: u64, first: u64) -> Vec<ByteRange> {
        let mut reads = Reads::default();
        let mut on_read = |at: u64| {
            let read = ByteRange::at(at, 4096).unwrap();
            reads.on_read((read, Found::Missing), size, LIMITS)
        };
        let wishes = on_read(first).into_iter().chain(on_read(0));
        wishes
            .filter_map(|wish| if let Wish::Ahead(ahead) = wish { Some(ahead.range) } else { None })
            .collect()
    }

    #[test]
    fn who_begins_at_the_beginning_of_a_large_file_is_guessed_to_look_at_its_end() {
        let end = |size: u64, bytes: u64| vec![ByteRange::new(size - bytes, size).unwrap()];
        assert_eq!(guessed_at_first(16 * MIB, 100), end(16 * MIB, GRANULE_BYTES));
        assert_eq!(guessed_at_first(64 * MIB, 0), end(64 * MIB, MIB / 2));
        assert_eq!(guessed_at_first(4096 * MIB, 0), end(4096 * MIB, MIB), "a little of it");
        assert_eq!(guessed_at_first(15 * MIB, 0), []);
        assert_eq!(guessed_at_first(64 * MIB, 32 * MIB), []);
    }

    /// As a viewer of slides reads the coarsest level: each tile from its header on, the last tile first.
    #[test]
    fn tiles_read_from_the_last_to_the_first_are_waited_for_at_the_beginning_only() {
        let (mut reads, size, tile) = (Reads::default(), 1024 * MIB, 94_208);
        let mut here = HashSet::new();
        let mut waits = 0;
        for number in 1..=60 {
            let header = size - number * tile;
            for (at, len) in [(header, 4096), (header + 4096, tile - 4096)] {
                let read = ByteRange::at(at, len).unwrap();
                let granules = |range: ByteRange| {
                    range.start() / GRANULE_BYTES..range.end().div_ceil(GRANULE_BYTES)
                };
                let news = granules(read).filter(|granule| here.insert(*granule)).count();
                waits += news;
                let found = if news == 0 { Found::Here } else { Found::Missing };
                for wish in reads.on_read((read, found), size, LIMITS) {
                    let (Wish::Ahead(ahead) | Wish::Whole(ahead)) = wish;
                    here.extend(granules(ahead.range));
                }
            }
        }
        assert!(waits <= 5, "{waits}");
    }

    #[test]
    fn equal_jumps_are_guessed_as_wide_as_the_reads() {
        let (mut reads, size) = (Reads::default(), 4096 * MIB);
        let mut last = Vec::new();
        for step in 0..10 {
            let read = ByteRange::at(step * 17 * MIB + 100_000, 64 << 10).unwrap();
            last = reads.on_read((read, Found::Missing), size, LIMITS);
        }
        let Some(Wish::Ahead(next)) = last.first() else { panic!("nothing is guessed") };
        assert_eq!(next.range, ByteRange::at(170 * MIB, 256 << 10).unwrap(), "two granules");
        assert_eq!(last.len(), 8);
    }
}
