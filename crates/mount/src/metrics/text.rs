//! Metrics as text, in the two dialects that Prometheus reads. Pure.

use std::fmt::Write as _;

use base::{Counter, Metrics, Party, Times, Timing};

use super::process::ProcessFigures;
use crate::health::Health;
use crate::status::{CacheStatus, Status};
use crate::version::VERSION;

/// How to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `text/plain; version=0.0.4`.
    Plain,
    /// `application/openmetrics-text; version=1.0.0`.
    Open,
}

impl Dialect {
    /// The word for it in questions to daemons.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Dialect::Plain => "plain",
            Dialect::Open => "open",
        }
    }
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
    ("mounted_seconds", "Age of the mount.", |s| Some(s.mounted_secs as f64)),
    ("pending_uploads", "Files that wait for upload.", |s| Some(s.pending_uploads as f64)),
    ("pending_bytes", "Bytes that wait for upload, of all pending files.", |s| {
        Some(s.pending_bytes as f64)
    }),
    (
        "pending_changes",
        "Removals, renames and other changes of names that wait for the store.",
        |s| Some(s.pending_changes as f64),
    ),
    ("pending_attributes", "Names whose attributes wait for upload.", |s| {
        Some(s.pending_attributes as f64)
    }),
    ("failures", "Uploads and changes whose last try failed.", |s| Some(s.failures.len() as f64)),
    ("cached_bytes", "Bytes in the cache, which the bucket has too.", |s| {
        of_cache(s, |cache| cache.cached_bytes)
    }),
    (
        "staged_bytes",
        "Bytes in the state folder that are not uploaded, of all mounts that share it.",
        |s| of_cache(s, |cache| cache.staged_bytes),
    ),
    ("dirty_bytes", "Bytes waiting for upload that this mount has written.", |s| {
        of_cache(s, |cache| cache.dirty_bytes)
    }),
    ("dirty_limit_bytes", "Limit of quayfs_dirty_bytes at which writers block.", |s| {
        of_cache(s, |cache| cache.dirty_limit_bytes)
    }),
    ("pinned_bytes", "Bytes of the pinned files when all are cached.", |s| {
        of_cache(s, |cache| cache.pinned_bytes)
    }),
    ("disk_free_bytes", "Free bytes on the disk of the state folder.", |s| {
        of_cache(s, |cache| cache.disk_free_bytes)
    }),
    ("recovery_files", "Files in the recovery folder, which could not be uploaded.", |s| {
        of_cache(s, |cache| cache.recovery_files)
    }),
    ("hit_ratio", "Share of the bytes read that were in the cache.", |s| s.hit_ratio),
    (
        "oldest_call_seconds",
        "Age of the oldest call of a program that waits; 0 if none waits.",
        |s| Some(s.in_flight.oldest_call_secs),
    ),
    ("calls_in_flight", "Calls of programs that wait for an answer.", |s| {
        Some(s.in_flight.calls_count as f64)
    }),
    (
        "oldest_request_seconds",
        "Age of the oldest request to the store that waits; 0 if none waits.",
        |s| Some(s.in_flight.oldest_request_secs),
    ),
    ("requests_in_flight", "Requests to the store that wait for an answer.", |s| {
        Some(s.in_flight.requests_count as f64)
    }),
    ("credentials_left_seconds", "Time until the credentials expire.", |s| {
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
pub(super) fn text(
    status: &Status,
    (metrics, process): (&Metrics, &ProcessFigures),
    dialect: Dialect,
) -> String {
    let mut page = Page { text: String::new(), dialect };
    page.family("build_info", Kind::Gauge, "The version of the daemon.");
    page.sample("build_info", &[("version", VERSION)], 1.0);
    page.family("info", Kind::Gauge, "The URL of the mount.");
    page.sample("info", &[("source", &status.source)], 1.0);
    page.family("health", Kind::Gauge, "1 for the current health state, 0 for the others.");
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
    page.process(process);
    page.times(metrics, Party::Kernel, ("call_duration_seconds", "operation"));
    page.times(metrics, Party::Store, ("request_duration_seconds", "kind"));
    if dialect == Dialect::Open {
        page.text += "# EOF\n";
    }
    page.text
}

/// All names have it, but those that are the same in all programs.
fn prefix(name: &str) -> &'static str {
    if name.starts_with("process_") { "" } else { "quayfs_" }
}

/// The value of a label between its quotes.
pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
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
        let prefix = prefix(&name);
        let _ = writeln!(self.text, "# HELP {prefix}{name} {help}");
        let _ = writeln!(self.text, "# TYPE {prefix}{name} {word}");
        let unit = ["bytes", "seconds"].into_iter().find(|unit| name.ends_with(unit));
        if let (Dialect::Open, Some(unit)) = (self.dialect, unit) {
            let _ = writeln!(self.text, "# UNIT {prefix}{name} {unit}");
        }
    }

    fn labels(&mut self, name: &str, labels: &[(&str, &str)]) {
        let _ = write!(self.text, "{}{name}", prefix(name));
        for (at, (label, value)) in labels.iter().enumerate() {
            let mark = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{mark}{label}=\"{}\"", escaped(value));
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
        self.family("cost", Kind::Counter, "Cost of requests and transfer at the price list.");
        let currency = status.cost.currency.as_str();
        for kind in &status.requests {
            let labels = [("kind", kind.kind.as_str()), ("currency", currency)];
            self.sample("cost_total", &labels, kind.cost.unwrap_or_default());
        }
        let labels = [("kind", "transfer"), ("currency", currency)];
        self.sample("cost_total", &labels, status.cost.transfer);
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float by its format")]
    fn process(&mut self, process: &ProcessFigures) {
        self.family("process_cpu_seconds", Kind::Counter, "CPU time of the daemon.");
        self.sample("process_cpu_seconds_total", &[], process.cpu_secs);
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Resident memory of the daemon.",
                process.resident_bytes,
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory of the daemon.",
                process.virtual_bytes,
            ),
            ("process_open_fds", "Open file descriptors of the daemon.", process.open_files),
            ("process_threads", "Threads of the daemon.", process.threads),
        ];
        for (name, help, value) in gauges {
            self.family(name, Kind::Gauge, help);
            self.count(name, &[], value);
        }
        self.family(
            "process_max_fds",
            Kind::Gauge,
            "Limit on open file descriptors of the daemon.",
        );
        self.sample(
            "process_max_fds",
            &[],
            process.open_files_max.map_or(f64::INFINITY, |max| max as f64),
        );
        self.family(
            "process_start_time_seconds",
            Kind::Gauge,
            "Start of the daemon, in seconds since 1970.",
        );
        self.sample("process_start_time_seconds", &[], process.started_secs);
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
