//! The whole screen. Pure.
//!
//! ```text
//!   what is mounted, where, how it is
//!   read ▂▃▅        from the store ▁▁▂
//!   written ▁       to the store ▃▂
//!   files  requests  calls  uploads  cache
//!   …
//!   keys
//! ```

use std::path::Path;

use base::printable;
use mount::{Health, Live, Rates};

use super::canvas::{Canvas, Look, Size};
use super::plot::plot;
use super::table;
use super::view::{Tab, View};
use crate::plain::shown;
use crate::units::{show_bytes, show_rate, show_time};
use crate::width;

/// Less room is of no use.
const COLUMNS_MIN: usize = 40;
const ROWS_MIN: usize = 14;

/// Rows of a plot at most.
const PLOT_ROWS_MAX: usize = 6;

/// The keys, in short.
const KEYS: &str = " q quit  tab next  ↑↓ scroll  p pause  ? help";

/// One of the four plots: its name, its values, and how it looks.
type Plotted = (&'static str, fn(&Rates) -> f64, Look);

const PLOTS: [[Plotted; 2]; 2] = [
    [
        ("read", |rates| rates.read_bytes, Look::In),
        ("from the store", |rates| rates.received_bytes, Look::In),
    ],
    [
        ("written", |rates| rates.written_bytes, Look::Out),
        ("to the store", |rates| rates.sent_bytes, Look::Out),
    ],
];

/// Draws what is known of the mount at `dir`.
pub(super) fn draw(live: &Live, dir: &Path, view: &View, size: Size) -> Canvas {
    let mut canvas = Canvas::new(size);
    if size.columns < COLUMNS_MIN || size.rows < ROWS_MIN {
        canvas.put((0, 0), "make the terminal larger", Look::Warning);
        return canvas;
    }
    head(&mut canvas, live, dir, view);
    let mut row = summary(&mut canvas, live, 1);
    let plot_rows = ((size.rows - ROWS_MIN) / 4 + 1).min(PLOT_ROWS_MAX);
    for pair in PLOTS {
        let middle = size.columns / 2;
        for (at, plotted) in pair.into_iter().enumerate() {
            let columns = middle - 3;
            panel(&mut canvas, live, plotted, (1 + at * middle, row), (columns, plot_rows));
        }
        row += plot_rows + 1;
    }
    lower(&mut canvas, live, view, row);
    canvas.put((0, size.rows - 1), KEYS, Look::Plain);
    canvas.tint(size.rows - 1, Look::Bar);
    canvas
}

fn head(canvas: &mut Canvas, live: &Live, dir: &Path, view: &View) {
    let status = &live.status;
    let columns = canvas.size().columns;
    canvas.put((1, 0), &format!("{} on {}", printable(&status.source), shown(dir)), Look::Bar);
    canvas.tint(0, Look::Bar);
    let paused = if view.is_paused { "paused  " } else { "" };
    let right = format!("  {paused}up {} ", show_time(status.mounted_secs));
    canvas.put((columns.saturating_sub(width::columns(&right)), 0), &right, Look::Bar);
}

/// The health, why, and what is still to be done; returns the next row.
fn summary(canvas: &mut Canvas, live: &Live, row: usize) -> usize {
    let status = &live.status;
    let look = match status.health {
        Health::Ok => Look::Good,
        Health::Busy | Health::Degraded => Look::Warning,
        Health::Failing => Look::Bad,
    };
    let word = status.health.word();
    canvas.put((1, row), word, look);
    let why = status.health_why.first().cloned().unwrap_or_else(|| {
        format!(
            "{} pending ({}), {} cached, {:.0} calls/s, {:.0} requests/s",
            status.pending_uploads,
            show_bytes(status.pending_bytes),
            show_bytes(status.cache.cached_bytes),
            status.throughput.calls,
            status.throughput.requests
        )
    });
    canvas.put((word.chars().count() + 3, row), &printable(&why), Look::Plain);
    row + 2
}

fn panel(
    canvas: &mut Canvas,
    live: &Live,
    (name, value, look): Plotted,
    (column, row): (usize, usize),
    (columns, rows): (usize, usize),
) {
    let values: Vec<f64> = live.history.iter().map(value).collect();
    // The height of the plot, so only of what is in it.
    let seen = values.iter().rev().take(columns).copied();
    let highest = show_rate(seen.fold(0.0, f64::max));
    let now = show_rate(value(&live.status.throughput));
    canvas.put((column, row), name, Look::Strong);
    let place = column + name.chars().count() + 2;
    let told = told(&now, &highest, (column + columns).saturating_sub(place));
    canvas.put((place, row), &told, Look::Dim);
    for (at, text) in plot(&values, columns, rows).iter().enumerate() {
        canvas.put((column, row + 1 + at), text, look);
    }
}

/// A rate and the highest that is seen, in words that fit: a number that is cut off is another number.
fn told(now: &str, highest: &str, columns: usize) -> String {
    let words = [format!("{now}, at most {highest}"), format!("{now}, ≤ {highest}")];
    let fitting = words.into_iter().find(|words| words.chars().count() <= columns);
    fitting.unwrap_or_else(|| now.to_owned())
}

/// The tabs, and what the chosen one shows.
fn lower(canvas: &mut Canvas, live: &Live, view: &View, row: usize) {
    let mut column = 1;
    for tab in Tab::ALL {
        let look = if tab == view.tab { Look::Bar } else { Look::Dim };
        let name = format!(" {} ", tab.name());
        canvas.put((column, row), &name, look);
        column += name.chars().count() + 1;
    }
    let lines = if view.is_helping { table::help() } else { table::lines(live, view.tab) };
    let room = canvas.size().rows.saturating_sub(row + 2);
    // The columns' names stay, and the last line is the last that one scrolls to.
    let scrolled = view.scrolled.min(lines.len().saturating_sub(room));
    let (names, rest) = lines.split_at(lines.len().min(1));
    let shown = names.iter().chain(rest.iter().skip(scrolled)).take(room);
    for (at, line) in shown.enumerate() {
        canvas.put((1, row + 1 + at), &line.text, line.look);
    }
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn a_rate_is_told_whole_or_not_at_all() {
        for (columns, want) in [
            (40, "11.3 KiB/s, at most 34.1 KiB/s"),
            (30, "11.3 KiB/s, at most 34.1 KiB/s"),
            (29, "11.3 KiB/s, ≤ 34.1 KiB/s"),
            (23, "11.3 KiB/s"),
        ] {
            assert_eq!(told("11.3 KiB/s", "34.1 KiB/s", columns), want, "{columns}");
        }
    }
}
