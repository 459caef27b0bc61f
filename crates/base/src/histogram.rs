//! How long things took: counts in buckets that grow with the time, so that any percentile is known
//! to a quarter of its value, from a microsecond to minutes, in a fixed kilobyte.
//!
//! ```text
//!   µs   0 1 2 3 | 4 5 6 7 | 8 10 12 14 | 16 20 24 28 | 32 …      four buckets to each doubling
//! ```
//!
//! Recording is a few relaxed additions: nobody waits for anybody. Who reads while others record may see a
//! call counted that is not yet in the sum.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets to a doubling, as a power of two.
const STEPS_LOG2: u32 = 2;
const STEPS: usize = 1 << STEPS_LOG2;

/// The last one begins at 117 s, and has what took longer too.
const BUCKETS: usize = 108;

/// Times of one kind.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_micros: AtomicU64,
    max_micros: AtomicU64,
}

/// What a histogram had at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    buckets: Vec<u64>,
    sum: Duration,
    max: Duration,
}

impl Histogram {
    pub(crate) const fn new() -> Histogram {
        Histogram {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum_micros: AtomicU64::new(0),
            max_micros: AtomicU64::new(0),
        }
    }

    pub(crate) fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
        // Most calls are not the slowest one: a look is cheaper than an exchange.
        if self.max_micros.load(Ordering::Relaxed) < micros {
            self.max_micros.fetch_max(micros, Ordering::Relaxed);
        }
    }

    pub(crate) fn times(&self) -> Times {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Times {
            buckets: self.buckets.iter().map(read).collect(),
            sum: Duration::from_micros(read(&self.sum_micros)),
            max: Duration::from_micros(read(&self.max_micros)),
        }
    }
}

impl Times {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// All of them together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// A time that `percent` of 100 do not exceed, as far as the buckets tell; zero if there were none.
    pub fn percentile(&self, percent: u64) -> Duration {
        let count = self.count();
        let rank = (count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (index, n) in self.buckets.iter().enumerate() {
            seen += n;
            if rank <= seen {
                let end = Duration::from_micros(begin(index + 1));
                return if index + 1 == BUCKETS { self.max } else { end.min(self.max) };
            }
        }
        Duration::ZERO
    }

    /// How many took less than the bound, which is a power of two of microseconds.
    pub fn below(&self, micros_log2: u32) -> u64 {
        let end = bucket(1 << micros_log2);
        self.buckets[..end].iter().sum()
    }
}

/// The bucket for a time.
fn bucket(micros: u64) -> usize {
    let Some(power) = micros.checked_ilog2().filter(|&power| STEPS_LOG2 <= power) else {
        return usize::try_from(micros).expect("less than the buckets of the first doubling");
    };
    let step = usize::try_from(micros >> (power - STEPS_LOG2) & (STEPS as u64 - 1)).expect("small");
    (((power - STEPS_LOG2 + 1) as usize) * STEPS + step).min(BUCKETS - 1)
}

/// Where a bucket begins, in microseconds.
fn begin(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let doubling = bucket / STEPS - 1;
    ((STEPS + bucket % STEPS) as u64) << doubling
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BUCKETS, Histogram, begin, bucket};

    #[test]
    fn each_time_is_in_the_bucket_that_begins_at_or_before_it() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(begin(index)), index);
            let last = begin(index + 1) - 1;
            assert_eq!(bucket(last), index, "{last}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_right_to_a_quarter() {
        let histogram = Histogram::new();
        for micros in 1..=10_000 {
            histogram.record(Duration::from_micros(micros));
        }
        let times = histogram.times();
        assert_eq!(times.count(), 10_000);
        assert_eq!(times.max(), Duration::from_millis(10));
        assert_eq!(times.sum(), Duration::from_millis(50_005));
        for (percent, want) in [(50, 5_000), (90, 9_000), (99, 9_900)] {
            let found = times.percentile(percent).as_micros();
            assert!((want..=want + want / 4).contains(&found), "{percent}: {found}");
        }
        assert_eq!(times.percentile(100), times.max());
    }

    #[test]
    fn of_nothing_everything_is_zero() {
        let times = Histogram::new().times();
        assert_eq!((times.count(), times.percentile(99)), (0, Duration::ZERO));
    }

    #[test]
    fn what_took_less_than_a_bound_is_counted() {
        let histogram = Histogram::new();
        for micros in [0, 3, 4, 15, 16, 1 << 40] {
            histogram.record(Duration::from_micros(micros));
        }
        let times = histogram.times();
        assert_eq!([0, 2, 4, 20].map(|power| times.below(power)), [1, 2, 4, 5]);
    }
}
