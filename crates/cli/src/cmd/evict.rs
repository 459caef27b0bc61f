//! evict: drop what is cached of these files, to have the disk back.

use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::Result;
use base::printable;
use clap::Args as ClapArgs;
use mount::{Chore, Outcome, spelled};
use serde_json::json;

use super::files::{Filter, Listing, Meant, found};
use crate::units::{show_bytes, show_plural};
use crate::{complain, say};

/// What to drop from the cache.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs evict ~/data/runs/2023\n  \
    quayfs evict ~/data/'**/*.tmp'\n\n\
    Only the copies on the local disk are removed; the bucket keeps all files. Files that are not uploaded yet,\n\
    open files and pinned files stay, and are listed. The kernel may keep pages of a file in memory.")]
pub(crate) struct EvictArgs {
    #[command(flatten)]
    listing: Listing,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How many files that stay are told one by one to people.
const KEPT_TOLD_MAX: usize = 20;

pub(crate) fn run(args: &EvictArgs) -> Result<ExitCode> {
    let Meant { files, missed } = found(&args.listing, &Filter::default())?;
    let (mut freed_files, mut freed_bytes) = (0, 0);
    let (mut kept, mut failed) = (Vec::new(), missed);
    mount::visit(Chore::Evict {}, &files, &[], |found, outcome| {
        let path = || spelled(&found.path).into_owned();
        if let Outcome::Evicted { bytes } = outcome {
            freed_bytes += bytes;
            freed_files += u64::from(0 < bytes);
        } else if let Outcome::Kept { reason } = outcome {
            kept.push((path(), reason));
        } else {
            failed.push((path(), outcome.reason()));
        }
        ControlFlow::Continue(())
    })?;
    if args.json {
        let of = |(path, reason): &(String, String)| json!({ "path": path, "reason": reason });
        let told = json!({
            "files": freed_files,
            "freed_bytes": freed_bytes,
            "kept": kept.iter().map(of).collect::<Vec<_>>(),
            "failed": failed.iter().map(of).collect::<Vec<_>>(),
        });
        say(&told.to_string());
    } else {
        say(&format!("{}: {} freed", show_plural(freed_files, "file"), show_bytes(freed_bytes)));
        let all = || kept.iter().chain(&failed);
        for (path, reason) in all().take(KEPT_TOLD_MAX) {
            complain(&format!("{}: {}", printable(path), printable(reason)));
        }
        if let Some(more) = all().count().checked_sub(KEPT_TOLD_MAX).filter(|more| 0 < *more) {
            complain(&format!("and {more} more; --json tells all"));
        }
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
