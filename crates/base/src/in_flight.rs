//! Table of operations in flight: added and removed by many threads all the time, read now and then.
//!
//! Entries lie in shards, and the caller names a number that spreads them, such as that of the thread that it
//! serves. Callers with different numbers rarely take the same lock, and no lock is taken by all of them.

use std::collections::BinaryHeap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

/// Locks that the entries are spread over.
const SHARDS: usize = 64;

/// Entries of one shard. More are in flight without being in the table.
const SHARD_ENTRIES_MAX: usize = 1024;

/// Operations in flight.
pub struct InFlight<T> {
    shards: Box<[Shard<T>]>,
}

/// A shard has its cache lines for itself: two of them never wait for one another.
#[repr(align(128))]
struct Shard<T>(Mutex<Slots<T>>);

/// The entries of one shard.
///
/// Invariant: `free` has the index of each slot that is `None`, once.
struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

/// The place of one entry, which its owner gives back with [`InFlight::remove`].
#[derive(Debug)]
#[must_use = "an entry stays until its place is given back"]
pub struct Place {
    shard: usize,
    /// `None` where the shard was full.
    slot: Option<usize>,
}

impl<T> Default for InFlight<T> {
    fn default() -> InFlight<T> {
        let shard = || Shard(Mutex::new(Slots { slots: Vec::new(), free: Vec::new() }));
        InFlight { shards: (0..SHARDS).map(|_| shard()).collect() }
    }
}

impl<T> fmt::Debug for InFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").finish_non_exhaustive()
    }
}

impl<T> InFlight<T> {
    /// Adds `entry`; `spread` chooses the shard.
    pub fn add(&self, spread: u64, entry: T) -> Place {
        let shard = usize::try_from(spread % SHARDS as u64).expect("less than the shards");
        let mut slots = self.shards[shard].0.lock();
        let slot = match slots.free.pop() {
            Some(slot) => slot,
            None if slots.slots.len() < SHARD_ENTRIES_MAX => {
                slots.slots.push(None);
                slots.slots.len() - 1
            }
            None => return Place { shard, slot: None },
        };
        slots.slots[slot] = Some(entry);
        Place { shard, slot: Some(slot) }
    }

    /// Changes the entry at `place`.
    pub fn change(&self, place: &Place, change: impl FnOnce(&mut T)) {
        let Some(slot) = place.slot else { return };
        if let Some(entry) = &mut self.shards[place.shard].0.lock().slots[slot] {
            change(entry);
        }
    }

    /// Removes the entry at `place`.
    #[expect(clippy::needless_pass_by_value, reason = "a place is given back once")]
    pub fn remove(&self, place: Place) {
        let Place { shard, slot } = place;
        let Some(slot) = slot else { return };
        let mut slots = self.shards[shard].0.lock();
        let entry = slots.slots[slot].take();
        slots.free.push(slot);
        drop(slots);
        // What an entry owns is freed without the lock.
        drop(entry);
    }

    /// Calls `look` with every entry, in no order.
    pub fn each(&self, mut look: impl FnMut(&T)) {
        for shard in &self.shards {
            shard.0.lock().slots.iter().flatten().for_each(&mut look);
        }
    }
}

/// The oldest entries of a table, and the number of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oldest<T> {
    /// The oldest of them, oldest first.
    pub entries: Vec<T>,
    /// All entries.
    pub count: u64,
}

impl<T: Clone> InFlight<T> {
    /// Returns copies of at most `entries_max` entries that began first, as `begun` tells it.
    pub fn oldest(&self, entries_max: usize, begun: impl Fn(&T) -> Duration) -> Oldest<T> {
        let mut count = 0;
        // The youngest of those that were chosen is at the top, so that an older one takes its place.
        let mut chosen: BinaryHeap<Aged<T>> = BinaryHeap::new();
        self.each(|entry| {
            count += 1;
            let begun = begun(entry);
            let has_room = chosen.len() < entries_max;
            if has_room || chosen.peek().is_some_and(|youngest| begun < youngest.begun) {
                if !has_room {
                    chosen.pop();
                }
                chosen.push(Aged { begun, entry: entry.clone() });
            }
        });
        let entries = chosen.into_sorted_vec().into_iter().map(|aged| aged.entry).collect();
        Oldest { entries, count }
    }
}

/// An entry in the order of its beginning.
struct Aged<T> {
    begun: Duration,
    entry: T,
}

impl<T> PartialEq for Aged<T> {
    fn eq(&self, other: &Aged<T>) -> bool {
        self.begun == other.begun
    }
}

impl<T> Eq for Aged<T> {}

impl<T> PartialOrd for Aged<T> {
    fn partial_cmp(&self, other: &Aged<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Aged<T> {
    fn cmp(&self, other: &Aged<T>) -> std::cmp::Ordering {
        self.begun.cmp(&other.begun)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{InFlight, Oldest, SHARD_ENTRIES_MAX, SHARDS};

    fn all(table: &InFlight<u64>) -> Vec<u64> {
        let mut found = Vec::new();
        table.each(|&entry| found.push(entry));
        found.sort_unstable();
        found
    }

    #[test]
    fn entry_is_seen_from_add_to_remove() {
        let table = InFlight::default();
        let places: Vec<_> = (0..200).map(|n| table.add(n, n)).collect();
        assert_eq!(all(&table), (0..200).collect::<Vec<_>>());
        for (n, place) in places.into_iter().enumerate() {
            if n % 2 == 0 {
                table.change(&place, |entry| *entry += 1000);
            } else {
                table.remove(place);
            }
        }
        assert_eq!(all(&table), (0..200).step_by(2).map(|n| n + 1000).collect::<Vec<_>>());
    }

    #[test]
    fn slots_are_used_again_and_bounded() {
        let table = InFlight::default();
        for n in 0..3 * SHARD_ENTRIES_MAX as u64 {
            let place = table.add(7, n);
            table.remove(place);
        }
        assert_eq!(table.shards[7].0.lock().slots.len(), 1);
        let places: Vec<_> = (0..=SHARD_ENTRIES_MAX as u64).map(|n| table.add(7, n)).collect();
        assert_eq!(all(&table).len(), SHARD_ENTRIES_MAX);
        for place in places {
            table.remove(place);
        }
        assert!(all(&table).is_empty());
        assert_eq!(table.shards[7].0.lock().free.len(), SHARD_ENTRIES_MAX);
        assert_eq!(table.shards.len(), SHARDS);
    }

    #[test]
    fn oldest_entries_come_first_and_all_are_counted() {
        let table = InFlight::default();
        let _places: Vec<_> = [5, 3, 9, 1, 7].map(|n| table.add(n, n)).into();
        let oldest = |entries_max| table.oldest(entries_max, |&entry| Duration::from_secs(entry));
        assert_eq!(oldest(3), Oldest { entries: vec![1, 3, 5], count: 5 });
        assert_eq!(oldest(9).entries, [1, 3, 5, 7, 9]);
        assert_eq!(oldest(0), Oldest { entries: vec![], count: 5 });
    }
}
