//! Lists a whole folder, for readers who get the first entries with the first page.
//!
//! A task of its own asks for the pages, several at a time ([`spans`](super::spans)), for as long
//! as somebody reads; who comes while it is under way reads along, unless a name in the folder was
//! changed here since it began. Where folders are listed one after another it asks for a page
//! across folders first ([`sweep`](super::sweep)).
//!
//! While the bucket does not answer ([`outage`](super::outage)), a folder of which every name is
//! remembered is shown so; any other is an error, never a part of itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use base::{Ino, Name};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use remote::{Key, ListOrder, ListRequest, Page};
use tracing::Instrument as _;

use super::answers::is_unanswered;
use super::attributes::dress::Sight;
use super::changes::Ticket;
use super::find::{MOVES_MAX, SOON_MIN};
use super::flight::{Scope, Stream};
use super::gather::{Answer, Found, Gather};
use super::listing;
use super::nodes::Place;
use super::outage::Advice;
use super::shared::{Shared, State};
use super::spans::{Question, Which};
use super::sweep::{self, Sweep};
use super::walk::How;
use crate::listing::{Chunk, Filling, listing};
use crate::{Error, ErrorKind, Listed, Listing, Result};

const OP: &str = "list";

/// How many pages are asked for at the same time.
const AT_A_TIME: usize = 8;

/// How many entries may lie ready that nobody has asked for.
const AHEAD_MAX: usize = 64 * listing::PAGE_ENTRIES_MAX as usize;

/// A listing about to be done.
struct Trip {
    dir: Ino,
    prefix: Key,
    how: How,
    /// Since when changes made here are noted; `None` while nothing is under way.
    ticket: Option<Arc<Ticket>>,
    filling: Filling,
}

/// What came of a page across folders.
enum Swept {
    /// All of the folder.
    Whole,
    /// The folder has another prefix by now.
    Elsewhere,
    /// Something about other folders, which the folder's own pages may bear out.
    Others(Arc<Ticket>, Sweep),
    /// Nothing.
    Nothing,
}

impl Shared {
    /// The entries of `dir`, as of at most the time to live ago.
    pub(super) fn listing(self: &Arc<Self>, dir: Ino) -> Result<Listing> {
        let now = self.clock.monotonic();
        let ttl = self.options.metadata_ttl;
        let mut state = self.state();
        if state.tree.named_by_kernel(OP, dir)?.place == Place::Unlinked {
            return Ok(Listing::of([]));
        }
        let prefix = state.tree.prefix(OP, dir)?;
        state.recent.used(dir);
        let all = state.tree.folder(dir).and_then(|folder| folder.windows.all());
        if all.is_some_and(|all| now < all.as_of + ttl) {
            state.walk.answered(&prefix, now);
            return Ok(Listing::of(state.listed(dir)));
        }
        if all.is_some() && self.is_out(&mut state, dir, now) {
            return Ok(Listing::of(state.listed(dir)));
        }
        if let Some(listing) = state.stream_to_join(dir, now, ttl) {
            return Ok(listing);
        }
        // Where nothing is believed nobody would hear what is told of the others, and where keys have no order
        // nothing follows a folder.
        let is_sorted = self.remote.personality().naming.order != ListOrder::Unsorted;
        let how = if ttl.is_zero() || !is_sorted {
            How::Alone
        } else {
            state.walk.list(&prefix, now, ttl.max(SOON_MIN))
        };
        let ticket = Arc::new(self.changes.ticket());
        let (filling, listing) = listing();
        let stream =
            Stream { began: now, ticket: Arc::clone(&ticket), listing: listing.downgrade() };
        state.streams.insert(dir, stream);
        let trip = Trip { dir, prefix, how, ticket: Some(ticket), filling };
        // Requests are told in the log with the call for which they are sent.
        tokio::spawn(Arc::clone(self).stream(trip).in_current_span());
        Ok(listing)
    }

    /// Whether the bucket does not answer, as far as is known. Now and then somebody asks, by the first page
    /// of `dir`.
    fn is_out(self: &Arc<Self>, state: &mut State, dir: Ino, now: Duration) -> bool {
        match state.outage.advise(now) {
            Advice::Ask => false,
            Advice::Remember => true,
            Advice::RememberAndTry => {
                let shared = Arc::clone(self);
                self.try_again(async move {
                    let page = shared.pages(OP, dir, Scope::First).await;
                    if shared.heard(page).is_ok() {
                        shared.answered();
                    }
                });
                true
            }
        }
    }

    async fn stream(self: Arc<Self>, mut trip: Trip) {
        let filling = trip.filling.clone();
        let filled = tokio::select! {
            filled = self.fill(&mut trip) => filled,
            () = filling.abandoned() => Ok(()),
        };
        let filled = self.heard(filled);
        let mut state = self.state();
        state.leave_table(&trip);
        match filled {
            Ok(()) => filling.end(),
            Err(error) if is_unanswered(&error) && state.put_remembered(trip.dir, &filling) => {
                filling.end();
            }
            Err(error) => filling.fail(error),
        }
    }

    async fn fill(&self, trip: &mut Trip) -> Result<()> {
        let mut sent = HashSet::new();
        for _ in 0..=MOVES_MAX {
            match self.pass(trip, sent).await? {
                Found::There => return Ok(()),
                Found::Elsewhere => {}
            }
            // What is asked from now on is newer than the move; nobody is to join what began before it.
            self.state().leave_table(trip);
            trip.ticket = Some(Arc::new(self.changes.ticket()));
            match self.state().tree.prefix(OP, trip.dir) {
                Ok(prefix) => trip.prefix = prefix,
                // It was empty when it was removed.
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
            sent = trip.filling.names().into_iter().collect();
        }
        Err(Error::node(ErrorKind::Stale, OP, trip.dir))
    }

    /// Lists the folder under the prefix that it has now.
    async fn pass(&self, trip: &mut Trip, sent: HashSet<Name>) -> Result<Found> {
        let began = self.clock.monotonic();
        let place = (trip.dir, trip.prefix.clone());
        let mut gather = Gather::new(&self.state(), place, began, sent);
        let mut swept = None;
        let mut sight = Sight::Unknown;
        if trip.how == How::WithFollowing {
            trip.how = How::Alone;
            // Keys do not tell of an empty folder that is a thing of its own.
            if !self.has_real_folders() {
                swept = match self.sweep(trip, &mut gather).await? {
                    Swept::Elsewhere => return Ok(Found::Elsewhere),
                    Swept::Whole | Swept::Nothing => None,
                    Swept::Others(ticket, sweep) => Some((ticket, sweep)),
                };
            }
        }
        let order = self.remote.personality().naming.order;
        let mut asked = FuturesUnordered::new();
        loop {
            while let Some(which) = wanted(&trip.filling, &gather, order)
                && let Some(question) = gather.spans.next(which, AT_A_TIME)
            {
                let began = gather.began(question.span);
                asked.push(self.ask(gather.prefix().clone(), question, began));
            }
            if let Some(answer) = asked.next().await {
                let mut answer = answer?;
                self.answered();
                let sees = if answer.begins { Sight::Beginning } else { sight };
                self.dress(OP, gather.prefix(), &mut answer.page, sees).await?;
                sight = Sight::Told;
                let mut state = self.state();
                let found = gather.take_in(&mut state, &trip.filling, answer);
                state.tree.shrink(self.options.nodes.max(), None);
                if found == Found::Elsewhere {
                    return Ok(found);
                }
            } else if gather.spans.front().is_none() {
                break;
            } else if 0 < gather.spans.asked() {
                // It would be waited for without an end.
                tracing::error!(prefix = %gather.prefix(), "a page that was asked for was never taken in");
                return Err(Error::node(ErrorKind::Stale, OP, trip.dir));
            } else {
                swept = None;
                self.rest(trip, &mut gather).await;
            }
        }
        let ticket = trip.ticket.get_or_insert_with(|| Arc::new(self.changes.ticket()));
        let now = self.clock.monotonic();
        let mut state = self.state();
        let found = gather.finish(&mut state, &trip.filling, ticket, now);
        if let Some((ticket, sweep)) = swept {
            match state.tree.tell_sweep(&ticket, sweep) {
                0 => state.walk.lost(),
                _ => state.walk.won(),
            }
        }
        state.tree.shrink(self.options.nodes.max(), None);
        Ok(found)
    }

    /// Waits for the readers, who are far behind.
    async fn rest(&self, trip: &mut Trip, gather: &mut Gather) {
        gather.rest();
        // Whoever comes now lists for themselves: for them this one is too old.
        self.state().leave_table(trip);
        if gather.is_told() {
            // Changes made here are kept for as long as there is a ticket.
            trip.ticket = None;
        }
        let read = gather.found().saturating_sub(AHEAD_MAX).min(trip.filling.len());
        let from = self.clock.monotonic();
        trip.filling.wanted_more(read).await;
        gather.rested(self.clock.monotonic().saturating_sub(from));
        trip.ticket.get_or_insert_with(|| Arc::new(self.changes.ticket()));
    }

    /// Asks for a page that begins with the folder and goes on with those that follow. If the
    /// folder is in it as a whole it is listed.
    async fn sweep(&self, trip: &Trip, gather: &mut Gather) -> Result<Swept> {
        let Some(request) = sweep::request(&trip.prefix) else { return Ok(Swept::Nothing) };
        let ticket = Arc::new(self.changes.ticket());
        let as_of = self.clock.monotonic();
        let page = match self.remote.list(&request).await {
            Ok(page) => page,
            Err(error) => return self.lose(Error::remote(OP, error)),
        };
        self.answered();
        let mut sweep = Sweep::new(&request, page, as_of);
        for (prefix, entries) in sweep.whole_folders() {
            if let Err(error) = self.dress_lines(OP, &prefix, entries, Sight::Beginning).await {
                return self.lose(error);
            }
        }
        if let Some(entries) = sweep.take(&trip.prefix) {
            let Question { span, .. } =
                gather.spans.next(Which::Front, 1).expect("nothing is asked");
            let page = Page { entries, next: None };
            let asked = Arc::clone(&ticket);
            let took = self.clock.monotonic().saturating_sub(as_of);
            let answer = Answer { span, page, ticket: asked, as_of, took, begins: true };
            let mut state = self.state();
            let found = gather.take_in(&mut state, &trip.filling, answer);
            state.walk.won();
            state.tree.tell_sweep(&ticket, sweep);
            return Ok(match found {
                Found::There => Swept::Whole,
                Found::Elsewhere => Swept::Elsewhere,
            });
        }
        Ok(Swept::Others(ticket, sweep))
    }

    /// A page across folders did not come: the folder's own pages will tell what is wrong, or come all the
    /// same. But who waited in vain for as long as anybody waits does not wait once more.
    fn lose(&self, error: Error) -> Result<Swept> {
        self.state().walk.lost();
        if is_unanswered(&error) { Err(error) } else { Ok(Swept::Nothing) }
    }

    /// Asks for a page. What it tells is as old as the ticket in `began`, if there is one: pages
    /// that follow one another may be of one state of the bucket.
    async fn ask(
        &self,
        prefix: Key,
        question: Question,
        began: Option<Arc<Ticket>>,
    ) -> Result<Answer> {
        let Question { span, start_after, continuation } = question;
        let begins = start_after.is_none() && continuation.is_none();
        let start_after = start_after.map(|key| prefix.join(&key));
        let request = ListRequest { continuation, ..listing::page(&prefix, start_after) };
        let ticket = began.unwrap_or_else(|| Arc::new(self.changes.ticket()));
        let as_of = self.clock.monotonic();
        let page = remote::in_order(self.remote.as_ref(), &request).await;
        let page = page.map_err(|error| Error::remote(OP, error))?;
        // A store that hands out the same mark again would be listed for ever.
        if page.next.is_some() && page.next == request.continuation {
            let kind = remote::ErrorKind::Corrupt;
            return Err(Error::remote(OP, remote::Error::new(kind, "list", &prefix)));
        }
        let took = self.clock.monotonic().saturating_sub(as_of);
        Ok(Answer { span, page, ticket, as_of, took, begins })
    }
}

impl State {
    fn stream_to_join(&self, dir: Ino, now: Duration, ttl: Duration) -> Option<Listing> {
        let stream = self.streams.get(&dir)?;
        // What it told already is as old as its request, and does not know of changes since.
        let in_time = now < stream.began + ttl && !stream.ticket.outdated(dir);
        in_time.then(|| stream.listing.upgrade()).flatten()
    }

    /// Nobody is to join `trip` any more.
    fn leave_table(&mut self, trip: &Trip) {
        let Some(ticket) = &trip.ticket else { return };
        // A later listing may have taken its place.
        if self.streams.get(&trip.dir).is_some_and(|stream| Arc::ptr_eq(&stream.ticket, ticket)) {
            self.streams.remove(&trip.dir);
        }
    }

    /// Puts in what is remembered of the folder `dir` and was not listed; false if there may be more.
    fn put_remembered(&self, dir: Ino, filling: &Filling) -> bool {
        // One that was replaced has nothing in it here.
        if self.tree.prefix(OP, dir).is_err() {
            return false;
        }
        let Some(folder) = self.tree.folder(dir).filter(|folder| folder.windows.all().is_some())
        else {
            return false;
        };
        let sent: HashSet<Name> = filling.names().into_iter().collect();
        let mut chunk = Chunk::default();
        for (name, &ino) in folder.children.iter().filter(|(name, _)| !sent.contains(*name)) {
            chunk.push(name, ino, self.tree.attr(ino).kind);
        }
        filling.put(chunk);
        true
    }

    /// What is remembered of the folder `dir`.
    fn listed(&self, dir: Ino) -> Vec<Listed> {
        let Some(folder) = self.tree.folder(dir) else { return Vec::new() };
        let listed = |(name, &ino): (&Name, &Ino)| Listed {
            name: name.clone(),
            ino,
            kind: self.tree.attr(ino).kind,
        };
        folder.children.iter().map(listed).collect()
    }
}

/// Which pages are to be asked for, so that readers find what they want and not much more lies
/// ready. `None` if they have enough.
fn wanted(filling: &Filling, gather: &Gather, order: ListOrder) -> Option<Which> {
    let wanted = filling.wanted();
    if gather.found() < wanted.saturating_add(AHEAD_MAX) {
        Some(match order {
            ListOrder::Keys => Which::Any,
            // Cut, each part would cost the pages of all before it.
            ListOrder::Folded | ListOrder::Unsorted => Which::Front,
        })
    } else if filling.len() < wanted {
        // What lies ready waits for entries before it.
        Some(Which::Front)
    } else {
        None
    }
}
