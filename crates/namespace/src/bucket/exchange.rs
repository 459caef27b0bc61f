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
use super::shared::Shared;
use crate::{Error, ErrorKind, RecordId, Result};

const OP: &str = "rename";

/// What the hidden names between begin with.
const BETWEEN_PREFIX: &str = ".quayfs-moving/";

/// How many moves there are.
pub(super) const MOVES: usize = 3;

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
fn alike(place: &Key, what: &Key) -> Key {
    let bare = place.as_bytes().strip_suffix(b"/").unwrap_or(place.as_bytes());
    let slash: &[u8] = if is_prefix(what) { b"/" } else { b"" };
    Key::new([bare, slash].concat())
}

impl Shared {
    /// Lets `one` and `other` change places.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        (from, one): (Spot<'_>, Ino),
        (to, other): (Spot<'_>, Ino),
    ) -> Result<()> {
        let exchange = {
            let state = self.state();
            let key = |(parent, name): Spot<'_>, ino| {
                let prefix = state.tree.prefix(OP, parent)?;
                let is_folder = state.tree.is_folder(ino);
                Ok(if is_folder { keys::folder(&prefix, name) } else { keys::file(&prefix, name) })
            };
            let folders = [one, other].map(|ino| state.tree.is_folder(ino));
            let (one, other) = (key(from, one)?, key(to, other)?);
            // The object of a folder's own key, and the beginnings of names too long to be one.
            if folders != [&one, &other].map(is_prefix) || keys::is_chunk_name(to.1) {
                return Err(Error::name(ErrorKind::Invalid, OP, to.1));
            }
            let between =
                Key::from(format!("{BETWEEN_PREFIX}{}/it", self.random_name(&one)).as_str());
            Exchange { between: alike(&between, &one), one, other }
        };
        let of = self.note_ahead(OP, &Record::Exchange(exchange.clone()))?;
        let mut records = vec![of];
        for (done, (route, moving)) in
            routes(&exchange).into_iter().zip([one, other, one]).enumerate()
        {
            let mut cargo = Cargo::default();
            let mut copied = Ok(());
            if is_prefix(&route.from) {
                copied = self.attributes_settled(&route.from).await;
            }
            if copied.is_ok() {
                let done = self.copy_what(&route, of, Destination::Free, &mut cargo).await;
                copied = done.map_err(|error| Error::remote(OP, error));
            }
            records.append(&mut cargo.records);
            if let Err(error) = copied {
                if done == 0 {
                    // Nothing has moved yet.
                    if self.uncopy(&route, &cargo.marks).await.is_ok() {
                        self.ledger.strike(&records);
                    }
                } else {
                    tracing::error!(%error, "an exchange of names is finished by the next mount");
                }
                return Err(error);
            }
            if is_prefix(&route.to) {
                self.attributes_follow(&route.to, &cargo.changed).await?;
            }
            self.passed(moving, &route, &cargo);
            self.line_lands(moving, &route.to)?;
            if done + 1 == MOVES {
                self.exchanged((from, one), (to, other));
            }
            if is_prefix(&route.from) {
                self.attributes_left(&route.from);
            }
            let removed = self.remove_what(&route.from, &cargo.marks).await;
            removed.map_err(|error| Error::remote(OP, error))?;
            let stage = Record::Stage { of, done: done as u64 + 1 };
            records.push(self.note_ahead(OP, &stage)?);
            self.line_leaves(&route.from)?;
        }
        self.ledger.strike(&records);
        Ok(())
    }

    /// What `moving` names is elsewhere now.
    fn passed(&self, moving: Ino, route: &Route, cargo: &Cargo) {
        let files = {
            let mut state = self.state();
            match state.tree.node_mut(moving).map(|node| &mut node.kind) {
                Some(Kind::Folder(_)) => {
                    state.tree.elsewhere.insert(moving, route.to.clone());
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

    /// Goes on with an exchange of which so many moves are done.
    pub(super) async fn finish_exchange(
        self: &Arc<Self>,
        (of, exchange): (RecordId, &Exchange),
        done: usize,
        records: &mut Vec<RecordId>,
    ) -> Result<()> {
        let routes = routes(exchange);
        if let Some(last) = done.checked_sub(1).and_then(|last| routes.get(last)) {
            self.line_left((&last.from, &last.to)).await?;
        }
        for (number, route) in routes.into_iter().enumerate().skip(done) {
            if is_prefix(&route.from) {
                self.attributes_settled(&route.from).await?;
            }
            let mut cargo = Cargo::default();
            let copied = self.copy_what(&route, of, Destination::Begun, &mut cargo).await;
            records.append(&mut cargo.records);
            copied.map_err(|error| Error::remote(OP, error))?;
            if cargo.left > 0 {
                return Err(Error {
                    kind: ErrorKind::Exists,
                    op: OP,
                    subject: route.to.to_string(),
                    source: None,
                });
            }
            if is_prefix(&route.to) {
                self.attributes_follow(&route.to, &cargo.changed).await?;
            }
            self.line_follows((&route.from, &route.to), &|of| cargo.now(b"", of)).await?;
            let removed = self.remove_what(&route.from, &cargo.marks).await;
            removed.map_err(|error| Error::remote(OP, error))?;
            records.push(self.note_ahead(OP, &Record::Stage { of, done: number as u64 + 1 })?);
            self.line_leaves(&route.from)?;
        }
        Ok(())
    }
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
