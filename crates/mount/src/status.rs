//! What a mount says of itself, as it is said over the control socket and by `status --json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::health::Health;
use crate::samples::Rates;

/// What a mount says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// What is mounted.
    pub source: String,
    /// The process that serves it.
    pub pid: u32,
    /// The `quayfs run` that the mount is for, if it is for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starter: Option<u32>,
    /// How it is, in a word.
    pub health: Health,
    /// Why, worst first.
    pub health_why: Vec<String>,
    /// Seconds since it was mounted.
    pub mounted_secs: u64,
    /// Files that the bucket does not have yet.
    pub pending_uploads: u64,
    /// Their bytes.
    pub pending_bytes: u64,
    /// Changes of names that the bucket does not have yet.
    #[serde(default)]
    pub pending_changes: u64,
    /// Names with attributes that the bucket does not have yet.
    #[serde(default)]
    pub pending_attributes: u64,
    /// Why some of all these failed at the last try.
    pub failures: Vec<String>,
    /// The first of these files: those that failed, then those under way.
    pub uploads: Vec<UploadStatus>,
    /// The local disk.
    pub cache: CacheStatus,
    /// Of the bytes that programs read, passthrough apart, the part that did not have to be fetched; none if
    /// nothing was read.
    pub hit_ratio: Option<f64>,
    /// Calls of programs and requests to the stores that wait for an answer.
    #[serde(default)]
    pub in_flight: InFlightStatus,
    /// The rates of the last seconds.
    pub throughput: Rates,
    /// Requests to the store, by kind; only those that there were.
    pub requests: Vec<TimesStatus>,
    /// Calls of the kernel, by operation; only those that there were.
    pub calls: Vec<TimesStatus>,
    /// What the requests cost.
    pub cost: CostStatus,
    /// What was chosen, by people or by measuring.
    #[serde(default)]
    pub tuning: TuningStatus,
    /// As whom the store is asked; one for each bucket that takes credentials.
    pub credentials: Vec<CredentialsStatus>,
    /// What the stores can do, as far as that is known; one for each bucket, also for those that could not be attached.
    #[serde(default)]
    pub stores: Vec<StoreStatus>,
    /// What was counted, by name.
    pub counters: BTreeMap<String, u64>,
}

/// What a store can do, as far as its answers have shown, by the names of `remote::Capability`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Such as `s3/bucket`.
    pub bucket: String,
    /// What it does.
    pub has: Vec<String>,
    /// What it does not, and what is therefore worked around.
    pub lacks: Vec<String>,
    /// Why it takes no changes by this mount, if it takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<ReadOnly>,
    /// Why it could not be attached when somebody asked for it, if it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Why a bucket takes no changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadOnly {
    /// It is mounted so.
    Asked,
    /// The credentials may not write, as was found out when it was mounted.
    Credentials,
}

/// What a mount says of the local disk. All mounts of one state folder share it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CacheStatus {
    /// Where it is.
    #[serde(with = "crate::spelling")]
    pub dir: PathBuf,
    /// Bytes that the buckets have too.
    pub cached_bytes: u64,
    /// Bytes that are here only.
    pub staged_bytes: u64,
    /// What of these this mount has written.
    #[serde(default)]
    pub dirty_bytes: u64,
    /// With so many of them writers wait for uploads.
    #[serde(default)]
    pub dirty_limit_bytes: u64,
    /// What of the cache is pinned, when all of it is here.
    #[serde(default)]
    pub pinned_bytes: u64,
    /// Free on the disk.
    pub disk_free_bytes: u64,
    /// How large that disk is.
    #[serde(default)]
    pub disk_total_bytes: u64,
    /// Files in the recovery folder: bytes that could not be brought to a bucket.
    pub recovery_files: u64,
    /// Why the folder cannot be looked at, if it cannot; the figures are 0 then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl CacheStatus {
    /// A state folder that cannot be looked at.
    pub(crate) fn unknown(dir: PathBuf, error: String) -> CacheStatus {
        CacheStatus {
            dir,
            cached_bytes: 0,
            staged_bytes: 0,
            dirty_bytes: 0,
            dirty_limit_bytes: 0,
            pinned_bytes: 0,
            disk_free_bytes: 0,
            disk_total_bytes: 0,
            recovery_files: 0,
            error: Some(error),
        }
    }
}

/// A file that the bucket does not have yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UploadStatus {
    /// Below the mount; empty if it has no name any more.
    pub path: String,
    /// How long it is.
    pub bytes: u64,
    /// How far it is.
    pub state: UploadState,
    /// Why the last try failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How far an upload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UploadState {
    /// Still being written, or waiting for its turn.
    Waiting,
    /// On its way.
    UnderWay,
    /// To be tried again.
    Failed,
}

/// Calls of programs, and requests to the stores, that wait for an answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InFlightStatus {
    /// How long the oldest call has waited; 0 if none waits.
    pub oldest_call_secs: f64,
    /// All calls that wait.
    pub calls_count: u64,
    /// The oldest of them, oldest first.
    pub calls: Vec<CallStatus>,
    /// How long the oldest request has waited; 0 if none waits.
    pub oldest_request_secs: f64,
    /// All requests that wait.
    pub requests_count: u64,
    /// The oldest of them, oldest first.
    pub requests: Vec<RequestStatus>,
}

/// A call of a program that waits for its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallStatus {
    /// Such as `read`.
    pub operation: String,
    /// Below the mount.
    pub path: String,
    /// The process that called, or its thread if that cannot be told.
    pub pid: u32,
    /// The program that it runs; empty if it is gone.
    pub program: String,
    /// The user that it runs as.
    pub uid: u32,
    /// How long it has waited.
    pub secs: f64,
    /// The request that it waits for, as far as the path tells: `get data/file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// A request that waits for the answer of a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestStatus {
    /// Such as `s3/bucket`.
    pub bucket: String,
    /// Such as `get`.
    pub kind: String,
    /// The key of its object, or what the keys of a listing begin with.
    pub key: String,
    /// How long it has waited, repeats included.
    pub secs: f64,
    /// Tries that failed.
    pub failed: u32,
    /// Why the last of them failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How long one kind of call or request took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimesStatus {
    /// Which.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// Half of them took no longer, in milliseconds.
    pub p50_ms: f64,
    /// 99 of 100 took no longer.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// What they cost, if they are requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// What was chosen for a mount, by people or by measuring.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TuningStatus {
    /// Bytes that may be in flight in memory.
    pub memory_limit_bytes: u64,
    /// The size of the parts of an upload that begins now, of files that do not need larger ones.
    pub part_bytes: u64,
    /// How far a stream is read ahead at most: what came in the best second of the last minutes.
    #[serde(default)]
    pub read_window_bytes: u64,
    /// Requests that there may be at a time, of the bucket that bears the fewest: fewer than at first if it
    /// complained.
    pub requests_at_a_time: u64,
    /// Small files that are uploaded at a time: as many as make them faster.
    pub small_uploads_at_a_time: u64,
}

/// What a mount's requests cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CostStatus {
    /// Such as `USD`.
    pub currency: String,
    /// Where the prices are from.
    pub list: String,
    /// The requests, since it was mounted.
    pub requests: f64,
    /// The bytes, since it was mounted.
    pub transfer: f64,
}

/// Whose credentials are used. Never a secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CredentialsStatus {
    /// Such as `access key`.
    pub kind: String,
    /// Whose.
    pub name: String,
    /// The role that they are for, where the environment names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// When they end, in seconds since 1970, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// How many seconds are left until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_secs: Option<u64>,
}

/// A mount as it is now and was in the last two minutes, for who watches it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Live {
    /// How it is now.
    pub status: Status,
    /// The rates of each second, oldest first.
    pub history: Vec<Rates>,
    /// The files that are read and written most.
    pub hot: Vec<HotFile>,
}

/// A file that is in use just now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HotFile {
    /// Below the mount; empty if it has no name any more.
    pub path: String,
    /// Bytes read a second.
    pub read_bytes: f64,
    /// Bytes written a second.
    pub written_bytes: f64,
    /// Calls a second.
    pub calls: f64,
}
