//! A picture of a chapter: a group of bars for each figure, longer is better.
//!
//! The longest is that of the best but the local disk: beside what is here already, all that has still to come
//! would look alike.

use std::fmt::Write as _;

use crate::client::Client;
use crate::digits::figure;
use crate::told::{Cell, Measured, Row};
use crate::workload::Better;

const WIDTH: usize = 900;
const BARS_LEFT: usize = 130;
const BARS_WIDTH: f64 = 600.0;
const BAR: usize = 13;
const GAP: usize = 14;
const HEAD: usize = 18;

/// The picture, as SVG.
pub(crate) fn plot(measured: &[Measured]) -> String {
    let mut body = String::new();
    let mut y = GAP;
    for one in measured {
        for row in &one.rows {
            y = group(
                &mut body,
                y,
                &format!("{} ({}): {}", one.title, one.road.name(), row.what),
                row,
            );
        }
    }
    let style = "font-family='sans-serif' font-size='11'";
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{y}' {style}>\n\
         <rect width='{WIDTH}' height='{y}' fill='white'/>\n{body}</svg>\n"
    )
}

/// The bars of one figure from `y` on; returns where the next ones start.
fn group(body: &mut String, mut y: usize, title: &str, row: &Row) -> usize {
    let _ =
        writeln!(body, "<text x='8' y='{}' font-weight='bold'>{}</text>", y + 11, escaped(title));
    y += HEAD;
    for (client, cell) in &row.cells {
        let (length, told) = match cell {
            Cell::Nothing => continue,
            Cell::Number(value) => (share(row, *value), figure(*value)),
            Cell::Cut(value) => (share(row, *value), format!("{} *", figure(*value))),
            Cell::Over(limit) => (0.0, format!("> {} s", limit.as_secs())),
            Cell::Failed(_) => (0.0, "fails".to_owned()),
        };
        // A bar that is there can be seen.
        let length = (length * BARS_WIDTH).max(1.0);
        let (text_y, name) = (y + BAR - 3, escaped(client.name()));
        let (end, height) =
            (f64::from(u32::try_from(BARS_LEFT).expect("small")) + length + 5.0, BAR - 2);
        let _ = writeln!(
            body,
            "<text x='{}' y='{text_y}' text-anchor='end'>{name}</text>\
             <rect x='{BARS_LEFT}' y='{y}' width='{length:.1}' height='{height}' fill='{}'/>\
             <text x='{end:.1}' y='{text_y}'>{}</text>",
            BARS_LEFT - 6,
            colour(*client),
            escaped(&told),
        );
        y += BAR;
    }
    y + GAP
}

/// How long the bar of a value is, of the longest of its figure.
fn share(row: &Row, value: f64) -> f64 {
    let others = row.cells.iter().filter(|(client, _)| *client != Client::Local);
    let values = others.filter_map(|(_, cell)| cell.number());
    let share = match row.better {
        Better::More => value / values.fold(0.0, f64::max),
        Better::Less => values.fold(f64::INFINITY, f64::min) / value,
    };
    if share.is_finite() { share.min(1.0) } else { 0.0 }
}

fn colour(client: Client) -> &'static str {
    match client {
        Client::Local => "#b0b0b0",
        Client::Raw => "#808080",
        Client::Through => "#c0a080",
        Client::Quayfs => "#d9480f",
        Client::S3fs => "#4c6ef5",
        Client::Rclone => "#37b24d",
        Client::Mountpoint => "#ae3ec9",
        Client::MountpointCache => "#e599f7",
        Client::Gcsfuse => "#f2b705",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{plot, share};
    use crate::client::Client;
    use crate::stage::Road;
    use crate::told::{Cell, Measured, Row};
    use crate::workload::Better;

    #[test]
    fn the_best_has_the_longest_bar_and_every_text_is_escaped() {
        let cells = vec![
            (Client::Local, Cell::Number(0.1)),
            (Client::Quayfs, Cell::Number(2.0)),
            (Client::S3fs, Cell::Number(4.0)),
            (Client::Rclone, Cell::Over(Duration::from_secs(5))),
        ];
        let row = Row { what: "a < b".into(), better: Better::Less, cells };
        assert!((share(&row, 2.0) - 1.0).abs() < 1e-9);
        assert!((share(&row, 0.1) - 1.0).abs() < 1e-9);
        assert!((share(&row, 4.0) - 0.5).abs() < 1e-9);
        let (title, road, rows) = ("reads".into(), Road::Far, vec![row]);
        let (turns, costs, peak_mib) = (Vec::new(), Vec::new(), 0.0);
        let picture = plot(&[Measured { title, road, turns, rows, costs, peak_mib }]);
        assert!(picture.contains("a &lt; b") && picture.contains("&gt; 5 s"), "{picture}");
        assert_eq!(picture.matches("<rect").count(), 5);
    }
}
