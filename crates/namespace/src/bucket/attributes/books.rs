//! The attribute objects of all folders that are remembered, by the prefix of the folder's keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use remote::Key;

use super::book::{Book, Form};
use super::item::Item;
use super::line::Usual;
use super::sheet::Items;

/// How many folders are remembered whose attributes wait for nothing.
const BOOKS_MAX: usize = 10_000;

/// How many entries are remembered in all such folders together.
const ITEMS_MAX: usize = 2_000_000;

/// What is known of the attributes of folders.
#[derive(Debug)]
pub(in crate::bucket) struct Books {
    clock: Arc<dyn Clock>,
    usual: Usual,
    // Invariant: what waits to be written is never dropped.
    by_prefix: HashMap<Key, Book>,
    numbers: u64,
}

impl Books {
    pub(in crate::bucket) fn new(usual: Usual, clock: Arc<dyn Clock>) -> Books {
        Books { clock, usual, by_prefix: HashMap::new(), numbers: 0 }
    }

    /// When what happens in `delay` happens, on the monotonic clock.
    pub(in crate::bucket) fn due_in(&self, delay: Duration) -> Duration {
        self.clock.monotonic() + delay
    }

    /// Mode and owner that most entries have.
    pub(in crate::bucket) fn usual(&self) -> Usual {
        self.usual
    }

    /// What is known of the folder `prefix`.
    pub(in crate::bucket) fn get(&self, prefix: &Key) -> Option<&Book> {
        self.by_prefix.get(prefix)
    }

    /// What is known of the folder `prefix`, for changes.
    pub(in crate::bucket) fn get_mut(&mut self, prefix: &Key) -> &mut Book {
        self.numbers += 1;
        let used = self.numbers;
        let usual = self.usual;
        let book = self.by_prefix.entry(prefix.clone()).or_insert_with(|| Book::new(usual));
        book.used = used;
        book
    }

    /// Nothing is said in the folder `prefix`, which was not there at `as_of`: who makes many folders need
    /// not ask in each.
    pub(in crate::bucket) fn begin(&mut self, prefix: &Key, as_of: Duration) {
        let book = self.get_mut(prefix);
        if book.form == Form::Unknown {
            book.learn(Form::Absent, Items::new(), as_of);
        }
    }

    /// What is said of the name `label` in the folder `prefix`.
    pub(in crate::bucket) fn item(&self, prefix: &Key, label: &[u8]) -> Option<&Item> {
        self.get(prefix)?.item(label)
    }

    /// A number that no change had before.
    pub(in crate::bucket) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The folders with changes that are due at `now`; with all changes if that is `None`.
    pub(in crate::bucket) fn due(&self, now: Option<Duration>) -> Vec<Key> {
        let due = self.by_prefix.iter().filter(|(_, book)| match now {
            Some(now) => book.due().is_some_and(|due| due <= now),
            None => !book.pending.is_empty(),
        });
        due.map(|(prefix, _)| prefix.clone()).collect()
    }

    /// Of how many names the bucket has yet to get a change.
    pub(in crate::bucket) fn pending(&self) -> u64 {
        self.by_prefix.values().map(|book| book.pending.len() as u64).sum()
    }

    /// When the first change is due.
    pub(in crate::bucket) fn first_due(&self) -> Option<Duration> {
        self.by_prefix.values().filter_map(Book::due).min()
    }

    /// The folders below `prefix`, itself among them.
    pub(in crate::bucket) fn below(&self, prefix: &Key) -> Vec<Key> {
        let below = |key: &&Key| key.as_bytes().starts_with(prefix.as_bytes());
        self.by_prefix.keys().filter(below).cloned().collect()
    }

    /// Forgets a folder, and what was to be written to it.
    pub(in crate::bucket) fn remove(&mut self, prefix: &Key) -> Option<Book> {
        self.by_prefix.remove(prefix)
    }

    /// Forgets what was used least lately until there is room.
    pub(in crate::bucket) fn shrink(&mut self) {
        let items: usize = self.by_prefix.values().map(Book::len).sum();
        if self.by_prefix.len() <= BOOKS_MAX && items <= ITEMS_MAX {
            return;
        }
        // A good deal at a time, so that it is rarely done.
        let (books_left, items_left) = (BOOKS_MAX / 4 * 3, ITEMS_MAX / 4 * 3);
        let mut order: Vec<(u64, usize, Key)> =
            self.by_prefix.iter().map(|(key, book)| (book.used, book.len(), key.clone())).collect();
        order.sort_unstable_by_key(|&(used, _, _)| std::cmp::Reverse(used));
        let (mut kept, mut kept_items) = (0, 0);
        for (_, items, key) in order {
            kept += 1;
            kept_items += items;
            let idle = self
                .by_prefix
                .get(&key)
                .is_some_and(|book| book.pending.is_empty() && Arc::strong_count(&book.turn) == 1);
            // The last one used stays, however large.
            if idle && 1 < kept && (books_left < kept || items_left < kept_items) {
                self.by_prefix.remove(&key);
            }
        }
    }
}
