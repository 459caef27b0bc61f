//! The pages of one listing become what is remembered of the folder, and entries for its readers,
//! in key order and each once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use base::{Ino, Name};
use remote::{Entry, Key, Page};

use super::changes::Ticket;
use super::keys;
use super::listing::{PAGE_ENTRIES_MAX, Told};
use super::shared::State;
use super::spans::{SpanId, Spans};
use super::window::{Range, Window, ends_by};
use crate::listing::{Chunk, Filling};

/// A page that was asked for.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) span: SpanId,
    pub(super) page: Page,
    pub(super) ticket: Arc<Ticket>,
    pub(super) as_of: Duration,
    pub(super) took: Duration,
    /// Whether the page begins with the folder.
    pub(super) begins: bool,
}

/// A listing of a folder under one prefix.
#[derive(Debug)]
pub(super) struct Gather {
    dir: Ino,
    prefix: Key,
    began: Duration,
    /// How long it waited for its readers.
    rested: Duration,
    /// Put in before the folder was moved to this prefix.
    sent: HashSet<Name>,
    /// How often the folder had forgotten something when the listing began.
    forgets: u64,
    pub(super) spans: Spans,
    loads: HashMap<SpanId, Load>,
    /// Of names that are told of at the end: their keys lie on both sides of a cut, or elsewhere
    /// than their names say.
    late: Told,
    contested: bool,
    /// How many entries were found, those included that wait for others before them.
    found: usize,
}

/// What is kept of a span that is under way.
#[derive(Debug, Default)]
struct Load {
    /// Lines about names of which the next page may have more to say.
    carried: Vec<(Entry, Duration)>,
    /// Entries that wait for those of the spans before.
    waiting: Vec<Chunk>,
    /// Of the page with which the span began, or went on after a rest. A store may go on with what
    /// it had then.
    began: Option<Arc<Ticket>>,
}

/// Whether the folder is where it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is.
    There,
    /// It was moved or removed: what comes in is about another.
    Elsewhere,
}

impl Gather {
    /// A listing of `dir`, whose prefix is `prefix`, begun at `began`, for readers who have `sent`
    /// already.
    pub(super) fn new(
        state: &State,
        (dir, prefix): (Ino, Key),
        began: Duration,
        sent: HashSet<Name>,
    ) -> Gather {
        let forgets = state.tree.folder(dir).map_or(0, |folder| folder.windows.forgets());
        Gather {
            dir,
            prefix,
            began,
            rested: Duration::ZERO,
            sent,
            forgets,
            spans: Spans::default(),
            loads: HashMap::new(),
            late: Told::default(),
            contested: false,
            found: 0,
        }
    }

    /// The prefix that is listed.
    pub(super) fn prefix(&self) -> &Key {
        &self.prefix
    }

    /// How many entries were found.
    pub(super) fn found(&self) -> usize {
        self.found
    }

    /// Whether what came in is all told of, so that nothing of it grows old.
    pub(super) fn is_told(&self) -> bool {
        self.late.names.is_empty()
    }

    /// Since when changes made here count for the next page of `span`; `None` for one that begins.
    pub(super) fn began(&self, span: SpanId) -> Option<Arc<Ticket>> {
        self.loads.get(&span)?.began.clone()
    }

    /// Nothing is asked for a while: what comes after it is asked for anew.
    pub(super) fn rest(&mut self) {
        self.spans.begin_anew();
        for load in self.loads.values_mut() {
            load.began = None;
        }
    }

    /// It waited so long for its readers.
    pub(super) fn rested(&mut self, rested: Duration) {
        self.rested += rested;
    }

    /// Takes in a page.
    pub(super) fn take_in(
        &mut self,
        state: &mut State,
        filling: &Filling,
        answer: Answer,
    ) -> Found {
        if !state.is_told_of(&answer.ticket, self.dir, &self.prefix) {
            return Found::Elsewhere;
        }
        let Answer { span, page: Page { entries, next }, ticket, as_of, took, begins: _ } = answer;
        let rests: Vec<&[u8]> = entries.iter().map(|entry| rest(&self.prefix, entry)).collect();
        let part = self.spans.learn(span, &rests, next, took);
        let told = self.sort(span, &part, (entries, as_of));
        self.tell(state, &ticket, &part, told);
        let chunk = self.chunk(state, &part);
        self.found += chunk.len();
        let load = self.loads.entry(span).or_default();
        load.waiting.push(chunk);
        load.began = Some(ticket);
        self.hand_out(filling);
        Found::There
    }

    /// All pages are in, at `now`.
    pub(super) fn finish(
        &mut self,
        state: &mut State,
        filling: &Filling,
        ticket: &Ticket,
        now: Duration,
    ) -> Found {
        let (dir, began) = (self.dir, self.began);
        if !state.is_told_of(ticket, dir, &self.prefix) {
            return Found::Elsewhere;
        }
        let late = mem::take(&mut self.late);
        let Some(folder) = state.tree.folder(dir) else { return Found::Elsewhere };
        let names = folder.children.keys().filter(|name| self.is_late(name.as_bytes()));
        let unmentioned = names.filter(|name| !late.names.contains_key(*name)).cloned().collect();
        self.contested |= state.tree.tell_names(ticket, dir, (late, unmentioned), began);

        let Some(folder) = state.tree.folder(dir) else { return Found::Elsewhere };
        let mut chunk = Chunk::default();
        for (name, &ino) in &folder.children {
            if self.is_late(name.as_bytes()) && !self.sent.contains(name) {
                chunk.push(name, ino, state.tree.attr(ino).kind);
            }
        }
        self.found += chunk.len();
        filling.put(chunk);

        let Some(folder) = state.tree.folder_mut(dir) else { return Found::Elsewhere };
        folder.interest.learn_size(self.found < usize::from(PAGE_ENTRIES_MAX));
        folder.windows.was_listed(began, now.saturating_sub(self.rested));
        // What was forgotten meanwhile would be taken for absent.
        if !self.contested && folder.windows.forgets() == self.forgets {
            folder.windows.add(Window { range: Range::All, as_of: began });
        }
        Found::There
    }

    /// Sorts the lines of a page by when there is nothing more to be said of their names: now,
    /// after a later page, or at the end.
    fn sort(
        &mut self,
        span: SpanId,
        part: &Range,
        (entries, as_of): (Vec<Entry>, Duration),
    ) -> Told {
        let Range::Part { upto, .. } = part else {
            panic!("spans speak of parts, not of {part:?}")
        };
        let carried = mem::take(&mut self.loads.entry(span).or_default().carried);
        let page = entries.into_iter().map(|entry| (entry, as_of));
        let mut told = Told::default();
        for (entry, as_of) in carried.into_iter().chain(page) {
            let rest = rest(&self.prefix, &entry);
            if upto.as_ref().is_some_and(|upto| &upto[..] < rest) {
                continue;
            }
            let part = rest.split(|&byte| byte == b'/').next().unwrap_or_default();
            if !part.is_empty() && self.is_late(part) {
                self.late.add(&self.prefix, vec![entry], as_of);
            } else if upto.as_ref().is_none_or(|upto| ends_by(part, upto)) {
                told.add(&self.prefix, vec![entry], as_of);
            } else {
                self.loads.entry(span).or_default().carried.push((entry, as_of));
            }
        }
        let (odd, plain) = mem::take(&mut told.names)
            .into_iter()
            .partition(|(name, _)| self.is_late(name.as_bytes()));
        told.names = plain;
        self.late.names.extend::<BTreeMap<_, _>>(odd);
        told
    }

    fn tell(&mut self, state: &mut State, ticket: &Ticket, part: &Range, told: Told) {
        let Some(folder) = state.tree.folder_mut(self.dir) else { return };
        if matches!(part, Range::Part { after, .. } if after.is_empty()) {
            folder.marker = told.marker;
        }
        let within = part.within(&folder.children).into_iter().map(|(name, _)| name);
        let early = within.filter(|name| !self.is_late(name.as_bytes()));
        let unmentioned = early.filter(|name| !told.names.contains_key(*name)).cloned().collect();
        let told = (told, unmentioned);
        self.contested |= state.tree.tell_names(ticket, self.dir, told, self.began);
    }

    /// What the folder has in `part` now, be it from the bucket or from here.
    fn chunk(&self, state: &State, part: &Range) -> Chunk {
        let mut chunk = Chunk::default();
        let Some(folder) = state.tree.folder(self.dir) else { return chunk };
        for (name, ino) in part.within(&folder.children) {
            if !self.is_late(name.as_bytes()) && !self.sent.contains(name) {
                chunk.push(name, ino, state.tree.attr(ino).kind);
            }
        }
        chunk
    }

    /// Puts in what has nothing before it that is to come.
    fn hand_out(&mut self, filling: &Filling) {
        while let Some(front) = self.spans.front() {
            if let Some(load) = self.loads.get_mut(&front) {
                load.waiting.drain(..).for_each(|chunk| filling.put(chunk));
            }
            match self.spans.hand_out() {
                Some(done) => self.loads.remove(&done),
                None => return,
            };
        }
    }

    /// Whether names of this part of a key are told of at the end.
    fn is_late(&self, part: &[u8]) -> bool {
        let whole_parts = self.prefix.as_bytes().last().is_none_or(|&last| last == b'/');
        !whole_parts || !keys::is_plain(part) || self.spans.straddlers().contains(part)
    }
}

/// What follows `prefix` in the key of `entry`.
fn rest<'a>(prefix: &Key, entry: &'a Entry) -> &'a [u8] {
    entry.key().as_bytes().strip_prefix(prefix.as_bytes()).unwrap_or_default()
}
