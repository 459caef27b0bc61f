//! What is on its way into the bucket of one folder and all below it.

use base::Ino;

use super::nodes::Place;
use super::shared::Shared;
use super::tree::Tree;
use crate::Result;

impl Shared {
    /// What was changed so far in the folder `top` and below it is in the bucket when this returns; of a file,
    /// what was changed in its folder.
    pub(super) async fn sync_below(&self, top: Ino) -> Result<()> {
        let top = self.state().tree.folder_around(top);
        let is_below = |dirs: &[Ino]| {
            let state = self.state();
            dirs.iter().any(|dir| state.tree.may_be_below(*dir, top))
        };
        let sent = self.outbox.sent(is_below).await;
        sent.and(self.sync_attributes_below(top).await)
    }

    /// The path of the folder `top`, or of the one that it is in, if it has one.
    pub(super) fn place_around(&self, top: Ino) -> Option<Vec<u8>> {
        let state = self.state();
        state.tree.names_of("path", state.tree.folder_around(top)).ok()
    }
}

impl Tree {
    /// The folder `ino`, or the one that it is in.
    fn folder_around(&self, ino: Ino) -> Ino {
        match self.node(ino).map(|node| (node.as_folder(), &node.place)) {
            Some((None, Place::Named { parent, .. })) => *parent,
            Some((Some(_), _) | (None, Place::Root | Place::Unlinked | Place::Replaced)) | None => {
                ino
            }
        }
    }

    /// Whether the folder `ino` is `top`, or below it. What is not remembered may be.
    fn may_be_below(&self, ino: Ino, top: Ino) -> bool {
        let mut at = ino;
        while at != top {
            match self.node(at).map(|node| &node.place) {
                Some(Place::Named { parent, .. }) => at = *parent,
                Some(Place::Root | Place::Unlinked | Place::Replaced) => return false,
                None => return true,
            }
        }
        true
    }
}
