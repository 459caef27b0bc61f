//! Lets two names change places, files or folders, of any size.
//!
//! Three moves: the one goes to a hidden name between, the other to the place of the one, and the
//! one from between to the place of the other. Programs on this mount see the old names until the
//! last move is done, because the tree knows where what they name is; the journal makes sure that
//! after a crash the next mount goes on to the end.

use std::sync::Arc;

use base::Ino;
use remote::Key;

use super::attributes::delay::What;
use super::carry::{Cargo, Destination, Route, is_prefix};
use super::journal::{Exchange, Record};
use super::keys;
use super::land::Spot;
use super::nodes::{Kind, Stored};
use super::persist::{Failed, Rest};
use super::shared::Shared;
use super::swap::{MOVES, Phase, Swap, Who, alike, routes};
use crate::{Error, ErrorKind, RecordId, Result};

const OP: &str = "rename";

/// What the hidden names between begin with.
const BETWEEN_PREFIX: &str = ".quayfs-moving/";

impl Shared {
    /// Lets `one` and `other` change places.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        (from, one): (Spot<'_>, Ino),
        (to, other): (Spot<'_>, Ino),
    ) -> std::result::Result<(), Failed> {
        let (one_key, other_key) = {
            let state = self.state();
            let key = |(parent, name): Spot<'_>, ino| -> Result<Key> {
                let prefix = state.tree.prefix(OP, parent)?;
                let is_folder = state.tree.is_folder(ino);
                Ok(if is_folder { keys::folder(&prefix, name) } else { keys::file(&prefix, name) })
            };
            let folders = [one, other].map(|ino| state.tree.is_folder(ino));
            let (one, other) = (key(from, one)?, key(to, other)?);
            // The object of a folder's own key, and the beginnings of names too long to be one.
            if folders != [&one, &other].map(is_prefix) || keys::is_chunk_name(to.1) {
                return Err(Error::name(ErrorKind::Invalid, OP, to.1).into());
            }
            (one, other)
        };
        let between = format!("{BETWEEN_PREFIX}{}/it", self.random_name(&one_key));
        let between = alike(&self.hidden_beside(&one_key, &between).await, &one_key);
        let exchange = Exchange { between, one: one_key, other: other_key };
        self.check_swap_lengths(&exchange, (one, other)).await?;
        let departures = [one, other].map(|ino| self.departs(ino));
        let of = self.note_for_good(OP, &Record::Exchange(exchange.clone()))?;
        let who = Who { one: (from.0, from.1.clone(), one), other: (to.0, to.1.clone(), other) };
        let mut swap = Swap::new(exchange, of, Some(who));
        swap.departures.extend(departures);
        let Err(error) = self.go_on(&mut swap).await else { return Ok(()) };
        if swap.done > 0 || matches!(swap.phase, Phase::Removing(_)) {
            return Err(Failed::Unfinished(error, Box::new(Rest::Swap(swap))));
        }
        // Nothing has another name yet, and so it stays.
        let Swap { exchange, records, phase, .. } = swap;
        let (Phase::Copying(cargo) | Phase::Removing(cargo)) = phase;
        let [first, ..] = routes(&exchange);
        Err(match self.undo(first, records, cargo).await {
            Some(rest) => Failed::Unfinished(error, Box::new(rest)),
            None => Failed::Before(error),
        })
    }

    /// Refuses an exchange in which a key would be longer than the store takes, under the name between too.
    async fn check_swap_lengths(
        self: &Arc<Self>,
        exchange: &Exchange,
        (one, other): (Ino, Ino),
    ) -> Result<()> {
        let [to_between, to_one, from_between] = routes(exchange);
        let to_other = Route { from: to_between.from.clone(), to: from_between.to };
        for (ino, route) in [(one, to_between), (other, to_one), (one, to_other)] {
            self.check_length_of(OP, &route)?;
            if is_prefix(&route.from) {
                self.check_lengths(OP, ino, &route).await?;
            }
        }
        Ok(())
    }

    /// Makes the moves of `swap` that are left. After a failure it can be called again.
    pub(super) async fn go_on(self: &Arc<Self>, swap: &mut Swap) -> Result<()> {
        while swap.done < MOVES {
            let route = routes(&swap.exchange)[swap.done].clone();
            if let Phase::Copying(cargo) = &mut swap.phase {
                let mut cargo = std::mem::take(cargo).again();
                let mut copied =
                    self.copy_move(&route, swap.of, swap.destination, &mut cargo).await;
                if copied.is_ok() && swap.who.is_none() {
                    let ends = (&route.from, &route.to);
                    copied = self.line_follows(ends, &|of| cargo.now(b"", of)).await;
                }
                swap.destination = Destination::Begun;
                swap.records.append(&mut cargo.records);
                if copied.is_ok() {
                    self.moved(swap, &route, &cargo);
                    swap.phase = Phase::Removing(cargo);
                } else {
                    swap.phase = Phase::Copying(cargo);
                    return copied;
                }
            }
            let Phase::Removing(cargo) = &swap.phase else { unreachable!("all is copied") };
            let removed = self.remove_what(&route.from, &cargo.marks).await;
            removed.map_err(|error| Error::remote(OP, error))?;
            let stage = Record::Stage { of: swap.of, done: swap.done as u64 + 1 };
            swap.records.push(self.note_for_good(OP, &stage)?);
            self.line_leaves(&route.from)?;
            swap.done += 1;
            (swap.phase, swap.destination) = (Phase::default(), Destination::Free);
            self.line_leaves(&route.from)?;
        }
        self.ledger.strike(&swap.records);
        self.leave_between(&swap.exchange).await;
        Ok(())
    }

    /// The folder between goes, where it would stay without anything in it.
    async fn leave_between(&self, Exchange { between, .. }: &Exchange) {
        let bare = between.as_bytes().strip_suffix(b"/").unwrap_or(between.as_bytes());
        let Some(slash) = bare.iter().rposition(|&byte| byte == b'/') else { return };
        if self.has_real_folders()
            && let Err(error) = self.remote.delete(&Key::from(&bare[..=slash])).await
        {
            tracing::debug!(%error, "a hidden folder with nothing in it stays");
        }
    }

    /// Copies one of the three, with what is said of it.
    async fn copy_move(
        self: &Arc<Self>,
        route: &Route,
        of: RecordId,
        destination: Destination,
        cargo: &mut Cargo,
    ) -> Result<()> {
        if is_prefix(&route.from) {
            self.attributes_settled(&route.from).await?;
        }
        let copied = self.copy_what(route, of, destination, cargo).await;
        copied.map_err(|error| Error::remote(OP, error))?;
        if destination == Destination::Begun && cargo.left > 0 {
            let (kind, subject) = (ErrorKind::Exists, route.to.to_string());
            return Err(Error { kind, op: OP, subject, source: None });
        }
        if is_prefix(&route.to) {
            self.attributes_follow(&route.to, &cargo.changed).await?;
        }
        self.line_follows((&route.from, &route.to), &|of| cargo.now(b"", of)).await
    }

    /// One of the three is where it was to go: who uses it goes on there.
    fn moved(&self, swap: &Swap, route: &Route, cargo: &Cargo) {
        if let Some(Who { one, other }) = &swap.who {
            let moving = [one.2, other.2, one.2][swap.done];
            self.passed(moving, route, cargo);
            if let Err(error) = self.line_lands(moving, &route.to) {
                tracing::warn!(%error, "attributes are not safe from a crash yet");
            }
            if swap.done + 1 == MOVES {
                self.exchanged(((one.0, &one.1), one.2), ((other.0, &other.1), other.2));
            }
        }
        if is_prefix(&route.from) {
            self.attributes_left(&route.from);
        }
    }

    /// What `moving` names is elsewhere now.
    fn passed(&self, moving: Ino, route: &Route, cargo: &Cargo) {
        let files = {
            let mut state = self.state();
            match state.tree.node_mut(moving).map(|node| &mut node.kind) {
                Some(Kind::Folder(_)) => {
                    state.tree.elsewhere.insert(moving, route.to.clone());
                    self.changes.note_moved(moving);
                    state.tree.follow(moving, &route.to, cargo)
                }
                Some(Kind::File(file)) => {
                    let moved = file.in_bucket().cloned();
                    let version = moved.and_then(|old| cargo.now(b"", &old));
                    if let Some(version) = version {
                        let (key, size) = (route.to.clone(), file.size);
                        let size = file.stored_bytes().map_or(size, |stored| stored.size);
                        file.follow(Stored { key, version, size });
                    }
                    vec![moving]
                }
                None => return,
            }
        };
        self.tell_of(&files);
    }

    /// The bucket has both under their new names: so has the tree.
    fn exchanged(&self, (from, one): (Spot<'_>, Ino), (to, other): (Spot<'_>, Ino)) {
        let (wall, now) = (self.clock.wall(), self.clock.monotonic());
        let mut files = Vec::new();
        {
            let mut state = self.state();
            state.tree.swap(one, other);
            for ino in [one, other] {
                state.tree.elsewhere.remove(&ino);
                let Some(node) = state.tree.node_mut(ino) else { continue };
                node.as_of = Some(now);
                node.looks.ctime = wall;
                match node.kind {
                    Kind::Folder(_) => files.extend(state.tree.files_below(ino)),
                    Kind::File(_) => files.push(ino),
                }
            }
            state.tree.names_changed(from.0, wall);
            state.tree.names_changed(to.0, wall);
            // What was said of its new name went with the one that had it.
            for ino in [other, one] {
                let noted = state.tree.note(ino, What::Attributes);
                state.tree.unrecorded.extend(noted);
            }
        }
        self.record_noted_or_log(OP, one);
        self.tell_of(&files);
    }
}
