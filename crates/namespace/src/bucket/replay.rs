//! Finishes what the journal says that an earlier mount began.
//!
//! A move that was under way goes on to its end, one that had failed is taken back; either can be
//! cut short again at any point. Objects that others put in the way stay, and so does what was to
//! go there. What is copied and must not be removed is left to no later mount, as in a mount that lives.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use remote::{ErrorKind as RemoteErrorKind, Key, Metadata};

use super::carries::{Carry, End};
use super::carry::{Cargo, Copies, Destination, Objects, Route};
use super::finish_file::Going;
use super::journal::{Exchange, FileMove, NewObject, Object, Record};
use super::marks::Marks;
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
pub(super) struct Begun {
    pub(super) what: What,
    /// Itself, and what was noted of it since.
    records: Vec<RecordId>,
    /// What was copied, as far as that was noted.
    marks: Marks,
    /// The uploads of what goes with it.
    uploads: HashSet<String>,
    /// The upload that made the object, if that was noted.
    maker: Option<String>,
}

/// What was begun.
#[derive(Debug)]
pub(super) enum What {
    File(FileMove),
    Folder {
        route: Route,
        /// What the keys of the folder begin with that is to outlive it, if that was not seen to before.
        above: Option<Key>,
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
pub(super) enum Phase {
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
        while let Some((of, Begun { what, mut records, mut marks, uploads, maker })) = begun.next()
        {
            let counts = !matches!(what, What::Unlinked(_));
            let (route, removed) = (what.first_route(), what.removed().cloned());
            let route = route.filter(|_| !uploads.is_empty());
            let going = if route.is_some() { Going::Along { maker } } else { Going::Nothing };
            match self.finish((of, &going), what, &mut records).await {
                Ok(copied) => {
                    if let Some(route) = route {
                        marks.join(copied);
                        // Struck out when all that went along was looked for.
                        let end = End::Done { marks, records };
                        let Route { from, to } = route;
                        self.carries.add(Carry { uploads, from, to, end });
                    } else {
                        self.ledger.strike(&records);
                    }
                    finished.moves += u64::from(counts);
                }
                Err(error) => {
                    tracing::warn!(%error, "what an earlier mount began has to wait");
                    finished.waiting += 1;
                    self.wait_for((route, removed), uploads);
                    if error.kind == ErrorKind::Remote(RemoteErrorKind::Unavailable) {
                        // Each of the others would take as long to find that out, and the mount
                        // waits for us.
                        for (_, Begun { what, uploads, .. }) in begun.by_ref() {
                            finished.waiting += 1;
                            let removed = what.removed().cloned();
                            self.wait_for((what.first_route(), removed), uploads);
                        }
                    }
                }
            }
        }
        finished
    }

    /// What goes along with a move that has to wait waits, too, and of an object it is known that it is to go.
    fn wait_for(&self, (route, removed): (Option<Route>, Option<Key>), uploads: HashSet<String>) {
        self.carries.removal_waits(removed);
        if let Some(Route { from, to }) = route.filter(|_| !uploads.is_empty()) {
            self.carries.add(Carry { uploads, from, to, end: End::Waits });
        }
    }

    /// Returns what was copied.
    async fn finish(
        self: &Arc<Self>,
        (of, going): (RecordId, &Going),
        what: What,
        records: &mut Vec<RecordId>,
    ) -> Result<Marks> {
        match what {
            What::File(planned) => self.finish_file((of, going), &planned, records).await,
            What::Folder { route, above, phase, mut cargo } => {
                if let Some(above) = above.filter(|_| phase == Phase::Copying) {
                    self.finish_above(&above, &route.from).await?;
                }
                self.finish_folder((of, &route), phase, &mut cargo, records).await?;
                Ok(cargo.marks)
            }
            What::Renamed { planned, folder } => {
                let (key, version) = (planned.from.clone(), Some(planned.version.clone()));
                let leaving = Object { key, version, uploads: Vec::new(), folder };
                self.finish_leaving(&leaving).await?;
                self.finish_file((of, going), &planned, records).await
            }
            What::RemoveFolder { prefix } => {
                self.remove_folder(&prefix).await?;
                self.attributes_gone_before(&prefix, of);
                Ok(Marks::default())
            }
            what @ (What::Unlinked(_)
            | What::Exchange { .. }
            | What::Failed(_)
            | What::Remove(_)
            | What::MakeFolder { .. }
            | What::MakeObject(_)) => {
                self.finish_other(what, records).await.map(|()| Marks::default())
            }
        }
    }

    async fn finish_other(self: &Arc<Self>, what: What, records: &mut Vec<RecordId>) -> Result<()> {
        match what {
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
            What::MakeObject(object) => self.finish_object(OP, &object).await,
            What::File(_)
            | What::Folder { .. }
            | What::Renamed { .. }
            | What::RemoveFolder { .. } => {
                unreachable!("moves and removals of directories are finished elsewhere")
            }
        }
    }

    /// Sees to it that the folder `above` outlives one in it that is about to leave.
    async fn finish_above(&self, above: &Key, leaving: &Key) -> Result<()> {
        let is_empty = above.as_bytes().is_empty();
        if !is_empty && !self.has_others(above, leaving).await? {
            let made = self.put_if_absent(above, Metadata::new()).await;
            made.map_err(|error| Error::remote(OP, error))?;
        }
        Ok(())
    }

    async fn finish_removal(&self, object: &Object) -> Result<()> {
        match self.finish_leaving(object).await? {
            Leaves::Yes => {
                let removed = self.remote.delete(&object.key).await;
                removed.map_err(|error| Error::remote(OP, error))
            }
            Leaves::Not => Ok(()),
        }
    }

    /// Sees to it that its folder outlives an object that is about to leave, if it is still there.
    async fn finish_leaving(&self, object: &Object) -> Result<Leaves> {
        if !self.is_still(OP, object).await? {
            return Ok(Leaves::Not);
        }
        let Object { key, folder, .. } = object;
        if !folder.as_bytes().is_empty() && !self.has_others(folder, key).await? {
            let made = self.put_if_absent(folder, Metadata::new()).await;
            made.map_err(|error| Error::remote(OP, error))?;
        }
        Ok(Leaves::Yes)
    }

    async fn finish_folder(
        self: &Arc<Self>,
        (of, route): (RecordId, &Route),
        phase: Phase,
        cargo: &mut Cargo,
        records: &mut Vec<RecordId>,
    ) -> Result<()> {
        let of_store = |error| Error::remote(OP, error);
        let mut copies = Copies::There;
        match phase {
            Phase::Undone => return self.uncopy(route, &cargo.marks).await.map_err(of_store),
            Phase::Copying => {
                self.attributes_settled(&route.from).await?;
                let objects = (route, Objects::Listed);
                let copied = self.copy_all(objects, of, Destination::Begun, cargo).await;
                records.append(&mut cargo.records);
                if let Err(error) = &copied
                    && self.has_real_folders()
                    && matches!(error.kind, RemoteErrorKind::Changed | RemoteErrorKind::NotFound)
                {
                    tracing::warn!(%error, "not renamed: others changed the names meanwhile");
                    return Ok(());
                }
                copied.map_err(of_store)?;
                if cargo.is_empty() && cargo.left == 0 {
                    // Nothing else says that it is there.
                    let made = self.put_if_absent(&route.to, Metadata::new()).await;
                    made.map_err(of_store)?;
                }
                self.attributes_follow(&route.to, &cargo.changed).await?;
                self.line_follows((&route.from, &route.to), &|_| None).await?;
                records.push(self.note_ahead(OP, &Record::Landed { of })?);
                self.line_leaves(&route.from)?;
            }
            Phase::Landed => {
                if self.has_real_folders() && cargo.marks.is_empty() {
                    cargo.marks.set_at_once();
                }
                self.line_left((&route.from, &route.to)).await?;
                // People may have seen both since.
                copies = Copies::Below(&route.to);
            }
        }
        let removed = self.remove_all(&route.from, copies, &cargo.marks).await;
        self.made_but_for(removed.map_err(of_store))
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
pub(super) fn gather(
    records: Vec<(RecordId, Vec<u8>)>,
) -> (BTreeMap<RecordId, Begun>, Vec<RecordId>) {
    let mut begun: BTreeMap<RecordId, Begun> = BTreeMap::new();
    let mut later = Vec::new();
    for (id, bytes) in records {
        let what = match Record::from_bytes(&bytes) {
            Some(Record::MoveFile(planned)) => What::File(planned),
            Some(Record::MoveFolder { from, to }) => What::folder(Route { from, to }, None),
            Some(Record::RenamedFolder { from, to, folder }) => {
                What::folder(Route { from, to }, Some(folder))
            }
            Some(Record::Carries { of, uploads }) => {
                later.push((id, of, Later::Carries(uploads)));
                continue;
            }
            Some(Record::Maker { of, upload }) => {
                later.push((id, of, Later::Maker(upload)));
                continue;
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
                begun.insert(id, Begun { records, ..Begun::new(id, What::MakeObject(object)) });
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
        begun.insert(id, Begun::new(id, what));
    }
    let mut ends = Vec::new();
    for (id, of, news) in later {
        match begun.get_mut(&of) {
            Some(begun) => {
                begun.records.push(id);
                begun.learn(news);
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
    Carries(Vec<String>),
    Maker(String),
    Landed,
    Undone,
    Stage(usize),
}

impl Begun {
    fn new(id: RecordId, what: What) -> Begun {
        let (marks, uploads) = (Marks::default(), HashSet::new());
        Begun { what, records: vec![id], marks, uploads, maker: None }
    }

    fn learn(&mut self, news: Later) {
        match news {
            Later::Carries(uploads) => self.uploads.extend(uploads),
            Later::Maker(upload) => self.maker = Some(upload),
            Later::Copied(marks) => {
                self.marks.extend(&marks);
                self.what.learn(Later::Copied(marks));
            }
            Later::Undone => {
                self.uploads.clear();
                self.what.learn(Later::Undone);
            }
            news @ (Later::Landed | Later::Stage(_)) => self.what.learn(news),
        }
    }
}

impl What {
    fn folder(route: Route, above: Option<Key>) -> What {
        What::Folder { route, above, phase: Phase::Copying, cargo: Cargo::default() }
    }

    /// The object that is removed, if it is no more than that.
    fn removed(&self) -> Option<&Key> {
        match self {
            What::Remove(object) => Some(&object.key),
            What::File(_)
            | What::Folder { .. }
            | What::Unlinked(_)
            | What::Exchange { .. }
            | What::Failed(_)
            | What::MakeFolder { .. }
            | What::RemoveFolder { .. }
            | What::MakeObject(_)
            | What::Renamed { .. } => None,
        }
    }

    /// The way of the first object that it moves.
    fn first_route(&self) -> Option<Route> {
        match self {
            What::File(FileMove { from, to, .. })
            | What::Renamed { planned: FileMove { from, to, .. }, .. } => {
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
            | What::MakeObject(_) => None,
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
                Later::Copied(_)
                | Later::Carries(_)
                | Later::Maker(_)
                | Later::Landed
                | Later::Undone
                | Later::Stage(_),
            ) => {}
        }
    }
}
