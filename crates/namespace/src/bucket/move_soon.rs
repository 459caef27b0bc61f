//! Files that get another name here at once, and in the bucket when their turn comes.
//!
//! Until its object is copied a file has its new name and its old object: the tree knows that the
//! object is elsewhere, readers read it there, and who would upload to the new name waits.

use std::collections::HashSet;
use std::sync::Arc;

use base::{FileKind, Ino};
use remote::{Key, UPLOAD_ID};
use tokio::sync::OwnedSemaphorePermit;

use super::carry::is_prefix;
use super::change::{Change, InLine, Made, Moving, Stage};
use super::changes::Claim;
use super::journal::{FileMove, Record};
use super::keys;
use super::land::{Landing, Spot};
use super::make_soon::Whereabouts;
use super::makings::Making;
use super::nodes::{Bytes, Kind, Stored};
use super::rename::Plan;
use super::shared::{Shared, State};
use crate::{Error, ErrorKind, RecordId, RenameMode, Result, Use};

const OP: &str = "rename";

/// How often a rename waits for what is in its way before it is made like those that wait.
const TRIES_MAX: usize = 3;

/// How a rename that is to return at once went.
#[derive(Debug)]
enum Outcome {
    /// Well; this was replaced.
    Done(Option<Ino>),
    /// Nobody knows yet what the bucket will have under these names.
    NotYet,
    /// It takes somebody who waits for the bucket.
    Waits,
}

/// A file that is to move.
#[derive(Debug)]
struct Moved<'a> {
    from: Spot<'a>,
    to: Spot<'a>,
    source: Ino,
    /// What has the new name until then, and where its object is.
    target: Option<Ino>,
    there: Option<Whereabouts>,
}

/// How a file moves at once.
#[derive(Debug)]
enum Way {
    /// Its bytes are here.
    Here,
    /// It is yet to be made, and is made under its new name.
    Unmade,
    /// Its object follows.
    Object(Stored),
}

impl Shared {
    /// Moves `from` to `to`; the bucket has that later, if it is a file.
    pub(super) async fn rename_soon(
        self: &Arc<Self>,
        from: Spot<'_>,
        to: Spot<'_>,
        mode: RenameMode,
    ) -> Result<Option<Ino>> {
        if mode != RenameMode::Exchange {
            for _ in 0..TRIES_MAX {
                match self.rename_ahead(from, to, mode).await? {
                    Outcome::Done(replaced) => return Ok(replaced),
                    Outcome::NotYet => self.caught_up(OP, &[from, to]).await?,
                    Outcome::Waits => break,
                }
            }
        }
        self.outbox.hurry();
        self.rename(from, to, mode).await
    }

    async fn rename_ahead(
        self: &Arc<Self>,
        from: Spot<'_>,
        to: Spot<'_>,
        mode: RenameMode,
    ) -> Result<Outcome> {
        let room = self.outbox.room().await;
        let place = self.ahead(OP, &[from, to]).await?;
        let target = self.find(OP, to.0, to.1).await?;
        let source = self.find(OP, from.0, from.1).await?;
        let source = source.ok_or_else(|| Error::name(ErrorKind::NotFound, OP, from.1))?;
        let claims = vec![self.changes.claim(from.0, from.1), self.changes.claim(to.0, to.1)];
        let plan = self.state().plan_rename((from, source), (to, target), mode)?;
        match plan {
            None => return Ok(Outcome::NotYet),
            Some(Plan::Nothing) => return Ok(Outcome::Done(None)),
            Some(Plan::File) => {}
            Some(Plan::Folder) if !keys::is_chunk_name(from.1) => {
                self.check_new(OP, to, FileKind::Directory).await?;
                self.check_lengths_soon(OP, source, to).await?;
                let is_moved = self.move_tree_soon(source, (from, to), (place, claims, room))?;
                return Ok(if is_moved { Outcome::Done(None) } else { Outcome::NotYet });
            }
            Some(Plan::Folder | Plan::FolderOver(_) | Plan::Exchange(_)) => {
                return Ok(Outcome::Waits);
            }
        }
        self.check_new(OP, to, FileKind::File).await?;
        // In this order: what is unmade may be in transit a moment later, but not the other way.
        let whereabouts = [Some(source), target].map(|ino| ino.map(|ino| self.whereabouts(ino)));
        if whereabouts.contains(&Some(Whereabouts::InTransit)) {
            return Ok(Outcome::NotYet);
        }
        let Some(way) = self.state().way(source, whereabouts[0], to)? else {
            return Ok(Outcome::Waits);
        };
        if place.1.is_some() && self.state().is_uploaded(&[Some(source), target]) {
            // Nobody knows yet what will be there.
            return Ok(Outcome::NotYet);
        }
        let moved = Moved { from, to, source, target, there: whereabouts[1] };
        match way {
            Way::Here | Way::Unmade
                if target.is_some_and(|ino| self.in_use(ino) == Use::Partly) =>
            {
                // What its users still need is copied first.
                Ok(Outcome::Waits)
            }
            Way::Here => Ok(self.move_here_soon(&moved)),
            Way::Unmade => self.move_unmade(&moved, (place, claims), room),
            Way::Object(stored) => {
                let Some(moving) = self.begin_move(&moved, stored, mode)? else {
                    return Ok(Outcome::NotYet);
                };
                let (dirs, change) = (vec![from.0, to.0], Change::Move(Box::new(moving)));
                self.send(Made { dirs, change, records: Vec::new(), place, claims, room });
                Ok(Outcome::Done(target))
            }
        }
    }

    /// Moves a file whose bytes are here; there is nothing to ask the bucket.
    fn move_here_soon(&self, moved: &Moved<'_>) -> Outcome {
        let Some(unmade) = self.makings.take_all(&moved.unmade_target()) else {
            return Outcome::NotYet;
        };
        self.strike_makings(&unmade);
        self.land_file(moved.from, moved.to, moved.source, Landing::Here);
        Outcome::Done(moved.target)
    }

    /// Moves what is yet to be made: it is made under its new name.
    fn move_unmade(
        self: &Arc<Self>,
        moved: &Moved<'_>,
        place: (InLine, Vec<Claim>),
        room: OwnedSemaphorePermit,
    ) -> Result<Outcome> {
        let mut unmade = moved.unmade_target();
        unmade.insert(0, moved.source);
        let Some(mut makings) = self.makings.take_all(&unmade) else {
            return Ok(Outcome::NotYet);
        };
        let before = makings.remove(0);
        self.land_file(moved.from, moved.to, moved.source, Landing::Here);
        let upload = before.object.metadata.get(UPLOAD_ID).cloned().unwrap_or_default();
        let object = self.state().new_object(OP, moved.source, upload)?;
        let noted = self.note_making(OP, object.clone(), Some(before.record));
        self.strike_makings(&makings);
        let (making, outcome) = match noted {
            Ok(making) => (making, Ok(Outcome::Done(moved.target))),
            // After a crash it has its old name, and who asked for the new one has his error.
            Err(error) => (Making { object: Arc::new(object), ..before }, Err(error)),
        };
        let dirs = vec![moved.from.0, moved.to.0];
        self.send_making((dirs, moved.source), making, place, room);
        outcome
    }

    /// Notes that an object is to move, and moves its file in the tree. `None` if the file is not
    /// what it was.
    fn begin_move(
        self: &Arc<Self>,
        moved: &Moved<'_>,
        stored: Stored,
        mode: RenameMode,
    ) -> Result<Option<Moving>> {
        let Moved { from, to, source, target, .. } = *moved;
        let (key, over, folder) = {
            let state = self.state();
            let key = keys::file(&state.tree.prefix(OP, to.0)?, to.1);
            let stays = from.0 == to.0;
            let folder = if stays { Key::from("") } else { state.tree.prefix(OP, from.0)? };
            (key, state.object_at(to), folder)
        };
        let (old, version) = (stored.key.clone(), stored.version.clone());
        let planned = FileMove { from: old, to: key, version, over };
        let noted = Record::Renamed { planned: planned.clone(), folder: folder.clone() };
        let _departure = self.departs(source);
        let mut known = HashSet::new();
        let mut records = self.note_move(OP, &noted, &[source], &mut known)?;
        let unmade = {
            let mut state = self.state();
            let is_same = state.is_object(source, &stored)
                && state
                    .tree
                    .prefix(OP, to.0)
                    .is_ok_and(|to_dir| planned.to == keys::file(&to_dir, to.1));
            let unmade = if is_same { self.makings.take_all(&moved.unmade_target()) } else { None };
            if unmade.is_some() {
                state.tree.elsewhere.insert(source, stored.key.clone());
                self.renamed(&mut state, from, to, source);
            }
            unmade
        };
        let Some(unmade) = unmade else {
            self.ledger.strike(&records);
            return Ok(None);
        };
        // What somebody was just about to promise.
        match self.note_carried(OP, records[0], &[source], &mut known) {
            Ok(noted) => records.extend(noted),
            Err(error) => tracing::warn!(%error, "a rename is not safe from a crash yet"),
        }
        self.strike_makings(&unmade);
        self.record_noted_or_log(OP, source);
        self.tell_of(&[source]);
        Ok(Some(Moving {
            ino: source,
            from: (from.0, from.1.clone()),
            to: (to.0, to.1.clone()),
            stored,
            planned,
            mode,
            replaced: target,
            folder,
            records,
            stage: Stage::Copying,
        }))
    }

    fn strike_makings(&self, makings: &[Making]) {
        let records: Vec<RecordId> = makings.iter().map(|making| making.record).collect();
        self.ledger.strike(&records);
    }
}

impl Moved<'_> {
    /// What has the new name, if it is yet to be made.
    fn unmade_target(&self) -> Vec<Ino> {
        match (self.target, self.there) {
            (Some(target), Some(Whereabouts::Unmade)) => vec![target],
            (_, Some(Whereabouts::Settled | Whereabouts::InTransit) | None) | (None, _) => {
                Vec::new()
            }
        }
    }
}

impl State {
    /// How the file `source` can move to `to` at once, if it can.
    fn way(
        &self,
        source: Ino,
        whereabouts: Option<Whereabouts>,
        to: Spot<'_>,
    ) -> Result<Option<Way>> {
        let key = keys::file(&self.tree.prefix(OP, to.0)?, to.1);
        let node =
            self.tree.node(source).ok_or_else(|| Error::node(ErrorKind::Stale, OP, source))?;
        let Kind::File(file) = &node.kind else { return Ok(None) };
        let is_unmade = whereabouts == Some(Whereabouts::Unmade);
        Ok(match &file.bytes {
            // An object at the old name would have to be removed.
            Bytes::Local { beneath: Some(_) } => None,
            Bytes::Local { beneath: None } if is_unmade => Some(Way::Unmade),
            Bytes::Local { beneath: None } => Some(Way::Here),
            // The object of a folder's own key gives way to a marker.
            Bytes::Object(stored) | Bytes::Edited(stored)
                if is_prefix(&stored.key) || is_prefix(&key) =>
            {
                None
            }
            Bytes::Object(stored) | Bytes::Edited(stored) => Some(Way::Object(stored.clone())),
        })
    }

    /// Whether an upload of one of `files` is under way, or may have arrived although it failed.
    fn is_uploaded(&self, files: &[Option<Ino>]) -> bool {
        files.iter().flatten().any(|ino| self.tree.uploads.contains_key(ino))
    }

    /// Whether the bytes of the file `ino`, or those they are made from, are this object.
    fn is_object(&self, ino: Ino, stored: &Stored) -> bool {
        match self.tree.node(ino).map(|node| &node.kind) {
            Some(Kind::File(file)) => file.stored_bytes() == Some(stored),
            Some(Kind::Folder(_)) | None => false,
        }
    }
}
