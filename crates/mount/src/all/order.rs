//! In which order the buckets of a folder are shown: each keeps its place for as long as the mount lives,
//! so that who reads on misses none. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// So many names get a place.
const NAMES_MAX: usize = 50_000;

/// The names that were ever shown, and which of them are there.
#[derive(Debug, Default)]
pub(super) struct Order {
    places: HashMap<String, u64>,
    told: BTreeSet<String>,
}

impl Order {
    /// The store tells of these, and of no others.
    pub(super) fn tell(&mut self, mut names: Vec<String>) {
        names.sort_unstable();
        for name in &names {
            self.place(name);
        }
        self.told = names.into_iter().filter(|name| self.places.contains_key(name)).collect();
    }

    /// The names that are told or `attached`, by their places.
    pub(super) fn with(&mut self, attached: &[String]) -> BTreeMap<u64, String> {
        for name in attached {
            self.place(name);
        }
        let names = self.told.iter().chain(attached);
        names.filter_map(|name| Some((*self.places.get(name)?, name.clone()))).collect()
    }

    fn place(&mut self, name: &str) {
        if self.places.len() < NAMES_MAX && !self.places.contains_key(name) {
            let next = self.places.len() as u64;
            self.places.insert(name.to_owned(), next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn check(order: &mut Order, attached: &str, want: &[(u64, &str)]) {
        let found = order.with(&words(attached));
        let found: Vec<(u64, &str)> =
            found.iter().map(|(place, name)| (*place, &name[..])).collect();
        assert_eq!(found, want);
    }

    #[test]
    fn a_name_keeps_its_place() {
        let mut order = Order::default();
        check(&mut order, "m", &[(0, "m")]);
        order.tell(words("z b"));
        check(&mut order, "m", &[(0, "m"), (1, "b"), (2, "z")]);
        check(&mut order, "z m", &[(0, "m"), (1, "b"), (2, "z")]);
        order.tell(words("a z"));
        check(&mut order, "m", &[(0, "m"), (2, "z"), (3, "a")]);
        order.tell(words(""));
        check(&mut order, "b", &[(1, "b")]);
    }
}
