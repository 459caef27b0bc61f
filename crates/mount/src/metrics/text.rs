//! Metrics as text, in the two dialects that Prometheus reads. Pure.

use std::fmt::Write as _;

use base::{Counter, Metrics, Party, Times, Timing};

use crate::health::Health;
use crate::status::{CacheStatus, Status};

/// How to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `text/plain; version=0.0.4`.
    Plain,
    /// `application/openmetrics-text; version=1.0.0`.
    Open,
}

/// What a family of samples is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The bounds of the buckets that are told, as powers of two of microseconds: 16 µs to 67 s.
const BOUNDS: [u32; 12] = [4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26];

/// Values of the moment: a name, what it says, and the value.
type Gauge = (&'static str, &'static str, fn(&Status) -> Option<f64>);

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float by its format")]
const GAUGES: [Gauge; 19] = [
    ("mounted_seconds", "How long it has been mounted.", |s| Some(s.mounted_secs as f64)),
    ("pending_uploads", "Files that the bucket does not have yet.", |s| {
        Some(s.pending_uploads as f64)
    }),
    ("pending_bytes", "Their bytes.", |s| Some(s.pending_bytes as f64)),
    ("pending_changes", "Changes of names that the bucket does not have yet.", |s| {
        Some(s.pending_changes as f64)
    }),
    ("pending_attributes", "Names with attributes that the bucket does not have yet.", |s| {
        Some(s.pending_attributes as f64)
    }),
    ("failures", "Uploads and changes that failed at the last try.", |s| {
        Some(s.failures.len() as f64)
    }),
    ("cached_bytes", "Bytes on the local disk that the buckets have too.", |s| {
        of_cache(s, |cache| cache.cached_bytes)
    }),
    ("staged_bytes", "Bytes on the local disk that are nowhere else.", |s| {
        of_cache(s, |cache| cache.staged_bytes)
    }),
    ("dirty_bytes", "Those of them that this mount has written.", |s| {
        of_cache(s, |cache| cache.dirty_bytes)
    }),
    ("dirty_limit_bytes", "With so many of them writers wait.", |s| {
        of_cache(s, |cache| cache.dirty_limit_bytes)
    }),
    ("pinned_bytes", "Pinned files, when all of them are here.", |s| {
        of_cache(s, |cache| cache.pinned_bytes)
    }),
    ("disk_free_bytes", "Free on the disk of the state folder.", |s| {
        of_cache(s, |cache| cache.disk_free_bytes)
    }),
    ("recovery_files", "Files that could not be brought to a bucket.", |s| {
        of_cache(s, |cache| cache.recovery_files)
    }),
    ("hit_ratio", "The part of what was read that did not have to be fetched.", |s| s.hit_ratio),
    (
        "oldest_call_seconds",
        "How long the oldest call of a program has waited; 0 if none waits.",
        |s| Some(s.in_flight.oldest_call_secs),
    ),
    ("calls_in_flight", "Calls of programs that wait for an answer.", |s| {
        Some(s.in_flight.calls_count as f64)
    }),
    ("oldest_request_seconds", "How long the oldest request has waited; 0 if none waits.", |s| {
        Some(s.in_flight.oldest_request_secs)
    }),
    ("requests_in_flight", "Requests that wait for the answer of a store.", |s| {
        Some(s.in_flight.requests_count as f64)
    }),
    ("credentials_left_seconds", "How long the credentials are good for.", |s| {
        s.credentials.iter().filter_map(|who| who.left_secs).min().map(|left| left as f64)
    }),
];

/// A figure of the state folder, unless that cannot be looked at.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float by its format")]
fn of_cache(status: &Status, figure: fn(&CacheStatus) -> u64) -> Option<f64> {
    let cache = &status.cache;
    cache.error.is_none().then(|| figure(cache) as f64)
}

/// A page in the making.
struct Page {
    text: String,
    dialect: Dialect,
}

/// All metrics of a mount.
pub(super) fn text(status: &Status, metrics: &Metrics, dialect: Dialect) -> String {
    let mut page = Page { text: String::new(), dialect };
    page.family("info", Kind::Gauge, "What is mounted.");
    page.sample("info", &[("source", &status.source)], 1.0);
    page.family("health", Kind::Gauge, "1 for the word that says how the mount is.");
    for health in [Health::Ok, Health::Busy, Health::Degraded, Health::Failing] {
        let value = f64::from(u8::from(status.health == health));
        page.sample("health", &[("state", health.word())], value);
    }
    for (name, help, value) in GAUGES {
        page.family(name, Kind::Gauge, help);
        if let Some(value) = value(status) {
            page.sample(name, &[], value);
        }
    }
    for &counter in Counter::ALL {
        page.family(counter.name(), Kind::Counter, counter.text());
        page.count(&format!("{}_total", counter.name()), &[], metrics.value(counter));
    }
    page.costs(status);
    page.times(metrics, Party::Kernel, ("call_duration_seconds", "operation"));
    page.times(metrics, Party::Store, ("request_duration_seconds", "kind"));
    if dialect == Dialect::Open {
        page.text += "# EOF\n";
    }
    page.text
}

impl Page {
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let word = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // The older dialect names the samples, the newer one the family.
        let name = match (self.dialect, kind) {
            (Dialect::Plain, Kind::Counter) => format!("{name}_total"),
            (Dialect::Plain, Kind::Gauge | Kind::Histogram) | (Dialect::Open, _) => name.to_owned(),
        };
        let _ = writeln!(self.text, "# HELP quayfs_{name} {help}");
        let _ = writeln!(self.text, "# TYPE quayfs_{name} {word}");
        let unit = ["bytes", "seconds"].into_iter().find(|unit| name.ends_with(unit));
        if let (Dialect::Open, Some(unit)) = (self.dialect, unit) {
            let _ = writeln!(self.text, "# UNIT quayfs_{name} {unit}");
        }
    }

    fn labels(&mut self, name: &str, labels: &[(&str, &str)]) {
        let _ = write!(self.text, "quayfs_{name}");
        for (at, (label, value)) in labels.iter().enumerate() {
            let mark = if at == 0 { '{' } else { ',' };
            let value = value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
            let _ = write!(self.text, "{mark}{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.labels(name, labels);
        let _ = writeln!(self.text, " {value}");
    }

    fn count(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.labels(name, labels);
        let _ = writeln!(self.text, " {value}");
    }

    fn costs(&mut self, status: &Status) {
        self.family("cost", Kind::Counter, "What requests and bytes cost at the price list.");
        let currency = status.cost.currency.as_str();
        for kind in &status.requests {
            let labels = [("kind", kind.kind.as_str()), ("currency", currency)];
            self.sample("cost_total", &labels, kind.cost.unwrap_or_default());
        }
        let labels = [("kind", "transfer"), ("currency", currency)];
        self.sample("cost_total", &labels, status.cost.transfer);
    }

    fn times(&mut self, metrics: &Metrics, party: Party, (name, label): (&str, &str)) {
        let help = match party {
            Party::Kernel => "Calls of programs, from their arrival to the answer.",
            Party::Store => "Requests to the store, to the last byte of the answer.",
        };
        self.family(name, Kind::Histogram, help);
        for timing in Timing::ALL.iter().filter(|timing| timing.party() == party) {
            let times = metrics.times(*timing);
            if 0 < times.count() {
                self.histogram(name, (label, timing.name()), &times);
            }
        }
    }

    fn histogram(&mut self, name: &str, label: (&str, &str), times: &Times) {
        let bucket = format!("{name}_bucket");
        for power in BOUNDS {
            let bound = f64::from(1_u32 << power) / 1e6;
            self.count(&bucket, &[label, ("le", &bound.to_string())], times.below(power));
        }
        self.count(&bucket, &[label, ("le", "+Inf")], times.count());
        self.sample(&format!("{name}_sum"), &[label], times.sum().as_secs_f64());
        self.count(&format!("{name}_count"), &[label], times.count());
    }
}

#[cfg(test)]
mod tests;
