//! Pages of folders for who looks for names: asked for once, however many wait for them.

use std::sync::Arc;
use std::time::Duration;

use base::{Ino, Name};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared as SharedFuture};
use remote::{Key, ListOrder, Page};
use tracing::Instrument as _;

use super::attributes::dress::Sight;
use super::changes::Ticket;
use super::flight::{Answer, Flight, Outcome, Scope};
use super::keys;
use super::listing::{self, Told};
use super::shared::{Shared, State};
use super::window::{Range, Window};
use crate::{Error, Result};

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

    /// Asks for the first page of a folder, for whoever comes next; what is asked from now on is newer.
    pub(super) fn ask_ahead(self: &Arc<Self>, op: &'static str, dir: Ino) {
        let outcome = {
            let mut state = self.state();
            if self.flight_to_join(&state, dir, &Scope::Ahead).is_some() {
                return;
            }
            // A folder that is gone by now has no page.
            let Ok(outcome) = self.take_off(op, &mut state, dir, Scope::Ahead) else { return };
            outcome
        };
        let asking = async move {
            // Whoever needs it asks again.
            if let Err(error) = outcome.await {
                tracing::debug!(%error, "names that nobody needs yet were not told");
            }
        };
        tokio::spawn(asking.in_current_span());
    }

    /// Waits for such a page if it is under way.
    pub(super) async fn wait_for_page_ahead(self: &Arc<Self>, op: &'static str, dir: Ino) {
        if self.flight_to_join(&self.state(), dir, &Scope::Ahead).is_some() {
            // Without an answer the name is asked for as if nobody had been about it.
            let _ = self.pages(op, dir, Scope::Ahead).await;
        }
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
        let (told, range) = listed.map_err(Arc::new)?;
        let answer = state.take_in(&trip, told, range);
        state.tree.shrink(self.options.nodes.max(), None);
        Ok(Arc::new(answer))
    }

    async fn fetch(&self, trip: &Trip) -> Result<(Told, Range)> {
        let (first, start_after) = match &trip.scope {
            Scope::First | Scope::Ahead => (None, None),
            Scope::From(name) => match keys::just_below(&trip.prefix, name) {
                Some(start) => (Some(name.clone()), Some(start)),
                None => (None, None),
            },
        };
        let request = listing::page(&trip.prefix, start_after);
        let page = self.remote.list(&request).await;
        let page = page.map_err(|error| Error::remote(trip.op, error))?;
        self.understand(trip, first, page).await
    }

    /// What a page says that begins with the name `first`, or with the folder.
    async fn understand(
        &self,
        trip: &Trip,
        first: Option<Name>,
        mut page: Page,
    ) -> Result<(Told, Range)> {
        let sight = match &first {
            None => Sight::Beginning,
            Some(_) => Sight::Elsewhere,
        };
        if page.next.is_some() && self.remote.personality().naming.order == ListOrder::Unsorted {
            // What else there is of any name may be on another page.
            page.entries.clear();
        }
        self.dress(trip.op, &trip.prefix, &mut page, sight).await?;
        let last = page.entries.last().map(|entry| rest_of(&trip.prefix, entry.key()));
        let mut told = Told::default();
        told.add(&trip.prefix, page.entries, trip.began);
        let range = match (page.next, first) {
            (None, None) => Range::All,
            (None, first @ Some(_)) => Range::Page { first, last: None },
            (Some(_), first) => Range::Page { first, last: Some(last.unwrap_or_default()) },
        };
        Ok((told, range))
    }
}

impl State {
    fn take_in(&mut self, trip: &Trip, told: Told, range: Range) -> Answer {
        if !self.is_told_of(&trip.ticket, trip.dir, &trip.prefix) {
            return Answer { range: None };
        }
        if trip.scope == Scope::Ahead {
            for (name, (there, as_of)) in told.names {
                self.tree.tell_name(&trip.ticket, trip.dir, &name, there, as_of);
            }
        } else {
            let window = Window { range: range.clone(), as_of: trip.began };
            self.tree.tell(&trip.ticket, trip.dir, told, window);
        }
        let is_first = matches!(trip.scope, Scope::First | Scope::Ahead);
        if let (true, Some(folder)) = (is_first, self.tree.folder_mut(trip.dir)) {
            folder.interest.learn_size(range == Range::All);
        }
        Answer { range: Some(range) }
    }
}

/// What follows `prefix` in `key`.
pub(super) fn rest_of(prefix: &Key, key: &Key) -> Vec<u8> {
    key.as_bytes().strip_prefix(prefix.as_bytes()).unwrap_or_default().to_vec()
}
