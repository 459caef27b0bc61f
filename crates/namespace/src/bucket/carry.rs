//! Copies all objects below one prefix to another, many at a time, and removes what was copied.

use std::collections::{BTreeSet, HashMap};
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use remote::{
    Condition, Entry, Error, ErrorKind, Key, ListOrder, ListRequest, Meta, Original, Result,
    Version,
};

use super::ahead::{Ahead, Found};
use super::journal::Record;
use super::listing;
use super::marks::{Manner, Marks, Side, mark};
use super::shared::Shared;
use super::unlinked;
use crate::RecordId;

/// Copies, and removals, under way at a time: a directory of a hundred files, its marker and its attributes go at
/// once, and the requests of other callers still have room.
const REQUESTS_MAX: usize = 104;

/// Marks in one record of the journal.
const MARKS_MAX: usize = 1000;

/// How often an object is copied again that others change meanwhile.
const TRIES_MAX: usize = 3;

/// From one prefix to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) from: Key,
    pub(super) to: Key,
}

/// What may be at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// Nothing, but for the marker of an empty folder.
    Free,
    /// What an earlier try of the same move copied.
    Begun,
}

/// Objects that are to be copied.
#[derive(Debug)]
pub(super) enum Objects {
    /// A listing says which.
    Listed,
    /// All that a listing said a moment ago.
    Known(Vec<Found>),
}

/// Where the copies are of what is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copies<'a> {
    /// Where they were made: nobody had time to take them for something that is too much.
    There,
    /// Below this prefix, as far as nobody has removed them; what has none any more stays.
    Below(&'a Key),
}

/// What was copied.
#[derive(Debug, Default)]
pub(super) struct Cargo {
    /// Every copy, on both sides.
    pub(super) marks: Marks,
    /// Those that have another version than what they were copied from: what their keys go on with
    /// behind the prefix, and both versions.
    pub(super) changed: HashMap<Vec<u8>, (Version, Version)>,
    /// How many there are.
    pub(super) objects: u64,
    /// How many objects of others were in the way.
    pub(super) left: u64,
    /// What the journal has of it.
    pub(super) records: Vec<RecordId>,
    /// Marks that the journal does not have yet.
    fresh: Vec<u64>,
}

/// What became of one object.
enum Copied {
    /// It is at the destination, in these versions.
    Yes { rest: Vec<u8>, old: Version, new: Version },
    /// Others removed it meanwhile.
    Gone,
    /// Something else is where it was to go: both stay.
    InTheWay,
}

/// What to do about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Copy,
    /// It was copied, to this version.
    Done(Version),
    /// Only the objects' metadata can tell.
    Compare,
    Leave,
}

/// Decides. `marked` says that the journal has this version as copied.
fn step(marked: bool, source: &Meta, there: Option<&Meta>) -> Step {
    match there {
        _ if marked => Step::Done(there.map_or(&source.version, |there| &there.version).clone()),
        None => Step::Copy,
        Some(there) if there.size != source.size => Step::Leave,
        Some(there) if there.version == source.version => Step::Done(there.version.clone()),
        Some(_) => Step::Compare,
    }
}

/// The folders that objects were in, which stay where they are things of their own: by what their keys go on with
/// behind the prefix. Those of a tree of many more stay, without anything in them.
#[derive(Debug, Default)]
struct Folders(BTreeSet<Vec<u8>>);

/// So many folders are remembered.
const FOLDERS_MAX: usize = 100_000;

impl Folders {
    fn add(&mut self, rest: &[u8]) {
        let ends = rest.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for end in ends.map(|(slash, _)| slash + 1).chain([0]) {
            if self.0.len() < FOLDERS_MAX && !self.0.contains(&rest[..end]) {
                self.0.insert(rest[..end].to_vec());
            }
        }
    }
}

impl Shared {
    /// Brings everything on `route` to its destination for the move `of`, which is in the journal: in one step
    /// if the store can do that, else by copies. What is under way when something fails is waited for: it
    /// might arrive after it was cleared away.
    pub(super) async fn copy_all(
        self: &Arc<Self>,
        (route, objects): (&Route, Objects),
        of: RecordId,
        destination: Destination,
        cargo: &mut Cargo,
    ) -> Result<()> {
        if self.move_at_once(route).await? == Manner::AtOnce {
            cargo.marks.set_at_once();
            return Ok(());
        }
        let before = Arc::new(std::mem::take(&mut cargo.marks));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let copies = self
            .pairs(route, objects, destination)
            .take_while(move |_| ready(!stopped.load(Ordering::Relaxed)))
            .map(|pair| {
                let (shared, route) = (Arc::clone(self), route.clone());
                let before = Arc::clone(&before);
                async move {
                    let (found, there) = pair?;
                    shared.copy_found(&route, found, there, &before).await
                }
            });
        let mut copies = copies.buffer_unordered(REQUESTS_MAX).boxed();
        let mut outcome = Ok(());
        while let Some(copied) = copies.next().await {
            match copied {
                Ok(Copied::Yes { rest, old, new }) => cargo.add(&before, rest, old, new),
                Ok(Copied::Gone) => {}
                Ok(Copied::InTheWay) => cargo.left += 1,
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    outcome = outcome.and(Err(error));
                }
            }
            if cargo.fresh.len() == MARKS_MAX && outcome.is_ok() {
                self.note_marks(of, cargo);
            }
        }
        drop(copies);
        self.note_marks(of, cargo);
        let before = Arc::into_inner(before).expect("all copies are over");
        cargo.marks.join(before);
        outcome
    }

    /// As [`Shared::copy_all`]; or the one object of that name, if it is no prefix.
    pub(super) async fn copy_what(
        self: &Arc<Self>,
        route: &Route,
        of: RecordId,
        destination: Destination,
        cargo: &mut Cargo,
    ) -> Result<()> {
        if is_prefix(&route.from) {
            return self.copy_all((route, Objects::Listed), of, destination, cargo).await;
        }
        let (source, copy) = self.compare(route, b"").await?;
        let Some(source) = source else { return Ok(()) };
        let copy = copy.filter(|_| destination == Destination::Begun);
        let copied = match copy {
            Some(copy) if self.is_copied(route, b"", (&source, &copy)).await? => {
                Copied::Yes { rest: Vec::new(), old: source.version, new: copy.version }
            }
            Some(_) => Copied::InTheWay,
            None => self.copy_object(route, Vec::new(), source).await?,
        };
        match copied {
            Copied::Yes { rest, old, new } => cargo.add(&Marks::default(), rest, old, new),
            Copied::Gone => {}
            Copied::InTheWay => cargo.left += 1,
        }
        self.note_marks(of, cargo);
        Ok(())
    }

    /// As [`Shared::remove_all`]; or the one object of that name, if it is no prefix.
    pub(super) async fn remove_what(self: &Arc<Self>, key: &Key, marks: &Marks) -> Result<()> {
        if is_prefix(key) {
            return self.remove_all(key, Copies::There, marks).await.map(|_| ());
        }
        match there(self.remote.head(key).await)? {
            Some(meta) if marks.has(Side::From, b"", &meta.version) => {
                self.remote.delete(key).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What the journal lacks is found out again by who replays it.
    fn note_marks(&self, of: RecordId, cargo: &mut Cargo) {
        if cargo.fresh.is_empty() {
            return;
        }
        let marks = std::mem::take(&mut cargo.fresh);
        cargo.marks.extend(&marks);
        match self.ledger.append(&Record::Copied { of, marks }.to_bytes()) {
            Ok(record) => cargo.records.push(record),
            Err(failed) => tracing::warn!(%failed, "a move goes on without its marks"),
        }
    }

    async fn copy_found(
        &self,
        route: &Route,
        (rest, source): Found,
        there: Option<Meta>,
        before: &Marks,
    ) -> Result<Copied> {
        let marked = before.has(Side::From, &rest, &source.version);
        let old = source.version.clone();
        match step(marked, &source, there.as_ref()) {
            Step::Done(new) => Ok(Copied::Yes { rest, old, new }),
            Step::Leave => {
                tracing::warn!(key = %route.to.join(&rest), "what others made stays, beside what was to move there");
                Ok(Copied::InTheWay)
            }
            Step::Copy => self.copy_object(route, rest, source).await,
            Step::Compare => match self.compare(route, &rest).await? {
                (Some(source), Some(copy)) => {
                    if !self.is_copied(route, &rest, (&source, &copy)).await? {
                        return Ok(Copied::InTheWay);
                    }
                    Ok(Copied::Yes { rest, old: source.version, new: copy.version })
                }
                (Some(source), None) => self.copy_object(route, rest, source).await,
                (None, _) => Ok(Copied::Gone),
            },
        }
    }

    async fn copy_object(&self, route: &Route, rest: Vec<u8>, source: Meta) -> Result<Copied> {
        let (from, to) = (route.from.join(&rest), route.to.join(&rest));
        // The marker of an empty folder is replaced by that of the one that takes its place.
        let free = if rest.is_empty() { Condition::Always } else { Condition::Absent };
        let Meta { version: mut old, mut size, .. } = source;
        for _ in 0..TRIES_MAX {
            match self.remote.copy(Original { key: &from, version: &old, size }, &to, &free).await {
                Ok(new) => return Ok(Copied::Yes { rest, old, new }),
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(Copied::Gone),
                Err(error) if error.kind == ErrorKind::Changed => {}
                Err(error) => return Err(error),
            }
            match self.compare(route, &rest).await? {
                (None, _) => return Ok(Copied::Gone),
                (Some(source), _) if source.version != old => {
                    (old, size) = (source.version, source.size);
                }
                (Some(source), Some(copy)) => {
                    // An earlier try whose answer was lost.
                    if self.is_copied(route, &rest, (&source, &copy)).await? {
                        return Ok(Copied::Yes { rest, old, new: copy.version });
                    }
                    break;
                }
                (Some(_), None) => {}
            }
        }
        tracing::warn!(key = %to, "not moved: others are at work there");
        Ok(Copied::InTheWay)
    }

    async fn is_copied(
        &self,
        route: &Route,
        rest: &[u8],
        (source, copy): (&Meta, &Meta),
    ) -> Result<bool> {
        let (from, to) = (route.from.join(rest), route.to.join(rest));
        self.is_copy((&from, source), (&to, copy)).await
    }

    /// Both ends of the way of one object, with their metadata.
    async fn compare(&self, route: &Route, rest: &[u8]) -> Result<(Option<Meta>, Option<Meta>)> {
        let (from, to) = (route.from.join(rest), route.to.join(rest));
        let (from, to) = futures::join!(self.remote.head(&from), self.remote.head(&to));
        Ok((there(from)?, there(to)?))
    }

    /// Removes what was copied from below `prefix`, as it is listed now; returns how many objects stay.
    pub(super) async fn remove_all(
        self: &Arc<Self>,
        prefix: &Key,
        copies: Copies<'_>,
        marks: &Marks,
    ) -> Result<u64> {
        let mut left = 0;
        let mut outcome = Ok(());
        let stop = AtomicBool::new(false);
        let mut folders = self.has_real_folders().then(Folders::default);
        let found = match copies {
            Copies::There => self.movable(prefix).map_ok(|found| (found, true)).boxed(),
            Copies::Below(to) => {
                let route = Route { from: prefix.clone(), to: to.clone() };
                let pairs = self.pairs(&route, Objects::Listed, Destination::Begun);
                pairs.map_ok(|(found, copy)| (found, copy.is_some())).boxed()
            }
        };
        let mut removals = found
            .take_while(|_| ready(!stop.load(Ordering::Relaxed)))
            .map(|found| {
                let remote = Arc::clone(&self.remote);
                let chosen = found.map(|((rest, meta), is_copied)| {
                    let marked = is_copied && marks.has(Side::From, &rest, &meta.version);
                    if let Some(folders) = &mut folders {
                        folders.add(&rest);
                    }
                    (prefix.join(&rest), marked)
                });
                async move {
                    let (key, marked) = chosen?;
                    if marked { remote.delete(&key).await.map(|()| None) } else { Ok(Some(key)) }
                }
            })
            .buffer_unordered(REQUESTS_MAX);
        while let Some(removed) = removals.next().await {
            match removed {
                Ok(None) => {}
                Ok(Some(key)) => {
                    tracing::warn!(%key, "came or changed during a move, or has no copy any more: it stays");
                    left += 1;
                }
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    outcome = outcome.and(Err(error));
                }
            }
        }
        drop(removals);
        outcome?;
        if left == 0 {
            self.remove_stub(prefix).await?;
            for rest in folders.unwrap_or_default().0.into_iter().rev() {
                self.remote.delete(&prefix.join(&rest)).await?;
            }
        }
        Ok(left)
    }

    /// Removes again what was copied on `route`, or moves back what was moved at once. Who took a copy for what
    /// was moved may have removed the original since: then the copy stays.
    pub(super) async fn uncopy(self: &Arc<Self>, route: &Route, marks: &Marks) -> Result<()> {
        if marks.is_empty() && self.move_back(route).await? == Manner::AtOnce {
            return Ok(());
        }
        if !is_prefix(&route.to) {
            let (Some(_), Some(copy)) = self.compare(route, b"").await? else { return Ok(()) };
            return self.uncopy_object(route, (Vec::new(), copy), marks).await;
        }
        let mut outcome = Ok(());
        let stop = AtomicBool::new(false);
        let back = Route { from: route.to.clone(), to: route.from.clone() };
        let mut removals = self
            .pairs(&back, Objects::Listed, Destination::Begun)
            .take_while(|_| ready(!stop.load(Ordering::Relaxed)))
            .map(|pair| async move {
                match pair? {
                    (copy, Some(_)) => self.uncopy_object(route, copy, marks).await,
                    (_, None) => Ok(()),
                }
            })
            .buffer_unordered(REQUESTS_MAX);
        while let Some(removed) = removals.next().await {
            stop.fetch_or(removed.is_err(), Ordering::Relaxed);
            outcome = outcome.and(removed);
        }
        outcome
    }

    /// Removes one object of those at the destination, if it was copied there.
    async fn uncopy_object(
        &self,
        route: &Route,
        (rest, found): Found,
        marks: &Marks,
    ) -> Result<()> {
        let ours = marks.has(Side::To, &rest, &found.version)
            || match self.compare(route, &rest).await? {
                (Some(source), Some(copy)) => {
                    self.is_copied(route, &rest, (&source, &copy)).await?
                }
                (None, _) | (_, None) => false,
            };
        if ours { self.remote.delete(&route.to.join(&rest)).await } else { Ok(()) }
    }

    /// Every object below `prefix` that goes where the prefix goes, as [`Shared::objects`]. The bytes of removed
    /// files stay where their readers find them, who remove them, too.
    pub(super) fn movable(&self, prefix: &Key) -> BoxStream<'static, Result<Found>> {
        let moves = |found: &Found| ready(!unlinked::is_kept(&found.0));
        self.objects(prefix).try_filter(moves).boxed()
    }

    /// Every object below `prefix`, page by page, in the order of the keys if the store has one.
    pub(super) fn objects(&self, prefix: &Key) -> BoxStream<'static, Result<Found>> {
        let remote = Arc::clone(&self.remote);
        let prefix = prefix.clone();
        let first = listing::below(&prefix, listing::PAGE_ENTRIES_MAX);
        let pages = stream::try_unfold(Some(first), move |request| {
            let (remote, prefix) = (Arc::clone(&remote), prefix.clone());
            async move {
                let Some(request) = request else { return Ok(None) };
                let page = remote.list(&request).await?;
                let next = match page.next {
                    None => None,
                    // A store that hands out the same mark again would be listed for ever.
                    Some(next) if request.continuation.as_ref() == Some(&next) => {
                        return Err(Error::new(ErrorKind::Corrupt, "list", &prefix));
                    }
                    Some(next) => Some(ListRequest { continuation: Some(next), ..request }),
                };
                let found = page.entries.into_iter().filter_map(move |entry| match entry {
                    Entry::Object(key, meta) => {
                        let rest = key.as_bytes().strip_prefix(prefix.as_bytes())?.to_vec();
                        Some(Ok((rest, meta)))
                    }
                    Entry::Prefix(_) => None,
                });
                Ok(Some((stream::iter(found.collect::<Vec<_>>()), next)))
            }
        });
        pages.try_flatten().boxed()
    }

    /// Every object on the way, with what is at its destination.
    fn pairs(
        self: &Arc<Self>,
        route: &Route,
        objects: Objects,
        destination: Destination,
    ) -> BoxStream<'static, Result<(Found, Option<Meta>)>> {
        let from = match objects {
            Objects::Listed => self.movable(&route.from),
            Objects::Known(objects) => stream::iter(objects.into_iter().map(Ok)).boxed(),
        };
        match destination {
            Destination::Free => from.map_ok(|found| (found, None)).boxed(),
            Destination::Begun if self.remote.personality().naming.order == ListOrder::Unsorted => {
                let (shared, route) = (Arc::clone(self), route.clone());
                let pairs = from.and_then(move |found| {
                    let (shared, to) = (Arc::clone(&shared), route.to.join(&found.0));
                    async move { Ok((found, there(shared.remote.head(&to).await)?)) }
                });
                pairs.boxed()
            }
            Destination::Begun => {
                let to = Ahead::of(self.movable(&route.to));
                let pairs = stream::try_unfold((from, to), |(mut from, mut to)| async move {
                    let Some(found) = from.try_next().await? else { return Ok(None) };
                    let there = to.find(&found.0).await?;
                    Ok(Some(((found, there), (from, to))))
                });
                pairs.boxed()
            }
        }
    }
}

impl Cargo {
    /// One object, the version that was copied and that of the copy.
    pub(super) fn of_one(old: &Version, new: &Version) -> Cargo {
        let mut cargo = Cargo::default();
        cargo.marks.extend(&[mark(Side::From, b"", old), mark(Side::To, b"", new)]);
        cargo
    }

    /// What the journal is told of it, as part of the move `of`.
    pub(super) fn copied(&self, of: RecordId) -> Record {
        Record::Copied { of, marks: self.marks.all() }
    }

    /// For another try, which need not do again what has a mark.
    pub(super) fn again(self) -> Cargo {
        Cargo { marks: self.marks, ..Cargo::default() }
    }

    fn add(&mut self, before: &Marks, rest: Vec<u8>, old: Version, new: Version) {
        self.objects += 1;
        if !before.has(Side::From, &rest, &old) {
            self.fresh.push(mark(Side::From, &rest, &old));
            self.fresh.push(mark(Side::To, &rest, &new));
        }
        if old != new {
            self.changed.insert(rest, (old, new));
        }
    }

    /// Whether nothing else says that the folder is there: there was nothing in it to be copied.
    pub(super) fn is_empty(&self) -> bool {
        self.objects == 0 && self.marks.manner() == Manner::Copied
    }

    /// The version in which the object is now that was this one, if it was moved.
    pub(super) fn now(&self, rest: &[u8], old: &Version) -> Option<Version> {
        if self.marks.manner() == Manner::AtOnce {
            return Some(old.clone());
        }
        if !self.marks.has(Side::From, rest, old) {
            return None;
        }
        match self.changed.get(rest) {
            Some((from, to)) if from == old => Some(to.clone()),
            Some(_) | None => Some(old.clone()),
        }
    }
}

/// Whether a key is what those of a folder begin with.
pub(super) fn is_prefix(key: &Key) -> bool {
    key.as_bytes().ends_with(b"/")
}

/// What a HEAD found, if there is anything.
pub(super) fn there(found: Result<Meta>) -> Result<Option<Meta>> {
    match found {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
