//! The page that people read. Pure.

use std::borrow::Cow;
use std::path::Path;

use base::printable;
use mount::{
    BriefStatus, CostStatus, CredentialsStatus, InFlightStatus, ReadOnly, Status, StoreStatus,
    TimesStatus, TuningStatus, UploadState,
};

use crate::cmd::in_flight::{call, request};
use crate::plain::shown;
use crate::units::{
    show_bytes, show_count, show_millis, show_money, show_plural, show_rate, show_time,
};

/// Files that are named; the rest is counted, and `--json` has more.
const UPLOADS_SHOWN: usize = 10;

/// Calls and requests that are named; `--json` has more.
const WAITING_SHOWN: usize = 5;

/// With less there is nothing to see: every call waits for a moment.
const WAITING_SECS_MIN: f64 = 1.0;

/// What a mount says of itself.
pub(super) fn page(status: &Status, dir: &Path) -> String {
    let mut lines = head(status, dir);
    lines.push(String::new());
    lines.extend(uploads(status));
    lines.extend(waiting(&status.in_flight));
    lines.extend(disk(status));
    lines.push(entry("reads", &hits(status)));
    let now = &status.throughput;
    lines.push(entry(
        "now",
        &format!(
            "read {}, written {}, from the store {}, to the store {}",
            show_rate(now.read_bytes),
            show_rate(now.written_bytes),
            show_rate(now.received_bytes),
            show_rate(now.sent_bytes)
        ),
    ));
    lines.push(entry("in all", &totals(status)));
    lines.extend(status.credentials.iter().map(|who| entry("credentials", &credentials(who))));
    lines.extend(status.stores.iter().filter_map(read_only).map(|why| entry("store", &why)));
    lines.extend(status.stores.iter().filter_map(refused).map(|why| entry("store", &why)));
    lines.extend(status.stores.iter().filter_map(lacks).map(|lacks| entry("store", &lacks)));
    lines.push(entry("cost", &cost(&status.cost)));
    lines.push(entry("tuning", &tuning(&status.tuning)));
    lines.extend(table("requests to the store", &status.requests, Some(&status.cost.currency)));
    lines.extend(table("calls of programs", &status.calls, None));
    lines.join("\n")
}

/// Page about a mount for users that did not mount it.
pub(super) fn brief(status: &BriefStatus, dir: &Path) -> String {
    let BriefStatus { source, health, mounted_secs, pending_uploads, .. } = status;
    let pending = match (pending_uploads, status.pending_changes) {
        (0, 0) => "none pending".to_owned(),
        (count, changes) => format!(
            "{} pending, {}, and {} of names",
            files(*count),
            show_bytes(status.pending_bytes),
            show_plural(changes, "change")
        ),
    };
    [
        format!(
            "{} on {}: {}, mounted for {} by another user",
            printable(source),
            shown(dir),
            health.word(),
            show_time(*mounted_secs)
        ),
        String::new(),
        entry("uploads", &pending),
        entry("cache", &format!("{} cached", show_bytes(status.cached_bytes))),
    ]
    .join("\n")
}

fn head(status: &Status, dir: &Path) -> Vec<String> {
    let mut lines = vec![format!(
        "{} on {}: {}, mounted for {} by process {}",
        source(status),
        shown(dir),
        status.health.word(),
        show_time(status.mounted_secs),
        status.pid
    )];
    lines.extend(status.health_why.iter().map(|why| format!("  ! {}", printable(why))));
    lines
}

/// The mounted source: the URL that was given, or all buckets.
fn source(status: &Status) -> Cow<'_, str> {
    if status.source == "all" { "all buckets".into() } else { printable(&status.source) }
}

fn uploads(status: &Status) -> Vec<String> {
    let mut to_do = Vec::new();
    if 0 < status.pending_uploads {
        let bytes = show_bytes(status.pending_bytes);
        to_do.push(format!("{} pending, {bytes}", files(status.pending_uploads)));
    }
    if 0 < status.pending_changes {
        to_do.push(format!("{} of names pending", show_plural(status.pending_changes, "change")));
    }
    if 0 < status.pending_attributes {
        let names = show_plural(status.pending_attributes, "name");
        to_do.push(format!("attributes of {names} pending"));
    }
    if to_do.is_empty() {
        to_do.push("none: everything is in the bucket".to_owned());
    }
    let mut lines = vec![entry("uploads", &to_do.join(", "))];
    for upload in status.uploads.iter().take(UPLOADS_SHOWN) {
        let state = match upload.state {
            UploadState::Waiting => "waiting",
            UploadState::UnderWay => "under way",
            UploadState::Failed => "failed",
        };
        let path =
            if upload.path.is_empty() { "(removed)".into() } else { printable(&upload.path) };
        let reason = upload.reason.as_ref();
        let reason = reason.map(|reason| format!(": {}", printable(reason))).unwrap_or_default();
        let bytes = show_bytes(upload.bytes);
        lines.push(entry("", &format!("{state:<9}  {path} ({bytes}){reason}")));
    }
    let more = status.pending_uploads.saturating_sub(UPLOADS_SHOWN as u64);
    if 0 < more {
        lines.push(entry("", &format!("and {} more; --json names them", files(more))));
    }
    lines
}

/// Calls and requests that have waited for a moment, oldest first.
fn waiting(in_flight: &InFlightStatus) -> Vec<String> {
    let calls = in_flight.calls.iter().filter(|call| WAITING_SECS_MIN <= call.secs);
    let calls: Vec<String> = calls.take(WAITING_SHOWN).map(call).collect();
    let requests = in_flight.requests.iter().filter(|request| WAITING_SECS_MIN <= request.secs);
    let requests: Vec<String> = requests.take(WAITING_SHOWN).map(request).collect();
    let mut lines = Vec::new();
    for (name, what, count, shown) in [
        ("calls", "call", in_flight.calls_count, calls),
        ("requests", "request", in_flight.requests_count, requests),
    ] {
        if shown.is_empty() {
            continue;
        }
        lines.push(entry(name, &format!("{} waiting", show_plural(count, what))));
        lines.extend(shown.iter().map(|line| entry("", line)));
    }
    lines
}

fn disk(status: &Status) -> Vec<String> {
    let cache = &status.cache;
    if cache.error.is_some() {
        return vec![entry("cache", &format!("nothing is known of {}", shown(&cache.dir)))];
    }
    let mut lines = vec![entry(
        "cache",
        &format!(
            "{} cached, {} free on the disk of {}",
            show_bytes(cache.cached_bytes),
            show_bytes(cache.disk_free_bytes),
            shown(&cache.dir)
        ),
    )];
    if 0 < cache.pinned_bytes {
        lines.push(entry("", &format!("{} pinned", show_bytes(cache.pinned_bytes))));
    }
    if 0 < cache.staged_bytes {
        lines.push(entry(
            "",
            &format!(
                "{} waiting for upload ({} from this mount); writers block at {}",
                show_bytes(cache.staged_bytes),
                show_bytes(cache.dirty_bytes),
                show_bytes(cache.dirty_limit_bytes)
            ),
        ));
    }
    lines
}

fn hits(status: &Status) -> String {
    let through = match counter(status, "passthrough_opens") {
        0 => String::new(),
        opens => format!("; {} opened in passthrough", show_plural(opens, "file")),
    };
    let stale = match counter(status, "stale_reads") {
        0 => String::new(),
        reads => format!("; {} failed: the object was replaced", show_plural(reads, "read")),
    };
    match status.hit_ratio {
        Some(ratio) => format!("hit rate {:.1} %{through}{stale}", 100.0 * ratio),
        None => format!("none yet{through}{stale}"),
    }
}

fn totals(status: &Status) -> String {
    format!(
        "from the store {}, to the store {}",
        show_bytes(counter(status, "remote_get_bytes")),
        show_bytes(counter(status, "remote_put_bytes"))
    )
}

fn counter(status: &Status, name: &str) -> u64 {
    let found = status.counters.iter().find(|(counter, _)| *counter == name);
    found.map_or(0, |(_, count)| *count)
}

fn credentials(who: &CredentialsStatus) -> String {
    let name = format!("{} {}", who.kind, who.name).trim_end().to_owned();
    let left = who.left_secs.map(|left| match left {
        0 => "which has ended".to_owned(),
        left => format!("good for another {}", show_time(left)),
    });
    [Some(name), who.role.clone(), left].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Why a bucket is mounted for reading only, if it is.
fn read_only(store: &StoreStatus) -> Option<String> {
    let why = match store.read_only? {
        ReadOnly::Asked => "as requested",
        ReadOnly::Credentials => "because these credentials cannot write",
    };
    Some(format!("{} is mounted read-only, {why}", url(store)))
}

/// Why a bucket that somebody asked for is not there, if it is not.
fn refused(store: &StoreStatus) -> Option<String> {
    let why = store.refused.as_ref()?;
    Some(format!("{} cannot be attached: {}", url(store), printable(why)))
}

/// What the store of a bucket is known to lack; most lack nothing.
fn lacks(store: &StoreStatus) -> Option<String> {
    let names = store.lacks.join(", ");
    (!names.is_empty()).then(|| format!("{} does without {names}", url(store)))
}

fn url(store: &StoreStatus) -> String {
    store.bucket.replacen('/', "://", 1)
}

fn cost(cost: &CostStatus) -> String {
    let CostStatus { currency, list, requests, transfer } = cost;
    let sum = show_money(requests + transfer, currency);
    let transfer = if 0.0 < *transfer {
        format!(", {} of it for bytes", show_money(*transfer, currency))
    } else {
        String::new()
    };
    format!("{sum} since it was mounted{transfer}; prices: {list}")
}

fn tuning(tuning: &TuningStatus) -> String {
    // While all buckets are mounted, and none was used yet, there is nothing to measure.
    let at_a_time = match tuning.requests_at_a_time {
        0 => String::new(),
        requests => format!(
            "{requests} requests and {} small uploads at a time, ",
            tuning.small_uploads_at_a_time
        ),
    };
    format!(
        "{at_a_time}{} read ahead, parts of {}, up to {} in memory",
        show_bytes(tuning.read_window_bytes),
        show_bytes(tuning.part_bytes),
        show_bytes(tuning.memory_limit_bytes)
    )
}

/// One line a kind, the columns aligned.
fn table(title: &str, kinds: &[TimesStatus], currency: Option<&str>) -> Vec<String> {
    if kinds.is_empty() {
        return Vec::new();
    }
    let line = |cells: [&str; 6]| {
        let [kind, count, p50, p99, max, cost] = cells;
        let line = format!("  {kind:<22}{count:>12}{p50:>11}{p99:>11}{max:>11}{cost:>14}");
        line.trim_end().to_owned()
    };
    let mut lines = vec![
        String::new(),
        line([title, "count", "p50", "p99", "max", currency.unwrap_or_default()]),
    ];
    lines.extend(kinds.iter().map(|kind| {
        let [p50, p99, max] = [kind.p50_ms, kind.p99_ms, kind.max_ms].map(show_millis);
        let cost = kind.cost.map(|cost| format!("{cost:.4}")).unwrap_or_default();
        line([&format!("  {}", kind.kind), &show_count(kind.count), &p50, &p99, &max, &cost])
    }));
    lines
}

fn entry(name: &str, text: &str) -> String {
    format!("  {name:<12} {text}")
}

fn files(count: u64) -> String {
    show_plural(count, "file")
}
