//! One fetch under way, and how to wait for what it brings.

use base::ByteRange;
use tokio::sync::watch;

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
    /// Once it is, it stays so: whoever flies it may have to wait for its turn more than once.
    wanted: watch::Sender<bool>,
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
        let wanted = watch::Sender::new(urgency == Urgency::Demand);
        let flight = Flight { range, progress: receiver, wanted };
        (flight, Report { progress: sender })
    }

    pub(crate) fn range(&self) -> ByteRange {
        self.range
    }

    /// Someone waits for this guess: it may overtake the others.
    pub(crate) fn want(&self) {
        self.wanted.send_replace(true);
    }

    /// Resolves once someone waits for it, and from then on at once.
    pub(crate) async fn wanted(&self) {
        let wanted = self.wanted.subscribe().wait_for(|wanted| *wanted).await.is_ok();
        assert!(wanted, "the flight itself has the sender");
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

#[cfg(test)]
mod tests {
    use base::ByteRange;
    use futures::FutureExt as _;

    use super::{Flight, Urgency};

    #[test]
    fn what_a_reader_waits_for_goes_before_guesses_however_often_it_has_to_wait_again() {
        for urgency in [Urgency::Demand, Urgency::Guess] {
            let (flight, _report) = Flight::new(ByteRange::new(0, 1).unwrap(), urgency);
            if urgency == Urgency::Guess {
                assert_eq!(flight.wanted().now_or_never(), None);
                flight.want();
            }
            for _turn in 0..3 {
                assert_eq!(flight.wanted().now_or_never(), Some(()), "{urgency:?}");
            }
        }
    }
}
