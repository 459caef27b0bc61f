//! What failed for good while nobody waited for it: told once, to who waits for its place next.

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
}

#[derive(Debug)]
struct Failure {
    /// Where it happened. Only who waits for everything hears of what happened nowhere.
    places: Vec<Vec<u8>>,
    reason: String,
}

impl Unheard {
    /// Something failed at `places` for `reason`.
    pub fn add(&mut self, places: Vec<Vec<u8>>, reason: String) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push_back(Failure { places, reason });
        } else {
            self.forgotten += 1;
        }
    }

    /// Whether something failed at `top` or below it. What is not remembered may have.
    pub fn has_below(&self, top: &[u8]) -> bool {
        0 < self.forgotten || self.failures.iter().any(|failure| failure.is_below(top))
    }

    /// What failed at `top` or below it, which is told now. Of what there was no room for, somebody hears all the
    /// same: who asks first.
    pub fn take_below(&mut self, top: &[u8]) -> Vec<String> {
        let all = std::mem::take(&mut self.failures);
        let (told, kept): (VecDeque<_>, _) =
            all.into_iter().partition(|failure| failure.is_below(top));
        self.failures = kept;
        let forgotten = match std::mem::take(&mut self.forgotten) {
            0 => None,
            more => Some(format!("{more} more failure(s), at places that are not remembered")),
        };
        told.into_iter().map(|failure| failure.reason).chain(forgotten).collect()
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

    #[test]
    fn each_failure_is_told_once_and_to_who_waits_for_its_place() {
        let mut unheard = Unheard::default();
        add(&mut unheard, &["a/b"], "one");
        add(&mut unheard, &["a", "c"], "two");
        add(&mut unheard, &["ab"], "three");
        add(&mut unheard, &[], "nowhere");
        assert!(!unheard.has_below(b"a/b/c") && !unheard.has_below(b"b"));
        assert_eq!(unheard.take_below(b"a/b/c"), Vec::<String>::new());
        assert!(unheard.has_below(b"c"));
        assert_eq!(unheard.take_below(b"a"), ["one", "two"]);
        assert!(!unheard.has_below(b"a") && !unheard.has_below(b"c") && unheard.has_below(b""));
        assert_eq!(unheard.take_below(b""), ["three", "nowhere"]);
        assert_eq!(unheard.take_below(b""), Vec::<String>::new());
    }

    #[test]
    fn of_what_there_is_no_room_for_who_asks_first_hears() {
        let mut unheard = Unheard::default();
        for _ in 0..FAILURES_MAX + 2 {
            add(&mut unheard, &["a"], "one");
        }
        assert!(unheard.has_below(b"b"), "it may have been there");
        let told = unheard.take_below(b"b");
        assert!(told.len() == 1 && told[0].starts_with("2 more"), "{told:?}");
        assert!(!unheard.has_below(b"b"));
        assert_eq!(unheard.take_below(b"a").len(), FAILURES_MAX);
        assert_eq!(unheard.take_below(b""), Vec::<String>::new());
    }
}
