//! recover: finish what a mount left, or list and discard what cannot be finished.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use mount::{Config, Kept, Notice};

use super::mount as mounting;
use crate::args::{Args, Command, RecoverArgs};
use crate::say;
use crate::units::show_bytes;

pub(crate) fn run(args: RecoverArgs) -> Result<ExitCode> {
    let state_dir = mounting::state_dir(args.cache_dir.as_deref())?;
    if args.list {
        let kept = mount::kept(&state_dir)?;
        say(&if args.json { serde_json::to_string(&kept)? } else { table(&kept) });
        return Ok(ExitCode::SUCCESS);
    }
    if !args.discard.is_empty() {
        for name in &args.discard {
            mount::discard(&state_dir, name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let config = config(args)?;
    mounting::make_state_dir(&config.state_dir)?;
    let notices = mount::recover(&config)?;
    for notice in &notices {
        match notice {
            Notice::ReadOnly(reason) => bail!("these credentials cannot write: {reason}"),
            Notice::Resumed(_)
            | Notice::Waiting(_)
            | Notice::Renamed(_)
            | Notice::Renaming(_)
            | Notice::HalfRenamed(_)
            | Notice::Damaged(_)
            | Notice::Kept(_) => say(&mounting::explain(notice)),
        }
    }
    // Whoever asks in a script wants to know whether all is in the bucket now.
    let is_left = |notice: &Notice| match notice {
        Notice::Waiting(_)
        | Notice::Renaming(_)
        | Notice::HalfRenamed(_)
        | Notice::Damaged(_)
        | Notice::ReadOnly(_) => true,
        Notice::Resumed(_) | Notice::Renamed(_) | Notice::Kept(_) => false,
    };
    Ok(if notices.iter().any(is_left) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// As a mount without flags but those that were given; nothing is mounted.
fn config(args: RecoverArgs) -> Result<Config> {
    let url = args.url.unwrap_or_default();
    // The defaults of a mount are where its flags are.
    let Command::Mount(mut plain) =
        Args::try_parse_from(["quayfs", "mount", "--", &url, "/"])?.command
    else {
        bail!("{url}: cannot be mounted");
    };
    plain.access = args.access;
    plain.cache_dir = args.cache_dir;
    mounting::config(&plain)
}

fn table(kept: &[Kept]) -> String {
    if kept.is_empty() {
        return "the recovery folder is empty".to_owned();
    }
    let line = |kept: &Kept| {
        format!("{}  {}\n  {}", kept.path.display(), show_bytes(kept.bytes), kept.reason)
    };
    kept.iter().map(line).collect::<Vec<String>>().join("\n")
}
