//! warm: fetch these files now, so that who reads them later does not wait.

use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::Result;
use base::{ByteRange, printable};
use clap::Args as ClapArgs;
use mount::{Chore, Found, Outcome, spelled};
use serde_json::json;

use super::files::{Bar, Filter, Listing, Meant, found, rate};
use crate::units::{region, show_bytes, show_plural};
use crate::{complain, say};

/// What to bring into the cache, and how.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs warm ~/data/reference\n  \
    quayfs warm ~/data/'runs/**/*.bam' --region 0-64KiB\n  \
    quayfs warm ~/data/runs --include '*.bam' --exclude 'tmp/*' --max-size 1GiB\n  \
    quayfs warm ~/data/big.h5 --region 1GiB-2GiB --region 7GiB-8GiB\n  \
    find ~/data/slides -name '*.svs' -print0 | quayfs warm --from-file - -0\n\n\
    The mount's own process fetches the bytes. Programs' own reads take priority. Other files may be evicted to\n\
    make room. If the files do not fit into the cache, warm stops and says so. Ctrl-C stops it at once; fetched\n\
    bytes stay. The exit status is 0 when everything is in the cache.")]
pub(crate) struct WarmArgs {
    #[command(flatten)]
    listing: Listing,
    #[command(flatten)]
    filter: Filter,
    /// Fetch only these bytes of each file, from the first to the one before the last; can be repeated.
    #[arg(long = "region", value_name = "OFFSET-END", value_parser = region)]
    regions: Vec<ByteRange>,
    /// Files to fetch at a time, 1 to 256.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Print JSON at the end.
    #[arg(long)]
    json: bool,
    /// Tell what is not there before anything is fetched, and say so when that is done.
    #[arg(long, hide = true)]
    tell_first: bool,
}

/// How many failures are told one by one to people.
const FAILURES_TOLD_MAX: usize = 20;

/// What has come of it so far.
#[derive(Debug, Default)]
struct Tally {
    files: u64,
    brought_bytes: u64,
    here_bytes: u64,
    failed: Vec<(String, String)>,
    /// What the cache has room for, if that was not enough.
    room_bytes: Option<u64>,
}

pub(crate) fn run(args: &WarmArgs) -> Result<ExitCode> {
    let Meant { files, missed } = found(&args.listing, &args.filter)?;
    let mut bar = Bar::new(files.iter().map(|found| wanted_bytes(found, &args.regions)).sum());
    let mut tally = Tally::default();
    if args.tell_first {
        tell_failed(&missed);
        say("looked for");
    } else {
        tally.failed = missed;
    }
    let chore = Chore::Warm { at_a_time: args.jobs.into() };
    // What the bar was told of files that are not done.
    let mut came_bytes = 0;
    let visited = mount::visit(chore, &files, &args.regions, |found, outcome| {
        if let Outcome::Came { bytes, .. } = outcome {
            came_bytes += bytes;
            bar.add(bytes);
        } else if let Outcome::Warmed { brought_bytes, here_bytes } = outcome {
            let told = came_bytes.min(brought_bytes + here_bytes);
            came_bytes -= told;
            bar.add(brought_bytes + here_bytes - told);
        }
        tally.take(found, &outcome)
    });
    bar.clear();
    visited?;
    let took = bar.took();
    if args.json {
        say(&tally.json(took.as_secs_f64()).to_string());
    } else {
        tally.tell(rate(tally.brought_bytes, took));
    }
    let is_whole = tally.failed.is_empty() && tally.room_bytes.is_none();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn wanted_bytes(found: &Found, regions: &[ByteRange]) -> u64 {
    match regions {
        [] => found.bytes,
        some => some.iter().filter_map(|range| range.below(found.bytes)).map(ByteRange::len).sum(),
    }
}

impl Tally {
    fn take(&mut self, found: &Found, outcome: &Outcome) -> ControlFlow<()> {
        if let Outcome::Warmed { brought_bytes, here_bytes } = outcome {
            self.files += 1;
            self.brought_bytes += brought_bytes;
            self.here_bytes += here_bytes;
        } else if let Outcome::Full { room_bytes } = outcome {
            self.room_bytes = Some(*room_bytes);
            return ControlFlow::Break(());
        } else if !matches!(outcome, Outcome::Came { .. }) {
            self.failed.push((spelled(&found.path).into_owned(), outcome.reason()));
        }
        ControlFlow::Continue(())
    }

    fn json(&self, seconds: f64) -> serde_json::Value {
        let failed =
            self.failed.iter().map(|(path, reason)| json!({ "path": path, "reason": reason }));
        json!({
            "files": self.files,
            "brought_bytes": self.brought_bytes,
            "here_bytes": self.here_bytes,
            "seconds": seconds,
            "failed": failed.collect::<Vec<_>>(),
            "room_bytes": self.room_bytes,
        })
    }

    fn tell(&self, rate: u64) {
        say(&format!(
            "{}: {} fetched at {}/s, {} were in the cache",
            show_plural(self.files, "file"),
            show_bytes(self.brought_bytes),
            show_bytes(rate),
            show_bytes(self.here_bytes)
        ));
        tell_failed(&self.failed);
        if let Some(room_bytes) = self.room_bytes {
            complain(&format!(
                "the cache has no room for all of it: {} of it can be had for this. Warm less, unpin something, or \
                 mount with a larger --cache-size",
                show_bytes(room_bytes)
            ));
        }
    }
}

fn tell_failed(failed: &[(String, String)]) {
    for (path, reason) in failed.iter().take(FAILURES_TOLD_MAX) {
        complain(&format!("{}: {}", printable(path), printable(reason)));
    }
    if FAILURES_TOLD_MAX < failed.len() {
        let more = failed.len() - FAILURES_TOLD_MAX;
        complain(&format!("and {more} more; --json tells all"));
    }
}
