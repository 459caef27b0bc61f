//! The nodes that nobody refers to, least lately used first.

use std::collections::BTreeMap;

use base::Ino;

/// When a node was last of use, in no unit; larger is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(u64);

/// The order in which unreferenced nodes may go.
#[derive(Debug, Default)]
pub(super) struct Idle {
    // Invariant: every node in the order knows its tick, and a tick is of one node.
    order: BTreeMap<Tick, Ino>,
    last: u64,
}

impl Idle {
    /// Puts `ino` last, taking it from the place `before`.
    pub(super) fn touch(&mut self, ino: Ino, before: Option<Tick>) -> Tick {
        self.remove(before);
        self.last += 1;
        let tick = Tick(self.last);
        self.order.insert(tick, ino);
        tick
    }

    /// Takes out who has the place `tick`.
    pub(super) fn remove(&mut self, tick: Option<Tick>) {
        if let Some(tick) = tick {
            self.order.remove(&tick);
        }
    }

    /// Who is to go next.
    pub(super) fn first(&self) -> Option<Ino> {
        self.order.first_key_value().map(|(_, &ino)| ino)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}
