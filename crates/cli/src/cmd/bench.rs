//! bench: quick figures of a mount, its bucket and its disk side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args as ClapArgs;
use mount::{Figures, Measured};

use crate::settings::between;
use crate::units::{bytes, show_bytes};
use crate::{complain, say};

/// What to measure.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs bench ~/data\n  \
    quayfs bench ~/data/scratch --bytes 1GiB --json\n\n\
    Files are made in the folder, and hidden objects in the bucket, and removed again, also after Ctrl-C. It\n\
    takes less than a minute: what is slow is measured with less. `first read` is of bytes that the cache\n\
    does not have. The bucket is asked by the mount's own process, 16 requests at a time, so it is what\n\
    the network and the store can give; the disk is that of the cache, if you may write there.")]
pub(crate) struct BenchArgs {
    /// A folder of a mount that you may write to.
    dir: PathBuf,
    /// How large the large file is, 1MiB to 64GiB.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = between(bytes, "1MiB", "64GiB"))]
    bytes: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    let measured = mount::bench(&args.dir, args.bytes, |place| {
        complain(&format!("measuring {place}"));
    })?;
    say(&if args.json { serde_json::to_string(&measured)? } else { table(&measured) });
    Ok(if measured.interrupted { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A line of the table: its name, what it is of a place, and how it is shown.
type Line = (&'static str, fn(&Figures) -> Option<u64>, fn(u64) -> String);

const LINES: [Line; 6] = [
    ("write", |figures| figures.write_bytes, per_second),
    ("first read", |figures| figures.first_read_bytes, per_second),
    ("read again", |figures| figures.read_bytes, per_second),
    ("random 4 KiB reads", |figures| figures.random_reads, each_second),
    ("small files written", |figures| figures.small_writes, each_second),
    ("small files read", |figures| figures.small_reads, each_second),
];

fn table(measured: &Measured) -> String {
    let mut lines = vec![format!("{:<20} {:>14} {:>14} {:>14}", "", "mount", "bucket", "disk")];
    let disk = measured.disk.unwrap_or_default();
    for (name, figure, show) in LINES {
        let [mount, bucket, disk] = [&measured.mount, &measured.bucket, &disk]
            .map(|figures| figure(figures).map_or_else(|| "-".to_owned(), show));
        lines.push(format!("{name:<20} {mount:>14} {bucket:>14} {disk:>14}"));
    }
    lines.join("\n")
}

fn per_second(bytes: u64) -> String {
    format!("{}/s", show_bytes(bytes))
}

fn each_second(count: u64) -> String {
    format!("{count}/s")
}

#[cfg(test)]
mod tests {
    use mount::{Figures, Measured};

    use super::table;

    #[test]
    fn places_stand_side_by_side_and_what_was_not_measured_is_a_dash() {
        let mount = Figures { write_bytes: Some(100 << 20), ..Figures::default() };
        let disk = Figures { small_reads: Some(7), ..Figures::default() };
        let table = table(&Measured { mount, disk: Some(disk), ..Measured::default() });
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>(),
            ["write", "100", "MiB/s", "-", "-"]
        );
        assert!(lines[6].ends_with("7/s"), "{table}");
    }
}
