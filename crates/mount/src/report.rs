//! Puts together what a mount says of itself.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{Counter, Metrics, Oldest, Party, Timestamp, Timing};
use remote::Identity;
use store::Store;
use vfs::{PendingFile, Stage};

use crate::assemble::Common;
use crate::health::{self, Facts};
use crate::hot::Hot;
use crate::in_flight::{self, Calls};
use crate::overdue;
use crate::prices::Prices;
use crate::refusals;
use crate::samples::Samples;
use crate::status::{
    CacheStatus, CallStatus, CostStatus, CredentialsStatus, HotFile, Live, Status, TimesStatus,
    TuningStatus, UploadState, UploadStatus,
};
use crate::volumes::Volumes;

/// Files that are named at most. More are counted.
const UPLOADS_MAX: usize = 1000;
const HOT_MAX: usize = 100;

/// Requests of one bucket that are looked at.
const REQUESTS_MAX: usize = 1000;

/// What is reported on.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) common: Common,
    pub(crate) source: String,
    pub(crate) state_dir: PathBuf,
    /// The `quayfs run` that the mount is for.
    pub(crate) starter: Option<u32>,
    pub(crate) prices: Prices,
    /// When it was mounted.
    pub(crate) begun: Duration,
    pub(crate) samples: Arc<Samples>,
    pub(crate) hot: Arc<Hot>,
    pub(crate) calls: Arc<Calls>,
    /// The role that credentials of AWS are for.
    pub(crate) role: Option<String>,
    /// What may be in flight in memory.
    pub(crate) memory_bytes_max: u64,
}

impl Report {
    /// How the mount is.
    pub(crate) async fn status(&self) -> io::Result<Status> {
        let Common { metrics, clock, .. } = &self.common;
        let pending = self.volumes.pending();
        let cache = self.cache().await?;
        let identities = self.volumes.identities().await;
        let ends = identities.iter().filter_map(|identity| identity.expires);
        let left = ends.map(|end| left_secs(end, clock.wall())).min();
        let now = clock.monotonic();
        let in_flight = in_flight::report(&self.calls, &self.volumes, now);
        let refusals = refusals::all(&self.volumes).await;
        let refusals: Vec<String> = refusals.into_iter().map(|refused| refused.text).collect();
        let overdue = self.overdue(&in_flight.calls, now);
        let last_error = self.last_error(now);
        let cache_error = cache.error.as_ref().map(|why| (&*cache.dir, &**why));
        let facts = Facts {
            cache_error,
            refusals: &refusals,
            overdue: &overdue,
            failures: &pending.failures,
            recovery: (0 < cache.recovery_files).then_some((&*cache.dir, cache.recovery_files)),
            dirty_bytes: cache.dirty_bytes,
            dirty_limit_bytes: cache.dirty_limit_bytes,
            disk_free_bytes: cache.disk_free_bytes,
            disk_total_bytes: cache.disk_total_bytes,
            errors: self.samples.errors(metrics),
            last_error: last_error.as_deref(),
            credentials_left: left.map(Duration::from_secs),
        };
        let (health, health_why) = health::judge(&facts);
        let requests = times(metrics, Party::Store, Some(&self.prices));
        Ok(Status {
            source: self.source.clone(),
            pid: std::process::id(),
            starter: self.starter,
            health,
            health_why,
            mounted_secs: clock.monotonic().saturating_sub(self.begun).as_secs(),
            pending_uploads: pending.files,
            pending_bytes: pending.bytes,
            pending_changes: pending.changes,
            pending_attributes: pending.attributes,
            uploads: self.volumes.pending_files(UPLOADS_MAX).into_iter().map(upload).collect(),
            failures: pending.failures,
            cache,
            hit_ratio: hit_ratio(metrics),
            in_flight,
            throughput: self.samples.now(),
            cost: self.cost(&requests),
            tuning: TuningStatus {
                memory_limit_bytes: self.memory_bytes_max,
                part_bytes: self
                    .volumes
                    .part_bytes()
                    .unwrap_or_else(|| self.common.sizes.parts.bytes()),
                read_window_bytes: self.common.sizes.window.bytes(),
                requests_at_a_time: self.volumes.requests_at_a_time(),
                small_uploads_at_a_time: self.volumes.small_uploads_at_a_time(),
            },
            requests,
            calls: times(metrics, Party::Kernel, None),
            credentials: identities.into_iter().map(|who| self.credentials(who)).collect(),
            stores: self.volumes.stores(clock.monotonic()),
            counters: metrics
                .snapshot()
                .map(|(counter, n)| (counter.name().to_owned(), n))
                .collect(),
        })
    }

    /// How the mount is and was in the last minutes.
    pub(crate) async fn live(&self) -> io::Result<Live> {
        let hottest = self.hot.hottest(HOT_MAX, self.common.clock.as_ref());
        let hot = hottest.into_iter().map(|(ino, heat)| HotFile {
            path: text(self.volumes.path(ino)),
            read_bytes: heat.read_bytes,
            written_bytes: heat.written_bytes,
            calls: heat.calls,
        });
        let (hot, history) = (hot.collect(), self.samples.history());
        Ok(Live { status: self.status().await?, history, hot })
    }

    /// Calls and stores that wait for too long.
    fn overdue(&self, calls: &[CallStatus], now: Duration) -> Vec<String> {
        // Calls that wait for a limit are none of an unwell store.
        let is_limited =
            self.common.upload_bandwidth.holds_up() || self.common.download_bandwidth.holds_up();
        let waiting = if is_limited { None } else { overdue::calls(calls) };
        waiting.into_iter().chain(self.silences(now)).collect()
    }

    /// The stores that say nothing.
    fn silences(&self, now: Duration) -> impl Iterator<Item = String> {
        self.volumes.all().into_iter().filter_map(move |volume| {
            let Oldest { entries, count } = volume.traffic.oldest(REQUESTS_MAX);
            overdue::store(&volume.place, (&entries, count), (volume.traffic.answered(), now))
        })
    }

    /// The request that failed last, in the store's words, and how long ago that was.
    fn last_error(&self, now: Duration) -> Option<String> {
        let failures = self.volumes.all().into_iter().filter_map(|volume| volume.traffic.failure());
        let last = failures.max_by_key(|failure| failure.at)?;
        let secs = now.saturating_sub(last.at).as_secs();
        Some(format!("{} ({secs} s ago)", last.text))
    }

    async fn cache(&self) -> io::Result<CacheStatus> {
        let (store, dir) = (self.common.store.clone(), self.state_dir.clone());
        let volumes = Arc::clone(&self.volumes);
        let looking = tokio::task::spawn_blocking(move || cache(&store, dir, &volumes));
        looking.await.map_err(io::Error::other)
    }

    fn cost(&self, requests: &[TimesStatus]) -> CostStatus {
        let metrics = &self.common.metrics;
        let received = metrics.value(Counter::RemoteGetBytes);
        let sent = metrics.value(Counter::RemotePutBytes);
        CostStatus {
            currency: self.prices.currency.clone(),
            list: self.prices.list.clone(),
            requests: requests.iter().filter_map(|kind| kind.cost).sum(),
            transfer: self.prices.bytes(received, sent),
        }
    }

    fn credentials(&self, who: Identity) -> CredentialsStatus {
        CredentialsStatus {
            role: self.role.clone().filter(|_| who.kind.starts_with("temporary")),
            kind: who.kind.to_owned(),
            name: who.name,
            expires: who.expires.map(|end| end.secs),
            left_secs: who.expires.map(|end| left_secs(end, self.common.clock.wall())),
        }
    }
}

/// The contents of the state folder, which the disk is asked for. A folder that was moved or removed is reported as such: the
/// rest of a report tells what that has led to.
fn cache(store: &Store, dir: PathBuf, volumes: &Volumes) -> CacheStatus {
    try_cache(store, &dir, volumes).unwrap_or_else(|error| {
        let reason = match dir.symlink_metadata() {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
                "it was moved or removed while mounted".to_owned()
            }
            Ok(_) | Err(_) => error.to_string(),
        };
        CacheStatus::unknown(dir, reason)
    })
}

fn try_cache(store: &Store, dir: &Path, volumes: &Volumes) -> io::Result<CacheStatus> {
    let usage = store.usage().map_err(io::Error::other)?;
    let kept = store::kept(dir).map_err(io::Error::other)?;
    let dirty = volumes.dirty().map_err(io::Error::other)?;
    let dir = dir.to_owned();
    Ok(CacheStatus {
        dir,
        cached_bytes: usage.cached_bytes,
        staged_bytes: usage.staged_bytes,
        dirty_bytes: dirty.bytes,
        dirty_limit_bytes: dirty.limit_bytes,
        pinned_bytes: store.pinned_bytes().map_err(io::Error::other)?,
        disk_free_bytes: usage.disk_free_bytes,
        disk_total_bytes: usage.disk_total_bytes,
        recovery_files: kept.len() as u64,
        error: None,
    })
}

fn left_secs(end: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(end.secs - now.secs).unwrap_or_default()
}

/// The part of the bytes that programs read that was here when they were read.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn hit_ratio(metrics: &Metrics) -> Option<f64> {
    let read = metrics.value(Counter::FuseReadBytes);
    // Not what was fetched: `warm` and the fetching ahead of readers would count as misses.
    let missed = metrics.value(Counter::MissedReadBytes);
    (0 < read).then(|| 1.0 - missed.min(read) as f64 / read as f64)
}

/// What was timed, without what never happened.
fn times(metrics: &Metrics, party: Party, prices: Option<&Prices>) -> Vec<TimesStatus> {
    let of_party = Timing::ALL.iter().filter(|timing| timing.party() == party);
    let all = of_party.map(|&timing| (timing, metrics.times(timing)));
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    all.filter(|(_, times)| 0 < times.count())
        .map(|(timing, times)| TimesStatus {
            kind: timing.name().to_owned(),
            count: times.count(),
            p50_ms: ms(times.percentile(50)),
            p99_ms: ms(times.percentile(99)),
            max_ms: ms(times.max()),
            cost: prices.map(|prices| prices.requests(timing, times.count())),
        })
        .collect()
}

fn upload(file: PendingFile) -> UploadStatus {
    let (state, reason) = match file.stage {
        Stage::Waiting => (UploadState::Waiting, None),
        Stage::UnderWay => (UploadState::UnderWay, None),
        Stage::Failed(reason) => (UploadState::Failed, Some(reason)),
    };
    UploadStatus { path: text(file.path), bytes: file.bytes, state, reason }
}

fn text(path: Option<Vec<u8>>) -> String {
    base::spelled(&path.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use base::{Counter, Metrics};

    use super::hit_ratio;

    #[test]
    fn bytes_that_were_not_missing_are_hits() {
        for (read, missed, want) in
            [(0, 5, None), (100, 0, Some(1.0)), (100, 25, Some(0.75)), (100, 500, Some(0.0))]
        {
            let metrics = Metrics::new();
            metrics.add(Counter::FuseReadBytes, read);
            metrics.add(Counter::MissedReadBytes, missed);
            metrics.add(Counter::RemoteGetBytes, 1000);
            assert_eq!(hit_ratio(&metrics), want);
        }
    }
}
