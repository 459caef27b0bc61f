//! The page: for each workload a row per figure and a column per client.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::client::Client;
use crate::digits::figure;
use crate::limited::Numbers;
use crate::plot::plot;
use crate::targets::{best, verdicts};
use crate::told::{Cell, Cost, Measured, Row};
use crate::workload::Better;

const INTRODUCTION: &str = "# Side by side with others

Written by `make bench-peers`, never by hand. All clients read the same objects from one MinIO on the same
machine, in turns, each with a fresh cache, so that the mood of the machine cancels out: what counts are the
ratios. Above 1 quayfs is better, whichever way the figure goes. quayfs runs with `--memory-limit 128MiB`;
the others as they come, with their caches on the local disk (`s3fs -o use_cache`, `rclone mount
--vfs-cache-mode full`, `gcsfuse --cache-dir`, Mountpoint for Amazon S3 without and with its cache). The raw
client is the S3 library alone, ranged GETs of 8 MiB, 64 at a time, written to a file and handed on through a
pipe: a transfer that is no file system.

gcsfuse speaks to Google's store only. It reads the same files from fake-gcs-server, an emulator in memory on
the same machine, through the same link. It is not asked where the emulator rather than the link would be
measured: without the link, of a slide of 1.5 GB, of large folders.

In the jobs of fio the local disk reads the file in quayfs's own cache, past the mount: two copies of a file
differ by more than is to be told, by where they lie. The least FUSE is a file system that does nothing but show
the local disk's files, through the library that quayfs uses: what FUSE itself takes of a reader.

Figures are medians of all turns. A peer that has taken long in a workload has fewer of them, as is said
there. In the plots longer is better; the local disk's bars end where the best of the others does.

`*`: not through when its time was over, the rate until then. `> 40 s`: took longer than it was given. `–`: not
asked.
";

const QUOTED: &str = "
## Quoted

Not measured here: these do not build from the registries that this bench installs from. Measured once, on
another day, on a machine of two cores through a link of 20 ms and 80 MB/s a connection.

| client | figure |
|---|---|
| goofys | 1,000 small files cold: 45 files/s; 1 GiB cold: 511 MB/s, 440 MiB of memory at most |
| geesefs | 1,000 small files cold: 45 files/s; 1 GiB cold: 1,076 MiB of memory at most |
| JuiceFS | none of reads |
| s5cmd, which copies and mounts nothing | 1 GiB cold: 430 MB/s |
";

/// A chapter, as far as it was measured.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) measured: Vec<Measured>,
}

/// Writes the page, and the plots beside it.
pub(crate) fn write(page: &Path, parts: &[Part]) {
    let mut text = String::from(INTRODUCTION);
    let _ = write!(text, "\n{}\n", testkit::machine());
    let all: Vec<&Measured> = parts.iter().flat_map(|part| &part.measured).collect();
    text.push_str(&targets(&all));
    let stem = page.file_stem().and_then(|stem| stem.to_str()).expect("a page has a plain name");
    for Part { name, title, measured } in parts {
        let picture = format!("{stem}-{name}.svg");
        put(&page.with_file_name(&picture), &plot(measured));
        let _ = write!(text, "\n## {title}\n\n![{title}]({picture})\n");
        for one in measured {
            text.push_str(&section(one));
        }
    }
    text.push_str(QUOTED);
    put(page, &text);
}

fn targets(measured: &[&Measured]) -> String {
    let mut text = String::from("\n## Targets\n\n| target | measured | |\n|---|---|---|\n");
    for verdict in verdicts(measured) {
        let (figures, word) = match &verdict.found {
            None => ("–", "not measured"),
            Some(found) if found.is_met => (found.figures.as_str(), "met"),
            Some(found) => (found.figures.as_str(), "missed"),
        };
        let _ = writeln!(text, "| {} | {figures} | {word} |", verdict.target);
    }
    text
}

fn put(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// One workload: its figures, and what they took.
pub(crate) fn section(measured: &Measured) -> String {
    let mut text = format!("\n### {} ({})\n\n", measured.title, measured.road.name());
    let clients: Vec<Client> = measured.turns.iter().map(|(client, _)| *client).collect();
    let heads: Vec<&str> = clients.iter().map(|client| client.name()).collect();
    let heads = heads.join(" | ");
    let _ = writeln!(text, "| | {heads} | to local | to raw | to the best peer |");
    let _ = writeln!(text, "|---|{}", "---:|".repeat(clients.len() + 3));
    for row in &measured.rows {
        let cells: Vec<String> = clients.iter().map(|&client| shown(&cell(row, client))).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            row.what,
            cells.join(" | "),
            ratio_text(row, &[Client::Local]),
            ratio_text(row, &[Client::Raw]),
            ratio_text(row, &Client::PEERS),
        );
    }
    text.push_str(&turns(measured));
    if measured.costs.iter().any(|cost| cost.costs.iter().any(|(_, taken)| has_cost(taken))) {
        text.push_str(&costs(measured, &clients));
    }
    text.push_str(&failures(measured));
    text
}

/// How often all were asked, and who less often.
fn turns(measured: &Measured) -> String {
    let most = measured.turns.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let mut text = format!("\nTurns: {most}");
    for (client, count) in measured.turns.iter().filter(|(_, count)| *count < most) {
        let _ = write!(text, ", {} {count}", client.name());
    }
    text + ".\n"
}

/// Takes a cost from what a step told.
type CostOf = fn(&Numbers) -> Option<f64>;

fn costs(measured: &Measured, clients: &[Client]) -> String {
    let clients: Vec<Client> =
        clients.iter().copied().filter(|&client| client != Client::Local).collect();
    let heads: Vec<&str> = clients.iter().map(|client| client.name()).collect();
    let mut text = format!("\n| what it took | {} |\n", heads.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(clients.len()));
    let kinds: [(&str, CostOf); 4] = [
        ("CPU seconds", |taken| taken.get("cpu").copied()),
        ("peak memory, MiB", |taken| taken.get("peak").copied()),
        ("requests", |taken| taken.get("requests").copied()),
        ("bytes fetched per byte read", fetched_per_byte),
    ];
    for Cost { step, costs } in &measured.costs {
        for (kind, of) in kinds {
            let shown: Vec<String> = clients
                .iter()
                .map(|&wanted| {
                    let taken = costs.iter().find(|(client, _)| *client == wanted);
                    taken.and_then(|(_, taken)| of(taken)).map_or("–".to_owned(), figure)
                })
                .collect();
            if shown.iter().any(|cell| cell != "–") {
                let _ = writeln!(text, "| {step}: {kind} | {} |", shown.join(" | "));
            }
        }
    }
    text
}

fn has_cost(taken: &Numbers) -> bool {
    taken.contains_key("cpu") || taken.contains_key("requests")
}

fn fetched_per_byte(taken: &Numbers) -> Option<f64> {
    let bytes = taken.get("bytes").copied().filter(|&bytes| 0.0 < bytes)?;
    Some(taken.get("fetched")? / bytes)
}

/// What went wrong, once each.
fn failures(measured: &Measured) -> String {
    let mut said: Vec<String> = Vec::new();
    for (client, cell) in measured.rows.iter().flat_map(|row| &row.cells) {
        if let Cell::Failed(why) = cell {
            let line = format!("\n{} failed: `{}`\n", client.name(), why.replace('`', "'"));
            if !said.contains(&line) {
                said.push(line);
            }
        }
    }
    said.concat()
}

fn cell(row: &Row, wanted: Client) -> Cell {
    let found = row.cells.iter().find(|(client, _)| *client == wanted);
    found.map_or(Cell::Nothing, |(_, cell)| cell.clone())
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Nothing => "–".to_owned(),
        Cell::Number(value) => figure(*value),
        Cell::Cut(value) => format!("{} *", figure(*value)),
        Cell::Over(limit) => format!("> {} s", limit.as_secs()),
        Cell::Failed(_) => "fails".to_owned(),
    }
}

/// How many times better quayfs is than the best of `others`.
pub(crate) fn ratio(row: &Row, others: &[Client]) -> Option<f64> {
    let ours = cell(row, Client::Quayfs).number()?;
    let (_, theirs) = best(row, others)?;
    Some(match row.better {
        Better::More => ours / theirs,
        Better::Less => theirs / ours,
    })
}

fn ratio_text(row: &Row, others: &[Client]) -> String {
    ratio(row, others).map_or("–".to_owned(), |ratio| format!("{ratio:.2}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::ratio;
    use crate::client::Client;
    use crate::told::{Cell, Row};
    use crate::workload::Better;

    fn row(better: Better) -> Row {
        let cells = vec![
            (Client::Quayfs, Cell::Number(4.0)),
            (Client::S3fs, Cell::Number(2.0)),
            (Client::Rclone, Cell::Number(8.0)),
            (Client::Mountpoint, Cell::Over(Duration::from_secs(9))),
        ];
        Row { what: "x".into(), better, cells }
    }

    #[test]
    fn a_ratio_is_to_the_best_of_the_others_and_above_one_when_ours_is_better() {
        let peers = Client::PEERS;
        assert_eq!(ratio(&row(Better::More), &peers), Some(0.5));
        assert_eq!(ratio(&row(Better::Less), &peers), Some(0.5));
        assert_eq!(ratio(&row(Better::More), &[Client::S3fs]), Some(2.0));
        assert_eq!(ratio(&row(Better::More), &[Client::Mountpoint]), None);
    }
}
