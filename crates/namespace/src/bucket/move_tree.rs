//! Folders that get another name here at once, and in the bucket when their turn comes.
//!
//! Until its objects are copied a folder has its new name, and its keys are the old ones: the tree knows
//! that they are elsewhere, so that what is below it is found, listed and read where it still is. What is
//! closed below it is remembered as belonging under the new name, and uploaded there afterwards.

use std::collections::HashSet;
use std::sync::Arc;

use base::Ino;
use remote::{Condition, Key};
use tokio::sync::OwnedSemaphorePermit;

use super::carry::{Cargo, Copies, Destination, Route};
use super::change::{Change, InLine, Made};
use super::changes::Claim;
use super::journal::Record;
use super::keys;
use super::land::Spot;
use super::moving_tree::{MovingTree, TreeStage};
use super::nodes::Place;
use super::shared::Shared;
use crate::{Error, ErrorKind, Result};

const OP: &str = "rename";

impl Shared {
    /// Moves the folder `source` to the free name `to` in the tree; the bucket follows. False if it is not
    /// what it was, or not at rest.
    pub(super) fn move_tree_soon(
        self: &Arc<Self>,
        source: Ino,
        (from, to): (Spot<'_>, Spot<'_>),
        (place, claims, room): (InLine, Vec<Claim>, OwnedSemaphorePermit),
    ) -> Result<bool> {
        let (route, path, above) = {
            let state = self.state();
            if !self.is_at_rest(&state.tree, source) {
                return Ok(false);
            }
            let key = keys::folder(&state.tree.prefix(OP, to.0)?, to.1);
            let route = Route { from: state.tree.prefix(OP, source)?, to: key };
            let stays = from.0 == to.0;
            let above = if stays { Key::from("") } else { state.tree.prefix(OP, from.0)? };
            (route, state.path_of(OP, to)?, above)
        };
        let Route { from: old, to: new } = route.clone();
        let of = Record::RenamedFolder { from: old, to: new, folder: above.clone() };
        let _departure = self.departs(source);
        let (files, mut known) = (self.unpublished_below(source), HashSet::new());
        let mut records = self.note_move(OP, &of, &files, &mut known)?;
        if !self.rename_tree(source, (from, to), &route) {
            self.ledger.strike(&records);
            return Ok(false);
        }
        // What somebody was just about to promise.
        let files = self.unpublished_below(source);
        match self.note_carried(OP, records[0], &files, &mut known) {
            Ok(noted) => records.extend(noted),
            Err(error) => {
                self.rename_tree_back(source, (from, to));
                self.ledger.strike(&records);
                return Err(error);
            }
        }
        self.record_noted_or_log(OP, source);
        let moving = MovingTree {
            ino: source,
            from: (from.0, from.1.clone()),
            to: (to.0, to.1.clone()),
            path,
            route,
            above,
            destination: Destination::Free,
            stage: TreeStage::Copying(Cargo::default()),
            records,
        };
        let (dirs, change) = (vec![from.0, to.0], Change::MoveTree(Box::new(moving)));
        self.send(Made { dirs, change, records: Vec::new(), place, claims, room });
        Ok(true)
    }

    /// Whether nothing below `ino` is on its way to its name, or yet to be made.
    fn is_at_rest(&self, tree: &super::tree::Tree, ino: Ino) -> bool {
        !tree.is_arriving(ino)
            && !tree.has_moving_below(ino)
            && tree.files_below(ino).iter().all(|&file| self.makings.stage(file).is_none())
    }

    /// The files whose bytes go with the folder.
    fn unpublished_below(&self, source: Ino) -> Vec<Ino> {
        self.state().tree.unpublished_files_below(source)
    }

    fn rename_tree(&self, source: Ino, (from, to): (Spot<'_>, Spot<'_>), route: &Route) -> bool {
        let mut state = self.state();
        let is_same = state.tree.child(from.0, from.1) == Some(source)
            && state.tree.child(to.0, to.1).is_none()
            && state.tree.prefix(OP, source).is_ok_and(|prefix| prefix == route.from)
            && state
                .tree
                .prefix(OP, to.0)
                .is_ok_and(|prefix| keys::folder(&prefix, to.1) == route.to)
            && self.is_at_rest(&state.tree, source);
        if is_same {
            state.tree.elsewhere.insert(source, route.from.clone());
            state.tree.arriving.insert(source);
            self.renamed(&mut state, from, to, source);
        }
        is_same
    }

    /// The folder has its old name again, if it has the new one and nobody has taken the old one.
    fn rename_tree_back(&self, source: Ino, (from, to): (Spot<'_>, Spot<'_>)) {
        let mut state = self.state();
        if !state.tree.arriving.contains(&source) {
            return;
        }
        let is_named =
            state.tree.node(source).is_some_and(|node| matches!(node.place, Place::Named { .. }));
        let is_free =
            state.tree.child(from.0, from.1).is_none() && state.tree.prefix(OP, from.0).is_ok();
        if is_named && is_free {
            state.tree.rename(source, from);
        } else if is_named {
            state.tree.detach(source, &Place::Replaced);
        }
        state.tree.elsewhere.remove(&source);
        state.tree.arriving.remove(&source);
        if let Some(node) = state.tree.node_mut(source) {
            node.as_of = None;
        }
        for (dir, name) in [from, to] {
            if let Some(folder) = state.tree.folder_mut(dir) {
                folder.windows.forget(name);
            }
        }
    }

    /// Brings the move of a folder into the bucket that was made here. After a failure it can be called
    /// again.
    pub(super) async fn move_tree_in_bucket(
        self: &Arc<Self>,
        moving: &mut MovingTree,
    ) -> Result<()> {
        if let TreeStage::Copying(cargo) = &mut moving.stage {
            let mut cargo = std::mem::take(cargo).again();
            let copied = self.copy_tree(moving, &mut cargo).await;
            moving.destination = Destination::Begun;
            moving.records.append(&mut cargo.records);
            if let Err(error) = copied {
                moving.stage = TreeStage::Copying(cargo);
                return Err(error);
            }
            self.land_tree(moving, &cargo);
            moving.stage = TreeStage::Removing(cargo);
        }
        let TreeStage::Removing(cargo) = &moving.stage else { unreachable!("all is copied") };
        let removed = self.remove_all(&moving.route.from, Copies::There, &cargo.marks).await;
        removed.map_err(|error| Error::remote(OP, error))?;
        self.strike_for_good(&moving.records);
        Ok(())
    }

    /// All that comes before the new keys count.
    async fn copy_tree(self: &Arc<Self>, moving: &mut MovingTree, cargo: &mut Cargo) -> Result<()> {
        let MovingTree { ino, from, route, above, destination, records, .. } = moving;
        let of_store = |error| Error::remote(OP, error);
        // What is done without its record would be half done after a power cut.
        self.ledger.sync();
        if !above.as_bytes().is_empty() {
            self.keep_folder_at(OP, from, above).await?;
        }
        self.attributes_settled(&route.from).await?;
        let objects = self.check_lengths(OP, *ino, route).await?;
        let copied = self.copy_all((route, objects), records[0], *destination, cargo).await;
        copied.map_err(of_store)?;
        self.attributes_follow(&route.to, &cargo.changed).await?;
        if cargo.is_empty() {
            // Nothing else says that it is there.
            let looks = self.state().tree.node(*ino).map(|node| node.looks);
            let looks = looks.ok_or_else(|| Error::node(ErrorKind::Stale, OP, *ino))?;
            let marker = self.put_marker(&route.to, &looks, Condition::Always).await;
            marker.map_err(of_store)?;
        }
        // In this order: who finishes the move carries the line until it has landed, and not after.
        let before = self.line_lands(*ino, &route.to)?;
        let landed = self.note_for_good(OP, &Record::Landed { of: records[0] });
        records.push(landed.inspect_err(|_| self.line_stays(before))?);
        Ok(())
    }

    /// The objects are where the names say.
    fn land_tree(&self, moving: &MovingTree, cargo: &Cargo) {
        let MovingTree { ino, route, .. } = moving;
        let files = {
            let now = self.clock.monotonic();
            let mut state = self.state();
            let entry = state.tree.entry_of(*ino);
            state.tree.elsewhere.remove(ino);
            state.tree.arriving.remove(ino);
            let files = state.tree.follow(*ino, &route.to, cargo);
            if let Some(folder) = state.tree.folder_mut(*ino) {
                folder.marker |= cargo.is_empty();
            }
            if let Some(node) = state.tree.node_mut(*ino) {
                node.as_of = Some(now);
            }
            state.tree.note_moved(*ino, entry);
            // A request that looked under the new name before all was there does not know.
            self.changes.note_moved(*ino);
            files
        };
        self.record_noted_or_log(OP, *ino);
        // Before the old objects go: what is noted of bytes here names the new ones from now on.
        self.tell_of(&files);
        self.attributes_left(&route.from);
    }

    /// The bucket refused the move for good: the folder has its old name again, if nobody took that.
    pub(super) fn give_up_tree(&self, moving: &MovingTree) {
        let MovingTree { ino, from, to, route, stage, records, .. } = moving;
        match stage {
            TreeStage::Copying(_) => {
                self.attributes_left(&route.to);
                self.rename_tree_back(*ino, ((from.0, &from.1), (to.0, &to.1)));
                // What was copied is removed by the next mount, which must not finish the move.
                match self.ledger.append(&Record::Undone { of: records[0] }.to_bytes()) {
                    Ok(_) => self.ledger.sync(),
                    Err(_) => self.strike_for_good(records),
                }
                let files = self.state().tree.files_below(*ino);
                self.tell_of(&files);
            }
            // It has landed; what is left under the old name is a folder of its own.
            TreeStage::Removing(_) => {
                if let Some(folder) = self.state().tree.folder_mut(from.0) {
                    folder.windows.forget(&from.1);
                }
                self.strike_for_good(records);
            }
        }
    }
}
