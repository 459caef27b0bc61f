//! Lengths of the keys below a directory that gets a longer prefix.
//!
//! A store takes keys of a certain length, and the keys below a directory are as long as they are deep. So before a
//! directory gets a longer prefix, each key below it is measured: a copy that the store refuses in the middle would
//! have to be taken back.

use base::Ino;
use futures::TryStreamExt as _;
use remote::Key;

use super::ahead::Found;
use super::attributes::place;
use super::carry::{Objects, Route};
use super::keys;
use super::land::Spot;
use super::nodes::Node;
use super::shared::Shared;
use super::tree::Tree;
use crate::{Error, ErrorKind, Result};

/// Objects of a listing that are kept for the copies that follow it.
const KEPT_OBJECTS_MAX: usize = 4_000;

/// Objects that are looked at before a rename returns that does not wait for the bucket. Those behind them are
/// measured before the first copy.
const LOOKED_OBJECTS_MAX: usize = 3_000;

/// Number of objects that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    All,
    AtMost(usize),
}

/// Bytes that a key may have behind the new prefix; `None` if that is not longer than the old one.
fn room(route: &Route, key_bytes_max: usize) -> Option<usize> {
    let (from, to) = (route.from.as_bytes().len(), route.to.as_bytes().len());
    (from < to).then(|| key_bytes_max.saturating_sub(to))
}

/// Bytes that an object needs behind the prefix; the attribute object of a directory is sometimes one of several,
/// whose names are longer.
fn needed(rest: &[u8]) -> usize {
    let slash = rest.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    if place::is_object(&rest[slash..]) { slash + place::LONGEST.len() } else { rest.len() }
}

fn too_long(op: &'static str, route: &Route, rest: &[u8]) -> Error {
    let subject = route.to.join(rest).to_string();
    Error { kind: ErrorKind::NameTooLong, op, subject, source: None }
}

impl Shared {
    /// Refuses `route` for the directory `ino` if a key below it would be longer than the store takes.
    pub(super) async fn check_lengths(
        &self,
        op: &'static str,
        ino: Ino,
        route: &Route,
    ) -> Result<Objects> {
        self.check_known_lengths(op, ino, route)?;
        self.check_listed_lengths(op, route).await
    }

    /// As [`Shared::check_lengths`], of the objects that the bucket has. Returns them if they are not too many.
    pub(super) async fn check_listed_lengths(
        &self,
        op: &'static str,
        route: &Route,
    ) -> Result<Objects> {
        self.measure(op, route, Measure::All).await
    }

    /// As [`Shared::check_lengths`], before the directory gets the name `to` on this mount alone. The copies are
    /// measured once more, so a bucket that is known not to answer is not asked.
    pub(super) async fn check_lengths_soon(
        &self,
        op: &'static str,
        ino: Ino,
        to: Spot<'_>,
    ) -> Result<()> {
        let route = {
            let state = self.state();
            let key = keys::folder(&state.tree.prefix(op, to.0)?, to.1);
            Route { from: state.tree.prefix(op, ino)?, to: key }
        };
        self.check_known_lengths(op, ino, &route)?;
        if !self.state().outage.is_reachable() {
            return Ok(());
        }
        let measured = self.measure(op, &route, Measure::AtMost(LOOKED_OBJECTS_MAX)).await;
        match self.heard(measured) {
            Err(error) if matches!(error.kind, ErrorKind::Remote(_)) => {
                tracing::debug!(%error, "lengths of keys are measured later");
                Ok(())
            }
            measured => measured.map(drop),
        }
    }

    async fn measure(&self, op: &'static str, route: &Route, measure: Measure) -> Result<Objects> {
        let Some(room) = self.room(route) else { return Ok(Objects::Listed) };
        let mut objects = self.movable(&route.from);
        let (mut kept, mut count): (Vec<Found>, usize) = (Vec::new(), 0);
        while let Some(found) =
            objects.try_next().await.map_err(|error| Error::remote(op, error))?
        {
            if room < needed(&found.0) {
                return Err(too_long(op, route, &found.0));
            }
            count += 1;
            if measure == Measure::AtMost(count) {
                return Ok(Objects::Listed);
            }
            if count <= KEPT_OBJECTS_MAX {
                kept.push(found);
            }
        }
        Ok(if count <= KEPT_OBJECTS_MAX { Objects::Known(kept) } else { Objects::Listed })
    }

    /// As [`Shared::check_lengths`], of what the bucket may not have yet.
    fn check_known_lengths(&self, op: &'static str, ino: Ino, route: &Route) -> Result<()> {
        let Some(room) = self.room(route) else { return Ok(()) };
        let rests = self.state().tree.unsent_rests(op, ino, &route.from);
        match rests.iter().find(|rest| room < needed(rest)) {
            Some(rest) => Err(too_long(op, route, rest)),
            None => Ok(()),
        }
    }

    /// Refuses a key that is longer than the store takes at the end of `route`.
    pub(super) fn check_length_of(&self, op: &'static str, route: &Route) -> Result<()> {
        let checked = keys::check_length(&route.to, self.remote.personality().key_bytes_max);
        checked.map_err(|_| too_long(op, route, b""))
    }

    /// A store that renames a directory in one step refuses it, or does all of it.
    fn room(&self, route: &Route) -> Option<usize> {
        let room = room(route, self.remote.personality().key_bytes_max);
        room.filter(|_| !self.has_real_folders())
    }
}

impl Tree {
    /// Keys of directories and of files whose newest bytes the bucket lacks, below the directory `ino`, each as it
    /// goes on behind `prefix`.
    fn unsent_rests(&self, op: &'static str, ino: Ino, prefix: &Key) -> Vec<Vec<u8>> {
        let mut rests = Vec::new();
        let mut dirs = vec![ino];
        while let Some(dir) = dirs.pop() {
            for child in self.children(dir) {
                let key = if self.is_folder(child) {
                    dirs.push(child);
                    self.prefix(op, child)
                } else if self.node(child).is_some_and(Node::unpublished) {
                    self.key(op, child)
                } else {
                    continue;
                };
                let rest = key.ok().and_then(|key| {
                    key.as_bytes().strip_prefix(prefix.as_bytes()).map(<[u8]>::to_vec)
                });
                rests.extend(rest);
            }
        }
        rests
    }
}

#[cfg(test)]
mod tests {
    use remote::Key;

    use super::{needed, room};
    use crate::bucket::carry::Route;

    #[test]
    fn room_is_what_the_longer_prefix_leaves() {
        for (from, to, want) in
            [("a/", "b/", None), ("abc/", "b/", None), ("a/", "abc/", Some(96)), ("a/", "", None)]
        {
            let route = Route { from: Key::from(from), to: Key::from(to) };
            assert_eq!(room(&route, 100), want, "{from} {to}");
        }
        let route = Route { from: Key::from("a/"), to: Key::from("abcdef/") };
        assert_eq!(room(&route, 5), Some(0), "the prefix itself is too long");
    }

    #[test]
    fn attribute_object_needs_the_room_of_several() {
        for (rest, want) in [
            (&b""[..], 0),
            (b"f", 1),
            (b"d/", 2),
            (b"d/f", 3),
            (b".quayfs-attributes", 30),
            (b"d/.quayfs-attributes.01234567.00", 32),
            (b"d/.quayfs-attributes-of-mine", 28),
        ] {
            assert_eq!(needed(rest), want, "{}", String::from_utf8_lossy(rest));
        }
    }
}
