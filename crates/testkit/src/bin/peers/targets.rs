//! What quayfs is to reach, and whether it did.

use crate::client::Client;
use crate::digits::figure;
use crate::stage::Road;
use crate::told::{Measured, Row};
use crate::work::{jobs, listing, places, programs, sequential, small};
use crate::workload::Better;

/// A tenth slower than the local disk is still the same.
const ALIKE: f64 = 1.1;
const JOB_MIN: f64 = 0.95;
const MEMORY_MIB_MAX: f64 = 256.0;

/// One target, and what was measured of it.
pub(crate) struct Verdict {
    pub(crate) target: &'static str,
    /// Nothing where it was not measured.
    pub(crate) found: Option<Found>,
}

pub(crate) struct Found {
    pub(crate) figures: String,
    pub(crate) is_met: bool,
}

/// All targets.
pub(crate) fn verdicts(measured: &[&Measured]) -> Vec<Verdict> {
    let book = Book(measured);
    let verdict = |(target, found): (&'static str, Option<Found>)| Verdict { target, found };
    let (name, large) = (programs::SLIDE_TITLE, programs::LARGE_SLIDE_TITLE);
    let all = [
        ("warm, each of 16 jobs of fio: at least 0.95 of the local disk", book.jobs()),
        (
            "1 GiB cold through 400 MB/s in all: at least 0.9 of the raw client",
            book.sequential(Road::Capped, sequential::COLD, &[Client::Raw], 0.9),
        ),
        (
            "1 GiB cold through the link: at least 0.6 of the raw client",
            book.sequential(Road::Far, sequential::COLD, &[Client::Raw], 0.6),
        ),
        (
            "1 GiB cold through the link: ahead of every other file system",
            book.sequential(Road::Far, sequential::COLD, &Client::PEERS, 1.0),
        ),
        (
            "1 GiB cold through the link: fewer CPU seconds than any other file system",
            book.sequential(Road::Far, sequential::CPU, &Client::PEERS, 1.0),
        ),
        ("4 KiB at random, cold: p50 at most 1.15 of a raw GET of 128 KiB", book.random_p50()),
        ("4 KiB at random, cold: 16 threads at least 12 times one", book.random_threads()),
        (
            "4 KiB at random, cold: at most 1.2 bytes fetched per byte of granules read in",
            book.random_fetched(),
        ),
        ("slide of 200 MB, cold: at least twice the best other one", book.slide_cold(name)),
        ("slide of 1.5 GB, cold: at least twice the best other one", book.slide_cold(large)),
        ("slide of 200 MB, warm: the local disk within 10 %", book.slide_warm(name)),
        ("slide of 1.5 GB, warm: the local disk within 10 %", book.slide_warm(large)),
        (
            "1,000 small files cold by name: at least 500 a second",
            book.small(small::BY_NAME, 500.0),
        ),
        (
            "1,000 small files cold at random: at least 100 a second",
            book.small(small::AT_RANDOM, 100.0),
        ),
        (
            "1,000 small files after a remount: at most twice local and two pages of names",
            book.remounted(),
        ),
        ("ls -l of 100,000 objects cold: at most 1.2 of raw pages in turn", book.listing()),
        ("memory in all of it, with --memory-limit 128MiB: under 256 MiB", book.memory()),
    ];
    all.map(verdict).into()
}

/// All that was measured.
struct Book<'a>(&'a [&'a Measured]);

impl Book<'_> {
    fn jobs(&self) -> Option<Found> {
        let rows = &self.workload(jobs::TITLE, Road::Direct)?.rows;
        let ratio = |row: &Row| {
            Some((number(row, Client::Quayfs)? / number(row, Client::Local)?, row.what.clone()))
        };
        let ratios: Vec<(f64, String)> = rows.iter().filter_map(ratio).collect();
        let (worst, job) = ratios.iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
        let good = ratios.iter().filter(|(ratio, _)| JOB_MIN <= *ratio).count();
        let figures = format!("{good} of {} are; the least is {worst:.2} ({job})", ratios.len());
        Some(Found { figures, is_met: good == rows.len() })
    }

    fn sequential(&self, road: Road, what: &str, others: &[Client], least: f64) -> Option<Found> {
        self.compared(sequential::TITLE, road, what, others, least)
    }

    fn random_p50(&self) -> Option<Found> {
        let row = self.row(places::RANDOM_1, Road::Far, places::P50)?;
        let (ours, raw) = (number(row, Client::Quayfs)?, number(row, Client::Raw)?);
        let figures = format!("{} ms to {} ms: {:.2}", figure(ours), figure(raw), ours / raw);
        Some(Found { figures, is_met: ours <= 1.15 * raw })
    }

    fn random_threads(&self) -> Option<Found> {
        let rate = |title: &str| {
            number(self.row(title, Road::Far, places::READS_A_SECOND)?, Client::Quayfs)
        };
        let (one, many) = (rate(places::RANDOM_1)?, rate(places::RANDOM_16)?);
        let figures = format!("{} to {} reads/s: {:.1}", figure(many), figure(one), many / one);
        Some(Found { figures, is_met: 12.0 * one <= many })
    }

    fn random_fetched(&self) -> Option<Found> {
        let of = |title: &str| {
            number(self.row(title, Road::Far, places::FETCHED_PER_TOUCHED)?, Client::Quayfs)
        };
        let (one, many) = (of(places::RANDOM_1)?, of(places::RANDOM_16)?);
        let figures = format!("{one:.2} with 1 thread, {many:.2} with 16");
        Some(Found { figures, is_met: one.max(many) <= 1.2 })
    }

    fn slide_cold(&self, title: &str) -> Option<Found> {
        self.compared(title, Road::Far, programs::COLD, &Client::PEERS, 2.0)
    }

    fn slide_warm(&self, title: &str) -> Option<Found> {
        let row = self.row(title, Road::Far, programs::AGAIN)?;
        let (ours, local) = (number(row, Client::Quayfs)?, number(row, Client::Local)?);
        let figures = format!("{} ms to {} ms: {:.2}", figure(ours), figure(local), ours / local);
        Some(Found { figures, is_met: ours <= ALIKE * local })
    }

    fn small(&self, title: &str, least: f64) -> Option<Found> {
        let row = self.row(title, Road::Far, small::COLD)?;
        let ours = number(row, Client::Quayfs)?;
        let peer = best(row, &Client::PEERS);
        let peer = peer.map_or(String::new(), |(name, rate)| format!("; {name} {}", figure(rate)));
        Some(Found { figures: format!("{}{peer}", figure(ours)), is_met: least <= ours })
    }

    fn remounted(&self) -> Option<Found> {
        let row = self.row(small::BY_NAME, Road::Far, small::REMOUNTED)?;
        let (ours, local) = (number(row, Client::Quayfs)?, number(row, Client::Local)?);
        let page = self.row(small::BY_NAME, Road::Far, small::LIST)?;
        let page = number(page, Client::Raw)?;
        let bound = 2.0 * (local + page);
        let figures = format!(
            "{} ms to {} ms (local {} ms, a page {} ms)",
            figure(ours),
            figure(bound),
            figure(local),
            figure(page)
        );
        Some(Found { figures, is_met: ours <= bound })
    }

    fn listing(&self) -> Option<Found> {
        let row = self.row(listing::LOOK_AT_MANY, Road::Far, listing::COLD)?;
        let (ours, raw) = (number(row, Client::Quayfs)?, number(row, Client::Raw)?);
        let figures = format!("{} ms to {} ms: {:.2}", figure(ours), figure(raw), ours / raw);
        Some(Found { figures, is_met: ours <= 1.2 * raw })
    }

    fn memory(&self) -> Option<Found> {
        let peaks = self.0.iter().map(|measured| (measured.peak_mib, &measured.title));
        let (peak, title) = peaks.max_by(|one, other| one.0.total_cmp(&other.0))?;
        let figures = format!("{} MiB ({title})", figure(peak));
        Some(Found { figures, is_met: 0.0 < peak && peak < MEMORY_MIB_MAX })
    }

    /// Whether quayfs is so many times better than the best of others.
    fn compared(
        &self,
        title: &str,
        road: Road,
        what: &str,
        others: &[Client],
        least: f64,
    ) -> Option<Found> {
        let row = self.row(title, road, what)?;
        let ours = number(row, Client::Quayfs)?;
        let (name, theirs) = best(row, others)?;
        let ratio = match row.better {
            Better::More => ours / theirs,
            Better::Less => theirs / ours,
        };
        let figures = format!("{}, {name} {}: {ratio:.2}", figure(ours), figure(theirs));
        Some(Found { figures, is_met: least <= ratio })
    }

    fn workload(&self, title: &str, road: Road) -> Option<&Measured> {
        self.0.iter().copied().find(|measured| measured.title == title && measured.road == road)
    }

    fn row(&self, title: &str, road: Road, what: &str) -> Option<&Row> {
        self.workload(title, road)?.rows.iter().find(|row| row.what == what)
    }
}

fn number(row: &Row, wanted: Client) -> Option<f64> {
    row.cells.iter().find(|(client, _)| *client == wanted)?.1.number()
}

/// The best of others, and its figure.
pub(crate) fn best(row: &Row, others: &[Client]) -> Option<(&'static str, f64)> {
    let named = |&client: &Client| Some((client.name(), number(row, client)?));
    let all = others.iter().filter_map(named);
    match row.better {
        Better::More => all.max_by(|one, other| one.1.total_cmp(&other.1)),
        Better::Less => all.min_by(|one, other| one.1.total_cmp(&other.1)),
    }
}

#[cfg(test)]
mod tests {
    use super::verdicts;
    use crate::client::Client;
    use crate::stage::Road;
    use crate::told::{Cell, Measured, Row};
    use crate::work::{places, sequential};
    use crate::workload::Better;

    fn measured(title: &str, what: &str, better: Better, cells: &[(Client, f64)]) -> Measured {
        let cells = cells.iter().map(|&(client, value)| (client, Cell::Number(value))).collect();
        Measured {
            title: title.into(),
            road: Road::Far,
            turns: Vec::new(),
            rows: vec![Row { what: what.into(), better, cells }],
            costs: Vec::new(),
            peak_mib: 100.0,
        }
    }

    /// The figures of the target that begins so, and whether it is met.
    fn told(measured: &[&Measured], target: &str) -> Option<(String, bool)> {
        let verdicts = verdicts(measured);
        let verdict = verdicts.into_iter().find(|verdict| verdict.target.starts_with(target));
        let found = verdict.expect("there is such a target").found?;
        Some((found.figures, found.is_met))
    }

    #[test]
    fn a_target_is_met_by_ratios_of_one_run_and_says_so_when_nothing_was_measured() {
        use Client::{Mountpoint, Quayfs, Raw, S3fs};
        let cold = [(Raw, 100.0), (Quayfs, 59.0), (S3fs, 20.0), (Mountpoint, 58.0)];
        let read = measured(sequential::TITLE, sequential::COLD, Better::More, &cold);
        let p50 =
            measured(places::RANDOM_1, places::P50, Better::Less, &[(Raw, 20.0), (Quayfs, 23.0)]);
        let all = [&read, &p50];
        let wanted = |figures: &str, is_met| Some((figures.to_owned(), is_met));
        let at_least = "1 GiB cold through the link: at least 0.6";
        assert_eq!(told(&all, at_least), wanted("59.0, raw client 100: 0.59", false));
        let ahead = "1 GiB cold through the link: ahead";
        assert_eq!(told(&all, ahead), wanted("59.0, Mountpoint 58.0: 1.02", true));
        let random = "4 KiB at random, cold: p50";
        assert_eq!(told(&all, random), wanted("23.0 ms to 20.0 ms: 1.15", true));
        assert_eq!(told(&all, "ls -l"), None);
        assert_eq!(told(&[], "memory"), None);
    }
}
