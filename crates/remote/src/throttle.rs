//! How many requests may be under way: as many as the store bears. Pure.
//!
//! A store that is asked too often says so, and who asks on as before is told so again. So the number is halved
//! when the store complains, once for all that were under way then, and grows by one each time that as many
//! as there may be have gone well: additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the
//! increase and decrease algorithms for congestion avoidance in computer networks", 1989).

/// The number, and what it is to become.
#[derive(Debug)]
pub(crate) struct Throttle {
    most: usize,
    number: usize,
    /// What ended well since the number changed.
    went_well: usize,
    epoch: Epoch,
}

/// The time between two cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl Throttle {
    /// As many as `most`, until the store complains.
    pub(crate) fn new(most: usize) -> Throttle {
        Throttle { most, number: most, went_well: 0, epoch: Epoch(0) }
    }

    /// How many there may be.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// When a request begins, which is told when it ends.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The store took a request for what it was.
    pub(crate) fn went_well(&mut self) {
        self.went_well += 1;
        if self.number <= self.went_well && self.number < self.most {
            self.number += 1;
            self.went_well = 0;
        }
    }

    /// The store said of a request that was begun in `begun` that there are too many.
    pub(crate) fn too_many(&mut self, begun: Epoch) {
        if begun != self.epoch {
            return;
        }
        self.epoch.0 += 1;
        self.number = (self.number / 2).max(1);
        self.went_well = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Throttle;

    #[test]
    fn complaints_of_one_time_halve_the_number_once() {
        let mut throttle = Throttle::new(64);
        let begun = throttle.epoch();
        for _ in 0..10 {
            throttle.too_many(begun);
        }
        assert_eq!(throttle.number(), 32);
        throttle.too_many(throttle.epoch());
        assert_eq!(throttle.number(), 16);
    }

    #[test]
    fn it_grows_by_one_a_round_up_to_the_most() {
        let mut throttle = Throttle::new(4);
        throttle.too_many(throttle.epoch());
        for want in [2, 3, 3, 3, 4, 4] {
            throttle.went_well();
            assert_eq!(throttle.number(), want);
        }
        for _ in 0..100 {
            throttle.went_well();
        }
        assert_eq!(throttle.number(), 4);
    }

    /// A store that bears so many requests at a time, and complains of all beyond.
    fn settled(most: usize, bears: usize) -> Vec<usize> {
        let mut throttle = Throttle::new(most);
        let rounds = (0..500).map(|_| {
            let (number, begun) = (throttle.number(), throttle.epoch());
            for request in 0..number {
                if request < bears { throttle.went_well() } else { throttle.too_many(begun) }
            }
            number
        });
        rounds.collect()
    }

    proptest! {
        #[test]
        fn it_stays_near_what_the_store_bears(most in 1..200_usize, bears in 1..200_usize) {
            let numbers = settled(most, bears);
            for number in &numbers[400..] {
                prop_assert!((1..=most.min(bears + 1)).contains(number));
                prop_assert!(most.min(bears) / 2 <= *number);
            }
        }
    }
}
