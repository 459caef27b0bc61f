//! Folders that have another name here, and whose keys are still the old ones: what they, and what is
//! below them, have to wait for.

use base::Ino;
use remote::Key;

use super::changes::Ticket;
use super::nodes::{Kind, Node, Place};
use super::tree::Tree;
use crate::{RecordId, Result};

impl Tree {
    /// The key that the file `ino` has when the folders above it have arrived.
    pub(super) fn key_at_last(&self, op: &'static str, ino: Ino) -> Result<Key> {
        self.key_in(op, ino, Tree::prefix_at_last)
    }

    /// The prefix that the folder `ino` has when it and the folders above it have arrived.
    pub(super) fn prefix_at_last(&self, op: &'static str, ino: Ino) -> Result<Key> {
        let stays = |at| self.elsewhere.get(&at).filter(|_| !self.arriving.contains(&at));
        self.prefix_where(op, ino, stays)
    }

    /// Whether `ino`, or a folder above it, has yet to arrive where its name says.
    pub(super) fn is_arriving(&self, ino: Ino) -> bool {
        !self.arriving.is_empty() && self.is_in_or_below(ino, |at| self.arriving.contains(at))
    }

    fn is_departing(&self, ino: Ino) -> bool {
        !self.departing.is_empty() && self.is_in_or_below(ino, |at| self.departing.contains_key(at))
    }

    /// The one of `ino` and the directories above it that is about to move, and the move, if the journal has that
    /// and nothing else keeps the next bytes of `ino` waiting.
    pub(super) fn departs_with(&self, ino: Ino) -> Option<(Ino, RecordId)> {
        if self.is_elsewhere(ino) || self.is_arriving(ino) {
            return None;
        }
        let mut moves = Vec::new();
        self.is_in_or_below(ino, |at| {
            moves.extend(self.departing.get(at).map(|departing| (*at, departing.of)));
            false
        });
        match moves[..] {
            [(at, Some(of))] => Some((at, of)),
            _ => None,
        }
    }

    /// Whether `ino`, or a directory above it, got other keys after the request with this ticket began.
    pub(super) fn has_moved(&self, ticket: &Ticket, ino: Ino) -> bool {
        let moved = ticket.moved_since();
        !moved.is_empty() && self.is_in_or_below(ino, |at| moved.contains(at))
    }

    /// Whether `ino`, or a folder above it, is one of those.
    fn is_in_or_below(&self, ino: Ino, mut is_one: impl FnMut(&Ino) -> bool) -> bool {
        let mut at = ino;
        loop {
            if is_one(&at) {
                return true;
            }
            match self.node(at).map(|node| &node.place) {
                Some(Place::Named { parent, .. }) => at = *parent,
                Some(Place::Root | Place::Unlinked | Place::Replaced) | None => return false,
            }
        }
    }

    /// Whether nobody knows yet which object the next bytes of `ino` are to replace.
    pub(super) fn is_moving(&self, ino: Ino) -> bool {
        let is_new = |node: &Node| match &node.kind {
            Kind::File(file) => file.in_bucket().is_none() && !self.uploads.contains_key(&ino),
            Kind::Folder(_) => false,
        };
        self.is_elsewhere(ino)
            || self.is_departing(ino)
            || self.is_arriving(ino) && !self.node(ino).is_some_and(is_new)
    }

    /// The files below `ino` of which the bucket lacks the newest bytes.
    pub(super) fn unpublished_files_below(&self, ino: Ino) -> Vec<Ino> {
        let files = self.files_below(ino).into_iter();
        files.filter(|&file| self.node(file).is_some_and(Node::unpublished)).collect()
    }

    /// Whether something below `ino` has yet to get where its name says.
    pub(super) fn has_moving_below(&self, ino: Ino) -> bool {
        let is_below = |&at: &Ino| {
            let mut at = at;
            while let Some(Place::Named { parent, .. }) = self.node(at).map(|node| &node.place) {
                if *parent == ino {
                    return true;
                }
                at = *parent;
            }
            false
        };
        self.elsewhere.keys().any(is_below)
    }
}
