//! Takes turns at paths that may change while one waits for them.

use base::{Ino, Name};

use super::change::InLine;
use super::nodes::Place;
use super::shared::{Shared, State};
use super::turns::{Path, Stuck, Turn, Want};
use crate::{Error, ErrorKind, NameGuard, Result};

/// How often a path may change while one waits for it.
const TRIES_MAX: usize = 100;

impl Shared {
    /// Waits until nobody else changes these names, or anything below them.
    pub(super) async fn alone(&self, op: &'static str, names: &[(Ino, &Name)]) -> Result<Turn> {
        self.turn(op, names, Want::Exclusive).await
    }

    /// Waits until nobody changes this name, or one above it.
    pub(super) async fn beside(&self, op: &'static str, name: (Ino, &Name)) -> Result<Turn> {
        self.turn(op, &[name], Want::Shared).await
    }

    /// A place in the line for a change of these names that is to be made at once. Waits only for
    /// those whose changes are not to be seen yet.
    /// Below a folder that has yet to arrive where its name says, for that too: what is removed or moved
    /// there, or said of it, is about objects under its old name.
    pub(super) async fn ahead(&self, op: &'static str, names: &[(Ino, &Name)]) -> Result<InLine> {
        let is_at_rest = {
            let state = self.state();
            let is_arriving = |(dir, name): &(Ino, &Name)| {
                let child = state.tree.child(*dir, name);
                child.into_iter().chain([*dir]).any(|ino| state.tree.is_arriving(ino))
            };
            !names.iter().any(is_arriving)
        };
        let place = if is_at_rest { self.place_in_line(op, names, Want::Exclusive)? } else { None };
        match place {
            Some(place) => Ok(place),
            None => Ok((self.alone(op, names).await?, None)),
        }
    }

    /// Waits until the bucket has what was done to these names so far.
    pub(super) async fn caught_up(&self, op: &'static str, names: &[(Ino, &Name)]) -> Result<()> {
        self.outbox.hurry();
        self.alone(op, names).await.map(drop)
    }

    /// As [`Shared::beside`], for who only needs the name, and not what the bucket has of it.
    pub(super) async fn beside_here(&self, op: &'static str, name: (Ino, &Name)) -> Result<Turn> {
        match self.place_in_line(op, &[name], Want::Shared)? {
            Some((turn, _)) => Ok(turn),
            None => self.beside(op, name).await,
        }
    }

    /// As [`Shared::settle_name`], for who only needs the name, and not what the bucket has of it.
    pub(super) async fn settle_here(&self, ino: Ino) -> Result<NameGuard> {
        let Some((parent, name)) = self.place(ino)? else { return Ok(NameGuard::none()) };
        if self.state().tree.is_arriving(ino) {
            return self.settle_name(ino).await;
        }
        match self.place_in_line("settle", &[(parent, &name)], Want::Shared) {
            Ok(Some((turn, _))) if self.place(ino)? == Some((parent, name)) => {
                Ok(NameGuard::new(turn))
            }
            Ok(_) | Err(_) => self.settle_name(ino).await,
        }
    }

    fn place_in_line(
        &self,
        op: &'static str,
        names: &[(Ino, &Name)],
        want: fn(Path) -> Want,
    ) -> Result<Option<InLine>> {
        // Under the lock of the names, so that none changes between the look and the place.
        let state = self.state();
        let wants = names.iter().map(|&name| state.path_of(op, name).map(want));
        Ok(self.turns.pass(wants.collect::<Result<_>>()?))
    }

    /// Keeps the name of the file `ino`, or its having none, as it is.
    pub(super) async fn settle_name(&self, ino: Ino) -> Result<NameGuard> {
        for _ in 0..TRIES_MAX {
            let Some((parent, name)) = self.place(ino)? else { return Ok(NameGuard::none()) };
            match self.beside("settle", (parent, &name)).await {
                Ok(turn) if self.place(ino)? == Some((parent, name)) => {
                    return Ok(NameGuard::new(turn));
                }
                // It was renamed, or lost its name with the folder, meanwhile.
                Ok(_) => {}
                Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::node(ErrorKind::Stale, "settle", ino))
    }

    /// Where `ino` is; `None` if it has no name.
    pub(super) fn place(&self, ino: Ino) -> Result<Option<(Ino, Name)>> {
        let state = self.state();
        let node = state.tree.node(ino);
        let node = node.ok_or_else(|| Error::node(ErrorKind::Stale, "settle", ino))?;
        Ok(match &node.place {
            Place::Named { parent, name } => Some((*parent, name.clone())),
            Place::Root | Place::Unlinked | Place::Replaced => None,
        })
    }

    async fn turn(
        &self,
        op: &'static str,
        names: &[(Ino, &Name)],
        want: fn(Path) -> Want,
    ) -> Result<Turn> {
        let mut paths = self.paths(op, names)?;
        for _ in 0..TRIES_MAX {
            let turn = self.turns.take(paths.iter().cloned().map(want).collect()).await;
            let turn = turn.map_err(|Stuck| {
                Error::name(ErrorKind::Remote(remote::ErrorKind::Unavailable), op, names[0].1)
            })?;
            let now = self.paths(op, names)?;
            if now == paths {
                return Ok(turn);
            }
            paths = now;
        }
        Err(Error::name(ErrorKind::Stale, op, names[0].1))
    }

    fn paths(&self, op: &'static str, names: &[(Ino, &Name)]) -> Result<Vec<Path>> {
        let state = self.state();
        names.iter().map(|&name| state.path_of(op, name)).collect()
    }
}

impl State {
    /// The path of a name in a folder.
    pub(super) fn path_of(&self, op: &'static str, (parent, name): (Ino, &Name)) -> Result<Path> {
        let mut path = self.tree.names_of(op, parent)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend(name.as_bytes());
        Ok(path)
    }
}
