//! Finds a name: in what is remembered, or in the bucket.

use std::sync::Arc;
use std::time::Duration;

use base::{Ino, Name};
use remote::{Entry, ErrorKind as RemoteErrorKind, Key};

use super::ask::Ask;
use super::flight::Scope;
use super::keys;
use super::listing::{self, Seen, There};
use super::nodes::{Kind, Place};
use super::shared::{Shared, State};
use super::tree::Tree;
use crate::{Error, Result};

/// Questions this close together belong together, even where nothing is believed for that long.
const SOON_MIN: Duration = Duration::from_secs(1);

/// What is known of a name without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It is this node.
    Present(Ino),
    /// It is not there.
    Absent,
    /// Too little.
    Unknown,
}

/// How to go on looking for a name.
enum Step {
    /// It is found, or not there.
    Known(Option<Ino>),
    /// The bucket is to be asked.
    Ask(Ask, Key),
}

impl Shared {
    /// The node `name` in the folder `parent`, as of at most the time to live ago.
    pub(super) async fn find(
        self: &Arc<Self>,
        op: &'static str,
        parent: Ino,
        name: &Name,
    ) -> Result<Option<Ino>> {
        let (ask, prefix) = match self.begin(op, parent, name)? {
            Step::Known(found) => return Ok(found),
            Step::Ask(ask, prefix) => (ask, prefix),
        };
        let scope = match ask {
            Ask::One => None,
            Ask::FirstPage => Some(Scope::First),
            Ask::PageFrom => Some(Scope::From(name.clone())),
        };
        if let Some(scope) = scope {
            let answer = self.pages(op, parent, scope).await?;
            let covers = answer.range.as_ref().is_some_and(|range| range.covers(name));
            let state = self.state();
            match state.tree.child(parent, name) {
                Some(ino) if covers => return Ok(Some(ino)),
                // Else it was told of and is forgotten already, for want of room.
                None if covers && state.tree.covered(parent, name) => return Ok(None),
                Some(_) | None => {}
            }
        }
        self.ask_about(op, (parent, name), &prefix).await
    }

    /// Makes sure that what is remembered of `ino` is at most the time to live old.
    pub(super) async fn revalidate(self: &Arc<Self>, op: &'static str, ino: Ino) -> Result<()> {
        let now = self.clock.monotonic();
        let (parent, name) = {
            let mut state = self.state();
            let node = state.tree.named_by_kernel(op, ino)?;
            if node.unpublished() || node.fresh(now, self.options.metadata_ttl) {
                return Ok(());
            }
            match node.place.clone() {
                Place::Named { parent, name } => (parent, name),
                Place::Root | Place::Unlinked | Place::Replaced => return Ok(()),
            }
        };
        self.find(op, parent, &name).await.map(|_| ())
    }

    fn begin(&self, op: &'static str, parent: Ino, name: &Name) -> Result<Step> {
        let now = self.clock.monotonic();
        let ttl = self.options.metadata_ttl;
        let mut state = self.state();
        let prefix = state.tree.prefix(op, parent)?;
        keys::check_length(&prefix, name).map_err(|kind| Error::name(kind, op, name))?;
        match state.tree.known(parent, name, now, ttl) {
            Known::Present(ino) => {
                state.tree.earn(parent, name);
                state.tree.touch(ino);
                Ok(Step::Known(Some(ino)))
            }
            Known::Absent => {
                state.tree.earn(parent, name);
                Ok(Step::Known(None))
            }
            Known::Unknown => {
                let folder = state.tree.folder_mut(parent).expect("it has a prefix");
                Ok(Step::Ask(folder.interest.ask(name, now, ttl.max(SOON_MIN)), prefix))
            }
        }
    }

    /// Asks about one name: is there such a key, is there a key below it.
    async fn ask_about(
        &self,
        op: &'static str,
        (parent, name): (Ino, &Name),
        prefix: &Key,
    ) -> Result<Option<Ino>> {
        let ticket = self.changes.ticket();
        let as_of = self.clock.monotonic();
        let (object, below) = (keys::file(prefix, name), keys::folder(prefix, name));
        let below_it = listing::below(&below, 1);
        let (head, page) = futures::join!(self.remote.head(&object), self.remote.list(&below_it));

        let folder = !page.map_err(|error| Error::remote(op, error))?.entries.is_empty();
        let there = match head {
            Ok(_) if folder => {
                tracing::warn!(key = %object, "the object is hidden by the folder of its name");
                There::Folder
            }
            Ok(meta) => There::File(Seen::headed(meta)),
            Err(error) if error.kind == RemoteErrorKind::NotFound => {
                if folder {
                    There::Folder
                } else {
                    There::Nothing
                }
            }
            Err(error) => return Err(Error::remote(op, error)),
        };

        let mut state = self.state();
        if state.is_at(parent, prefix) {
            state.tree.tell_one(&ticket, (parent, name), there, as_of);
        }
        let found = state.tree.child(parent, name);
        state.tree.shrink(self.options.nodes_max, found);
        Ok(found)
    }

    /// Whether any key begins with `prefix` but for `prefix` itself; and whether that is a key.
    pub(super) async fn look_below(&self, op: &'static str, prefix: &Key) -> Result<LookBelow> {
        let page = self.remote.list(&listing::below(prefix, 2)).await;
        let entries = page.map_err(|error| Error::remote(op, error))?.entries;
        let is_marker = |entry: &Entry| entry.key() == prefix;
        Ok(LookBelow {
            marker: entries.iter().any(is_marker),
            others: !entries.iter().all(is_marker),
        })
    }
}

/// What the bucket has below a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LookBelow {
    /// The folder's marker.
    pub(super) marker: bool,
    /// Keys beyond the marker.
    pub(super) others: bool,
}

impl State {
    /// Whether the folder `dir` still has the prefix that the bucket was asked about.
    pub(super) fn is_at(&self, dir: Ino, prefix: &Key) -> bool {
        self.tree.prefix("lookup", dir).is_ok_and(|now| now == *prefix)
    }
}

impl Tree {
    fn known(&self, parent: Ino, name: &Name, now: Duration, ttl: Duration) -> Known {
        let Some(folder) = self.folder(parent) else { return Known::Unknown };
        let window = folder.windows.covering(name);
        let window_fresh = window.is_some_and(|window| now < window.as_of + ttl);
        match folder.children.get(name) {
            Some(&ino) => {
                let node = self.node(ino).expect("a child is remembered");
                if node.unpublished() || node.fresh(now, ttl) {
                    Known::Present(ino)
                } else {
                    Known::Unknown
                }
            }
            None if window_fresh => Known::Absent,
            None => Known::Unknown,
        }
    }

    /// A question about `name` was answered from memory.
    fn earn(&mut self, parent: Ino, name: &Name) {
        if self.covered(parent, name)
            && let Some(folder) = self.folder_mut(parent)
        {
            folder.interest.earn();
        }
    }

    /// Whether the bucket's last word on `name` is remembered.
    fn covered(&self, parent: Ino, name: &Name) -> bool {
        self.folder(parent).is_some_and(|folder| folder.windows.covering(name).is_some())
    }

    /// Whether `ino` is a folder.
    pub(super) fn is_folder(&self, ino: Ino) -> bool {
        self.node(ino).is_some_and(|node| matches!(node.kind, Kind::Folder(_)))
    }
}
