//! Listings under way: asked for once, however many wait for them.

use std::sync::Arc;
use std::time::Duration;

use base::{Ino, Name};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared as SharedFuture};
use remote::Key;

use super::changes::Ticket;
use super::flight::{Answer, Flight, Outcome, Scope};
use super::keys;
use super::listing::{self, Told};
use super::nodes::Place;
use super::shared::{Shared, State};
use super::window::{Range, Window};
use crate::{Entry, Error, Result};

/// A listing about to be done.
struct Trip {
    op: &'static str,
    dir: Ino,
    scope: Scope,
    prefix: Key,
    ticket: Ticket,
    began: Duration,
}

impl Shared {
    /// Every entry of `dir`, as of at most the time to live ago.
    pub(super) async fn list(self: &Arc<Self>, dir: Ino) -> Result<Vec<Entry>> {
        let now = self.clock.monotonic();
        {
            let mut state = self.state();
            if state.tree.named_by_kernel("list", dir)?.place == Place::Unlinked {
                return Ok(Vec::new());
            }
            state.tree.prefix("list", dir)?;
            let all = state.tree.folder(dir).and_then(|folder| folder.windows.all());
            if all.is_some_and(|all| now < all.as_of + self.options.metadata_ttl) {
                return Ok(state.entries(dir));
            }
        }
        let answer = self.pages("list", dir, Scope::All).await?;
        Ok(Arc::unwrap_or_clone(answer).entries)
    }

    /// Lists a part of `dir`, or waits for who is about it.
    pub(super) async fn pages(
        self: &Arc<Self>,
        op: &'static str,
        dir: Ino,
        scope: Scope,
    ) -> Result<Arc<Answer>> {
        let outcome = {
            let mut state = self.state();
            match self.flight_to_join(&state, dir, &scope) {
                Some(outcome) => outcome,
                None => self.take_off(op, &mut state, dir, scope)?,
            }
        };
        outcome.await.map_err(|error| error.again())
    }

    fn flight_to_join(
        &self,
        state: &State,
        dir: Ino,
        scope: &Scope,
    ) -> Option<SharedFuture<BoxFuture<'static, Outcome>>> {
        let flight = state.flights.get(&(dir, scope.clone()))?;
        // Its answer is as old as its request: too old for who comes too late.
        let in_time = self.clock.monotonic() < flight.began + self.options.metadata_ttl;
        in_time.then(|| flight.outcome.upgrade()).flatten()
    }

    fn take_off(
        self: &Arc<Self>,
        op: &'static str,
        state: &mut State,
        dir: Ino,
        scope: Scope,
    ) -> Result<SharedFuture<BoxFuture<'static, Outcome>>> {
        let prefix = state.tree.prefix(op, dir)?;
        let ticket = self.changes.ticket();
        let began = self.clock.monotonic();
        let slot = (dir, scope.clone());
        let trip = Trip { op, dir, scope, prefix, ticket, began };
        let outcome = Arc::clone(self).fly(trip).boxed().shared();
        let weak = outcome.downgrade().expect("nobody has polled it to its end");
        state.flights.insert(slot, Flight { began, outcome: weak });
        Ok(outcome)
    }

    async fn fly(self: Arc<Self>, trip: Trip) -> Outcome {
        let listed = self.fetch(&trip).await;
        let mut state = self.state();
        let slot = (trip.dir, trip.scope.clone());
        // A later flight may have taken the place of one that was too old to join.
        if state.flights.get(&slot).is_some_and(|flight| flight.began == trip.began) {
            state.flights.remove(&slot);
        }
        let (told, range) = listed.map_err(|error| Arc::new(Error::remote(trip.op, error)))?;
        let answer = state.take_in(&trip, told, range);
        state.tree.shrink(self.options.nodes_max, None);
        Ok(Arc::new(answer))
    }

    async fn fetch(&self, trip: &Trip) -> remote::Result<(Told, Range)> {
        let (first, start_after) = match &trip.scope {
            Scope::All | Scope::First => (None, None),
            Scope::From(name) => match keys::just_below(&trip.prefix, name) {
                Some(start) => (Some(name.clone()), Some(start)),
                None => (None, None),
            },
        };
        let mut request = listing::page(&trip.prefix, start_after);
        let mut told = Told::default();
        loop {
            let as_of = self.clock.monotonic();
            let page = self.remote.list(&request).await?;
            let last = page.entries.last().map(|entry| entry.key().clone());
            told.add(&trip.prefix, page.entries, as_of);
            match (page.next, &trip.scope) {
                (None, Scope::All) => return Ok((told, Range::All)),
                (None, Scope::First | Scope::From(_)) if first.is_none() => {
                    return Ok((told, Range::All));
                }
                (None, Scope::First | Scope::From(_)) => {
                    return Ok((told, Range::Page { first, last: None }));
                }
                (Some(_), Scope::First | Scope::From(_)) => {
                    let last = last.map(|key| rest_of(&trip.prefix, &key)).unwrap_or_default();
                    return Ok((told, Range::Page { first, last: Some(last) }));
                }
                // A store that hands out the same mark again would be listed for ever.
                (Some(next), Scope::All) if request.continuation.as_ref() == Some(&next) => {
                    let kind = remote::ErrorKind::Corrupt;
                    return Err(remote::Error::new(kind, "list", &trip.prefix));
                }
                (Some(next), Scope::All) => request.continuation = Some(next),
            }
        }
    }
}

impl State {
    fn take_in(&mut self, trip: &Trip, told: Told, range: Range) -> Answer {
        if !self.is_at(trip.dir, &trip.prefix) {
            return Answer { range: None, entries: self.entries(trip.dir) };
        }
        let window = Window { range: range.clone(), as_of: trip.began };
        let one_page = told.names.len() < usize::from(listing::PAGE_ENTRIES_MAX);
        self.tree.tell(&trip.ticket, trip.dir, told, window);
        if let Some(folder) = self.tree.folder_mut(trip.dir) {
            match trip.scope {
                Scope::All => folder.interest.learn_size(one_page),
                Scope::First => folder.interest.learn_size(range == Range::All),
                Scope::From(_) => {}
            }
        }
        let entries = match trip.scope {
            Scope::All => self.entries(trip.dir),
            Scope::First | Scope::From(_) => Vec::new(),
        };
        Answer { range: Some(range), entries }
    }

    /// What is remembered of the folder `dir`.
    fn entries(&self, dir: Ino) -> Vec<Entry> {
        let Some(folder) = self.tree.folder(dir) else { return Vec::new() };
        let entry =
            |(name, &ino): (&Name, &Ino)| Entry { name: name.clone(), attr: self.tree.attr(ino) };
        folder.children.iter().map(entry).collect()
    }
}

/// What follows `prefix` in `key`.
fn rest_of(prefix: &Key, key: &Key) -> Vec<u8> {
    key.as_bytes().strip_prefix(prefix.as_bytes()).unwrap_or_default().to_vec()
}
