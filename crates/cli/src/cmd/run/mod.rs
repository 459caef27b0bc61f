//! run: a command with a bucket for as long as it runs.

mod child;
mod folder;
mod task;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mount::Location;

pub(crate) use task::{FAILED, Task};

use crate::settings::{Flags, Settings, Unknown};

/// What `run` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs run s3://my-bucket -- ls -l\n  \
    quayfs run s3://my-bucket/project -- make -j 8\n  \
    quayfs run --at /data s3://my-bucket -- sh -c 'sort /data/in > /data/out'\n\n\
    The command finds the mount's folder in QUAYFS_MOUNT and, without --at, begins in it. It gets the\n\
    signals TERM, INT, HUP, USR1 and USR2 that quayfs gets. When it has ended, quayfs waits until the\n\
    bucket has everything, unmounts, and returns its status, 128 and the signal's number if one ended it.\n\
    If quayfs itself fails, it says why, and the status is 174: the mount, the start of the command, or\n\
    an upload; what was not uploaded is safe in the state folder, and `quayfs recover` brings it.\n\n\
    As closes need not wait one by one, they do not: --commit is async here, unless it is set.")]
pub(crate) struct RunArgs {
    /// What to mount, as for `quayfs mount`.
    url: String,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Mount here rather than in a temporary folder.
    #[arg(long, value_name = "DIR")]
    at: Option<PathBuf>,
    /// Settings as in /etc/fstab, with commas between them.
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    #[command(flatten)]
    flags: Flags<Settings>,
}

/// Runs the command; its status, or ours.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    let task = || {
        anyhow::Ok(Task {
            location: Location::parse(&args.url)?,
            at: args.at.clone(),
            flags: args.flags.clone().with_options(&args.options, Unknown::Refused)?,
            command: args.command.clone(),
        })
    };
    task::status(task().and_then(|task| task.run()))
}
