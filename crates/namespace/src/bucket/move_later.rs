//! What the bucket is asked for a file that has got another name here: a copy and a removal, or one step.

use std::sync::Arc;
use std::time::Duration;

use remote::{Condition, ErrorKind as RemoteErrorKind, Version};

use super::change::{Moving, Stage};
use super::marks::Manner;
use super::nodes::{Kind, Node, Place, Stored};
use super::rename::{CHANGED, There, Uncopied};
use super::shared::Shared;
use crate::{Error, RenameMode, Result};

const OP: &str = "rename";

impl Shared {
    /// Brings a move into the bucket that was made here `age` ago. After a failure it can be called
    /// again.
    pub(super) async fn move_in_bucket(
        self: &Arc<Self>,
        moving: &mut Moving,
        age: Duration,
    ) -> Result<()> {
        if moving.stage == Stage::Copying {
            let (version, manner) = self.copy_moving(moving, age).await?;
            // Before the old object goes, so that who reads the file goes on with the new one.
            self.land_moving(moving, version);
            moving.stage = Stage::Removing;
            if manner == Manner::AtOnce {
                self.strike_for_good(&moving.records);
                return Ok(());
            }
        }
        match self.check_source(&moving.stored).await {
            Ok(There::Yes) => {
                self.remove_object(OP, moving.from.0, &moving.stored.key).await?;
            }
            Ok(There::No) => {}
            Err(error) if error.kind == CHANGED => {
                let key = &moving.stored.key;
                tracing::warn!(%key, "others replaced what was moved from there: theirs stays");
            }
            Err(error) => return Err(error),
        }
        self.strike_for_good(&moving.records);
        Ok(())
    }

    async fn copy_moving(
        self: &Arc<Self>,
        moving: &mut Moving,
        age: Duration,
    ) -> Result<(Version, Manner)> {
        let Moving { ino, from, stored, planned, mode, replaced, folder, records, .. } = moving;
        // What is done without its record would be half done after a power cut.
        self.ledger.sync();
        if !folder.as_bytes().is_empty() {
            self.keep_folder_at(OP, from, folder).await?;
        }
        if let Some(&of) = records.first() {
            records.extend(self.note_maker((*ino, of), planned).await?);
        }
        let _leaving = match replaced {
            Some(replaced) => self.leave_nameless(OP, *replaced).await?,
            None => None,
        };
        // What was known when it was renamed is as good as a look at it now, for a while. After that
        // nothing is replaced that is newer.
        let condition = match (mode, &planned.over) {
            (RenameMode::Replace, _) if age < self.options.metadata_ttl => Condition::Always,
            (RenameMode::Replace, Some(over)) => Condition::Is(over.clone()),
            (RenameMode::Replace, None) | (RenameMode::NoReplace | RenameMode::Exchange, _) => {
                Condition::Absent
            }
        };
        self.move_once(stored, planned, &condition).await.map_err(|uncopied| match uncopied {
            Uncopied::Not(error) => error,
            // To be found out by the next try.
            Uncopied::Unclear(error) => {
                let unclear = remote::Error::new(RemoteErrorKind::Unavailable, "copy", &planned.to);
                Error::remote(OP, unclear.because(error.to_string()))
            }
        })
    }

    /// The object is where the name of its file says.
    fn land_moving(&self, moving: &Moving, version: Version) {
        let Moving { ino, stored, planned, .. } = moving;
        {
            let now = self.clock.monotonic();
            let mut state = self.state();
            let entry = state.tree.entry_of(*ino);
            state.tree.elsewhere.remove(ino);
            let Some(node) = state.tree.node_mut(*ino) else { return };
            if let Kind::File(file) = &mut node.kind {
                file.follow(Stored { key: planned.to.clone(), version, size: stored.size });
            }
            node.as_of = Some(now);
            state.tree.note_moved(*ino, entry);
        }
        self.record_noted_or_log(OP, *ino);
        self.tell_of(&[*ino]);
    }

    /// The bucket refused the move for good: the file has its old name again, if nobody took that. When it is copied
    /// it keeps the new one, and what stays under the old one is a file of its own.
    pub(super) fn give_up_moving(&self, moving: &Moving) {
        let Moving { ino, from, to, records, stage, .. } = moving;
        {
            let mut state = self.state();
            let is_free = state.tree.child(from.0, &from.1).is_none()
                && state.tree.prefix(OP, from.0).is_ok();
            let is_named = |place: &Place| matches!(place, Place::Named { .. });
            if *stage == Stage::Copying
                && state.tree.node(*ino).is_some_and(|node| is_named(&node.place))
            {
                if is_free {
                    state.tree.rename(*ino, (from.0, &from.1));
                    if let Some(node) = state.tree.node_mut(*ino) {
                        node.as_of = None;
                    }
                } else if !state.tree.node(*ino).is_some_and(Node::unpublished) {
                    state.tree.detach(*ino, &Place::Replaced);
                }
                // What was written to it meanwhile, its upload is refused and keeps it.
            }
            state.tree.elsewhere.remove(ino);
            for (dir, name) in [from, to] {
                if let Some(folder) = state.tree.folder_mut(*dir) {
                    folder.windows.forget(name);
                }
            }
        }
        self.strike_for_good(records);
        self.tell_of(&[*ino]);
    }
}
