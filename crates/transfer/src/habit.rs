//! Where a reader who jumps through a file goes next, judged by where he went before; pure.
//!
//! Tiles of an image are read from right to left or in columns, records at equal distances: of the last jumps
//! many are as far, and then the next one is likely to be, too. Nothing is guessed of who jumps anywhere.

use std::collections::VecDeque;

use store::GRANULE_BYTES;

/// Jumps that are remembered.
const JUMPS: usize = 16;
/// A distance is a habit when it is that of at least so many of them, and of half.
const TIMES_MIN: usize = 4;
/// What is guessed ahead at most.
const STEPS_MAX: usize = 8;

/// The last jumps.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// Distances in granules, the newest last.
    jumps: VecDeque<i64>,
    /// The granule of the last read that was not the next of a stream.
    at: Option<u64>,
}

impl Habit {
    /// A read that goes on with no stream begins at `offset`; returns the granules to guess, nearest first.
    pub(crate) fn jumped(&mut self, offset: u64, size: u64) -> Vec<u64> {
        let to = offset / GRANULE_BYTES;
        let from = self.at.replace(to);
        let Some(distance) = from.map(|from| to.cast_signed() - from.cast_signed()) else {
            return Vec::new();
        };
        // Within one granule nothing is to be fetched, and nothing is learnt.
        if distance != 0 {
            if self.jumps.len() == JUMPS {
                self.jumps.pop_front();
            }
            self.jumps.push_back(distance);
        }
        let Some((usual, times)) = self.usual() else { return Vec::new() };
        // The surer, the further: what is wrong half the time is guessed one step ahead.
        let in_a_row = self.jumps.iter().rev().take_while(|jump| **jump == usual).count();
        let steps = if times == self.jumps.len() { in_a_row.min(STEPS_MAX) } else { 1 };
        let granules = size.div_ceil(GRANULE_BYTES);
        let guess = |step: i64| to.checked_add_signed(usual * step);
        let guesses = (1_i64..).take(steps).map_while(guess);
        guesses.take_while(|granule| *granule < granules).collect()
    }

    /// The distance of half the jumps, and of how many.
    fn usual(&self) -> Option<(i64, usize)> {
        let times = |distance: i64| self.jumps.iter().filter(|jump| **jump == distance).count();
        let counted = self.jumps.iter().map(|&distance| (distance, times(distance)));
        let (usual, times) = counted.max_by_key(|&(_, times)| times)?;
        (TIMES_MIN <= times && self.jumps.len() <= times * 2).then_some((usual, times))
    }
}

#[cfg(test)]
mod tests {
    use store::GRANULE_BYTES;

    use super::Habit;

    const SIZE: u64 = 10_000 * GRANULE_BYTES;

    /// Reads that begin in these granules; how many of them were guessed, and how many guesses there were.
    fn guessed(granules: impl IntoIterator<Item = u64>) -> (usize, usize) {
        let (mut habit, mut all, mut right) = (Habit::default(), Vec::new(), 0);
        for granule in granules {
            right += usize::from(all.contains(&granule));
            let news = habit.jumped(granule * GRANULE_BYTES + 7, SIZE);
            all.extend(news.into_iter().filter(|guess| !all.contains(guess)).collect::<Vec<_>>());
        }
        (right, all.len())
    }

    #[test]
    fn equal_steps_are_guessed_in_both_directions() {
        assert_eq!(guessed((0..64).map(|step| step * 136)), (59, 67));
        let (right, all) = guessed((0..64).map(|step| 9000 - step * 136));
        assert_eq!((right, all), (59, 62), "the file begins at 0");
    }

    #[test]
    fn tiles_read_from_right_to_left_are_guessed_within_their_row() {
        // Three rows of four tiles, at twenty places.
        let places = (0..20_u64).map(|place| 4000 + place * 7919 % 5000);
        let tiles = places.flat_map(|place| {
            (0..3).flat_map(move |row| (0..4).map(move |tile| place - row * 35 - tile))
        });
        let (right, all) = guessed(tiles);
        assert!(170 <= right && all <= 240, "{right} of {all}");
    }

    #[test]
    fn who_jumps_anywhere_is_not_guessed() {
        assert_eq!(guessed((0..200_u64).map(|read| read * read * 31 % 9973)).1, 0);
        let (mut at, anywhere) = (1_u64, 200);
        let next = || {
            at = at * 48_271 % 0x7fff_ffff;
            at % 10_000
        };
        assert_eq!(guessed(std::iter::repeat_with(next).take(anywhere)).1, 0);
    }
}
