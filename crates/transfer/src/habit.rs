//! Where a reader who jumps through a file goes next, judged by where he went before; pure.
//!
//! A place is where he jumps to, with all that he reads near it before he goes far. Tiles of an image are read in
//! rows, from right to left often, and a row of tiles is a place; the same tiles of the next row are about as far
//! from it as the row after that is from them. So two things are learnt: how far a place reaches on both sides of
//! where it begins, and how far it is from one place to the next, if that is about the same mostly. Nothing is
//! guessed of who jumps anywhere.
//!
//! ```text
//!   reads     321            654            987                          321
//!   places    ███            ███            ███                          ███
//!               └────step────┴┴────step────┴┴─────────elsewhere─────────┘
//! ```

use std::collections::VecDeque;

use base::ByteRange;
use store::GRANULE_BYTES;

/// Places that are remembered.
const PLACES: usize = 16;
/// So many of them, the newest, may still be read on: several readers may use one file.
const OPEN: usize = 4;
/// A read is at a place if it is at most so many granules from it,
const NEAR: u64 = 8;
/// and the place no longer for it.
const SPAN_MAX: u64 = 16;
/// Fewer places, or steps, say nothing.
const TIMES_MIN: usize = 4;
/// Steps that differ by so many granules are alike, and by fewer where they are short.
const SPREAD_MAX: u64 = 4;
/// They differ by at most this part of them.
const SPREAD_PART: u64 = 32;
/// What is guessed ahead at most.
const STEPS_MAX: usize = 8;

/// The last places.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// The newest last.
    places: VecDeque<Place>,
}

/// What was read near one another, in granules.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Where it began.
    first: u64,
    start: u64,
    end: u64,
}

/// How far places reach, in granules.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    before: u64,
    /// From where they begin.
    after: u64,
}

/// The usual step from a place to the next, in granules.
#[derive(Clone, Copy, Debug)]
struct Stride {
    distance: i64,
    /// By how many granules others like it differ.
    spread: u64,
    /// How many are likely to come.
    ahead: usize,
}

impl Place {
    fn of(read: ByteRange) -> Place {
        let first = read.start() / GRANULE_BYTES;
        Place { first, start: first, end: read.end().div_ceil(GRANULE_BYTES) }
    }

    /// Takes in what is near.
    fn takes(&mut self, read: Place) -> bool {
        let (start, end) = (self.start.min(read.start), self.end.max(read.end));
        let is_near = self.start <= read.start + NEAR && read.start <= self.end + NEAR;
        if is_near && end - start <= SPAN_MAX.max(self.end - self.start) {
            (self.start, self.end) = (start, end);
            return true;
        }
        false
    }
}

impl Habit {
    /// `read`, of a file of `size` bytes, goes on with no stream; returns what is likely to be read next, nearest
    /// first.
    pub(crate) fn jumped(&mut self, read: ByteRange, size: u64) -> Vec<ByteRange> {
        let place = Place::of(read);
        if self.went_on(read) {
            return Vec::new();
        }
        if self.places.len() == PLACES {
            self.places.pop_front();
        }
        self.places.push_back(place);
        let Reach { before, after } = self.reach();
        let after = after.max(place.end - place.first);
        let range = |at: u64, spread: u64| {
            let end = (at + after + spread) * GRANULE_BYTES;
            ByteRange::new(at.saturating_sub(before + spread) * GRANULE_BYTES, end)?.below(size)
        };
        let here = range(place.first, 0).filter(|_| 0 < before || place.end < place.first + after);
        let Some(Stride { distance, spread, ahead }) = self.stride() else {
            return here.into_iter().collect();
        };
        let next = (1_i64..).take(ahead.min(STEPS_MAX)).map_while(|step| {
            let at = place.first.checked_add_signed(distance * step)?;
            (at * GRANULE_BYTES < size).then(|| range(at, spread))?
        });
        here.into_iter().chain(next).collect()
    }

    /// `read` goes on with a stream, at one of the last places mostly; whether it does.
    pub(crate) fn went_on(&mut self, read: ByteRange) -> bool {
        let place = Place::of(read);
        self.places.iter_mut().rev().take(OPEN).any(|open| open.takes(place))
    }

    /// How far three of four places reached before this one.
    fn reach(&self) -> Reach {
        let places = self.places.len().saturating_sub(1);
        if places < TIMES_MIN {
            return Reach::default();
        }
        let most = |of: fn(&Place) -> u64| {
            let mut all: Vec<u64> = self.places.iter().take(places).map(of).collect();
            all.sort_unstable();
            all[(places - 1) * 3 / 4]
        };
        Reach {
            before: most(|place| place.first - place.start),
            after: most(|place| place.end - place.first),
        }
    }

    /// The step that half of the last ones were like.
    fn stride(&self) -> Option<Stride> {
        let firsts = || self.places.iter().map(|place| place.first.cast_signed());
        let steps: Vec<i64> = firsts().zip(firsts().skip(1)).map(|(from, to)| to - from).collect();
        let like = |distance: i64| move |step: &&i64| is_like(**step, distance);
        let times = |distance: i64| steps.iter().filter(like(distance)).count();
        let counted = steps.iter().map(|&distance| (distance, times(distance)));
        let (distance, times) = counted.max_by_key(|&(_, times)| times)?;
        if times < TIMES_MIN || times * 2 < steps.len() {
            return None;
        }
        let spread =
            steps.iter().filter(like(distance)).map(|step| step.abs_diff(distance)).max()?;
        Some(Stride {
            distance,
            spread,
            ahead: ahead(steps.iter().map(|step| is_like(*step, distance))),
        })
    }
}

fn is_like(step: i64, distance: i64) -> bool {
    step.abs_diff(distance) <= (distance.unsigned_abs() / SPREAD_PART).min(SPREAD_MAX)
}

/// How many usual steps are likely to come, where `steps` tells of the last ones whether they were: as many as
/// make it as many in a row as it was before; and where it was always, as many as there were.
fn ahead(steps: impl Iterator<Item = bool>) -> usize {
    let (mut rows, mut in_rows, mut row) = (0, 0, 0_usize);
    for is_usual in steps {
        if is_usual {
            row += 1;
        } else if 0 < row {
            (rows, in_rows, row) = (rows + 1, in_rows + row, 0);
        }
    }
    if rows == 0 {
        return row;
    }
    // Beyond what was usual it is one at a time.
    let mean = in_rows.div_ceil(rows);
    if row <= mean { mean - row } else { 1 }
}

#[cfg(test)]
mod tests {
    use base::ByteRange;
    use store::GRANULE_BYTES;

    use super::Habit;

    const SIZE: u64 = 10_000 * GRANULE_BYTES;

    /// Reads that begin in these granules; how many of them were guessed, and how many guesses there were.
    fn guessed(granules: impl IntoIterator<Item = u64>) -> (usize, usize) {
        let (mut habit, mut all, mut right) = (Habit::default(), Vec::new(), 0);
        for granule in granules {
            right += usize::from(all.contains(&granule));
            let read = ByteRange::at(granule * GRANULE_BYTES + 7, 1000).unwrap();
            for range in habit.jumped(read, SIZE) {
                let guesses = range.start() / GRANULE_BYTES..range.end().div_ceil(GRANULE_BYTES);
                let news = guesses.filter(|guess| *guess != granule && !all.contains(guess));
                all.extend(news.collect::<Vec<_>>());
            }
        }
        (right, all.len())
    }

    /// Some place, and others.
    fn anywhere() -> impl Iterator<Item = u64> {
        let mut at = 1_u64;
        std::iter::repeat_with(move || {
            at = at * 48_271 % 0x7fff_ffff;
            at % 9000 + 500
        })
    }

    #[test]
    fn equal_steps_are_guessed_in_both_directions() {
        assert_eq!(guessed((0..64).map(|step| step * 136)), (59, 67));
        let (right, all) = guessed((0..64).map(|step| 9000 - step * 136));
        assert_eq!((right, all), (59, 62), "the file begins at 0");
    }

    #[test]
    fn tiles_read_from_right_to_left_in_three_rows_are_guessed_from_the_first_of_them() {
        let tiles = anywhere().take(20).flat_map(|place| {
            (0..3).flat_map(move |row| (0..4).map(move |tile| place - row * 35 - tile))
        });
        let (right, all) = guessed(tiles);
        assert!(200 <= right && all <= 220, "{right} of {all}");
    }

    #[test]
    fn rows_that_are_not_quite_as_long_as_others_are_guessed_with_what_is_beside_them() {
        let tiles = anywhere().take(20).flat_map(|place| {
            // Some rows of the image take a granule more than others.
            let row = move |row: u64| place + row * 110 + place * row % 3;
            (0..3).flat_map(move |at| (0..3).map(move |tile| row(at) - tile))
        });
        let (right, all) = guessed(tiles);
        assert!(140 <= right && all <= 400, "{right} of {all}");
    }

    #[test]
    fn who_reads_a_file_backwards_is_met_by_guesses() {
        let (right, all) = guessed((0..500).map(|read| 6000 - read));
        assert!(400 <= right && all <= 640, "{right} of {all}");
    }

    #[test]
    fn readers_of_several_places_in_turns_do_not_cut_each_other_short() {
        let places: Vec<u64> = anywhere().take(40).collect();
        let in_turns = places
            .chunks(2)
            .flat_map(|two| (0..4).flat_map(move |tile| two.iter().map(move |place| place - tile)));
        let (right, all) = guessed(in_turns);
        assert!(95 <= right && all <= 130, "{right} of {all}");
    }

    #[test]
    fn who_jumps_anywhere_is_not_guessed() {
        assert_eq!(guessed((0..200_u64).map(|read| read * read * 31 % 9973)).1, 0);
        assert_eq!(guessed(anywhere().take(200)).1, 0);
    }
}
