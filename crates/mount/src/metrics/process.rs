//! Figures of this process, by the names that all programs give them in Prometheus.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Figures of a process, as the kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessFigures {
    pub(crate) cpu_secs: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) virtual_bytes: u64,
    pub(crate) open_files: u64,
    /// `None` without a limit.
    pub(crate) open_files_max: Option<u64>,
    pub(crate) threads: u64,
    /// Seconds since 1970.
    pub(crate) started_secs: f64,
}

impl ProcessFigures {
    /// Those of now; zeros where `/proc` cannot be read.
    pub(crate) fn now() -> ProcessFigures {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let booted = fs::read_to_string("/proc/stat").unwrap_or_default();
        let (ticks, page) = (clock_ticks_per_second(), page_size() as u64);
        ProcessFigures {
            open_files: open_files(),
            open_files_max: getrlimit(Resource::Nofile).current,
            ..parse(&stat, &booted, (ticks, page))
        }
    }
}

/// The kernel tells the number as the size of the folder since Linux 6.2. Counting would open one more for each look.
fn open_files() -> u64 {
    let folder = "/proc/self/fd";
    match fs::metadata(folder).map(|found| found.size()) {
        Ok(0) | Err(_) => fs::read_dir(folder).map_or(0, |entries| entries.count() as u64),
        Ok(count) => count,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float by its format")]
fn parse(stat: &str, booted: &str, (ticks, page): (u64, u64)) -> ProcessFigures {
    // The name of the process, in parentheses, may have spaces and parentheses in it.
    let fields: Vec<u64> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect())
        .unwrap_or_default();
    // As proc(5) numbers them; the first behind the name is 3.
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    let booted = booted.lines().find_map(|line| line.strip_prefix("btime ")?.parse::<u64>().ok());
    let ticks = ticks.max(1) as f64;
    ProcessFigures {
        cpu_secs: (field(14) + field(15)) as f64 / ticks,
        threads: field(20),
        started_secs: booted.unwrap_or(0) as f64 + field(22) as f64 / ticks,
        virtual_bytes: field(23),
        resident_bytes: field(24) * page,
        ..ProcessFigures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{ProcessFigures, parse};

    #[test]
    fn figures_are_those_of_proc() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 9 0 2500 1048576 3 18446744073709551615";
        let found = parse(stat, "cpu 1\nbtime 1000\n", (100, 4096));
        let want = ProcessFigures {
            cpu_secs: 2.0,
            resident_bytes: 3 * 4096,
            virtual_bytes: 1_048_576,
            threads: 9,
            started_secs: 1025.0,
            ..ProcessFigures::default()
        };
        assert_eq!(found, want);
        assert_eq!(parse("", "", (100, 4096)), ProcessFigures::default());
    }

    #[test]
    fn own_figures_are_no_zeros() {
        let now = ProcessFigures::now();
        assert!(0 < now.open_files && 0 < now.resident_bytes && 0.0 < now.started_secs, "{now:?}");
    }
}
