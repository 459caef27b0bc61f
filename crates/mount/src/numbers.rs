//! The inode numbers that are not what their paths say: in memory, where they are asked for at every
//! turn, and in the state folder, where they outlive the mount.
//!
//! Paths are known in memory by a hash only. Changes are written soon and in batches, by whoever
//! [`Numbers::write`] is called by: nobody who changes a name waits for the disk.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::mem;

use base::Ino;
use parking_lot::Mutex;

/// Changes that may wait to be written. The numbers of more are right for as long as the mount
/// lasts.
const WAITING_MAX: usize = 1 << 16;

/// Such numbers of one volume.
#[derive(Debug)]
pub(crate) struct Numbers {
    rows: store::Numbers,
    hasher: RandomState,
    memory: Mutex<Memory>,
    // Held while changes are taken from the memory and written, so that they are in order. The
    // memory is locked under it, but never while something is written.
    writer: Mutex<()>,
}

/// What is remembered.
///
/// Invariant: `by_age` and `kept` have an entry for each in `by_path`, and no others.
#[derive(Debug, Default)]
struct Memory {
    by_path: HashMap<PathHash, Row>,
    by_age: BTreeMap<u64, PathHash>,
    kept: HashMap<Ino, usize>,
    age: u64,
    waiting: Vec<(Vec<u8>, Option<Ino>)>,
}

/// A path, as far as anybody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PathHash(u64);

#[derive(Clone, Copy, Debug)]
struct Row {
    number: Ino,
    age: u64,
}

/// Whether somebody is to call [`Numbers::write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Yes: this is the first change that waits.
    Due,
    /// No: somebody was told before, or nothing is to be written.
    Known,
}

impl Numbers {
    /// What the state folder has.
    pub(crate) fn load(rows: store::Numbers) -> store::Result<Numbers> {
        let hasher = RandomState::new();
        let mut memory = Memory::default();
        for (path, number) in rows.all()? {
            memory.set(PathHash(hasher.hash_one(path)), Some(number));
        }
        Ok(Numbers { rows, hasher, memory: Mutex::new(memory), writer: Mutex::new(()) })
    }

    /// The number that `path` keeps.
    pub(crate) fn get(&self, path: &[u8]) -> Option<Ino> {
        let memory = self.memory.lock();
        if memory.by_path.is_empty() {
            return None;
        }
        memory.by_path.get(&self.hash(path)).map(|row| row.number)
    }

    /// Whether some path keeps `number`.
    pub(crate) fn is_kept(&self, number: Ino) -> bool {
        self.memory.lock().kept.contains_key(&number)
    }

    /// `path` keeps `number` from now on, or none.
    pub(crate) fn set(&self, path: &[u8], number: Option<Ino>) -> Writing {
        let mut memory = self.memory.lock();
        memory.set(self.hash(path), number);
        if memory.waiting.len() == WAITING_MAX {
            return Writing::Known;
        }
        memory.waiting.push((path.to_vec(), number));
        if memory.waiting.len() == 1 { Writing::Due } else { Writing::Known }
    }

    /// Writes what waits.
    pub(crate) fn write(&self) {
        let _writer = self.writer.lock();
        let waiting = mem::take(&mut self.memory.lock().waiting);
        if waiting.is_empty() {
            return;
        }
        if let Err(error) = self.rows.set(&waiting) {
            tracing::warn!(%error, "inode numbers of renamed files will not outlive this mount");
        }
    }

    fn hash(&self, path: &[u8]) -> PathHash {
        PathHash(self.hasher.hash_one(path))
    }
}

impl Memory {
    fn set(&mut self, path: PathHash, number: Option<Ino>) {
        self.remove(path);
        let Some(number) = number else { return };
        if self.by_path.len() == store::Numbers::ROWS_MAX as usize
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.remove(oldest);
        }
        self.age += 1;
        let row = Row { number, age: self.age };
        self.by_path.insert(path, row);
        self.by_age.insert(row.age, path);
        *self.kept.entry(number).or_default() += 1;
    }

    fn remove(&mut self, path: PathHash) {
        let Some(Row { number, age }) = self.by_path.remove(&path) else { return };
        self.by_age.remove(&age);
        let count = self.kept.get_mut(&number).expect("counted when it was set");
        *count -= 1;
        if *count == 0 {
            self.kept.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use base::{Ino, Metrics, SystemClock};
    use store::{CacheLimit, Options, Store};

    use super::{Memory, Numbers, PathHash, WAITING_MAX, Writing};

    fn store(dir: &Path) -> Store {
        let options = Options { dir: dir.to_owned(), cache: CacheLimit::Bytes(1 << 20) };
        Store::open(options, Arc::new(SystemClock::new()), Arc::new(Metrics::new())).unwrap()
    }

    fn load(store: &Store, volume: &str) -> Numbers {
        Numbers::load(store.numbers(volume)).unwrap()
    }

    #[test]
    fn numbers_outlive_the_mount_and_are_those_of_their_volume() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let numbers = load(&store, "s3://a");
        let large = Ino((1 << Ino::BITS) - 1);
        assert_eq!(numbers.set(b"x", Some(Ino(7))), Writing::Due);
        assert_eq!(numbers.set(b"y\xff", Some(large)), Writing::Known);
        assert_eq!(numbers.set(b"gone", Some(Ino(9))), Writing::Known);
        assert_eq!(numbers.set(b"gone", None), Writing::Known);
        assert_eq!(numbers.get(b"x"), Some(Ino(7)), "before it is written");
        numbers.write();
        assert_eq!(numbers.set(b"x", Some(Ino(8))), Writing::Due);
        numbers.write();

        let again = load(&store, "s3://a");
        assert_eq!(again.get(b"x"), Some(Ino(8)));
        assert_eq!(again.get(b"y\xff"), Some(large));
        assert_eq!(again.get(b"gone"), None);
        assert!(again.is_kept(Ino(8)) && again.is_kept(large));
        assert!(!again.is_kept(Ino(7)) && !again.is_kept(Ino(9)));
        assert_eq!(load(&store, "s3://ab").get(b"x"), None);
    }

    #[test]
    fn a_number_is_kept_until_no_path_has_it() {
        let mut memory = Memory::default();
        memory.set(PathHash(1), Some(Ino(7)));
        memory.set(PathHash(2), Some(Ino(7)));
        memory.set(PathHash(1), None);
        assert!(memory.kept.contains_key(&Ino(7)));
        memory.set(PathHash(2), Some(Ino(8)));
        assert!(!memory.kept.contains_key(&Ino(7)));
        assert_eq!(memory.by_age.len(), 1);
    }

    #[test]
    fn of_too_many_numbers_the_oldest_goes() {
        let mut memory = Memory::default();
        let max = u64::from(store::Numbers::ROWS_MAX);
        for n in 0..=max {
            memory.set(PathHash(n), Some(Ino(n + 2)));
        }
        assert_eq!(memory.by_path.len() as u64, max);
        assert_eq!(memory.by_age.len() as u64, max);
        assert!(!memory.by_path.contains_key(&PathHash(0)) && !memory.kept.contains_key(&Ino(2)));
        assert!(memory.by_path.contains_key(&PathHash(1)));
    }

    #[test]
    fn what_waits_to_be_written_is_bounded_and_goes_on_being_true() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let numbers = load(&store, "s3://a");
        for n in 0..=WAITING_MAX as u64 {
            numbers.set(&n.to_be_bytes(), Some(Ino(n + 2)));
        }
        numbers.write();
        let last = (WAITING_MAX as u64).to_be_bytes();
        assert!(numbers.get(&last).is_some());
        let again = load(&store, "s3://a");
        assert_eq!(again.get(&last), None);
        assert_eq!(again.get(&0_u64.to_be_bytes()), Some(Ino(2)));
    }
}
