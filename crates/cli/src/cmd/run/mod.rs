//! run: a command with a bucket for as long as it runs.

mod child;
mod folder;
mod fusion;
mod haste;
mod mounted;
mod prefetch;
mod task;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use mount::Location;

pub(crate) use task::{FAILED, Task};

use self::fusion::{Launch, help};
use self::prefetch::List;

use crate::settings::{Flags, Settings, Unknown};
use crate::{complain, say};

/// What `run` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs run s3://my-bucket -- ls -l\n  \
    quayfs run s3://my-bucket/project -- make -j 8\n  \
    quayfs run --at /data s3://my-bucket -- sh -c 'sort /data/in > /data/out'\n  \
    quayfs run --warm inputs.txt s3://my-bucket -- make\n\n\
    The command finds the mount's folder in QUAYFS_MOUNT and, without --at, begins in it. It gets the\n\
    signals TERM, USR1 and USR2 that quayfs gets, and INT, QUIT and HUP unless quayfs is in the foreground of\n\
    a terminal, which sends them to both. From TERM on, what it has closed is uploaded without delay. When it\n\
    has ended, quayfs waits until the bucket has everything, unmounts, and returns its status, 128 and the\n\
    signal's number if one ended it. Ctrl-C and TERM end the wait, but with --fusion: the mount goes, and its\n\
    daemon uploads the rest by itself.\n\
    If quayfs itself fails, it says why, and the status is 174: the mount, the start of the command, or\n\
    an upload; what was not uploaded is safe in the state folder, and `quayfs recover` brings it.\n\n\
    `run` uses --commit async unless told otherwise, since it waits for all uploads at the end.\n\n\
    With --fusion, which is also what the program does under the name `fusion`, it starts tasks of Nextflow:\n\
    all buckets are mounted at /fusion (or --at, or QUAYFS_FUSION_AT), the inputs that the script .command.run\n\
    of the task in FUSION_WORK names are fetched ahead, what the command says is kept in .command.log, outputs\n\
    that are links become objects, and .exitcode is in the bucket when all else is. QUAYFS_KEEP_LOCAL=true is\n\
    --keep-local. Only the command sees the mount, if the kernel lets it; with QUAYFS_FUSION_SHARED=true all see\n\
    it, and launchers of one user share it.")]
pub(crate) struct RunArgs {
    /// What to mount, as for `quayfs mount`.
    #[arg(required_unless_present = "fusion")]
    url: Option<String>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Mount here rather than in a temporary folder.
    #[arg(long, value_name = "DIR")]
    at: Option<PathBuf>,
    /// Start a task of Nextflow, with all buckets mounted.
    #[arg(long, conflicts_with = "url")]
    fusion: bool,
    /// With --fusion: upload only outputs and files about the task; other files that the task makes are removed with it.
    /// Uploads wait for the end of the task.
    #[arg(long, requires = "fusion")]
    keep_local: bool,
    /// Fetch, while the command starts, the files and folders in this list: one path in the mount per line; `-` is the
    /// standard input. Files that cannot be fetched are reported, and are no failure.
    #[arg(long, value_name = "LIST")]
    warm: Option<PathBuf>,
    /// Settings as in /etc/fstab, with commas between them.
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    #[command(flatten)]
    flags: Flags<Settings>,
}

/// Runs the command; its status, or ours.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    let run = || {
        // The parser looks past this where a URL excludes --fusion.
        ensure!(args.fusion || !args.keep_local, "--keep-local goes with --fusion only");
        let flags = args.flags.clone().with_options(&args.options, Unknown::Refused)?;
        let (at, command) = (args.at.clone(), args.command.clone());
        let warm = args.warm.as_deref().map(List::named).transpose()?;
        match &args.url {
            Some(url) => Task { location: Location::parse(url)?, at, flags, warm, command }.run(),
            None => Launch::new(at, flags, command, args.keep_local)?.warm(warm).run(),
        }
    };
    task::status(run())
}

/// Whether a program of this name does as `run --fusion`: Nextflow knows no other.
pub(crate) fn is_launcher(name: &OsStr) -> bool {
    fusion::is_name(name)
}

/// Runs `command` as the launcher; its status, or ours.
pub(crate) fn launch(command: Vec<OsString>) -> ExitCode {
    if help::is_asked_for(command.first().map(OsString::as_os_str)) {
        say(help::HELP);
        return ExitCode::SUCCESS;
    }
    if command.is_empty() {
        complain("no command to run: `fusion --help` says what this is");
        return ExitCode::from(FAILED);
    }
    task::status(Launch::new(None, Flags::none(), command, false).and_then(|launch| launch.run()))
}
