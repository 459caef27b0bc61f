//! One fetch under way, and how to wait for what it brings.

use base::ByteRange;
use tokio::sync::{Notify, watch};

use crate::{Error, Result};

/// Who wants a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A reader waits for it.
    Demand,
    /// It may be read soon.
    Guess,
}

/// A range that is being fetched, each byte of a file by at most one flight.
#[derive(Debug)]
pub(crate) struct Flight {
    range: ByteRange,
    progress: watch::Receiver<Progress>,
    wanted: Notify,
}

/// How far a flight is.
#[derive(Clone, Debug)]
enum Progress {
    /// Everything below is in the store.
    Until(u64),
    /// It ended early.
    Failed(Error),
}

/// The flight's own end, which reports. Dropping it before the end is a failure, so that no one
/// waits for a task that is gone.
#[derive(Debug)]
pub(crate) struct Report {
    progress: watch::Sender<Progress>,
}

impl Flight {
    pub(crate) fn new(range: ByteRange, urgency: Urgency) -> (Flight, Report) {
        let (sender, receiver) = watch::channel(Progress::Until(range.start()));
        let flight = Flight { range, progress: receiver, wanted: Notify::new() };
        if urgency == Urgency::Demand {
            flight.want();
        }
        (flight, Report { progress: sender })
    }

    pub(crate) fn range(&self) -> ByteRange {
        self.range
    }

    /// Someone waits for this guess: it may overtake the others.
    pub(crate) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Resolves once someone waits for it.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Waits until the part of `range` that is this flight's is in the store.
    pub(crate) async fn landed(&self, range: ByteRange) -> Result<()> {
        let end = range.end().min(self.range.end());
        let mut progress = self.progress.clone();
        let landed = progress.wait_for(|progress| match progress {
            Progress::Until(until) => end <= *until,
            Progress::Failed(_) => true,
        });
        match landed.await.as_deref() {
            Ok(Progress::Until(_)) => Ok(()),
            Ok(Progress::Failed(error)) => Err(error.clone()),
            Err(_) => Err(Error::Stopped),
        }
    }
}

impl Report {
    /// Everything below `offset` is in the store.
    pub(crate) fn until(&self, offset: u64) {
        self.progress.send_replace(Progress::Until(offset));
    }

    /// Nothing more will come.
    pub(crate) fn failed(&self, error: Error) {
        self.progress.send_replace(Progress::Failed(error));
    }
}
