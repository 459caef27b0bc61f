//! The user's choices, checked, before they are split into each layer's own options.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fuse::{PassthroughWish, RingWish, Trust};
use namespace::Attributes;
use remote::{
    Addressing, Authorities, AzureCredentials, Credentials, Endpoints, GcsCredentials, S3Terms,
};
use store::CacheLimit;
use vfs::{Commit, DirtyLimit, Last};

use crate::location::Location;
use crate::prices::Prices;
use crate::telemetry::LogControl;

/// How each of all buckets is to be mounted.
pub trait Buckets: Debug + Send + Sync + 'static {
    /// The configuration of the bucket at `location`; an error says what is wrong with it.
    fn config(&self, location: &Location) -> Result<Config, String>;
}

/// The way to read the settings of a mount again.
pub trait Reconfigure: Debug + Send + Sync + 'static {
    /// Reads them; an error says what is wrong with them.
    fn reconfigure(&self) -> Result<Reconfigured, String>;
}

/// Settings that were read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// All settings that have another value than at the last reading.
    pub changes: Vec<ChangedSetting>,
    /// The filter of the log, if that has changed.
    pub log_filter: Option<String>,
    /// The limit of uploads, in bytes a second.
    pub upload_limit: Option<u64>,
    /// The same of downloads.
    pub download_limit: Option<u64>,
}

/// A setting that has another value than at the last reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedSetting {
    /// Its name, its old value and its new one, for people.
    pub words: String,
    /// When the new value holds.
    pub effect: Effect,
}

/// When a changed setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// From now on.
    Now,
    /// From the next mount on.
    Remount,
}

/// One mount, as the user wants it.
#[derive(Clone, Debug)]
pub struct Config {
    /// What to mount.
    pub location: Location,
    /// Where.
    pub dir: PathBuf,
    /// How to reach S3.
    pub s3: S3Settings,
    /// How to reach Google Cloud Storage.
    pub gcs: GcsSettings,
    /// How to reach Azure Blob Storage.
    pub azure: AzureSettings,
    /// The only storage account that a mount of all buckets shows.
    pub azure_account: Option<String>,
    /// Whose certificates are believed, by all stores.
    pub authorities: Authorities,
    /// Whether changes are allowed.
    pub changes: Changes,
    /// Who may enter.
    pub entrance: Entrance,
    /// Whether programs get the rights that set-uid and set-gid bits promise.
    pub set_id_programs: Trust,
    /// Whether device nodes can be opened.
    pub devices: Trust,
    /// Whether programs can be run.
    pub programs: Trust,
    /// Whether `trusted.*` attributes are kept and shown.
    pub trusted_xattrs: Trust,
    /// Owner and permissions of what says nothing else.
    pub looks: Looks,
    /// Where local state is kept: cache, staged writes, recovery.
    pub state_dir: PathBuf,
    /// How much of the disk the cache may take.
    pub cache: CacheLimit,
    /// How much that the bucket does not have may be on the disk before writers wait.
    pub dirty_limit: DirtyLimit,
    /// Whether attributes are kept in hidden objects.
    pub attributes: Attributes,
    /// What a close waits for.
    pub commit: Commit,
    /// How long an upload waits after a close that does not wait for it.
    pub upload_delay: Duration,
    /// Which files come after all else of their folder, where closes do not wait.
    pub last: Last,
    /// For how long names and attributes are believed.
    pub metadata_ttl: Duration,
    /// Bytes in flight.
    pub memory_bytes_max: u64,
    /// The size of a part of a large upload; `None` follows the network and the memory.
    pub part_bytes: Option<u64>,
    /// How long a request to the store is repeated before it fails.
    pub deadline: Duration,
    /// The most bytes of file data a second to the store, if there is a limit.
    pub upload_limit: Option<u64>,
    /// The same from the store.
    pub download_limit: Option<u64>,
    /// How long the end of the mount waits for uploads; as long as it takes if `None`.
    pub shutdown_timeout: Option<Duration>,
    /// Whether the kernel may read cached files itself.
    pub passthrough: PassthroughWish,
    /// Whether requests may come through `io_uring`.
    pub rings: RingWish,
    /// What is told of it while it runs.
    pub insight: InsightSettings,
    /// The process that started this one, if the mount is for that alone.
    pub starter: Option<u32>,
}

impl Config {
    /// What is mounted, as the state folder calls it.
    pub(crate) fn volume(&self) -> String {
        let endpoint = match self.location {
            Location::S3 { .. } => self.s3.endpoint.as_deref(),
            Location::Gcs { .. } => self.gcs.endpoint.as_deref(),
            Location::Azure { .. } => self.azure.endpoint.as_deref(),
            Location::Folder(_) | Location::All => None,
        };
        self.location.volume(endpoint)
    }

    /// Sets the endpoint of its service, if the settings name none.
    pub fn set_endpoint_if_none(&mut self, endpoint: Option<String>) {
        let own = match self.location {
            Location::S3 { .. } => &mut self.s3.endpoint,
            Location::Gcs { .. } => &mut self.gcs.endpoint,
            Location::Azure { .. } => &mut self.azure.endpoint,
            Location::Folder(_) | Location::All => return,
        };
        if own.is_none() {
            *own = endpoint;
        }
    }

    /// The whole bucket, at its endpoint.
    pub(crate) fn bucket(&self) -> String {
        Config { location: self.location.whole(), ..self.clone() }.volume()
    }
}

/// What is told of a mount while it runs.
#[derive(Clone, Debug)]
pub struct InsightSettings {
    /// What requests cost.
    pub prices: Prices,
    /// Calls that take longer are logged.
    pub slow_calls: Option<Duration>,
    /// Where metrics can be asked for over HTTP.
    pub metrics_listen: Option<SocketAddr>,
    /// Where metrics are written to now and then.
    pub metrics_file: Option<PathBuf>,
    /// Where each request to the store is logged, if it is.
    pub access_log: Option<PathBuf>,
    /// What changes the level of the log.
    pub log: Option<LogControl>,
    /// The role that temporary credentials of AWS are for.
    pub role: Option<String>,
}

impl InsightSettings {
    /// Nothing beyond what everybody can ask for, at the prices for `location`.
    pub fn plain(location: &Location) -> InsightSettings {
        InsightSettings {
            prices: Prices::of(location),
            slow_calls: None,
            metrics_listen: None,
            metrics_file: None,
            access_log: None,
            log: None,
            role: None,
        }
    }
}

/// How to reach S3.
#[derive(Clone, Debug)]
pub struct S3Settings {
    /// The service's URL; AWS's own if `None`.
    pub endpoint: Option<String>,
    /// The region; from the environment or profile if `None`.
    pub region: Option<String>,
    /// As whom.
    pub credentials: Credentials,
    /// Where in a URL the bucket's name goes.
    pub addressing: Addressing,
    /// Which of Amazon's own servers.
    pub endpoints: Endpoints,
    /// On which terms objects are read and written.
    pub terms: S3Terms,
}

/// How to reach Google Cloud Storage.
#[derive(Clone, Debug)]
pub struct GcsSettings {
    /// The service's URL; Google's own if `None`.
    pub endpoint: Option<String>,
    /// The project whose buckets are listed, if that is known.
    pub project: Option<String>,
    /// As whom.
    pub credentials: GcsCredentials,
}

/// How to reach Azure Blob Storage.
#[derive(Clone, Debug)]
pub struct AzureSettings {
    /// The URL of the account's blob service; Azure's own if `None`.
    pub endpoint: Option<String>,
    /// As whom.
    pub credentials: AzureCredentials,
}

/// How files and folders look that neither their maker nor anyone since said anything of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looks {
    /// The owner; who mounts if `None`.
    pub uid: Option<u32>,
    /// The group; that of who mounts if `None`.
    pub gid: Option<u32>,
    /// Permission bits of files.
    pub file_mode: u16,
    /// Permission bits of folders.
    pub folder_mode: u16,
}

/// Whether changes are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// If the credentials allow them.
    Allowed,
    /// Not at all.
    Refused,
}

/// Who may enter a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// Who mounted it.
    Owner,
    /// Everybody, within owners and modes.
    All,
}
