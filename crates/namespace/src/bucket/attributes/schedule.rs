//! When noted attributes are written: when they are due, or for a sync.
//!
//! A write takes a shared turn at the path of its directory, so that the directory is neither removed nor
//! renamed meanwhile: its attribute object would be all that is left of it. A rename and a removal of the
//! directory deal with its attributes themselves, so a write that is due passes over a directory in whose way
//! they are. After [`PASSES_MAX`] times it stands in line, for changes of names that follow one another
//! without end may all fail.

use std::time::Duration;

use base::Ino;
use futures::future::{Either, select};
use futures::{StreamExt as _, pin_mut, stream};
use remote::{ErrorKind as RemoteErrorKind, Key};

use super::books::Books;
use super::write::REST_MIN;
use crate::bucket::keys;
use crate::bucket::nodes::Place;
use crate::bucket::options::Attributes;
use crate::bucket::shared::Shared;
use crate::bucket::turns::{Stuck, Turn, Want};
use crate::{Error, ErrorKind, Result};

const OP: &str = "write attributes";

/// Folders that are written at a time.
const FOLDERS_AT_A_TIME: usize = 8;

/// While something waits, it is looked so often for what is due.
const LOOK_DELAY_MAX: Duration = Duration::from_millis(500);

/// How often a write that is due passes over a directory before it stands in line.
pub(in crate::bucket) const PASSES_MAX: u32 = 16;

/// How long all writes of one round together stand in line: other directories wait for the round.
const ROUND_WAIT_MAX: Duration = Duration::from_secs(2);

/// How long a write waits for changes of names in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// Until they are done.
    Endless,
    /// Not at all, or, after [`PASSES_MAX`] times, until this time on the monotonic clock.
    Until(Duration),
}

impl Shared {
    /// Writes what is noted when it is due, for as long as it is polled.
    pub(in crate::bucket) async fn keep_attributes(&self) {
        if self.options.attributes != Attributes::Kept {
            return std::future::pending().await;
        }
        loop {
            let due = self.state().tree.books.as_ref().and_then(Books::first_due);
            let now = self.clock.monotonic();
            match due {
                None => self.noted.notified().await,
                // What is noted meanwhile wakes nobody: a thousand files a second would.
                Some(due) if now < due => {
                    self.clock.sleep(due.saturating_sub(now).min(LOOK_DELAY_MAX)).await;
                }
                Some(_) => {
                    let due = self.state().tree.books.as_ref().map(|books| books.due(Some(now)));
                    let patience = Patience::Until(now + ROUND_WAIT_MAX);
                    // Each failure is logged, and tried again after a rest.
                    let _ = self.write_folders(due.unwrap_or_default(), patience).await;
                }
            }
        }
    }

    /// Writes what is noted of the entries of `dir`, and of itself; of all folders if there is none.
    pub(in crate::bucket) async fn sync_attributes(&self, dir: Option<Ino>) -> Result<()> {
        let Some(dir) = dir else {
            let all = self.state().tree.books.as_ref().map(|books| books.due(None));
            return self.write_folders(all.unwrap_or_default(), Patience::Endless).await;
        };
        let (own, parent) = {
            let state = self.state();
            let own = state.tree.prefix("sync", dir)?;
            let parent = match &state.tree.node(dir).expect("it has a prefix").place {
                Place::Named { parent, .. } => Some(state.tree.prefix("sync", *parent)?),
                Place::Root | Place::Unlinked | Place::Replaced => None,
            };
            (own, parent)
        };
        self.write_folder(&own, Patience::Endless).await?;
        if let Some(parent) = parent {
            self.write_folder(&parent, Patience::Endless).await?;
        }
        Ok(())
    }

    /// As [`Shared::sync_attributes`], of all that is in the folder `top` and below it, and of itself.
    pub(in crate::bucket) async fn sync_attributes_below(&self, top: Ino) -> Result<()> {
        let below = {
            let state = self.state();
            let prefix = state.tree.prefix("sync", top)?;
            let due = state.tree.books.as_ref().map(|books| books.due(None)).unwrap_or_default();
            let is_below = |folder: &Key| folder.as_bytes().starts_with(prefix.as_bytes());
            due.into_iter().filter(is_below).collect()
        };
        let written = self.write_folders(below, Patience::Endless).await;
        written.and(self.sync_attributes(Some(top)).await)
    }

    async fn write_folders(&self, folders: Vec<Key>, patience: Patience) -> Result<()> {
        let results: Vec<Result<()>> = stream::iter(folders)
            .map(|prefix| async move { self.write_folder(&prefix, patience).await })
            .buffer_unordered(FOLDERS_AT_A_TIME)
            .collect()
            .await;
        results.into_iter().collect()
    }

    /// Writes what is noted of the entries of one directory, for a caller that holds no turn at or above its
    /// path.
    async fn write_folder(&self, prefix: &Key, patience: Patience) -> Result<()> {
        if self.options.attributes != Attributes::Kept {
            return Ok(());
        }
        // The beginnings of long parts have no attribute object.
        let Some(path) = keys::path(prefix) else { return Ok(()) };
        let wants = vec![Want::Shared(path)];
        let turn = match patience {
            Patience::Endless => self.turns.take(wants).await.map_err(|Stuck| {
                Error::folder(ErrorKind::Remote(RemoteErrorKind::Unavailable), OP, prefix)
            })?,
            Patience::Until(until) => match self.turn_until(prefix, wants, until).await {
                Some(turn) => turn,
                None => return Ok(()),
            },
        };
        // It changes no name: a change of names that is made here first need not wait for it.
        turn.applied();
        self.write_held(prefix).await
    }

    /// The turn to write the directory `prefix` where nothing is in the way, or, when it was passed over too
    /// often, as soon as that is over; not after `until`. Without it, the directory rests.
    async fn turn_until(&self, prefix: &Key, wants: Vec<Want>, until: Duration) -> Option<Turn> {
        let mut turn = self.turns.take_now(wants.clone());
        let passes = self.passes(prefix);
        if turn.is_none() && PASSES_MAX <= passes {
            let taken = self.turns.take(wants);
            pin_mut!(taken);
            turn = match select(taken, self.clock.sleep_until(until)).await {
                Either::Left((taken, _)) => taken.ok(),
                Either::Right(((), _)) => None,
            };
        }
        let rest = self.clock.monotonic() + REST_MIN;
        if let Some(books) = &mut self.state().tree.books {
            let book = books.get_mut(prefix);
            (book.passes, book.resting) = match &turn {
                Some(_) => (0, book.resting),
                None if PASSES_MAX <= passes => (0, Some((rest, REST_MIN))),
                None => (passes + 1, Some((rest, REST_MIN))),
            };
        }
        turn
    }

    fn passes(&self, prefix: &Key) -> u32 {
        let state = self.state();
        let books = state.tree.books.as_ref();
        books.and_then(|books| books.get(prefix)).map_or(0, |book| book.passes)
    }
}
