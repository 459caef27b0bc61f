//! What failed for good while nobody waited for it: told to who waits for its place, until one of them has heard it.

use std::collections::VecDeque;

/// Failures that are remembered.
const FAILURES_MAX: usize = 1024;

/// Failures that nobody was told of yet. Places are paths from the root, with slashes between the names.
#[derive(Debug, Default)]
pub struct Unheard {
    // Never more than `FAILURES_MAX`, the oldest first.
    failures: VecDeque<Failure>,
    /// How many more there were.
    forgotten: u64,
    /// The number of the last of these.
    forgotten_at: u64,
    /// The number of the last failure.
    last: u64,
}

#[derive(Debug)]
struct Failure {
    /// Grows from one to the next.
    number: u64,
    /// Where it happened. Only who waits for everything hears of what happened nowhere.
    places: Vec<Vec<u8>>,
    reason: String,
}

impl Unheard {
    /// Something failed at `places` for `reason`.
    pub fn add(&mut self, places: Vec<Vec<u8>>, reason: String) {
        self.last += 1;
        if self.failures.len() < FAILURES_MAX {
            self.failures.push_back(Failure { number: self.last, places, reason });
        } else {
            self.forgotten += 1;
            self.forgotten_at = self.last;
        }
    }

    /// Whether something failed at `top` or below it. What is not remembered may have.
    pub fn has_below(&self, top: &[u8]) -> bool {
        0 < self.forgotten || self.failures.iter().any(|failure| failure.is_below(top))
    }

    /// What failed at `top` or below it, each with a number to be [`heard`](Unheard::heard) by. Of what there was no room
    /// for, somebody hears all the same: who asks first.
    pub fn below(&self, top: &[u8]) -> Vec<(u64, String)> {
        let told = self.failures.iter().filter(|failure| failure.is_below(top));
        let told = told.map(|failure| (failure.number, failure.reason.clone()));
        let forgotten = match self.forgotten {
            0 => None,
            more => Some(format!("{more} more failure(s), at places that are not remembered")),
        };
        told.chain(forgotten.map(|words| (self.forgotten_at, words))).collect()
    }

    /// Somebody has heard what was told with this number, so that nobody is told it again.
    pub fn heard(&mut self, number: u64) {
        self.failures.retain(|failure| failure.number != number);
        // If there are more by now, all of them are told again.
        if self.forgotten_at == number {
            self.forgotten = 0;
        }
    }
}

impl Failure {
    fn is_below(&self, top: &[u8]) -> bool {
        let is_below = |place: &Vec<u8>| {
            let rest = place.strip_prefix(top);
            rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
        };
        top.is_empty() || self.places.iter().any(is_below)
    }
}

#[cfg(test)]
mod tests {
    use super::{FAILURES_MAX, Unheard};

    fn add(unheard: &mut Unheard, places: &[&str], reason: &str) {
        let places = places.iter().map(|place| place.as_bytes().to_vec()).collect();
        unheard.add(places, reason.to_owned());
    }

    /// What is told who waits for `top`, and hears it.
    fn hear(unheard: &mut Unheard, top: &[u8]) -> Vec<String> {
        let told = unheard.below(top);
        assert_eq!(unheard.below(top), told, "nobody has heard it");
        let hear = |(number, reason)| {
            unheard.heard(number);
            reason
        };
        told.into_iter().map(hear).collect()
    }

    #[test]
    fn each_failure_is_heard_once_and_by_who_waits_for_its_place() {
        let mut unheard = Unheard::default();
        add(&mut unheard, &["a/b"], "one");
        add(&mut unheard, &["a", "c"], "two");
        add(&mut unheard, &["ab"], "three");
        add(&mut unheard, &[], "nowhere");
        assert!(!unheard.has_below(b"a/b/c") && !unheard.has_below(b"b"));
        assert_eq!(hear(&mut unheard, b"a/b/c"), Vec::<String>::new());
        assert!(unheard.has_below(b"c"));
        assert_eq!(hear(&mut unheard, b"a"), ["one", "two"]);
        assert!(!unheard.has_below(b"a") && !unheard.has_below(b"c") && unheard.has_below(b""));
        assert_eq!(hear(&mut unheard, b""), ["three", "nowhere"]);
        assert_eq!(hear(&mut unheard, b""), Vec::<String>::new());
    }

    #[test]
    fn of_what_there_is_no_room_for_who_asks_first_hears() {
        let mut unheard = Unheard::default();
        for _ in 0..FAILURES_MAX + 2 {
            add(&mut unheard, &["a"], "one");
        }
        assert!(unheard.has_below(b"b"), "it may have been there");
        let (early, _) = unheard.below(b"b").remove(0);
        add(&mut unheard, &["a"], "one");
        unheard.heard(early);
        let told = hear(&mut unheard, b"b");
        assert!(told.len() == 1 && told[0].starts_with("3 more"), "{told:?}");
        assert!(!unheard.has_below(b"b"));
        assert_eq!(hear(&mut unheard, b"a").len(), FAILURES_MAX);
        assert_eq!(hear(&mut unheard, b""), Vec::<String>::new());
    }
}
