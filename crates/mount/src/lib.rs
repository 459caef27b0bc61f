//! One mounted file system: assembled, served, observed, ended; alone in knowing every layer.

mod all;
mod answer;
mod apart;
mod assemble;
mod attend;
mod cloud;
mod config;
mod control;
mod dispatch;
mod error;
mod fair;
mod kernel;
mod ledger;
mod lifecycle;
mod lines;
mod location;
mod memory;
mod notice;
mod numbers;
mod pins;
mod process;
mod recover;
mod runtime_dir;
mod socket;
mod sync;
mod task;
mod telemetry;
mod umount;
mod visit;
mod volume;
mod volumes;

pub use config::{
    AzureSettings, Buckets, Changes, Config, Entrance, GcsSettings, Looks, S3Settings,
};
pub use control::{Status, status};
pub use error::Error;
pub use fair::memory_bytes_fair;
pub use fuse::{PassthroughWish, Trust};
pub use lifecycle::serve;
pub use location::{Location, LocationError};
pub use namespace::Attributes;
pub use notice::Notice;
pub use pins::{Listed as ListedPin, PinProgress, Pinned, Unpinned, pin, pinned, unpin};
pub use recover::{Fate, Kept, Waiting, discard, kept, recover, waiting};
pub use remote::{Addressing, AzureCredentials, AzureOptions, Credentials, GcsCredentials, Secret};
pub use store::CacheLimit;
pub use sync::sync;
pub use task::{Chore, Outcome};
pub use telemetry::{LogTarget, start_logging};
pub use umount::{Force, Progress, umount};
pub use vfs::{Commit, DirtyLimit};
pub use visit::{Found, visit};
