//! Gives a folder another name, with everything in it.
//!
//! ```text
//!            journal             all copied            tree              all removed
//!   asked ─────────────▶ copying ──────────▶ landed ─────────▶ removing ─────────────▶ done
//!                           │ a failure                           │ a failure
//!                           ▼                                     ▼
//!                        undone: the old names                 the new names; what is left is
//!                                                              removed later (persist.rs)
//! ```
//!
//! Until all is copied the old names count, and after that the new ones. What others add or change
//! under the old name meanwhile stays there.

use std::collections::HashSet;
use std::sync::Arc;

use base::Ino;
use remote::{Condition, ErrorKind as RemoteErrorKind, Key};

use super::carry::{Cargo, Copies, Destination, Objects, Route};
use super::journal::Record;
use super::keys;
use super::land::Spot;
use super::persist::{Failed, Rest};
use super::shared::Shared;
use crate::{Error, ErrorKind, RecordId, Result};

const OP: &str = "rename";

impl Shared {
    /// Moves the folder `source`, perhaps in the place of `over`, which must be empty.
    pub(super) async fn move_folder(
        self: &Arc<Self>,
        (from, source): (Spot<'_>, Ino),
        to: Spot<'_>,
        over: Option<Ino>,
    ) -> std::result::Result<(), Failed> {
        let route = {
            let state = self.state();
            let to = keys::folder(&state.tree.prefix(OP, to.0)?, to.1);
            Route { from: state.tree.prefix(OP, source)?, to }
        };
        if let Some(over) = over {
            let below = self.look_below(OP, &route.to).await?;
            if below.others || self.state().tree.unpublished_below(over) {
                return Err(Error::name(ErrorKind::NotEmpty, OP, to.1).into());
            }
        }
        // Before anything is noted or removed: a refusal changes nothing.
        self.attributes_settled(&route.from).await?;
        let objects = self.check_lengths(OP, source, &route).await?;
        let record = Record::MoveFolder { from: route.from.clone(), to: route.to.clone() };
        let departure = self.departs(source);
        let files = self.state().tree.unpublished_files_below(source);
        let mut records = self.note_move(OP, &record, &files, &mut HashSet::new())?;
        self.ledger.sync();
        let of = records.remove(0);
        departure.moves(of);
        let mut cargo = Cargo::default();
        cargo.records.extend(records);
        let cleared = match over {
            Some(_) => {
                self.clear_hidden(OP, &route.to).await.map(|()| self.attributes_gone(&route.to))
            }
            None => Ok(()),
        };
        let copied = match cleared {
            Ok(()) => self.copy_folder((from, source), to, (&route, objects), of, &mut cargo).await,
            Err(error) => Err(error),
        };
        let moved = match copied {
            Ok(landed) => {
                self.land_folder(from, to, (source, &route.to), &cargo);
                self.attributes_left(&route.from);
                let records = [of, landed].into_iter().chain(cargo.records.iter().copied());
                let records = records.collect();
                self.leave_folder(route.from, cargo, records).await
            }
            Err(error) => {
                self.attributes_left(&route.to);
                let records = [of].into_iter().chain(cargo.records.iter().copied()).collect();
                let left = self.undo(route.clone(), records, cargo).await;
                if over.is_some() {
                    self.restore_marker(over, &route.to).await;
                }
                Err(match left {
                    Some(rest) => Failed::Unfinished(error, Box::new(rest)),
                    None => Failed::Before(error),
                })
            }
        };
        departure.over();
        moved
    }

    /// Removes what was copied from below `prefix`; `records` is what the journal has of the move.
    async fn leave_folder(
        self: &Arc<Self>,
        prefix: Key,
        cargo: Cargo,
        records: Vec<RecordId>,
    ) -> std::result::Result<(), Failed> {
        match self.remove_all(&prefix, Copies::There, &cargo.marks).await {
            Ok(_) => {
                self.ledger.strike(&records);
                Ok(())
            }
            Err(error) => {
                let rest = Rest::OldFolder { prefix, cargo, records };
                Err(Failed::Unfinished(Error::remote(OP, error), Box::new(rest)))
            }
        }
    }

    /// All that comes before the new names count; returns the record that says so.
    async fn copy_folder(
        self: &Arc<Self>,
        (from, source): (Spot<'_>, Ino),
        to: Spot<'_>,
        (route, objects): (&Route, Objects),
        of: RecordId,
        cargo: &mut Cargo,
    ) -> Result<RecordId> {
        // Attributes that changed since the listing may become an object that it lacks.
        let objects = if self.attributes_wait(&route.from) { Objects::Listed } else { objects };
        self.attributes_settled(&route.from).await?;
        let copied = self.copy_all((route, objects), of, Destination::Free, cargo).await;
        copied.map_err(|error| Error::remote(OP, error))?;
        self.attributes_follow(&route.to, &cargo.changed).await?;
        if cargo.is_empty() {
            // Nothing else says that it is there.
            let looks = self.state().tree.node(source).map(|node| node.looks);
            let looks = looks.ok_or_else(|| Error::node(ErrorKind::Stale, OP, source))?;
            let marker = self.put_marker(&route.to, &looks, Condition::Always).await;
            marker.map_err(|error| Error::remote(OP, error))?;
        }
        if from.0 != to.0 && cargo.objects > 0 {
            self.keep_folder(OP, from.0, from.1).await?;
        }
        // In this order: who finishes the move carries the line until it has landed, and not after.
        let before = self.line_lands(source, &route.to)?;
        self.note_for_good(OP, &Record::Landed { of }).inspect_err(|_| self.line_stays(before))
    }

    /// A move failed: the old names stay, and what was copied goes. `records` is what the journal
    /// has of it, the first being itself. Returns what is left to do.
    pub(super) async fn undo(
        self: &Arc<Self>,
        route: Route,
        mut records: Vec<RecordId>,
        cargo: Cargo,
    ) -> Option<Rest> {
        // Who asked hears of the failure, so that no later mount may finish it.
        let undone = self.ledger.append(&Record::Undone { of: records[0] }.to_bytes());
        let is_noted = undone.is_ok();
        self.ledger.sync();
        records.extend(undone);
        match self.uncopy(&route, &cargo.marks).await {
            Ok(()) => {
                self.ledger.strike(&records);
                None
            }
            Err(error) => {
                tracing::warn!(%error, to = %route.to, "what a failed move copied stays for now");
                if !is_noted {
                    self.ledger.strike(&records);
                }
                Some(Rest::Copies { route, cargo, records })
            }
        }
    }

    /// The folder that was to be replaced is still there.
    async fn restore_marker(&self, over: Option<Ino>, prefix: &Key) {
        let looks = over.and_then(|over| self.state().tree.node(over).map(|node| node.looks));
        let Some(looks) = looks else { return };
        match self.put_marker(prefix, &looks, Condition::Absent).await {
            Ok(()) => {}
            Err(error) if error.kind == RemoteErrorKind::Changed => {}
            Err(error) => tracing::warn!(%error, "the marker of a folder is lost"),
        }
    }
}
