//! reload: have running mounts read their configuration again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use crate::{complain, say, told};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs reload ~/data\n  \
    quayfs reload --all         all mounts of this user\n\n\
    Log files are opened again too, after a program such as logrotate has renamed them. The signal HUP to\n\
    the daemon does the same. Flags and variables of the mount stay as they were when it was mounted.")]
pub(crate) struct ReloadArgs {
    /// The mount.
    #[arg(required_unless_present = "all")]
    pub(crate) dir: Option<PathBuf>,
    /// All mounts of this user; root's own alone, for root.
    #[arg(long, conflicts_with = "dir")]
    pub(crate) all: bool,
}

pub(crate) fn run(args: &ReloadArgs) -> Result<ExitCode> {
    if let Some(dir) = &args.dir {
        reload(dir)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut ended = ExitCode::SUCCESS;
    for dir in mount::own_mounts()? {
        say(&format!("{}:", mount::spelled(&dir)));
        if let Err(error) = reload(&dir) {
            complain(&told(&error));
            ended = ExitCode::FAILURE;
        }
    }
    Ok(ended)
}

fn reload(dir: &Path) -> Result<()> {
    let reloaded = mount::reload(dir)?;
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
    Ok(())
}
