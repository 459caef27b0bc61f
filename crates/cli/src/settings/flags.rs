//! The one table of settings: what each is called, what it takes, what it is for, and its default.
//!
//! A setting is a flag of `mount`, a key of the configuration file, and an environment variable,
//! all under the name that stands here; nothing else lists them.
#![expect(
    clippy::doc_markdown,
    reason = "the comments are the help that people read in a terminal"
)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use mount::{Attributes, Commit, DirtyLimit, Last, LogFormat, Tags};

use super::bounds;
use super::ids;
use super::profile::Profile;
use super::words::{Sse, account, acl, sse, storage_class, tags};
use crate::units::{
    CacheSize, Rate, attributes, commit, last, log_format, log_level, permissions, switch,
};

/// All settings of a mount.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Settings {
    /// Refuse all changes.
    #[arg(long, alias = "ro")]
    pub(crate) read_only: bool,
    /// Let other users access the mount, subject to file permissions. Files without any can be read by each user: see --umask,
    /// --uid and --gid.
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Honour set-uid and set-gid bits. Anyone who can write to the bucket can set them.
    #[arg(long)]
    pub(crate) suid: bool,
    /// Let programs open device nodes. Anyone who can write to the bucket can make them.
    #[arg(long)]
    pub(crate) dev: bool,
    /// Keep and show trusted.* extended attributes, which overlay mounts and other programs of root obey.
    /// Anyone who can write to the bucket can set them.
    #[arg(long)]
    pub(crate) trusted_xattrs: bool,
    /// Do not run programs from the mount.
    #[arg(long)]
    pub(crate) no_exec: bool,
    /// With --all, show only the containers of this storage account, as az/<container>.
    #[arg(long, value_name = "ACCOUNT", value_parser = account, help_heading = "Google and Azure")]
    pub(crate) azure_account: Option<String>,
    /// Owner of files and folders that have none recorded: a user name, or 0 to 4294967294 [default: the user who mounts].
    #[arg(long, value_name = "USER", value_parser = ids::user, help_heading = "Owners and modes")]
    pub(crate) uid: Option<u32>,
    /// Group of files and folders that have none recorded: a group name, or 0 to 4294967294 [default: the group of the user who mounts].
    #[arg(long, value_name = "GROUP", value_parser = ids::group, help_heading = "Owners and modes")]
    pub(crate) gid: Option<u32>,
    /// Permissions of files that have none recorded, in octal, 0 to 7777.
    #[arg(long, value_name = "MODE", default_value = "644", value_parser = permissions, help_heading = "Owners and modes")]
    pub(crate) file_mode: u16,
    /// Permissions of folders that have none recorded, in octal, 0 to 7777.
    #[arg(long, value_name = "MODE", default_value = "755", value_parser = permissions, help_heading = "Owners and modes")]
    pub(crate) dir_mode: u16,
    /// Permissions to remove from both, in octal, 0 to 7777.
    #[arg(long, value_name = "MODE", default_value = "0", value_parser = permissions, help_heading = "Owners and modes")]
    pub(crate) umask: u16,
    #[command(flatten)]
    pub(crate) store: StoreSettings,
    #[command(flatten)]
    pub(crate) disk: DiskSettings,
    #[command(flatten)]
    pub(crate) tuning: TuningSettings,
    #[command(flatten)]
    pub(crate) logs: LogSettings,
    #[command(flatten)]
    pub(crate) metrics: MetricsSettings,
    #[command(flatten)]
    pub(crate) prices: PriceSettings,
}

/// Those that every command takes which reaches a store.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReachSettings {
    #[command(flatten)]
    pub(crate) store: StoreSettings,
    #[command(flatten)]
    pub(crate) state: StateSettings,
}

/// How to reach the store.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreSettings {
    /// URL of a service other than the cloud's own [default: AWS_ENDPOINT_URL_S3 or
    /// AWS_ENDPOINT_URL or AWS_S3_ENDPOINT; STORAGE_EMULATOR_HOST for gs://].
    #[arg(long, value_name = "URL", help_heading = "Store")]
    pub(crate) endpoint: Option<String>,
    /// Region of the bucket [default: from the environment or AWS profile].
    #[arg(long, help_heading = "S3")]
    pub(crate) region: Option<String>,
    /// Profile in the AWS configuration files, as ~/.aws/config.
    #[arg(long, value_name = "PROFILE", help_heading = "S3", conflicts_with = "anonymous")]
    pub(crate) aws_profile: Option<String>,
    /// File with Google credentials, as gcloud or the console writes it
    /// [default: GOOGLE_APPLICATION_CREDENTIALS, and where else Google's tools look].
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Google and Azure",
        conflicts_with = "anonymous"
    )]
    pub(crate) google_credentials_file: Option<PathBuf>,
    /// File with Azure credentials: a connection string, or lines such as AZURE_STORAGE_KEY=...
    /// [default: those environment variables, and where else Azure's tools look].
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Google and Azure",
        conflicts_with = "anonymous"
    )]
    pub(crate) azure_credentials_file: Option<PathBuf>,
    /// Send no credentials: for public buckets.
    #[arg(long, help_heading = "Store")]
    pub(crate) anonymous: bool,
    /// Put the bucket in the path of the URL, or, with =false, in the host name
    /// [default: in the path with --endpoint].
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = switch,
        help_heading = "S3"
    )]
    pub(crate) path_style: Option<bool>,
    /// Use Amazon's endpoints with certified cryptography (FIPS 140).
    #[arg(long, help_heading = "S3")]
    pub(crate) fips: bool,
    /// Use Amazon's endpoints that have IPv6 addresses as well.
    #[arg(long, help_heading = "S3")]
    pub(crate) dual_stack: bool,
    /// PEM file of additional certificate authorities to trust
    /// [default: AWS_CA_BUNDLE].
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    pub(crate) ca_bundle: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) terms: TermsSettings,
}

/// On which terms objects of S3 are read and written.
#[derive(Clone, Debug, Args)]
pub(crate) struct TermsSettings {
    /// Let the store encrypt what is written with its own keys (store) or with keys of its key service
    /// (kms) [default: as the bucket is configured].
    #[arg(long, value_name = "HOW", value_parser = sse, help_heading = "S3")]
    pub(crate) sse: Option<Sse>,
    /// The key of the key service to encrypt with: an id, an ARN or an alias [default: the account's].
    #[arg(long, value_name = "KEY", help_heading = "S3")]
    pub(crate) kms_key: Option<String>,
    /// File with a key of 32 bytes, raw or in base64. Each request carries the key, the store does not keep it, and
    /// everything that is read and written is encrypted with it.
    #[arg(long, value_name = "FILE", help_heading = "S3")]
    pub(crate) sse_key_file: Option<PathBuf>,
    /// Storage class of what is written, such as STANDARD_IA [default: the bucket's].
    #[arg(long, value_name = "CLASS", value_parser = storage_class, help_heading = "S3")]
    pub(crate) storage_class: Option<String>,
    /// Canned access control list of what is written, such as bucket-owner-full-control.
    #[arg(long, value_name = "NAME", value_parser = acl, help_heading = "S3")]
    pub(crate) acl: Option<String>,
    /// Tags of what is written: NAME=VALUE for all objects, GLOB=NAME=VALUE for those whose name matches, with ;
    /// between them, such as 'project=x;*.bam=kind=alignment'.
    #[arg(long, value_name = "LIST", value_parser = tags, help_heading = "S3")]
    pub(crate) tags: Option<Tags>,
    /// Pay for requests and traffic, as requester-pays buckets ask.
    #[arg(long, help_heading = "S3")]
    pub(crate) requester_pays: bool,
    /// Account that must own the bucket: a bucket of another account is refused.
    #[arg(long, value_name = "ACCOUNT", help_heading = "S3")]
    pub(crate) bucket_owner: Option<String>,
}

/// Where local state is.
#[derive(Clone, Debug, Args)]
pub(crate) struct StateSettings {
    /// Folder for the cache, staged writes and recovered bytes
    /// [default: /var/lib/quayfs for root, else ~/.local/share/quayfs].
    #[arg(long, value_name = "DIR", help_heading = "Local disk")]
    pub(crate) cache_dir: Option<PathBuf>,
}

/// What the local disk is used for.
#[derive(Clone, Debug, Args)]
pub(crate) struct DiskSettings {
    #[command(flatten)]
    pub(crate) state: StateSettings,
    /// Most bytes to cache, such as 100GiB: 1MiB to 1024TiB, or 0 for none
    /// [default: as much as keeps 10 % of the disk free, or half of what is free].
    #[arg(long, value_name = "BYTES", value_parser = bounds::cache_size, allow_hyphen_values = true, help_heading = "Local disk")]
    pub(crate) cache_size: Option<CacheSize>,
    /// Most bytes on the local disk that wait for upload, such as 10GiB; writers block at this limit.
    /// 1MiB to 1024TiB [default: half of the disk space that they could use].
    #[arg(long, value_name = "BYTES", value_parser = bounds::dirty_limit, allow_hyphen_values = true, help_heading = "Local disk")]
    pub(crate) dirty_limit: Option<DirtyLimit>,
}

/// What is traded against what.
#[derive(Clone, Debug, Args)]
pub(crate) struct TuningSettings {
    /// Most bytes in flight in memory, 16MiB to 1TiB [default: 160MiB, or an eighth of the memory of the machine or of
    /// the control group, if that is less].
    #[arg(long, value_name = "BYTES", value_parser = bounds::memory_limit, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) memory_limit: Option<u64>,
    /// Settings for a purpose: pipeline (close does not wait for the upload, which may take 10 min),
    /// interactive (errors after 20 s), training (names are cached
    /// for 1 h), shared (for 200 ms). Explicit settings override the profile.
    #[arg(long, value_name = "NAME", value_parser = Profile::named, help_heading = "Tuning")]
    pub(crate) profile: Option<Profile>,
    /// Size of the parts of a large upload, 5MiB to 5GiB [default: what suits the network, 8MiB to 32MiB, at most a sixteenth of --memory-limit: 10MiB without one].
    #[arg(long, value_name = "BYTES", value_parser = bounds::part_size, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) part_size: Option<u64>,
    /// When close() returns: after the upload (close), or as soon as the data is safe on the local disk, uploading in
    /// the background (async).
    #[arg(long, value_name = "WHEN", default_value = "close", value_parser = commit, help_heading = "Tuning")]
    pub(crate) commit: Commit,
    /// With --commit async, upload files of these names, with colons between them, after everything else in and below
    /// their folder: such as .exitcode, by which other hosts know that a task has ended.
    #[arg(long, value_name = "NAMES", value_parser = last, help_heading = "Tuning")]
    pub(crate) commit_last: Option<Last>,
    /// With --commit async, how long an upload waits after a close, 0s to 8760h: a file that is removed, renamed or
    /// written again by then costs one upload, or none. Uploads start earlier when a program waits for
    /// them, when room is needed, or when a file of --commit-last is closed above them.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = bounds::upload_delay, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) upload_delay: Duration,
    /// Where to keep modes, owners, times, links and extended attributes, which listings do not
    /// contain: in a hidden object per folder, 64 in one of thousands of files (keep), or nowhere (off).
    #[arg(long, value_name = "HOW", default_value = "keep", value_parser = attributes, help_heading = "Tuning")]
    pub(crate) attributes: Attributes,
    /// How long names and attributes are cached, 0s to 8760h, or forever: other hosts' changes show after at most this time.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = bounds::metadata_ttl, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) metadata_ttl: Duration,
    /// How long each failing request is repeated, 1s to 24h. It bounds one request: a call of a program that needs several,
    /// one after the other, can take several times as long before it fails.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = bounds::deadline, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) deadline: Duration,
    /// The most bytes of file data a second to the store, 64KiB to 1TiB, such as 10MiB or 10MiB/s; 0 is no limit. `quayfs reload`
    /// changes it while mounted.
    #[arg(long, value_name = "RATE", default_value = "0", value_parser = bounds::rate, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) upload_limit: Rate,
    /// The most bytes of file data a second from the store, 64KiB to 1TiB, likewise.
    #[arg(long, value_name = "RATE", default_value = "0", value_parser = bounds::rate, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) download_limit: Rate,
    /// How long the end of the mount waits for uploads, 0s to 8760h, before it exits with status 174; what is not uploaded
    /// stays on the local disk, for the next mount [default: as long as they take].
    #[arg(long, value_name = "TIME", value_parser = bounds::shutdown_timeout, allow_hyphen_values = true, help_heading = "Tuning")]
    pub(crate) shutdown_timeout: Option<Duration>,
    /// Do not let the kernel read cached files itself (FUSE passthrough).
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_passthrough: bool,
    /// Use /dev/fuse for the kernel's requests, even where it offers `io_uring`.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_io_uring: bool,
}

/// What is written down, and where.
#[derive(Clone, Debug, Args)]
pub(crate) struct LogSettings {
    /// Where to log [default: quayfs.log in the state folder, or the terminal in the foreground].
    #[arg(long, value_name = "FILE", help_heading = "Logs")]
    pub(crate) log_file: Option<PathBuf>,
    /// What to log: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log_level, help_heading = "Logs")]
    pub(crate) log_level: String,
    /// Format of the log: text, json (an object per line), or journald (with fields, to systemd's journal).
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = log_format, help_heading = "Logs")]
    pub(crate) log_format: LogFormat,
    /// Log calls that take longer than this, 0s to 24h, with path, bytes, time and number of requests
    /// [default: none, or those over 1s with --slow-log-file].
    #[arg(long, value_name = "TIME", value_parser = bounds::slow_log, allow_hyphen_values = true, help_heading = "Logs")]
    pub(crate) slow_log: Option<Duration>,
    /// Where to log slow calls [default: in the log].
    #[arg(long, value_name = "FILE", help_heading = "Logs")]
    pub(crate) slow_log_file: Option<PathBuf>,
    /// Where to log each request to the store, a line each: time, method, status, bytes, milliseconds, bucket and key.
    #[arg(long, value_name = "FILE", help_heading = "Logs")]
    pub(crate) access_log: Option<PathBuf>,
}

/// What is handed out to who gathers figures.
#[derive(Clone, Debug, Args)]
pub(crate) struct MetricsSettings {
    /// Serve metrics for Prometheus as GET /metrics at this address, such as 127.0.0.1:9464, at a port from 1 to 65535.
    /// Anyone who can reach the port can read them; they contain no file names.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = bounds::listen, help_heading = "Metrics")]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Write metrics to this file every 15 s, as OpenMetrics text.
    #[arg(long, value_name = "FILE", help_heading = "Metrics")]
    pub(crate) metrics_file: Option<PathBuf>,
}

/// What requests cost, where it is not what the cloud's list says.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_field_names, reason = "the fields are the names of the flags")]
pub(crate) struct PriceSettings {
    /// The currency of all prices [default: USD].
    #[arg(long, value_name = "NAME", help_heading = "Prices")]
    pub(crate) price_currency: Option<String>,
    /// Price of 1,000 requests that read an object or its metadata, 0 to 1000000 [default: 0.0004, as in all three clouds].
    #[arg(long, value_name = "PRICE", value_parser = bounds::price, allow_hyphen_values = true, help_heading = "Prices")]
    pub(crate) price_reads: Option<f64>,
    /// Price of 1,000 pages of listings, 0 to 1000000 [default: 0.005].
    #[arg(long, value_name = "PRICE", value_parser = bounds::price, allow_hyphen_values = true, help_heading = "Prices")]
    pub(crate) price_lists: Option<f64>,
    /// Price of 1,000 requests that write or copy, 0 to 1000000 [default: 0.005].
    #[arg(long, value_name = "PRICE", value_parser = bounds::price, allow_hyphen_values = true, help_heading = "Prices")]
    pub(crate) price_writes: Option<f64>,
    /// Price of 1,000 removals, 0 to 1000000 [default: 0].
    #[arg(long, value_name = "PRICE", value_parser = bounds::price, allow_hyphen_values = true, help_heading = "Prices")]
    pub(crate) price_deletes: Option<f64>,
    /// Price of a GiB from the store, 0 to 1000000 [default: 0, as within a region].
    #[arg(long, value_name = "PRICE", value_parser = bounds::price, allow_hyphen_values = true, help_heading = "Prices")]
    pub(crate) price_received: Option<f64>,
    /// Price of a GiB to the store, 0 to 1000000 [default: 0].
    #[arg(long, value_name = "PRICE", value_parser = bounds::price, allow_hyphen_values = true, help_heading = "Prices")]
    pub(crate) price_sent: Option<f64>,
}
