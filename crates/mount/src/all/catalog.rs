//! Which buckets there are, as far as the stores tell: asked for when a folder of buckets is listed, and
//! believed for a while. What is not told can be entered by name all the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use parking_lot::Mutex;

use crate::assemble::Common;
use crate::cloud;
use crate::config::Buckets;
use crate::location::Location;

use super::order::Order;

/// For how long an answer is believed, one that there was none as well: accounts get a bucket now and then.
const BELIEVED: Duration = Duration::from_mins(1);

/// How long who lists a folder waits for the store.
const PATIENCE: Duration = Duration::from_secs(5);

/// The folders of buckets.
#[derive(Debug)]
pub(super) struct Catalog {
    common: Common,
    buckets: Arc<dyn Buckets>,
    /// By the place of a bucket without a name. As many as there are storage accounts, and two.
    shelves: Mutex<HashMap<Location, Arc<Shelf>>>,
}

/// The buckets of one folder. Whoever asks for them holds the lock; others for the same wait.
#[derive(Debug, Default)]
struct Shelf {
    state: tokio::sync::Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: Option<Duration>,
    order: Order,
}

impl State {
    fn is_old(&self, now: Duration) -> bool {
        self.asked.is_none_or(|asked| asked + BELIEVED <= now)
    }

    /// The store has `told` of these, or has not answered: then what it said last holds, and it is not asked
    /// again at once either.
    fn hear(&mut self, told: Option<Vec<String>>, now: Duration) {
        if let Some(told) = told {
            self.order.tell(told);
        }
        self.asked = Some(now);
    }
}

impl Catalog {
    pub(super) fn new(common: Common, buckets: Arc<dyn Buckets>) -> Catalog {
        Catalog { common, buckets, shelves: Mutex::default() }
    }

    /// The names in the folder of `nameless`, each with its place, which it keeps: those that the store
    /// tells, and those that are `attached`.
    pub(super) async fn names(
        &self,
        nameless: &Location,
        attached: &[String],
    ) -> BTreeMap<u64, String> {
        let shelf = Arc::clone(self.shelves.lock().entry(nameless.clone()).or_default());
        let mut state = shelf.state.lock().await;
        if state.is_old(self.common.clock.monotonic()) {
            let told = self.ask(nameless).await;
            state.hear(told, self.common.clock.monotonic());
        }
        state.order.with(attached)
    }

    async fn ask(&self, nameless: &Location) -> Option<Vec<String>> {
        let config = match self.buckets.config(nameless) {
            Ok(config) => config,
            Err(reason) => {
                tracing::info!(%nameless, reason, "buckets are not listed");
                return None;
            }
        };
        let clock = &self.common.clock;
        let asked = std::pin::pin!(cloud::buckets(&config, Arc::clone(clock)));
        match select(asked, clock.sleep(PATIENCE)).await {
            Either::Left((Ok(names), _)) => Some(names),
            Either::Left((Err(error), _)) => {
                tracing::info!(%nameless, %error, "buckets are not listed");
                None
            }
            Either::Right(_) => {
                tracing::info!(%nameless, "buckets are not listed: no answer in time");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BELIEVED, State};

    #[test]
    fn without_an_answer_the_last_one_holds_and_the_store_is_left_alone_for_a_while() {
        let mut state = State::default();
        assert!(state.is_old(Duration::ZERO), "nobody has asked");
        state.hear(Some(vec!["one".to_owned(), "two".to_owned()]), Duration::ZERO);
        let names = |state: &mut State| state.order.with(&[]).into_values().collect::<Vec<_>>();
        assert_eq!(names(&mut state), ["one", "two"]);
        assert!(state.is_old(BELIEVED) && !state.is_old(BELIEVED / 2));
        state.hear(None, BELIEVED);
        assert_eq!(names(&mut state), ["one", "two"]);
        assert!(!state.is_old(BELIEVED * 3 / 2));
        state.hear(Some(vec!["two".to_owned()]), BELIEVED * 2);
        assert_eq!(names(&mut state), ["two"], "a bucket may go");
    }
}
