//! reload: have a running mount read its configuration again.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use crate::say;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs reload ~/data\n\n\
    Log files are opened again too, after a program such as logrotate has renamed them. The signal HUP to\n\
    the daemon does the same. Flags and variables of the mount stay as they were when it was mounted.")]
pub(crate) struct ReloadArgs {
    /// The mount.
    pub(crate) dir: PathBuf,
}

pub(crate) fn run(args: &ReloadArgs) -> Result<ExitCode> {
    let reloaded = mount::reload(&args.dir)?;
    if let Some(reason) = reloaded.failed {
        bail!("nothing was changed: {reason}");
    }
    for setting in &reloaded.now {
        say(setting);
    }
    for setting in &reloaded.remount {
        say(&format!("{setting} (needs a remount)"));
    }
    if reloaded.now.is_empty() && reloaded.remount.is_empty() {
        say("no setting has changed");
    }
    Ok(ExitCode::SUCCESS)
}
