//! One mounted file system: assembled, served, observed, ended; alone in knowing every layer.

mod all;
mod answer;
mod apart;
mod assemble;
mod attend;
mod bench;
mod call;
mod cloud;
mod config;
mod control;
mod dispatch;
mod doctor;
mod error;
mod fair;
mod figures;
mod fsck;
mod health;
mod hot;
mod kernel;
mod ledger;
mod lifecycle;
mod lines;
mod list;
mod location;
mod memory;
mod metrics;
mod notice;
mod numbers;
mod observe;
mod pins;
mod prices;
mod process;
mod raw;
mod recover;
mod report;
mod runtime_dir;
mod samples;
mod socket;
mod status;
mod sync;
mod tag;
mod task;
mod telemetry;
mod umount;
mod visit;
mod volume;
mod volumes;
mod watch;

pub use bench::{Measured, bench};
pub use config::{
    AzureSettings, Buckets, Changes, Config, Entrance, GcsSettings, InsightSettings, Looks,
    S3Settings,
};
pub use control::{live, mounts, set_log_level, status};
pub use doctor::{Finding, Patient, Verdict, doctor};
pub use error::Error;
pub use fair::{memory_bytes_fair, part_bytes_fair};
pub use figures::Figures;
pub use fsck::{AttributeFlaw, CheckedBucket, LocalFlaw, Repair, fsck, fsck_attributes};
pub use fuse::{PassthroughWish, Trust};
pub use health::Health;
pub use lifecycle::{Stage, serve};
pub use list::{Answer, Listed, list};
pub use location::{Location, LocationError};
pub use namespace::Attributes;
pub use notice::Notice;
pub use pins::{Listed as ListedPin, PinProgress, Pinned, Unpinned, pin, pinned, unpin};
pub use prices::{PriceChanges, Prices};
pub use recover::{Fate, Kept, Waiting, discard, kept, recover, waiting};
pub use remote::{Addressing, AzureCredentials, AzureOptions, Credentials, GcsCredentials, Secret};
pub use samples::Rates;
pub use status::{
    CacheStatus, CostStatus, CredentialsStatus, HotFile, Live, Status, TimesStatus, TuningStatus,
    UploadState, UploadStatus,
};
pub use store::CacheLimit;
pub use sync::sync;
pub use task::{Chore, Outcome};
pub use telemetry::{LogControl, LogFormat, LogOptions, LogTarget, SlowTarget, start_logging};
pub use umount::{Force, Progress, umount};
pub use vfs::{Commit, DirtyLimit};
pub use visit::{Found, visit};
