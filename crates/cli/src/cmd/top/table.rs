//! The lines of the lower part: what is looked at, a line each. Pure.

use base::printable;
use mount::{InFlightStatus, Live, TimesStatus, UploadState};

use super::canvas::Look;
use super::view::Tab;
use crate::cmd::in_flight::{call, request};
use crate::plain::shown;
use crate::units::{
    show_bytes, show_count, show_millis, show_money, show_plural, show_rate, show_time,
};

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) look: Look,
}

const HELP: [&str; 7] = [
    "tab, left, right   files, requests, calls, waiting, uploads, cache",
    "up, down           scroll",
    "p                  pause or resume",
    "?                  toggle this help",
    "q                  quit",
    "",
    "Passthrough reads are not counted.",
];

/// The keys.
pub(super) fn help() -> Vec<Line> {
    HELP.iter().map(|text| line(*text)).collect()
}

/// What `tab` shows; the first line says what is in the columns.
pub(super) fn lines(live: &Live, tab: Tab) -> Vec<Line> {
    let status = &live.status;
    match tab {
        Tab::Files => files(live),
        Tab::Requests => times("request", &status.requests),
        Tab::Calls => times("call", &status.calls),
        Tab::Waiting => waiting(&status.in_flight),
        Tab::Uploads => uploads(live),
        Tab::Cache => cache(live),
    }
}

fn line(text: impl Into<String>) -> Line {
    Line { text: text.into(), look: Look::Plain }
}

fn title(text: impl Into<String>) -> Line {
    Line { text: text.into(), look: Look::Strong }
}

fn files(live: &Live) -> Vec<Line> {
    let row = |read: &str, written: &str, calls: &str, path: &str| {
        format!("{read:>14} {written:>14} {calls:>9}  {path}")
    };
    let mut lines = vec![title(row("read", "written", "calls/s", "file"))];
    lines.extend(live.hot.iter().map(|file| {
        let calls = format!("{:.0}", file.calls);
        let path = printable(&file.path);
        line(row(&show_rate(file.read_bytes), &show_rate(file.written_bytes), &calls, &path))
    }));
    if live.hot.is_empty() {
        lines.push(Line { text: "  no file is read or written".into(), look: Look::Dim });
    }
    lines
}

fn times(what: &str, kinds: &[TimesStatus]) -> Vec<Line> {
    let row = |cells: [&str; 6]| {
        let [kind, count, p50, p99, max, cost] = cells;
        format!("  {kind:<16}{count:>12}{p50:>11}{p99:>11}{max:>11}{cost:>12}")
    };
    let cost = if kinds.iter().any(|kind| kind.cost.is_some()) { "cost" } else { "" };
    let mut lines = vec![title(row([what, "count", "p50", "p99", "max", cost]))];
    lines.extend(kinds.iter().map(|kind| {
        let [p50, p99, max] = [kind.p50_ms, kind.p99_ms, kind.max_ms].map(show_millis);
        let cost = kind.cost.map(|cost| format!("{cost:.4}")).unwrap_or_default();
        line(row([&kind.kind, &show_count(kind.count), &p50, &p99, &max, &cost]))
    }));
    lines
}

/// Calls and requests that have no answer yet, oldest first.
fn waiting(in_flight: &InFlightStatus) -> Vec<Line> {
    let InFlightStatus { calls_count, requests_count, calls, requests, .. } = in_flight;
    let counts = format!(
        "  {} and {} waiting",
        show_plural(*calls_count, "call"),
        show_plural(*requests_count, "request")
    );
    let calls = calls.iter().map(|waiting| line(format!("  {}", call(waiting))));
    let requests = requests.iter().map(|waiting| line(format!("  {}", request(waiting))));
    [title(counts)].into_iter().chain(calls).chain(requests).collect()
}

fn uploads(live: &Live) -> Vec<Line> {
    let row = |state: &str, bytes: &str, path: &str| format!("  {state:<10}{bytes:>11}  {path}");
    let mut lines = vec![title(row("state", "size", "file"))];
    lines.extend(live.status.uploads.iter().map(|upload| {
        let (state, look) = match upload.state {
            UploadState::Waiting => ("waiting", Look::Plain),
            UploadState::UnderWay => ("under way", Look::Good),
            UploadState::Failed => ("failed", Look::Bad),
        };
        let reason = upload.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let path = printable(&format!("{}{reason}", upload.path)).into_owned();
        Line { text: row(state, &show_bytes(upload.bytes), &path), look }
    }));
    let (changes, attributes) = (live.status.pending_changes, live.status.pending_attributes);
    let waiting = [
        (changes, format!("  {} of names pending", show_plural(changes, "change"))),
        (attributes, format!("  attributes of {} pending", show_plural(attributes, "name"))),
    ];
    lines.extend(
        waiting
            .into_iter()
            .filter(|(count, _)| 0 < *count)
            .map(|(_, text)| Line { text, look: Look::Plain }),
    );
    if lines.len() == 1 {
        lines.push(Line { text: "  everything is in the bucket".into(), look: Look::Dim });
    }
    lines
}

fn cache(live: &Live) -> Vec<Line> {
    let (status, cache) = (&live.status, &live.status.cache);
    let ratio = |ratio: f64| format!("{:.1} % of what was read was here", 100.0 * ratio);
    let cost = status.cost.requests + status.cost.transfer;
    let mut lines: Vec<Line> = [
        ("folder", shown(&cache.dir)),
        ("cached", show_bytes(cache.cached_bytes)),
        ("pinned", show_bytes(cache.pinned_bytes)),
        ("not uploaded", show_bytes(cache.staged_bytes)),
        (
            "written here",
            format!(
                "{}; writers block at {}",
                show_bytes(cache.dirty_bytes),
                show_bytes(cache.dirty_limit_bytes)
            ),
        ),
        ("disk free", show_bytes(cache.disk_free_bytes)),
        ("in recovery/", show_count(cache.recovery_files)),
        ("hits", status.hit_ratio.map_or("nothing was read".into(), ratio)),
        (
            "cost",
            format!("{}; prices: {}", show_money(cost, &status.cost.currency), status.cost.list),
        ),
    ]
    .into_iter()
    .map(|(name, text)| line(format!("  {name:<14}{text}")))
    .collect();
    lines.extend(status.credentials.iter().map(|who| {
        let left = who.left_secs.map(|left| format!(", good for {}", show_time(left)));
        line(format!(
            "  {:<14}{} {}{}",
            "credentials",
            who.kind,
            who.name,
            left.unwrap_or_default()
        ))
    }));
    lines
}
