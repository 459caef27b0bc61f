//! The settings as a mount takes them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mount::{
    Addressing, Authorities, CacheLimit, Changes, Config, Credentials, Endpoints, Entrance,
    InsightSettings, Location, LogOptions, LogTarget, Looks, PassthroughWish, PriceChanges, Prices,
    RingWish, S3Settings, SlowTarget, Trust,
};

use super::credentials;
use super::flags::{LogSettings, Settings, StoreSettings};
use super::state_dir::state_dir;
use super::terms;
use crate::units::{CacheSize, Rate};

/// How much of the disk the cache leaves to others.
const KEPT_FREE_PERCENT: u8 = 10;

/// What is slow, for who names a file for slow calls and no time.
const SLOW_ELSE: Duration = Duration::from_secs(1);

/// A mount of `location` at `dir`.
pub(crate) fn config(location: Location, dir: &Path, settings: &Settings) -> Result<Config> {
    let Settings { store, disk, tuning, .. } = settings;
    check_endpoint(store.endpoint.as_deref())?;
    let memory_bytes_max = tuning.memory_limit.unwrap_or_else(mount::memory_bytes_fair);
    Ok(Config {
        insight: insight(settings, &location),
        gcs: credentials::gcs(store, &location)?,
        azure: credentials::azure(store, &location)?,
        azure_account: settings.azure_account.clone(),
        location,
        dir: std::path::absolute(dir).with_context(|| format!("{}: not a path", dir.display()))?,
        s3: s3(store)?,
        authorities: Authorities::with(terms::ca_bundle(store.ca_bundle.as_ref())?),
        changes: if settings.read_only { Changes::Refused } else { Changes::Allowed },
        entrance: if settings.allow_other { Entrance::All } else { Entrance::Owner },
        set_id_programs: trust(settings.suid),
        devices: trust(settings.dev),
        programs: trust(!settings.no_exec),
        trusted_xattrs: trust(settings.trusted_xattrs),
        looks: Looks {
            uid: settings.uid,
            gid: settings.gid,
            file_mode: settings.file_mode & !settings.umask,
            folder_mode: settings.dir_mode & !settings.umask,
        },
        state_dir: state_dir(&disk.state)?,
        cache: match disk.cache_size {
            Some(CacheSize(bytes)) => CacheLimit::Bytes(bytes),
            None => CacheLimit::KeepFree { percent: KEPT_FREE_PERCENT },
        },
        dirty_limit: disk.dirty_limit.unwrap_or_default(),
        attributes: tuning.attributes,
        commit: tuning.commit,
        upload_delay: tuning.upload_delay,
        last: tuning.commit_last.clone().unwrap_or_default(),
        metadata_ttl: tuning.metadata_ttl,
        memory_bytes_max,
        part_bytes: tuning.part_size,
        deadline: tuning.deadline,
        shutdown_timeout: tuning.shutdown_timeout,
        upload_limit: limits(settings).0,
        download_limit: limits(settings).1,
        passthrough: if tuning.no_passthrough {
            PassthroughWish::Off
        } else {
            PassthroughWish::Wanted
        },
        rings: if tuning.no_io_uring { RingWish::Off } else { RingWish::Wanted },
        starter: None,
    })
}

/// All but the log, which is not started yet.
#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
fn insight(
    Settings { logs, metrics, prices, .. }: &Settings,
    location: &Location,
) -> InsightSettings {
    let slow_else = logs.slow_log_file.as_ref().map(|_| SLOW_ELSE);
    let changes = PriceChanges {
        currency: prices.price_currency.clone(),
        read_per_1000: prices.price_reads,
        list_per_1000: prices.price_lists,
        write_per_1000: prices.price_writes,
        delete_per_1000: prices.price_deletes,
        received_per_gib: prices.price_received,
        sent_per_gib: prices.price_sent,
    };
    InsightSettings {
        prices: Prices::of(location).with(&changes),
        slow_calls: logs.slow_log.or(slow_else),
        metrics_listen: metrics.metrics_listen,
        metrics_file: metrics.metrics_file.clone(),
        access_log: logs.access_log.clone(),
        log: None,
        role: std::env::var("AWS_ROLE_ARN").ok().filter(|role| !role.is_empty()),
    }
}

/// The limits of uploads and downloads, in bytes a second.
pub(crate) fn limits(settings: &Settings) -> (Option<u64>, Option<u64>) {
    let limit = |limit: Rate| (limit.0 != 0).then_some(limit.0);
    (limit(settings.tuning.upload_limit), limit(settings.tuning.download_limit))
}

/// How and where to log what the mount at `dir` says: to `own` where nobody names a file.
pub(crate) fn log(logs: &LogSettings, own: LogTarget, dir: &Path) -> LogOptions {
    let slow = match (&logs.slow_log_file, logs.slow_log) {
        (Some(file), _) => SlowTarget::File(file.clone()),
        (None, Some(_)) => SlowTarget::Log,
        (None, None) => SlowTarget::None,
    };
    LogOptions {
        mount: dir.display().to_string(),
        target: logs.log_file.clone().map_or(own, LogTarget::File),
        format: logs.log_format,
        filter: logs.log_level.clone(),
        slow,
    }
}

fn trust(is_granted: bool) -> Trust {
    if is_granted { Trust::Granted } else { Trust::Denied }
}

fn s3(settings: &StoreSettings) -> Result<S3Settings> {
    let credentials = match (&settings.aws_profile, settings.anonymous) {
        (Some(profile), _) => Credentials::Profile(profile.clone()),
        (None, true) => Credentials::Anonymous,
        (None, false) => Credentials::Default,
    };
    let endpoint = settings.endpoint.clone().or_else(endpoint_of_environment);
    check_endpoint(endpoint.as_deref())?;
    Ok(S3Settings {
        endpoint,
        region: settings.region.clone(),
        credentials,
        addressing: match settings.path_style {
            Some(true) => Addressing::Path,
            Some(false) => Addressing::Virtual,
            None => Addressing::Auto,
        },
        endpoints: Endpoints { fips: settings.fips, dual_stack: settings.dual_stack },
        terms: terms::terms(&settings.terms)?,
    })
}

/// Refuses one with a user and a password, which no store takes there, and does not repeat it: they would be told in
/// messages, and kept in the state folder.
fn check_endpoint(url: Option<&str>) -> Result<()> {
    let Some((_, rest)) = url.and_then(|url| url.split_once("://")) else { return Ok(()) };
    if rest.split('/').next().is_some_and(|host| host.contains('@')) {
        bail!(
            "remove the user name and password from the endpoint: put them in the environment, a profile or a \
             credentials file, and name it as https://HOST"
        );
    }
    Ok(())
}

/// The names under which AWS's own tools look for it, and the one by which Nextflow tells its tasks. For others the
/// last one is a host, without a scheme: that is none of ours.
#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
fn endpoint_of_environment() -> Option<String> {
    let named = |name: &&str| std::env::var(name).ok().filter(|url| !url.is_empty());
    let own = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].iter().find_map(named);
    own.or_else(|| named(&"AWS_S3_ENDPOINT").filter(|url| url.contains("://")))
}

#[cfg(test)]
mod tests {
    use super::check_endpoint;

    #[test]
    fn an_endpoint_has_no_password_and_none_is_repeated() {
        for url in ["http://host:9000/a@b", "https://host", "host", "http://[::1]:9000"] {
            check_endpoint(Some(url)).unwrap();
        }
        check_endpoint(None).unwrap();
        for url in ["http://me:hush@host:9000", "https://hush@host/x"] {
            let said = check_endpoint(Some(url)).unwrap_err().to_string();
            assert!(said.contains("password") && !said.contains("hush"), "{said}");
        }
    }
}
