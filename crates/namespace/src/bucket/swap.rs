//! Two names that change places: the three moves, and how far they are.

use base::{Ino, Name};
use remote::Key;

use super::carry::{Cargo, Destination, Route, is_prefix};
use super::go_along::Departure;
use super::journal::Exchange;
use crate::RecordId;

/// How many moves there are.
pub(super) const MOVES: usize = 3;

/// An exchange under way.
#[derive(Debug)]
pub(super) struct Swap {
    pub(super) exchange: Exchange,
    pub(super) of: RecordId,
    /// `None` if an earlier mount began it: nobody uses what it moves.
    pub(super) who: Option<Who>,
    /// They may still move.
    pub(super) departures: Vec<Departure>,
    /// How many moves are done.
    pub(super) done: usize,
    /// How far the next is.
    pub(super) phase: Phase,
    /// What may be where it goes.
    pub(super) destination: Destination,
    /// What the journal has of it.
    pub(super) records: Vec<RecordId>,
}

/// Who change places: the folder and the name of each, and itself.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) one: (Ino, Name, Ino),
    pub(super) other: (Ino, Name, Ino),
}

/// How far one of the moves is.
#[derive(Debug)]
pub(super) enum Phase {
    /// The old names count; so much is copied.
    Copying(Cargo),
    /// The new ones do, and what was copied is to be removed.
    Removing(Cargo),
}

impl Default for Phase {
    fn default() -> Phase {
        Phase::Copying(Cargo::default())
    }
}

impl Swap {
    pub(super) fn new(exchange: Exchange, of: RecordId, who: Option<Who>) -> Swap {
        let (phase, destination) = (Phase::default(), Destination::Free);
        let departures = Vec::new();
        let (done, records) = (0, vec![of]);
        Swap { exchange, of, who, departures, done, phase, destination, records }
    }

    /// What an earlier mount began, and how many moves it made.
    pub(super) fn begun(exchange: Exchange, records: Vec<RecordId>, done: usize) -> Swap {
        let of = records[0];
        let begun = Swap::new(exchange, of, None);
        Swap { done, destination: Destination::Begun, records, ..begun }
    }
}

/// The three moves.
pub(super) fn routes(exchange: &Exchange) -> [Route; MOVES] {
    let Exchange { one, other, between } = exchange;
    let route = |from: &Key, to: Key| Route { from: from.clone(), to };
    [
        route(one, between.clone()),
        route(other, alike(one, other)),
        route(between, alike(other, one)),
    ]
}

/// The key of the name of `place`, for what has the key `what`: a prefix or none.
pub(super) fn alike(place: &Key, what: &Key) -> Key {
    let bare = place.as_bytes().strip_suffix(b"/").unwrap_or(place.as_bytes());
    let slash: &[u8] = if is_prefix(what) { b"/" } else { b"" };
    Key::new([bare, slash].concat())
}

#[cfg(test)]
mod tests {
    use remote::Key;

    use super::{Exchange, alike, routes};

    #[test]
    fn a_file_and_a_folder_change_places() {
        let (one, other) = (Key::from("a"), Key::from("d/b/"));
        let exchange = Exchange { between: Key::from("x/it"), one, other };
        let text = routes(&exchange).map(|route| format!("{}>{}", route.from, route.to));
        assert_eq!(text, ["a>x/it", "d/b/>a/", "x/it>d/b"]);
        assert_eq!(alike(&Key::from("x/it"), &Key::from("d/")), Key::from("x/it/"));
    }
}
