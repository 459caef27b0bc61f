//! Which fetches may run: demand before guesses, all within one count of connections and one
//! budget of memory.

use std::sync::Arc;

use base::{Budget, Metrics, Permit};
use remote::Remote;
use store::{GRANULE_BYTES, Store};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::bandwidth::{Bandwidth, Urgency};
use crate::flight::Flight;
use crate::manners::Manners;
use crate::readahead::Limits;
use crate::tuned::Tuned;

/// Bounds on fetching.
#[derive(Clone, Debug)]
pub struct FetcherOptions {
    /// The most requests for file data at a time.
    pub requests_max: usize,
    /// How far a stream may be read ahead.
    pub window: Tuned,
    /// How fast file data may come, if that can be limited.
    pub bandwidth: Option<Bandwidth>,
}

/// What all downloads of a mount share.
#[derive(Clone, Debug)]
pub struct Fetcher {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) remote: Arc<dyn Remote>,
    pub(crate) store: Store,
    pub(crate) budget: Budget,
    pub(crate) runtime: Handle,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) manners: Manners,
    window: Tuned,
    bandwidth: Option<Bandwidth>,
    /// One permit a request.
    requests: Semaphore,
    /// Guesses hold one of these too, so that a quarter of the requests is always left to demand.
    guesses: Semaphore,
}

/// What a running fetch holds of the mount's means.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    _guess: Option<SemaphorePermit<'a>>,
    _request: SemaphorePermit<'a>,
    _bytes: Permit,
}

/// What one fetch holds in memory: a granule being gathered, and what the connection has buffered.
const FETCH_BYTES: u64 = 1 << 20;

impl Fetcher {
    /// Fetches from `remote` into `store` on `runtime`, holding bytes of `budget`.
    pub fn new(
        (remote, store): (Arc<dyn Remote>, Store),
        budget: Budget,
        runtime: Handle,
        metrics: Arc<Metrics>,
        options: FetcherOptions,
    ) -> Fetcher {
        let requests_max = options.requests_max.max(4);
        Fetcher {
            shared: Arc::new(Shared {
                remote,
                store,
                budget,
                runtime,
                metrics,
                manners: Manners::default(),
                window: options.window,
                bandwidth: options.bandwidth,
                requests: Semaphore::new(requests_max),
                guesses: Semaphore::new(requests_max - requests_max / 4),
            }),
        }
    }
}

impl Shared {
    /// Within what streams are read ahead.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            window_bytes_min: 512 << 10,
            window_bytes_max: self.window.bytes(),
            piece_bytes_min: 1 << 20,
            piece_bytes_max: 8 << 20,
            granule_bytes: GRANULE_BYTES,
        }
    }

    /// Waits until a program may read so many bytes past the store.
    pub(crate) async fn pace(&self, bytes: u64) {
        if let Some(bandwidth) = &self.bandwidth {
            bandwidth.take(bytes, Urgency::Urgent).await;
        }
    }

    /// Waits until `flight` may run. A guess that is wanted meanwhile stops waiting with guesses.
    pub(crate) async fn turn(&self, flight: &Flight) -> Turn<'_> {
        // First, so that a guess that waits for the line holds nothing that a program could use.
        if let Some(bandwidth) = &self.bandwidth {
            let bytes = flight.range().len();
            let urgent = async {
                flight.wanted().await;
                bandwidth.take(bytes, Urgency::Urgent).await;
            };
            tokio::select! {
                biased;
                () = urgent => {}
                () = bandwidth.take(bytes, Urgency::Guess) => {}
            }
        }
        let guess = tokio::select! {
            biased;
            () = flight.wanted() => None,
            guess = self.guesses.acquire() => Some(guess.expect("never closed")),
        };
        let request = self.requests.acquire().await.expect("never closed");
        let bytes = self.budget.acquire(FETCH_BYTES).await;
        Turn { _guess: guess, _request: request, _bytes: bytes }
    }
}
