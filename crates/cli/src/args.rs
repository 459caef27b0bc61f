//! The commands, and the flags of the small ones.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::cmd::bench::BenchArgs;
use crate::cmd::completions::CompletionsArgs;
use crate::cmd::config::ConfigArgs;
use crate::cmd::doctor::DoctorArgs;
use crate::cmd::du::DuArgs;
use crate::cmd::evict::EvictArgs;
use crate::cmd::fsck::FsckArgs;
use crate::cmd::info::InfoArgs;
use crate::cmd::list::ListArgs;
use crate::cmd::log_level::LogLevelArgs;
use crate::cmd::ls::LsArgs;
use crate::cmd::man::ManArgs;
use crate::cmd::metrics::MetricsArgs;
use crate::cmd::mount::MountArgs;
use crate::cmd::pin::{PinArgs, UnpinArgs};
use crate::cmd::reload::ReloadArgs;
use crate::cmd::run::RunArgs;
use crate::cmd::share::ShareArgs;
use crate::cmd::status::StatusArgs;
use crate::cmd::top::TopArgs;
use crate::cmd::umount::UmountArgs;
use crate::cmd::warm::WarmArgs;
use crate::settings::{Flags, ReachSettings};

/// Mounts object storage as a file system: every object is a file, every file an object.
#[derive(Debug, Parser)]
#[command(
    name = "quayfs",
    version = mount::VERSION,
    after_help = "Examples:\n  \
    mkdir ~/data\n  \
    quayfs mount s3://my-bucket ~/data    then work in ~/data as in any folder\n  \
    quayfs status                         show health, uploads and cache\n  \
    quayfs umount ~/data                  upload what is left, then unmount\n  \
    quayfs run s3://my-bucket -- make     mount for the time of one command\n  \
    quayfs doctor s3://my-bucket          find out why something does not work\n\n\
    `quayfs COMMAND --help` describes each command, with examples."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Mount a bucket or a folder; returns once the mount is ready.
    Mount(Box<MountArgs>),
    /// Wait for pending uploads, then unmount.
    #[command(visible_alias = "unmount")]
    Umount(UmountArgs),
    /// Show all mounts of this machine.
    List(ListArgs),
    /// Mount, run a command, wait for all uploads, unmount.
    Run(Box<RunArgs>),
    /// Wait until everything under a path has been uploaded.
    Sync(SyncArgs),
    /// Show the state of a file or directory: its object, cached part, upload, and the programs that have it open.
    Info(InfoArgs),
    /// Print a signed URL by which any client can read a file for a limited time.
    Share(ShareArgs),
    /// Show a mount's health, uploads, cache, requests and cost.
    Status(StatusArgs),
    /// Watch a mount in the terminal: throughput, hot files, requests, uploads, cache.
    Top(TopArgs),
    /// Print or serve the metrics of all mounts of this machine.
    Metrics(MetricsArgs),
    /// Change the log level of a running mount.
    LogLevel(LogLevelArgs),
    /// Read the configuration of a running mount again, and open its log files again.
    Reload(ReloadArgs),
    /// Finish uploads that an earlier mount left; list or discard files in the recovery folder.
    Recover(RecoverArgs),
    /// Fetch files into the cache before they are read.
    Warm(WarmArgs),
    /// Remove files from the local cache; the bucket keeps them.
    Evict(EvictArgs),
    /// Fetch files and keep them in the cache.
    Pin(PinArgs),
    /// Stop keeping files in the cache.
    Unpin(UnpinArgs),
    /// Measure a mount, its bucket and its disk.
    Bench(BenchArgs),
    /// Check this machine and a bucket, and suggest fixes.
    Doctor(Box<DoctorArgs>),
    /// List a bucket or a folder of it, without a mount.
    Ls(Box<LsArgs>),
    /// Sum up the sizes of the folders of a bucket, without a mount.
    Du(Box<DuArgs>),
    /// Check the state folder, and the attribute objects of a bucket.
    Fsck(Box<FsckArgs>),
    /// Show all settings, and which file, variable or flag sets them.
    Config(Box<ConfigArgs>),
    /// Print a completion script for bash, zsh or fish.
    Completions(CompletionsArgs),
    /// Write the manual pages.
    Man(ManArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs sync ~/data/results\n  \
    quayfs sync ~/data/results ~/data/logs\n  \
    quayfs sync ~/data/results/table.csv && echo 'other hosts can read it'\n\n\
    Waits for all that was written before. The exit status is 0 once the bucket has it. If an upload failed, the\n\
    reasons are printed and the status is 1; the bytes are safe on the local disk. Ctrl-C ends the wait, not the\n\
    uploads.")]
pub(crate) struct SyncArgs {
    /// Files and folders of mounts.
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs recover s3://my-bucket\n  \
    quayfs recover --list\n  \
    quayfs recover --give-up s3://gone-bucket\n  \
    quayfs recover --restore notes.txt\n  \
    quayfs recover --restore notes.txt --as old/notes-2.txt\n  \
    quayfs recover --discard notes.txt\n\n\
    The next mount of a bucket finishes what an earlier one left; this command does so without a mount, and\n\
    --list shows it. --list also shows the files that could not be uploaded, and why.\n\n\
    --restore uploads such a file to the place that it was meant for, and removes it from the recovery folder once\n\
    the store has it. It replaces no other version: if there is one, restore the file under another name with --as.\n\
    It finds the bucket in the note of the file; name the URL if settings apply to that. What waits for the bucket\n\
    is uploaded first.")]
pub(crate) struct RecoverArgs {
    /// The bucket, as it was mounted; with --list, show only what waits for this bucket.
    #[arg(required_unless_present_any = ["list", "discard", "restore"])]
    pub(crate) url: Option<String>,
    /// Show what waits for the next mount, which processes still upload, and the files in the recovery folder.
    #[arg(long, conflicts_with = "discard")]
    pub(crate) list: bool,
    /// Print JSON.
    #[arg(long, requires = "list")]
    pub(crate) json: bool,
    /// Send no request to the bucket, which may be gone: move the files that wait for it to the recovery folder, and forget
    /// pending changes of names and attributes.
    #[arg(long, requires = "url", conflicts_with_all = ["list", "discard", "json"])]
    pub(crate) give_up: bool,
    /// Remove files from the recovery folder, for good.
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with_all = ["url", "json"])]
    pub(crate) discard: Vec<OsString>,
    /// Upload this file of the recovery folder to the place that it was meant for, then remove it from there.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["list", "discard", "json", "give_up"])]
    pub(crate) restore: Option<OsString>,
    /// With --restore: upload it as this new file below the mounted folder.
    #[arg(long = "as", value_name = "PATH", requires = "restore")]
    pub(crate) to: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) flags: Flags<ReachSettings>,
}
