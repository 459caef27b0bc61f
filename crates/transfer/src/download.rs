//! The bytes of one file version, fetched into the store as they are read.

use std::sync::Arc;

use base::{ByteRange, Counter};
use futures::StreamExt;
use parking_lot::Mutex;
use remote::Extent;
use store::{Cached, GRANULE_BYTES};
use tracing::Instrument as _;

use crate::alone::{fetch_alone, turns};
use crate::fetch::sources;
use crate::flight::{Flight, Report, Urgency};
use crate::readahead::{Ahead, Found};
use crate::reads::{Reads, Wish};
use crate::schedule::Shared;
use crate::{Fetcher, Result};

/// One file version with its place in the store and the objects to fetch it from.
#[derive(Debug)]
pub struct Download {
    shared: Arc<Shared>,
    place: Place,
    extents: Vec<Extent>,
    /// Invariant: no byte is in two of them; what a flight brings is in the store before it leaves.
    flights: Mutex<Vec<Arc<Flight>>>,
    /// How it is read, and was read before it was opened.
    reads: Arc<Mutex<Reads>>,
}

/// Where the bytes go that are fetched.
#[derive(Debug)]
enum Place {
    /// Into the cache, for the next reader.
    Cached(Arc<Cached>),
    /// To the reader only: the disk had no room even for an empty file.
    Nowhere { identity: Vec<u8>, size: u64 },
}

/// How often a reader tries again when what it waited for was evicted before it was read. A cache
/// so short of room is read past.
const TRIES_MAX: usize = 3;

/// The largest request for a reader that waits.
const DEMAND_BYTES_MAX: u64 = 8 << 20;

impl Download {
    /// Reads of `extents` through `cached`.
    pub fn new(fetcher: &Fetcher, cached: Arc<Cached>, extents: Vec<Extent>) -> Arc<Download> {
        Download::with(fetcher, Place::Cached(cached), extents)
    }

    /// Reads of the version `identity` of `size` bytes past a cache that has no room at all.
    pub fn uncached(
        fetcher: &Fetcher,
        (identity, size): (&[u8], u64),
        extents: Vec<Extent>,
    ) -> Arc<Download> {
        Download::with(fetcher, Place::Nowhere { identity: identity.to_vec(), size }, extents)
    }

    fn with(fetcher: &Fetcher, place: Place, extents: Vec<Extent>) -> Arc<Download> {
        let identity = match &place {
            Place::Cached(cached) => cached.identity(),
            Place::Nowhere { identity, .. } => identity,
        };
        let reads = fetcher.shared.manners.of(identity);
        let shared = Arc::clone(&fetcher.shared);
        Arc::new(Download { shared, place, extents, flights: Mutex::default(), reads })
    }

    /// The bytes that are here, if there is a place for them.
    pub fn cached(&self) -> Option<&Arc<Cached>> {
        match &self.place {
            Place::Cached(cached) => Some(cached),
            Place::Nowhere { .. } => None,
        }
    }

    /// Which version it is.
    pub fn identity(&self) -> &[u8] {
        match &self.place {
            Place::Cached(cached) => cached.identity(),
            Place::Nowhere { identity, .. } => identity,
        }
    }

    /// How many bytes there are.
    pub fn size(&self) -> u64 {
        match &self.place {
            Place::Cached(cached) => cached.size(),
            Place::Nowhere { size, .. } => *size,
        }
    }

    /// Reads `range`, which lies within the file, fetching what is not here, and what a stream that
    /// reads on will want next.
    pub async fn read(self: &Arc<Self>, range: ByteRange) -> Result<Vec<u8>> {
        let Some(cached) = self.cached() else {
            self.missed(range.len());
            return self.read_uncached(range).await;
        };
        if let Some(bytes) = cached.bytes(range)? {
            self.look_ahead(cached, range, Found::Here);
            return Ok(bytes);
        }
        self.missed(self.lacks_bytes(range).min(range.len()));
        let flights = self.cover(cached, range, DEMAND_BYTES_MAX, Urgency::Demand);
        self.look_ahead(cached, range, Found::Missing);
        self.read_landing(cached, range, flights).await
    }

    /// As [`read`](Download::read), for who knows what it wants: nothing is fetched ahead.
    pub async fn read_just(self: &Arc<Self>, range: ByteRange) -> Result<Vec<u8>> {
        let Some(cached) = self.cached() else { return self.read_uncached(range).await };
        if let Some(bytes) = cached.bytes(range)? {
            return Ok(bytes);
        }
        let flights = self.cover(cached, range, DEMAND_BYTES_MAX, Urgency::Demand);
        self.read_landing(cached, range, flights).await
    }

    /// Fetches all of it that is not here, as a guess, if there is a place for it. What fails is fetched
    /// when it is read.
    pub async fn fetch_ahead(self: &Arc<Self>) {
        let (Some(cached), Some(all)) = (self.cached(), ByteRange::new(0, self.size())) else {
            return;
        };
        let flights = self.cover(cached, all, DEMAND_BYTES_MAX, Urgency::Guess);
        if let Err(error) = landed(&flights, all).await {
            tracing::debug!(%error, "a file was not fetched ahead");
        }
    }

    /// Brings `range` into the cache and gives way to readers meanwhile. Fails as a cache without room
    /// does if there is no place for it.
    pub async fn bring(self: &Arc<Self>, range: ByteRange) -> Result<()> {
        let Some(cached) = self.cached() else {
            let (kind, path) = (store::ErrorKind::Full, "the cache".into());
            return Err(store::Error { kind, op: "bring", path, source: None }.into());
        };
        let flights = self.cover(cached, range, DEMAND_BYTES_MAX, Urgency::Guess);
        landed(&flights, range).await
    }

    /// How many bytes of `range` are not here, whole granules of them.
    pub fn lacks_bytes(&self, range: ByteRange) -> u64 {
        let Some(cached) = self.cached() else { return range.len() };
        let (mut lacks, mut from) = (0, range.start());
        while let Some(rest) = ByteRange::new(from, range.end())
            && let Some(missing) = cached.missing(rest)
        {
            lacks += missing.len();
            from = missing.end();
        }
        lacks
    }

    /// Counts bytes that a reader has to wait for.
    fn missed(&self, bytes: u64) {
        self.shared.metrics.add(Counter::MissedReadBytes, bytes);
    }

    async fn read_landing(
        self: &Arc<Self>,
        cached: &Arc<Cached>,
        range: ByteRange,
        mut flights: Vec<Arc<Flight>>,
    ) -> Result<Vec<u8>> {
        for _ in 0..TRIES_MAX {
            match landed(&flights, range).await {
                Ok(()) => {
                    if let Some(bytes) = cached.bytes(range)? {
                        return Ok(bytes);
                    }
                }
                Err(error) if error.is_full() => break,
                Err(error) => return Err(error),
            }
            flights = self.cover(cached, range, DEMAND_BYTES_MAX, Urgency::Demand);
        }
        self.read_uncached(range).await
    }

    fn look_ahead(self: &Arc<Self>, cached: &Arc<Cached>, read: ByteRange, found: Found) {
        if cached.is_complete() {
            return;
        }
        let limits = self.shared.limits();
        let wishes = self.reads.lock().on_read((read, found), cached.size(), limits);
        for wish in wishes {
            let Ahead { range, piece_bytes } = match wish {
                Wish::Ahead(ahead) => ahead,
                // A file that nobody asked for is not worth what is here.
                Wish::Whole(all) if self.shared.store.has_room(cached.size()) => all,
                Wish::Whole(_) => continue,
            };
            self.cover(cached, range, piece_bytes, Urgency::Guess);
        }
    }

    /// Makes sure that a flight is under way for every missing granule of `range`; returns them.
    fn cover(
        self: &Arc<Self>,
        cached: &Arc<Cached>,
        range: ByteRange,
        piece_bytes: u64,
        urgency: Urgency,
    ) -> Vec<Arc<Flight>> {
        let size = cached.size();
        let Some(range) = range.aligned(GRANULE_BYTES).below(size) else { return Vec::new() };
        let mut started: Vec<(Arc<Flight>, Report)> = Vec::new();
        let mut flights = self.flights.lock();
        let mut from = range.start();
        while let Some(rest) = ByteRange::new(from, range.end()) {
            let Some(missing) = cached.missing(rest) else { break };
            from = missing.end();
            for gap in gaps(missing, &flights) {
                for piece in gap.pieces(piece_bytes) {
                    let (flight, report) = Flight::new(piece, urgency);
                    started.push((Arc::new(flight), report));
                }
            }
        }
        flights.extend(started.iter().map(|(flight, _)| Arc::clone(flight)));
        let covering: Vec<_> = flights
            .iter()
            .filter(|flight| flight.range().intersection(range).is_some())
            .map(Arc::clone)
            .collect();
        drop(flights);

        if urgency == Urgency::Demand {
            for flight in &covering {
                flight.want();
            }
        }
        for (flight, report) in started {
            let cached = Arc::clone(cached);
            // Requests are told in the log with the call for which they are sent.
            let flying = Arc::clone(self).fly(cached, flight, report).in_current_span();
            self.shared.runtime.spawn(flying);
        }
        covering
    }

    /// One flight from its turn to its end.
    async fn fly(self: Arc<Self>, cached: Arc<Cached>, flight: Arc<Flight>, report: Report) {
        let landed = self.land(&cached, &flight, &report).await;
        if landed.is_ok()
            && cached.is_complete()
            && let Err(error) = self.shared.store.record(&cached)
        {
            tracing::warn!(%error, "what was fetched could not be recorded");
        }
        // First off the table, then the failure: who sees it and tries again starts a new flight.
        self.flights.lock().retain(|other| !Arc::ptr_eq(other, &flight));
        if let Err(error) = landed {
            report.failed(error);
        }
    }

    /// Fetches what `flight` is for, when it is its turn.
    async fn land(&self, cached: &Arc<Cached>, flight: &Flight, report: &Report) -> Result<()> {
        let _turns = turns(&self.shared, cached, flight).await?;
        let means = (self.shared.remote.as_ref(), &self.shared.store);
        fetch_alone(means, &self.extents, cached, flight.range(), report).await
    }

    /// Reads `range` straight from the objects, for a cache that has no room.
    async fn read_uncached(&self, range: ByteRange) -> Result<Vec<u8>> {
        self.shared.pace(range.len()).await;
        let _bytes = self.shared.budget.acquire(range.len()).await;
        let mut buffer = Vec::with_capacity(usize::try_from(range.len()).unwrap_or(0));
        for (extent, wanted) in sources(&self.extents, range) {
            let mut body =
                self.shared.remote.get(&extent.key, wanted, Some(&extent.version)).await?;
            while let Some(chunk) = body.next().await {
                buffer.extend_from_slice(&chunk?);
            }
        }
        assert_eq!(buffer.len() as u64, range.len(), "a body is never short");
        self.shared.metrics.add(Counter::UncachedReadBytes, range.len());
        Ok(buffer)
    }
}

/// Waits until what `flights` bring of `range` is in the store.
async fn landed(flights: &[Arc<Flight>], range: ByteRange) -> Result<()> {
    for flight in flights {
        flight.landed(range).await?;
    }
    Ok(())
}

/// What of `range` no flight brings.
fn gaps(range: ByteRange, flights: &[Arc<Flight>]) -> Vec<ByteRange> {
    let mut gaps = vec![range];
    for taken in flights.iter().map(|flight| flight.range()) {
        gaps = gaps
            .into_iter()
            .flat_map(|gap| {
                let before = ByteRange::new(gap.start(), gap.end().min(taken.start()));
                let after = ByteRange::new(gap.start().max(taken.end()), gap.end());
                [before, after]
            })
            .flatten()
            .collect();
    }
    gaps
}
