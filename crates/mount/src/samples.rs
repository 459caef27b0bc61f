//! The last minutes, a sample a second: what throughput now is told from.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::{Clock, Counter, Metrics};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::sizes::{Best, Sizes};

/// Two minutes.
const SAMPLES_MAX: usize = 120;

const DELAY: Duration = Duration::from_secs(1);

/// What is looked at when somebody asks for throughput now.
const NOW_SAMPLES: usize = 5;

/// Rates over some time, in units a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Bytes that programs read, but for passthrough.
    pub read_bytes: f64,
    /// Bytes that programs wrote.
    pub written_bytes: f64,
    /// Bytes from the store.
    pub received_bytes: f64,
    /// Bytes to the store.
    pub sent_bytes: f64,
    /// Calls of the kernel.
    pub calls: f64,
    /// Requests to the store.
    pub requests: f64,
    /// Those that failed.
    pub errors: f64,
}

/// The place of failed requests among what is counted.
const ERRORS: usize = 6;

/// What was counted at some time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    counts: [u64; 7],
}

/// The samples.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    // Invariant: in order of time, at most `SAMPLES_MAX`.
    ring: Mutex<VecDeque<Sample>>,
}

/// Takes samples until nobody has them any more, and has `sizes` follow what the network brings.
pub(crate) async fn sample(
    samples: Weak<Samples>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    sizes: Sizes,
) {
    while let Some(samples) = samples.upgrade() {
        samples.take(&metrics, clock.monotonic());
        sizes.follow(samples.at_best());
        drop(samples);
        clock.sleep(DELAY).await;
    }
}

impl Samples {
    /// What is counted at the time `at`.
    pub(crate) fn take(&self, metrics: &Metrics, at: Duration) {
        let mut ring = self.ring.lock();
        if ring.len() == SAMPLES_MAX {
            ring.pop_front();
        }
        ring.push_back(Sample { at, counts: counts(metrics) });
    }

    /// The rates of the last seconds.
    pub(crate) fn now(&self) -> Rates {
        let ring = self.ring.lock();
        let first = ring.len().saturating_sub(NOW_SAMPLES + 1);
        match (ring.get(first), ring.back()) {
            (Some(from), Some(to)) => rates(*from, *to),
            (None | Some(_), None) | (None, Some(_)) => Rates::default(),
        }
    }

    /// Requests to the store that failed since the oldest sample, those after the newest one included.
    pub(crate) fn errors(&self, metrics: &Metrics) -> u64 {
        let before = self.ring.lock().front().map_or(0, |sample| sample.counts[ERRORS]);
        metrics.value(Counter::RemoteErrors).saturating_sub(before)
    }

    /// Bytes from the store, and to it, in the best seconds of the last minutes.
    fn at_best(&self) -> Best {
        let history = self.history();
        let best = |of: fn(&Rates) -> f64| history.iter().map(of).fold(0.0, f64::max);
        Best { received: best(|rates| rates.received_bytes), sent: best(|rates| rates.sent_bytes) }
    }

    /// The rates from each sample to the next, oldest first.
    pub(crate) fn history(&self) -> Vec<Rates> {
        let ring = self.ring.lock();
        ring.iter().zip(ring.iter().skip(1)).map(|(from, to)| rates(*from, *to)).collect()
    }
}

fn counts(metrics: &Metrics) -> [u64; 7] {
    const REQUESTS: [Counter; 8] = [
        Counter::RemoteHeads,
        Counter::RemoteGets,
        Counter::RemoteSmallGets,
        Counter::RemoteLists,
        Counter::RemotePuts,
        Counter::RemoteCopies,
        Counter::RemotePartCopies,
        Counter::RemoteDeletes,
    ];
    [
        metrics.value(Counter::FuseReadBytes),
        metrics.value(Counter::FuseWriteBytes),
        metrics.value(Counter::RemoteGetBytes),
        metrics.value(Counter::RemotePutBytes),
        metrics.value(Counter::FuseRequests),
        REQUESTS.iter().map(|&counter| metrics.value(counter)).sum(),
        metrics.value(Counter::RemoteErrors),
    ]
}

fn rates(from: Sample, to: Sample) -> Rates {
    let secs = to.at.saturating_sub(from.at).as_secs_f64();
    if secs <= 0.0 {
        return Rates::default();
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate is no more exact than this")]
    let rate = |n: usize| to.counts[n].saturating_sub(from.counts[n]) as f64 / secs;
    let [read_bytes, written_bytes, received_bytes, sent_bytes, calls, requests, errors] =
        std::array::from_fn(rate);
    Rates { read_bytes, written_bytes, received_bytes, sent_bytes, calls, requests, errors }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::{Counter, Metrics};

    use super::{Rates, SAMPLES_MAX, Samples};

    #[test]
    fn errors_after_the_newest_sample_count_at_once() {
        let (metrics, samples) = (Metrics::new(), Samples::default());
        metrics.add(Counter::RemoteErrors, 1);
        assert_eq!(samples.errors(&metrics), 1);
        samples.take(&metrics, Duration::ZERO);
        assert_eq!(samples.errors(&metrics), 0);
        metrics.add(Counter::RemoteErrors, 2);
        assert_eq!(samples.errors(&metrics), 2);
        for second in 1..=SAMPLES_MAX as u64 {
            samples.take(&metrics, Duration::from_secs(second));
        }
        assert_eq!(samples.errors(&metrics), 0, "they are forgotten with their sample");
    }

    #[test]
    fn rates_are_those_of_the_last_seconds_and_the_past_is_forgotten() {
        let (metrics, samples) = (Metrics::new(), Samples::default());
        assert_eq!(samples.now(), Rates::default());
        for second in 0..200_u64 {
            samples.take(&metrics, Duration::from_secs(second));
            metrics.add(Counter::RemoteGetBytes, if second < 190 { 100 } else { 300 });
            metrics.add(Counter::RemoteHeads, 2);
        }
        let now = samples.now();
        assert!((now.received_bytes - 300.0).abs() < 1e-6, "{now:?}");
        assert!((now.requests - 2.0).abs() < 1e-6, "{now:?}");
        let history = samples.history();
        assert_eq!(history.len(), SAMPLES_MAX - 1);
        assert!((history[0].received_bytes - 100.0).abs() < 1e-6);
        assert!((samples.at_best().received - 300.0).abs() < 1e-6);
    }
}
