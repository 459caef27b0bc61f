//! Finishes what the journal says that an earlier mount began.
//!
//! A move that was under way goes on to its end, one that had failed is taken back; either can be
//! cut short again at any point. Objects that others put in the way stay, and so does what was to
//! go there.

use std::collections::BTreeMap;
use std::sync::Arc;

use remote::{Condition, ErrorKind as RemoteErrorKind, Key, Metadata, Original, Version};

use super::carry::{Cargo, Destination, Route, there};
use super::journal::{Exchange, FileMove, NewObject, Object, Record};
use super::marks::{Marks, Side};
use super::shared::Shared;
use super::swap::{Swap, routes};
use crate::{Error, ErrorKind, RecordId, Result};

const OP: &str = "replay";

/// What became of what earlier mounts began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Changes of names that are complete now.
    pub moves: u64,
    /// Those that the store did not let us finish; the next mount tries again.
    pub waiting: u64,
}

/// All that the journal has of one change.
#[derive(Debug)]
struct Begun {
    what: What,
    /// Itself, and what was noted of it since.
    records: Vec<RecordId>,
}

#[derive(Debug)]
enum What {
    File(FileMove),
    Folder {
        route: Route,
        phase: Phase,
        cargo: Cargo,
    },
    Unlinked(Key),
    Exchange {
        exchange: Exchange,
        done: usize,
    },
    /// A move that failed before anything had another name.
    Failed(Route),
    Remove(Object),
    MakeFolder {
        marker: Key,
        metadata: Metadata,
    },
    RemoveFolder {
        prefix: Key,
    },
    MakeObject(NewObject),
    Renamed {
        planned: FileMove,
        folder: Key,
    },
}

/// How far the move of a folder came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Copying,
    Landed,
    Undone,
}

impl Shared {
    /// Finishes what `records` say.
    pub(super) async fn replay(self: &Arc<Self>, records: Vec<(RecordId, Vec<u8>)>) -> Finished {
        let mut finished = Finished::default();
        let (begun, ends) = gather(records);
        self.ledger.strike(&ends);
        let mut begun = begun.into_iter();
        while let Some((of, Begun { what, mut records })) = begun.next() {
            let counts = !matches!(what, What::Unlinked(_));
            match self.finish(of, what, &mut records).await {
                Ok(()) => {
                    self.ledger.strike(&records);
                    finished.moves += u64::from(counts);
                }
                Err(error) => {
                    tracing::warn!(%error, "what an earlier mount began has to wait");
                    finished.waiting += 1;
                    if error.kind == ErrorKind::Remote(RemoteErrorKind::Unavailable) {
                        // Each of the others would take as long to find that out, and the mount
                        // waits for us.
                        finished.waiting += begun.by_ref().count() as u64;
                    }
                }
            }
        }
        finished
    }

    async fn finish(
        self: &Arc<Self>,
        of: RecordId,
        what: What,
        records: &mut Vec<RecordId>,
    ) -> Result<()> {
        match what {
            What::File(planned) => self.finish_file(&planned).await,
            What::Folder { route, phase, cargo } => {
                self.finish_folder((of, &route), phase, cargo, records).await
            }
            What::Unlinked(kept) => {
                self.remote.delete(&kept).await.map_err(|error| Error::remote(OP, error))
            }
            What::Exchange { exchange, done } => {
                if let Some(last) =
                    done.checked_sub(1).and_then(|last| routes(&exchange).get(last).cloned())
                {
                    self.line_left((&last.from, &last.to)).await?;
                }
                let mut swap = Swap::begun(exchange, std::mem::take(records), done);
                self.go_on(&mut swap).await
            }
            What::Failed(route) => {
                let uncopied = self.uncopy(&route, &Marks::default()).await;
                uncopied.map_err(|error| Error::remote(OP, error))
            }
            What::Remove(object) => self.finish_removal(&object).await,
            What::MakeFolder { marker, metadata } => {
                let made = self.put_if_absent(&marker, metadata).await;
                made.map_err(|error| Error::remote(OP, error))
            }
            What::RemoveFolder { prefix } => self.remove_folder(&prefix).await,
            What::MakeObject(object) => self.finish_object(OP, &object).await,
            What::Renamed { planned, folder } => {
                self.finish_leaving(&folder, (&planned.from, &planned.version)).await?;
                self.finish_file(&planned).await
            }
        }
    }

    async fn finish_removal(&self, Object { key, version, folder }: &Object) -> Result<()> {
        match self.finish_leaving(folder, (key, version)).await? {
            Leaves::Yes => {
                let removed = self.remote.delete(key).await;
                removed.map_err(|error| Error::remote(OP, error))
            }
            Leaves::Not => Ok(()),
        }
    }

    /// Sees to it that `folder` outlives an object in it that is about to leave, if it is still there.
    async fn finish_leaving(
        &self,
        folder: &Key,
        (key, version): (&Key, &Version),
    ) -> Result<Leaves> {
        if !self.is_still(OP, key, version).await? {
            return Ok(Leaves::Not);
        }
        if !folder.as_bytes().is_empty() && !self.has_others(folder, key).await? {
            let made = self.put_if_absent(folder, Metadata::new()).await;
            made.map_err(|error| Error::remote(OP, error))?;
        }
        Ok(Leaves::Yes)
    }

    async fn finish_file(&self, planned: &FileMove) -> Result<()> {
        let of_store = |error| Error::remote(OP, error);
        let FileMove { from, to, version, over } = planned;
        let (source, copy) = futures::join!(self.remote.head(from), self.remote.head(to));
        let (source, copy) = (there(source).map_err(of_store)?, there(copy).map_err(of_store)?);
        // Gone, or somebody else's since.
        let Some(source) = source.filter(|source| source.version == *version) else {
            return Ok(());
        };
        let found = copy.as_ref().map(|copy| &copy.version);
        let now = if found == over.as_ref() {
            // Before all guesses: what was there may look like a copy.
            let condition = match over {
                Some(over) => Condition::Is(over.clone()),
                None => Condition::Absent,
            };
            let original = Original { key: from, version, size: source.size };
            self.remote.copy(original, to, &condition).await.map_err(of_store)?
        } else {
            let copied = match copy {
                Some(copy) => {
                    let is_copy = self.is_copy((from, &source), (to, &copy)).await;
                    is_copy.map_err(of_store)?.then_some(copy.version)
                }
                None => None,
            };
            let Some(now) = copied else {
                tracing::warn!(%from, %to, "not renamed: others changed the new name meanwhile");
                return Ok(());
            };
            now
        };
        self.line_follows((from, to), &|of| (of == version).then(|| now.clone())).await?;
        self.line_leaves(from)?;
        self.remote.delete(from).await.map_err(of_store)
    }

    async fn finish_folder(
        self: &Arc<Self>,
        (of, route): (RecordId, &Route),
        phase: Phase,
        mut cargo: Cargo,
        records: &mut Vec<RecordId>,
    ) -> Result<()> {
        let of_store = |error| Error::remote(OP, error);
        match phase {
            Phase::Undone => return self.uncopy(route, &cargo.marks).await.map_err(of_store),
            Phase::Copying => {
                self.attributes_settled(&route.from).await?;
                let copied = self.copy_all(route, of, Destination::Begun, &mut cargo).await;
                records.append(&mut cargo.records);
                copied.map_err(of_store)?;
                self.attributes_follow(&route.to, &cargo.changed).await?;
                self.line_follows((&route.from, &route.to), &|_| None).await?;
                records.push(self.note_ahead(OP, &Record::Landed { of })?);
                self.line_leaves(&route.from)?;
            }
            Phase::Landed => self.line_left((&route.from, &route.to)).await?,
        }
        self.remove_all(&route.from, Side::From, &cargo.marks).await.map_err(of_store)?;
        Ok(())
    }
}

/// Whether an object is what was to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    Yes,
    Not,
}

/// How many changes of names `records` begin that are to be finished.
pub(super) fn moves_begun(records: Vec<(RecordId, Vec<u8>)>) -> u64 {
    let (begun, _) = gather(records);
    let moves = begun.values().filter(|begun| !matches!(begun.what, What::Unlinked(_)));
    moves.count() as u64
}

/// What was begun, in the order of its beginning, and what is noted of changes that are over.
fn gather(records: Vec<(RecordId, Vec<u8>)>) -> (BTreeMap<RecordId, Begun>, Vec<RecordId>) {
    let mut begun: BTreeMap<RecordId, Begun> = BTreeMap::new();
    let mut later = Vec::new();
    for (id, bytes) in records {
        let what = match Record::from_bytes(&bytes) {
            Some(Record::MoveFile(planned)) => What::File(planned),
            Some(Record::MoveFolder { from, to }) => {
                let (route, cargo) = (Route { from, to }, Cargo::default());
                What::Folder { route, phase: Phase::Copying, cargo }
            }
            Some(Record::Unlinked { kept }) => What::Unlinked(kept),
            Some(Record::Remove(object)) => What::Remove(object),
            Some(Record::MakeFolder { marker, metadata }) => What::MakeFolder { marker, metadata },
            Some(Record::RemoveFolder { prefix }) => What::RemoveFolder { prefix },
            Some(Record::Renamed { planned, folder }) => What::Renamed { planned, folder },
            Some(Record::MakeObject { object, instead }) => {
                let before = instead.and_then(|instead| begun.remove(&instead));
                let mut records = before.map(|before| before.records).unwrap_or_default();
                records.push(id);
                begun.insert(id, Begun { what: What::MakeObject(object), records });
                continue;
            }
            Some(Record::Exchange(exchange)) => What::Exchange { exchange, done: 0 },
            Some(Record::Copied { of, marks }) => {
                later.push((id, of, Later::Copied(marks)));
                continue;
            }
            Some(Record::Landed { of }) => {
                later.push((id, of, Later::Landed));
                continue;
            }
            Some(Record::Undone { of }) => {
                later.push((id, of, Later::Undone));
                continue;
            }
            Some(Record::Stage { of, done }) => {
                later.push((id, of, Later::Stage(usize::try_from(done).unwrap_or(usize::MAX))));
                continue;
            }
            None => continue,
        };
        begun.insert(id, Begun { what, records: vec![id] });
    }
    let mut ends = Vec::new();
    for (id, of, news) in later {
        match begun.get_mut(&of) {
            Some(begun) => {
                begun.records.push(id);
                begun.what.learn(news);
            }
            None => ends.push(id),
        }
    }
    (begun, ends)
}

/// What was noted of a change since its beginning.
#[derive(Debug)]
enum Later {
    Copied(Vec<u64>),
    Landed,
    Undone,
    Stage(usize),
}

impl What {
    /// The way of the first object that it moves.
    fn first_route(&self) -> Option<Route> {
        match self {
            What::File(FileMove { from, to, .. }) => {
                Some(Route { from: from.clone(), to: to.clone() })
            }
            What::Exchange { exchange, .. } => {
                let [first, ..] = routes(exchange);
                Some(first)
            }
            What::Folder { route, .. } | What::Failed(route) => Some(route.clone()),
            What::Unlinked(_)
            | What::Remove(_)
            | What::MakeFolder { .. }
            | What::RemoveFolder { .. }
            | What::MakeObject(_)
            | What::Renamed { .. } => None,
        }
    }

    fn learn(&mut self, news: Later) {
        match (self, news) {
            (What::Folder { cargo, .. }, Later::Copied(marks)) => cargo.marks.extend(&marks),
            (What::Folder { phase, .. }, Later::Landed) => *phase = Phase::Landed,
            (What::Folder { phase, .. }, Later::Undone) => *phase = Phase::Undone,
            (What::Exchange { done, .. }, Later::Stage(news)) => *done = news.max(*done),
            (what @ (What::Exchange { .. } | What::File(_)), Later::Undone) => {
                if let Some(route) = what.first_route() {
                    *what = What::Failed(route);
                }
            }
            // What was copied by an exchange is found out again.
            (
                What::File(_)
                | What::Folder { .. }
                | What::Unlinked(_)
                | What::Exchange { .. }
                | What::Failed(_)
                | What::Remove(_)
                | What::MakeFolder { .. }
                | What::RemoveFolder { .. }
                | What::MakeObject(_)
                | What::Renamed { .. },
                Later::Copied(_) | Later::Landed | Later::Undone | Later::Stage(_),
            ) => {}
        }
    }
}
