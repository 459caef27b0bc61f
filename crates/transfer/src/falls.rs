//! Streams that go backwards; pure.
//!
//! Tiles of an image are often read from the last to the first, each of them forwards. To [`Cursors`] that is a
//! jump a tile, and [`Habit`] takes it for one place that grows. So the lowest granule is followed: where it has
//! gone down a little several times, it goes on, and a multiple of the way that it went is fetched below it, as
//! above a stream that goes forwards; what comes next comes first.
//!
//! ```text
//!   reads              8        6        4        2
//!                       9        7        5        3
//!            ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒███████████████████
//!                 window         │ run
//!                               low
//! ```
//!
//! [`Cursors`]: crate::readahead::Cursors
//! [`Habit`]: crate::habit::Habit

use std::collections::VecDeque;

use base::ByteRange;

use crate::readahead::{Ahead, Limits, WINDOW_PER_RUN};

/// Several readers may use one file.
const FALLS_MAX: usize = 4;
/// A tile has at most so many granules, and the next one begins no lower than that.
const STEP_MAX: u64 = 2;
/// Fewer steps down are a row of a few tiles.
const STEPS_MIN: u32 = 3;

/// The backward streams through one file.
#[derive(Debug, Default)]
pub(crate) struct Falls {
    /// The one that moved last is last.
    falls: VecDeque<Fall>,
}

/// In granules.
#[derive(Clone, Copy, Debug)]
struct Fall {
    /// Where it began.
    top: u64,
    /// Where it has got to.
    low: u64,
    /// How often it went down.
    steps: u32,
    /// Down to where fetching has been asked for.
    ahead: u64,
}

impl Falls {
    /// `read` is at no place where a forward stream goes on: a backward one may be there, or begin. Returns what
    /// to fetch for it, what comes next first.
    pub(crate) fn on_read(&mut self, read: ByteRange, limits: Limits) -> Vec<Ahead> {
        let at = read.start() / limits.granule_bytes;
        let is_near = |fall: &Fall| fall.low <= at + STEP_MAX && at <= fall.low + STEP_MAX;
        let known = self.falls.iter().rposition(is_near).and_then(|index| self.falls.remove(index));
        if self.falls.len() == FALLS_MAX {
            self.falls.pop_front();
        }
        let top = read.end().div_ceil(limits.granule_bytes);
        let mut fall = known.unwrap_or(Fall { top, low: at, steps: 0, ahead: at });
        let below = fall.goes_to(at, limits);
        self.falls.push_back(fall);
        below.map(|range| from_above(range, limits.piece_bytes_min)).unwrap_or_default()
    }
}

impl Fall {
    /// It is read at the granule `at`; what to fetch.
    fn goes_to(&mut self, at: u64, limits: Limits) -> Option<ByteRange> {
        if self.low <= at {
            return None;
        }
        (self.low, self.steps) = (at, self.steps + 1);
        self.ahead = self.ahead.min(at);
        if self.steps < STEPS_MIN {
            return None;
        }
        let run_bytes = (self.top - self.low) * limits.granule_bytes;
        let window_bytes =
            (run_bytes * WINDOW_PER_RUN).clamp(limits.window_bytes_min, limits.window_bytes_max);
        let window = window_bytes / limits.granule_bytes;
        // Half a window at least: a steady reader causes few looks at what is missing.
        if self.ahead == 0 || window / 2 < self.low - self.ahead {
            return None;
        }
        let down_to = self.low.saturating_sub(window);
        let (start, end) = (down_to * limits.granule_bytes, self.ahead * limits.granule_bytes);
        self.ahead = self.ahead.min(down_to);
        ByteRange::new(start, end)
    }
}

/// `range` in pieces, the highest first.
fn from_above(range: ByteRange, piece_bytes: u64) -> Vec<Ahead> {
    let mut pieces: Vec<_> =
        range.pieces(piece_bytes).map(|range| Ahead { range, piece_bytes }).collect();
    pieces.reverse();
    pieces
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use base::ByteRange;

    use super::Falls;
    use crate::readahead::Limits;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GRANULE: u64 = 128 * KIB;
    const LIMITS: Limits = Limits {
        window_bytes_min: 512 * KIB,
        window_bytes_max: 64 * MIB,
        piece_bytes_min: MIB,
        piece_bytes_max: 8 * MIB,
        granule_bytes: GRANULE,
    };

    /// Jumps to these offsets; how many granules of them had not come, each waited for, and how many were
    /// fetched in all.
    fn waited(jumps: impl IntoIterator<Item = u64>) -> (usize, usize) {
        let (mut falls, mut here, mut waits) = (Falls::default(), HashSet::new(), 0);
        for at in jumps {
            waits += usize::from(here.insert(at / GRANULE));
            let ahead = falls.on_read(ByteRange::at(at, 4 * KIB).unwrap(), LIMITS);
            let from_above = ahead.windows(2).all(|two| two[1].range.end() == two[0].range.start());
            assert!(from_above, "{ahead:?}");
            let fetched = ahead.into_iter().map(|ahead| ahead.range);
            here.extend(
                fetched.flat_map(|range| range.start() / GRANULE..range.end().div_ceil(GRANULE)),
            );
        }
        (waits, here.len())
    }

    fn down(from: u64, count: u64, step: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |number| from - number * step)
    }

    #[test]
    fn tiles_read_from_the_last_to_the_first_are_waited_for_at_the_beginning_only() {
        for tile in [16 * KIB, 96 * KIB, 200 * KIB, 256 * KIB] {
            assert_eq!(waited(down(1000 * MIB, 10_000 * KIB / tile, tile)).0, 4, "{tile}");
        }
    }

    #[test]
    fn no_more_is_fetched_below_than_a_few_times_what_was_read() {
        let (_, fetched) = waited(down(1000 * MIB, 100, GRANULE));
        assert!(fetched <= 500, "{fetched}");
        let (_, fetched) = waited(down(1000 * MIB, 5000, GRANULE));
        assert!(fetched <= 5000 + 512, "{fetched}");
    }

    #[test]
    fn the_beginning_of_the_file_is_the_end() {
        assert_eq!(waited(down(20 * GRANULE, 21, GRANULE)), (4, 21));
    }

    #[test]
    fn several_who_go_backwards_are_told_from_each_other() {
        let ways = (0..60)
            .flat_map(|number| [100, 300, 500, 700].map(|place| place * MIB - number * 96 * KIB));
        assert_eq!(waited(ways).0, 4 * 4);
    }

    #[test]
    fn who_looks_here_and_there_meanwhile_does_not_stop_it() {
        let ways =
            (0..60).flat_map(|number| [700 * MIB - number * 96 * KIB, number * 31 * MIB % 600]);
        let looks: HashSet<u64> = (0..60).map(|number| number * 31 * MIB % 600 / GRANULE).collect();
        assert_eq!(waited(ways).0, 4 + looks.len());
    }

    #[test]
    fn rows_of_a_few_tiles_streams_and_jumps_have_nothing_fetched_below_them() {
        let rows = (1..60).flat_map(|row| down(row * 17 * MIB, 3, 96 * KIB));
        let jumps = (0..500).map(|number| number * 7_919_123 % (900 * MIB));
        let forwards = (0..500).map(|number| number * 100 * KIB);
        for jumps in [rows.collect::<Vec<_>>(), jumps.collect(), forwards.collect()] {
            let wanted: HashSet<u64> = jumps.iter().map(|at| at / GRANULE).collect();
            assert_eq!(waited(jumps).1, wanted.len());
        }
    }
}
