//! The commands, and the flags of the small ones.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::cmd::bench::BenchArgs;
use crate::cmd::completions::CompletionsArgs;
use crate::cmd::config::ConfigArgs;
use crate::cmd::doctor::DoctorArgs;
use crate::cmd::evict::EvictArgs;
use crate::cmd::fsck::FsckArgs;
use crate::cmd::list::ListArgs;
use crate::cmd::log_level::LogLevelArgs;
use crate::cmd::man::ManArgs;
use crate::cmd::mount::MountArgs;
use crate::cmd::pin::{PinArgs, UnpinArgs};
use crate::cmd::reload::ReloadArgs;
use crate::cmd::run::RunArgs;
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
    quayfs mount s3://my-bucket /mnt      then work in /mnt as in any folder\n  \
    quayfs status                         how that goes\n  \
    quayfs umount /mnt                    when the bucket has everything\n  \
    quayfs run s3://my-bucket -- make     all of it for one command\n  \
    quayfs doctor s3://my-bucket          what to do when it does not work\n\n\
    `quayfs COMMAND --help` tells the rest, with examples."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Mount a bucket or a folder; returns when the mount answers.
    Mount(Box<MountArgs>),
    /// Wait for pending uploads, then unmount.
    #[command(visible_alias = "unmount")]
    Umount(UmountArgs),
    /// Show all mounts of this machine.
    List(ListArgs),
    /// Mount, run a command, wait until the bucket has everything, unmount.
    Run(Box<RunArgs>),
    /// Wait until all below a path is in the bucket.
    Sync(SyncArgs),
    /// Show how a mount is: health, uploads, cache, requests and what they cost.
    Status(StatusArgs),
    /// Watch a mount in the terminal: throughput, hot files, requests, uploads, cache.
    Top(TopArgs),
    /// Change what a running mount logs.
    LogLevel(LogLevelArgs),
    /// Read the configuration of a running mount again, and open its log files again.
    Reload(ReloadArgs),
    /// Finish what a mount that ended early left; list or discard what cannot be finished.
    Recover(RecoverArgs),
    /// Fetch files into the cache before they are read.
    Warm(WarmArgs),
    /// Drop what is cached of files.
    Evict(EvictArgs),
    /// Fetch files and keep them in the cache.
    Pin(PinArgs),
    /// Keep pinned files no longer.
    Unpin(UnpinArgs),
    /// Measure a mount, its bucket and its disk.
    Bench(BenchArgs),
    /// Look at what a mount needs, with advice.
    Doctor(Box<DoctorArgs>),
    /// Check the state folder, and attributes in a bucket.
    Fsck(Box<FsckArgs>),
    /// Show what is set, and by which file, variable or flag.
    Config(Box<ConfigArgs>),
    /// Print what a shell needs to complete commands and flags.
    Completions(CompletionsArgs),
    /// Write the manual pages.
    Man(ManArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs sync /mnt/results\n  \
    quayfs sync /mnt/results/table.csv && echo 'others can read it'\n\n\
    What was written until now is waited for. The exit status is 0 when the bucket has it; if an upload failed\n\
    it is not, and the reasons are told: the bytes are safe on the local disk then. Ctrl-C ends the wait, not\n\
    the uploads.")]
pub(crate) struct SyncArgs {
    /// A file or folder of a mount.
    pub(crate) path: PathBuf,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs recover s3://my-bucket\n  \
    quayfs recover --list\n  \
    quayfs recover --give-up s3://gone-bucket\n  \
    quayfs recover --discard notes.txt\n\n\
    The next mount of a bucket finishes by itself what an earlier one left; this does it without\n\
    a mount; --list shows it. What could not be brought to a bucket, and why, is listed; a listed file can be\n\
    copied from where it is, and discarded.")]
pub(crate) struct RecoverArgs {
    /// The bucket, as it was mounted; with --list, the one of which it is shown what waits.
    #[arg(required_unless_present_any = ["list", "discard"])]
    pub(crate) url: Option<String>,
    /// Show what waits for the next mount, which processes still upload, and what is in the recovery folder and why.
    #[arg(long, conflicts_with = "discard")]
    pub(crate) list: bool,
    /// For programs.
    #[arg(long, requires = "list")]
    pub(crate) json: bool,
    /// Ask nothing of the bucket, which may be gone: move the files that wait for it to the recovery folder, and forget the
    /// changes of names and attributes that do.
    #[arg(long, requires = "url", conflicts_with_all = ["list", "discard", "json"])]
    pub(crate) give_up: bool,
    /// Remove files from the recovery folder, for good.
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with_all = ["url", "json"])]
    pub(crate) discard: Vec<OsString>,
    #[command(flatten)]
    pub(crate) flags: Flags<ReachSettings>,
}
