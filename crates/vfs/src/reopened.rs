//! Which files were opened lately, and which are looked at again.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use base::Ino;
use parking_lot::Mutex;

/// Files that are looked at again at a time.
const LOOKS_MAX: usize = 8;

/// Files of which it is known that they were opened before.
const LAST_MAX: usize = 64;

/// What those share who look at files again.
#[derive(Debug, Default)]
pub(crate) struct Again(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Being looked at.
    looking: HashSet<Ino>,
    /// Those opened last, the last one at the end.
    last: VecDeque<Ino>,
}

impl Again {
    /// Whether `ino`, which is opened, was so lately.
    pub(crate) fn was_open(&self, ino: Ino) -> bool {
        let last = &mut self.0.lock().last;
        let at = last.iter().rposition(|known| *known == ino);
        match at {
            Some(at) => {
                last.remove(at);
            }
            None if last.len() == LAST_MAX => {
                last.pop_front();
            }
            None => {}
        }
        last.push_back(ino);
        at.is_some()
    }

    /// A turn for `ino`, if there is one. Where many are under way it is not worth waiting for.
    pub(crate) fn begin(self: &Arc<Self>, ino: Ino) -> Option<Turn> {
        let looking = &mut self.0.lock().looking;
        let is_begun = looking.len() < LOOKS_MAX && looking.insert(ino);
        is_begun.then(|| Turn { again: Arc::clone(self), ino })
    }
}

/// The turn of a file, until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    again: Arc<Again>,
    ino: Ino,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.again.0.lock().looking.remove(&self.ino);
    }
}

#[cfg(test)]
mod tests {
    use super::{Again, Arc, Ino, LAST_MAX, LOOKS_MAX};

    fn ino(number: usize) -> Ino {
        Ino(number as u64 + 2)
    }

    #[test]
    fn a_file_was_open_lately_until_as_many_others_were() {
        let again = Again::default();
        assert!(!again.was_open(ino(0)));
        assert!(again.was_open(ino(0)));
        assert!((1..LAST_MAX).all(|number| !again.was_open(ino(number))));
        assert!(again.was_open(ino(0)));
        // It is the last one now.
        assert!(!again.was_open(ino(LAST_MAX)));
        assert!(again.was_open(ino(0)));
        assert!(!again.was_open(ino(1)));
    }

    #[test]
    fn a_file_has_one_turn_and_so_many_have_one_at_a_time() {
        let again = Arc::new(Again::default());
        let first = again.begin(ino(0)).unwrap();
        assert!(again.begin(ino(0)).is_none());
        let others: Vec<_> = (1..LOOKS_MAX).filter_map(|number| again.begin(ino(number))).collect();
        assert_eq!(others.len(), LOOKS_MAX - 1);
        assert!(again.begin(ino(LOOKS_MAX)).is_none());
        drop(first);
        assert!(again.begin(ino(LOOKS_MAX)).is_some());
    }
}
