//! Fetches what no other process brings meanwhile: those that share a state folder fetch each byte once.

use std::sync::Arc;
use std::time::Duration;

use base::ByteRange;
use remote::{Extent, Remote};
use store::{Cached, FetchTurn, Store};

use crate::fetch::fetch;
use crate::flight::{Flight, Report};
use crate::schedule::{Shared, Turn};
use crate::{Error, Result};

/// Between looks whether another process is done with what is wanted.
const LOOK_DELAY_MIN: Duration = Duration::from_millis(2);
const LOOK_DELAY_MAX: Duration = Duration::from_millis(50);

/// A process that takes longer for a range is not waited for: it may have been stopped, or want it less.
const OTHERS_MAX: Duration = Duration::from_secs(10);

/// What is fetched in one go and is larger is worth a record of its own, for processes that are yet to come.
const RECORDED_BYTES_MIN: u64 = 1 << 20;

/// Brings `range` of a version, which begins on a granule boundary and whose turn one has, into the store, and
/// reports as it lands.
pub(crate) async fn fetch_alone(
    (remote, store): (&dyn Remote, &Store),
    extents: &[Extent],
    cached: &Arc<Cached>,
    range: ByteRange,
    report: &Report,
) -> Result<()> {
    if store.has_company()
        && let Err(error) = store.learn(cached, range)
    {
        tracing::warn!(%error, "what others have fetched is not known, and is fetched again");
    }
    let mut from = range.start();
    while let Some(rest) = ByteRange::new(from, range.end())
        && let Some(gap) = cached.missing(rest)
    {
        report.until(gap.start());
        let fetched = fetch(remote, extents, cached, gap, report).await;
        if fetched.as_ref().is_err_and(Error::is_corrupt) {
            // Which of the bytes that came are wrong nobody knows.
            store.forget(cached)?;
        }
        fetched?;
        from = gap.end();
    }
    report.until(range.end());
    // Others who wait for the turn look at the record when they have it.
    if (store.has_company() || RECORDED_BYTES_MIN <= range.len())
        && let Err(error) = store.record(cached)
    {
        tracing::warn!(%error, "what was fetched could not be recorded");
    }
    Ok(())
}

/// The means for `flight`, and its turn among processes; without the latter if one of them takes too long.
/// Neither is held while the other is waited for: what another process is at must not keep the rest of the
/// mount from fetching, nor a queue of ours other processes.
pub(crate) async fn turns<'a>(
    shared: &'a Shared,
    cached: &Cached,
    flight: &Flight,
) -> Result<(Turn<'a>, Option<FetchTurn>)> {
    let clock = shared.store.clock();
    let until = clock.monotonic() + OTHERS_MAX;
    let mut delay = LOOK_DELAY_MIN;
    loop {
        let means = shared.turn(flight).await;
        if let Some(turn) = shared.store.fetch_turn(cached, flight.range())? {
            return Ok((means, Some(turn)));
        }
        if until <= clock.monotonic() {
            tracing::warn!("another process takes long to fetch what is wanted here");
            return Ok((means, None));
        }
        drop(means);
        while clock.monotonic() < until {
            clock.sleep(delay).await;
            delay = (2 * delay).min(LOOK_DELAY_MAX);
            if shared.store.fetch_turn(cached, flight.range())?.is_some() {
                break;
            }
        }
    }
}
