//! Which folders may be getting another name: the store does that by itself, and whoever asks for it again goes on
//! waiting for the same.

use parking_lot::Mutex;

use crate::Key;

/// The oldest are forgotten, and told by where the folder is then.
const MOVING_MAX: usize = 256;

/// Moves of which the outcome is not known.
#[derive(Debug, Default)]
pub(super) struct Moving {
    // Invariant: at most `MOVING_MAX`, oldest first. A leaf: no other lock is taken under it.
    moves: Mutex<Vec<Move>>,
}

#[derive(Debug)]
struct Move {
    from: Key,
    to: Key,
    /// How the store calls it.
    id: String,
}

impl Move {
    fn is(&self, from: &Key, to: &Key) -> bool {
        self.from == *from && self.to == *to
    }
}

impl Moving {
    /// How the store calls the move, if one was begun.
    pub(super) fn of(&self, from: &Key, to: &Key) -> Option<String> {
        let moves = self.moves.lock();
        moves.iter().find(|known| known.is(from, to)).map(|known| known.id.clone())
    }

    /// It has begun.
    pub(super) fn begun(&self, from: &Key, to: &Key, id: &str) {
        let mut moves = self.moves.lock();
        moves.retain(|known| !known.is(from, to));
        if moves.len() == MOVING_MAX {
            moves.remove(0);
        }
        moves.push(Move { from: from.clone(), to: to.clone(), id: id.to_owned() });
    }

    /// Its outcome is known.
    pub(super) fn settled(&self, from: &Key, to: &Key) {
        self.moves.lock().retain(|known| !known.is(from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::{MOVING_MAX, Moving};
    use crate::Key;

    #[test]
    fn a_move_is_known_until_it_is_settled_and_only_the_latest_are() {
        let (moving, to) = (Moving::default(), Key::from("to/"));
        let from = |number: usize| Key::from(&format!("{number}/")[..]);
        moving.begun(&from(0), &to, "a");
        moving.begun(&from(0), &to, "b");
        assert_eq!(moving.of(&from(0), &to).as_deref(), Some("b"));
        assert_eq!(moving.of(&to, &from(0)), None);
        moving.settled(&from(0), &to);
        assert_eq!(moving.of(&from(0), &to), None);
        for number in 0..=MOVING_MAX {
            moving.begun(&from(number), &to, "x");
        }
        assert_eq!(moving.of(&from(0), &to), None);
        assert!(moving.of(&from(1), &to).is_some() && moving.of(&from(MOVING_MAX), &to).is_some());
    }
}
