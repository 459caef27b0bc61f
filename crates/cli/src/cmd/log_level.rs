//! log-level: change what a running mount logs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs log-level ~/data debug      log every call and every request, with request=N on both\n  \
    quayfs log-level ~/data info,quayfs_remote=debug\n  \
    quayfs log-level ~/data info       back to the default\n\n\
    It lasts until the next change or the end of the mount.")]
pub(crate) struct LogLevelArgs {
    /// The mount.
    pub(crate) dir: PathBuf,
    /// What to log: error, warn, info, debug or trace; for parts of the program as PART=LEVEL.
    pub(crate) level: String,
}

pub(crate) fn run(args: &LogLevelArgs) -> Result<ExitCode> {
    if let Some(reason) = mount::set_log_level(&args.dir, &args.level)? {
        bail!("{reason}");
    }
    Ok(ExitCode::SUCCESS)
}
