//! A set of granules of one file, as it was at one moment.

use base::ByteRange;

use crate::granule::{self, GRANULE_BYTES};

/// Granules of a file up to some place in it, which may be within one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GranuleSet {
    // Nothing at or beyond this is in the set.
    end: u64,
    // Granule 0 is the lowest bit of the first word. Shorter than `end` demands if nothing follows.
    words: Vec<u64>,
}

impl GranuleSet {
    /// All of the first `end` bytes.
    pub(crate) fn all_of(end: u64) -> GranuleSet {
        GranuleSet { end, words: vec![u64::MAX; words(end)] }
    }

    /// The first `end` bytes but for the granules that `taken` touches.
    #[cfg(feature = "testing")]
    pub fn without(end: u64, taken: &[ByteRange]) -> GranuleSet {
        let mut set = GranuleSet::all_of(end);
        for granule in taken.iter().flat_map(|range| granule::touched(*range)) {
            set.remove(granule);
        }
        set
    }

    /// Takes a granule out of the set; one beyond its end is not in it anyway.
    pub(crate) fn remove(&mut self, granule: u64) {
        if let Some(word) = self.words.get_mut(granule::index(granule / 64)) {
            *word &= !(1 << (granule % 64));
        }
    }

    /// The first run of bytes of `range` that is in the set.
    pub fn first_run(&self, range: ByteRange) -> Option<ByteRange> {
        let range = range.below(self.end)?;
        let mut granules = granule::touched(range);
        let first = granules.find(|&granule| self.has(granule))?;
        let end = granules.find(|&granule| !self.has(granule)).unwrap_or(granules.end);
        ByteRange::new(first * GRANULE_BYTES, end * GRANULE_BYTES)?.intersection(range)
    }

    /// The first run of bytes of `range` that is not in the set.
    pub fn first_gap(&self, range: ByteRange) -> Option<ByteRange> {
        let mut granules = granule::touched(range);
        let first = granules.find(|&granule| !self.has_to(granule, range.end()))?;
        // Of the granule in which the set ends a part may be in it.
        let from = if self.has(first) { self.end } else { first * GRANULE_BYTES };
        let end = granules.find(|&granule| self.has(granule)).unwrap_or(granules.end);
        ByteRange::new(from, end * GRANULE_BYTES)?.intersection(range)
    }

    /// Whether all of `range` is in the set.
    pub fn has_all(&self, range: ByteRange) -> bool {
        range.end() <= self.end && granule::touched(range).all(|granule| self.has(granule))
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        ByteRange::new(0, self.end).and_then(|all| self.first_run(all)).is_none()
    }

    fn has(&self, granule: u64) -> bool {
        let word = self.words.get(granule::index(granule / 64));
        granule * GRANULE_BYTES < self.end
            && word.is_some_and(|word| word & (1 << (granule % 64)) != 0)
    }

    /// Whether the granule is in the set, as far as it is below `end`.
    fn has_to(&self, granule: u64, end: u64) -> bool {
        self.has(granule) && end.min((granule + 1) * GRANULE_BYTES) <= self.end
    }
}

fn words(end: u64) -> usize {
    granule::index(granule::count(end).div_ceil(64))
}

#[cfg(test)]
mod tests {
    use base::ByteRange;
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    use super::GranuleSet;
    use crate::granule::GRANULE_BYTES;

    #[test]
    fn a_set_that_ends_within_a_granule_has_a_part_of_it() {
        let set = GranuleSet::all_of(GRANULE_BYTES + 10);
        let range = |start, end| ByteRange::new(start, end).unwrap();
        assert_eq!(set.first_gap(range(5, 3 * GRANULE_BYTES)).unwrap().start(), GRANULE_BYTES + 10);
        assert_eq!(set.first_run(range(5, 3 * GRANULE_BYTES)), Some(range(5, GRANULE_BYTES + 10)));
        assert!(set.has_all(range(0, GRANULE_BYTES + 10)));
        assert!(!set.has_all(range(0, GRANULE_BYTES + 11)));
    }

    proptest! {
        #[test]
        fn runs_and_gaps_are_what_the_bits_say(
            taken in prop::collection::vec(0..200_u64, 0..150),
            // In quarters of granules.
            (end, from, len) in (0..800_u64, 0..900_u64, 1..300_u64),
        ) {
            const QUARTER: u64 = GRANULE_BYTES / 4;
            let mut set = GranuleSet::all_of(end * QUARTER);
            for &granule in &taken {
                set.remove(granule);
            }
            let has = |quarter: u64| quarter < end && !taken.contains(&(quarter / 4));
            let range = ByteRange::at(from * QUARTER, len * QUARTER).unwrap();
            let run = |wanted: bool| {
                let first = (from..from + len).find(|&at| has(at) == wanted)?;
                let last = (first..from + len).find(|&at| has(at) != wanted).unwrap_or(from + len);
                ByteRange::new(first * QUARTER, last * QUARTER)
            };
            prop_assert_eq!(set.first_run(range), run(true));
            prop_assert_eq!(set.first_gap(range), run(false));
            prop_assert_eq!(set.has_all(range), run(false).is_none());
        }
    }
}
