//! Which files were opened lately, and which are looked at again.

use std::collections::{HashSet, VecDeque};

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
        if last.contains(&ino) {
            return true;
        }
        if last.len() == LAST_MAX {
            last.pop_front();
        }
        last.push_back(ino);
        false
    }

    /// Whether there is a turn for `ino`. Where many are under way it is not worth waiting for.
    pub(crate) fn begin(&self, ino: Ino) -> bool {
        let looking = &mut self.0.lock().looking;
        looking.len() < LOOKS_MAX && looking.insert(ino)
    }

    /// The turn of `ino` is over.
    pub(crate) fn end(&self, ino: Ino) {
        self.0.lock().looking.remove(&ino);
    }
}

#[cfg(test)]
mod tests {
    use super::{Again, Ino, LAST_MAX, LOOKS_MAX};

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
        assert!(!again.was_open(ino(LAST_MAX)));
        assert!(!again.was_open(ino(0)));
    }

    #[test]
    fn a_file_has_one_turn_and_so_many_have_one_at_a_time() {
        let again = Again::default();
        assert!(again.begin(ino(0)) && !again.begin(ino(0)));
        assert!((1..LOOKS_MAX).all(|number| again.begin(ino(number))));
        assert!(!again.begin(ino(LOOKS_MAX)));
        again.end(ino(0));
        assert!(again.begin(ino(LOOKS_MAX)));
    }
}
