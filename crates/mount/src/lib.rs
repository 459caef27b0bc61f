//! One mounted file system: assembled, served, observed, ended; alone in knowing every layer.

mod access_log;
mod advice;
mod all;
mod answer;
mod apart;
mod ask_all;
mod ask_path;
mod assemble;
mod attend;
mod bench;
mod browse;
mod call;
mod cloud;
mod config;
mod control;
mod covered;
mod dispatch;
mod doctor;
mod end;
mod entry;
mod error;
mod fair;
mod figures;
mod fsck;
mod give_up;
mod health;
mod hot;
mod in_flight;
mod kernel;
mod knowledge;
mod ledger;
mod lifecycle;
mod lines;
mod list;
mod location;
mod metrics;
mod missing;
mod node_metrics;
mod notice;
mod numbers;
mod observe;
mod overdue;
mod own_mounts;
mod peer;
mod pins;
mod prepare;
mod prices;
mod priority;
mod process;
mod process_limits;
mod put_back;
mod queried;
mod query;
mod raw;
mod recall;
mod recover;
mod recover_list;
mod refusals;
mod refused;
mod reload;
mod report;
mod runtime_dir;
mod samples;
mod share;
mod shared_url;
mod signals;
mod sizes;
mod socket;
mod spelling;
mod stand_in;
mod status;
mod sync;
mod sync_waits;
mod tag;
mod task;
mod telemetry;
mod tenant;
mod tuning;
mod umount;
mod users;
mod version;
mod visit;
mod volume;
mod volumes;
mod waiting;
mod watch;
mod working;
mod writes;

pub use apart::check_apart;
pub use ask_path::{brief_status, info};
pub use bench::{Measured, bench};
pub use browse::{Attributed, browse, sum_up};
pub use config::{
    AzureSettings, Buckets, ChangedSetting, Changes, Config, Effect, Entrance, GcsSettings,
    InsightSettings, Looks, Reconfigure, Reconfigured, S3Settings,
};
pub use control::{check_answers, hasten, live, reload, set_log_level, status, status_around};
pub use covered::has_files;
pub use doctor::{Finding, Patient, Verdict, doctor};
pub use entry::{is_in_mount, mounted_dir, not_looked_at};
pub use error::Error;
pub use fair::memory_bytes_fair;
pub use figures::Figures;
pub use fsck::{AttributeFlaw, CheckedBucket, LocalFlaw, Repair, fsck, fsck_attributes};
pub use fuse::{PassthroughWish, RingWish, Trust, may_trust, mounted_below};
pub use give_up::{GivenUp, give_up};
pub use health::Health;
pub use lifecycle::{Stage, serve};
pub use list::{Answer, Listed, Said, list, mounts, own_mounts, own_mounts_of_no_run, statuses};
pub use location::{Home, Location, LocationError};
pub use missing::Missing;
pub use namespace::{Attributes, Browsed, Depth, FolderSum};
pub use node_metrics::{node_metrics, serve_node_metrics};
pub use notice::Notice;
pub use own_mounts::OwnMounts;
pub use pins::{Listed as ListedPin, PinProgress, Pinned, Unpinned, pin, pinned, unpin, unpin_all};
pub use prices::{PriceChanges, Prices};
pub use process::close_inherited;
pub use put_back::{PutBack, home_of, put_back};
pub use query::{BriefStatus, Info};
pub use recover::{Kept, KeptOrigin, discard, kept, recover};
pub use recover_list::recover_list;
pub use reload::Reloaded;
pub use remote::{
    Addressing, Authorities, AzureCredentials, AzureOptions, CaBundle, Credentials, CustomerKey,
    Encryption, Endpoints, Entra, GcsCredentials, Payer, Proof, S3Terms, Secret, Tags, TokenFile,
};
pub use samples::Rates;
pub use share::share;
pub use shared_url::Shared;
pub use spelling::spelled;
pub use stand_in::copy_over_link;
pub use status::{
    CacheStatus, CallStatus, CostStatus, CredentialsStatus, HotFile, InFlightStatus, Live,
    ReadOnly, RequestStatus, Status, StoreStatus, TimesStatus, TuningStatus, UploadState,
    UploadStatus,
};
pub use store::{CacheLimit, Unsafe, check_ownership, create_trusted, resolve_trusted};
pub use sync::sync;
pub use task::{Chore, Outcome};
pub use telemetry::{
    LogControl, LogFormat, LogOptions, LogTarget, SlowTarget, check_log_filter, start_logging,
};
pub use tenant::{Arrived, Tenant, is_mounted, is_there};
pub use umount::{Detach, Progress, clear_dead, clear_dead_alone, umount};
pub use users::users;
pub use version::VERSION;
pub use vfs::{Commit, DirtyLimit, Last};
pub use visit::{Found, visit};
pub use waiting::{Change, Fate, Left, Waiting, WaitingChange, left};
pub use working::Working;
