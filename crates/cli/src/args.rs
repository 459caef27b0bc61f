//! Every flag, with its help and its default.
#![expect(
    clippy::doc_markdown,
    reason = "the comments are the help that people read in a terminal"
)]

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand};

use mount::{Attributes, Commit, DirtyLimit};

use crate::units::{
    CacheSize, attributes, bytes, cache_size, commit, dirty_limit, duration, permissions,
};

/// Mounts object storage as a file system: every object is a file, every file an object.
#[derive(Debug, Parser)]
#[command(name = "quayfs", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Mount a bucket or a folder; returns when the mount answers.
    Mount(Box<MountArgs>),
    /// Wait for pending uploads, then unmount.
    Umount(UmountArgs),
    /// Wait until all below a path is in the bucket.
    Sync(SyncArgs),
    /// Show what a mount is doing.
    Status(StatusArgs),
    /// Finish what a mount that ended early left; list or discard what cannot be finished.
    Recover(RecoverArgs),
}

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs mount s3://my-bucket /mnt\n  \
    quayfs mount s3://my-bucket/some/folder ~/data --aws-profile work\n  \
    quayfs mount s3://data /mnt --endpoint http://127.0.0.1:9000\n  \
    quayfs mount gs://my-bucket /mnt\n  \
    quayfs mount az://account/container /mnt\n  \
    quayfs mount file:///srv/objects /mnt\n  \
    quayfs mount --all /mnt     then /mnt/s3/my-bucket/..., /mnt/gs/..., /mnt/az/account/container/...\n\n\
    Credentials come from where AWS's own tools take them: AWS_ACCESS_KEY_ID and\n\
    AWS_SECRET_ACCESS_KEY, profiles, SSO, web identity, container and instance roles. For gs://\n\
    from GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or the machine;\n\
    for az:// from AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct MountArgs {
    /// What to mount: s3://bucket[/prefix], gs://bucket[/prefix], az://account/container[/prefix],
    /// or file:///path.
    #[arg(required_unless_present = "all")]
    pub(crate) url: Option<String>,
    /// Where to mount it: an existing folder.
    #[arg(required_unless_present = "all")]
    pub(crate) dir: Option<PathBuf>,
    /// Mount all buckets there, as s3/<bucket>, gs/<bucket> and az/<account>/<container>, each attached
    /// when it is first used.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "dir"])]
    pub(crate) all: Option<PathBuf>,
    /// Stay in the foreground and log to the terminal.
    #[arg(long, short = 'f')]
    pub(crate) foreground: bool,
    /// Refuse all changes.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Let other users in, within owners and modes.
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Give programs the rights that set-uid and set-gid bits promise; who writes to the bucket
    /// can set them.
    #[arg(long)]
    pub(crate) suid: bool,
    /// Let device nodes be opened; who writes to the bucket can make them.
    #[arg(long)]
    pub(crate) dev: bool,
    /// Owner of files and folders that nobody gave one [default: who mounts].
    #[arg(long, value_name = "NUMBER", help_heading = "Owners and modes")]
    pub(crate) uid: Option<u32>,
    /// Group of files and folders that nobody gave one [default: that of who mounts].
    #[arg(long, value_name = "NUMBER", help_heading = "Owners and modes")]
    pub(crate) gid: Option<u32>,
    /// Permissions of files that nobody gave any, in octal.
    #[arg(long, value_name = "MODE", default_value = "644", value_parser = permissions, help_heading = "Owners and modes")]
    pub(crate) file_mode: u16,
    /// Permissions of folders that nobody gave any, in octal.
    #[arg(long, value_name = "MODE", default_value = "755", value_parser = permissions, help_heading = "Owners and modes")]
    pub(crate) dir_mode: u16,
    /// Permissions to take off both, in octal.
    #[arg(long, value_name = "MODE", default_value = "0", value_parser = permissions, help_heading = "Owners and modes")]
    pub(crate) umask: u16,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// Folder for the cache, staged writes and recovered bytes
    /// [default: /var/lib/quayfs for root, else ~/.local/share/quayfs].
    #[arg(long, value_name = "DIR", help_heading = "Local disk")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Most bytes to cache, such as 100GiB [default: what keeps 10 % of the disk free].
    #[arg(long, value_name = "BYTES", value_parser = cache_size, allow_hyphen_values = true, help_heading = "Local disk")]
    pub(crate) cache_size: Option<CacheSize>,
    /// Most bytes to have on the disk that the bucket does not have, such as 10GiB: with more, writers wait
    /// for uploads [default: half of what they could take of the disk].
    #[arg(long, value_name = "BYTES", value_parser = dirty_limit, allow_hyphen_values = true, help_heading = "Local disk")]
    pub(crate) dirty_limit: Option<DirtyLimit>,
    /// Most bytes in flight in memory.
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = bytes, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) memory_limit: u64,
    /// Size of the parts of a large upload.
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = bytes, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) part_size: u64,
    /// When a close returns: when the bucket has the bytes (close), or when they are safe from a crash
    /// of this program on the local disk, and follow into the bucket (async).
    #[arg(long, value_name = "WHEN", default_value = "close", value_parser = commit, help_heading = "Tuning")]
    pub(crate) commit: Commit,
    /// Where to keep modes, owners, times, links and extended attributes that the bucket itself does
    /// not tell in listings: in one hidden object per folder (keep), or not at all (off).
    #[arg(long, value_name = "HOW", default_value = "keep", value_parser = attributes, help_heading = "Tuning")]
    pub(crate) attributes: Attributes,
    /// How long names and attributes are believed before the bucket is asked again.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) metadata_ttl: Duration,
    /// How long a failing request is repeated before the program gets an error.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) deadline: Duration,
    /// Do not let the kernel read cached files itself.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_passthrough: bool,
    /// Where to log [default: quayfs.log in the state folder, or the terminal in the foreground].
    #[arg(long, value_name = "FILE", help_heading = "Logs")]
    pub(crate) log_file: Option<PathBuf>,
    /// What to log: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "info", help_heading = "Logs")]
    pub(crate) log_level: String,
    /// Say on the standard output when the mount answers, then detach from the terminal.
    #[arg(long, hide = true)]
    pub(crate) detach: bool,
}

/// How to reach the store.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct AccessArgs {
    /// URL of a service other than the cloud's own [default: AWS_ENDPOINT_URL_S3 or
    /// AWS_ENDPOINT_URL; STORAGE_EMULATOR_HOST for gs://].
    #[arg(long, value_name = "URL", help_heading = "Store")]
    pub(crate) endpoint: Option<String>,
    /// Region of the bucket [default: from the environment or AWS profile].
    #[arg(long, help_heading = "S3")]
    pub(crate) region: Option<String>,
    /// Profile in the AWS configuration files.
    #[arg(long, help_heading = "S3", conflicts_with = "anonymous")]
    pub(crate) aws_profile: Option<String>,
    /// Send no credentials: for public buckets.
    #[arg(long, help_heading = "Store")]
    pub(crate) anonymous: bool,
    /// Put the bucket in the path, not the host name [default with --endpoint].
    #[arg(long, help_heading = "S3")]
    pub(crate) path_style: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct UmountArgs {
    /// The mount.
    pub(crate) dir: PathBuf,
    /// Detach although files could not be uploaded; their bytes go to the recovery folder.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StatusArgs {
    /// The mount.
    pub(crate) dir: PathBuf,
    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SyncArgs {
    /// A file or folder of a mount.
    pub(crate) path: PathBuf,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs recover s3://my-bucket\n  \
    quayfs recover --list\n  \
    quayfs recover --discard notes.txt\n\n\
    The next mount of a bucket finishes by itself what an earlier one left; this does it without\n\
    a mount. What could not be brought to a bucket, and why, is listed; a listed file can be\n\
    copied from where it is, and discarded.")]
pub(crate) struct RecoverArgs {
    /// The bucket, as it was mounted.
    #[arg(required_unless_present_any = ["list", "discard"])]
    pub(crate) url: Option<String>,
    /// Show what waits for the next mount, and what is in the recovery folder and why.
    #[arg(long, conflicts_with_all = ["url", "discard"])]
    pub(crate) list: bool,
    /// For programs.
    #[arg(long, requires = "list")]
    pub(crate) json: bool,
    /// Remove files from the recovery folder, for good.
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "url")]
    pub(crate) discard: Vec<String>,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// The state folder of the mount [default: as for mount].
    #[arg(long, value_name = "DIR", help_heading = "Local disk")]
    pub(crate) cache_dir: Option<PathBuf>,
}
