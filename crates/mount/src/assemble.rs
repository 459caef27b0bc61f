//! Builds the layers, bottom up; the only place that knows them all.

use std::sync::Arc;
use std::time::Duration;

use base::{Budget, Clock, Metrics, Rng, SystemClock};
use namespace::{Attributes, Bucket, BucketOptions, Finished, Owner, Returns};
use remote::{
    Condition, ErrorKind, Folder, Identified, Key, Limit, ListRequest, Meter, PutOptions, Remote,
    Retry, RetryOptions, S3, S3Options, Trouble, prefixed,
};
use store::Store;
use tokio::runtime::Handle;
use transfer::{Fetcher, FetcherOptions, UploadLog, Uploader, UploaderOptions};
use vfs::{Commit, Vfs, VfsOptions};

use crate::cloud::{self, Provider};
use crate::config::{Changes, Config};
use crate::error::Error;
use crate::ledger::StoreLedger;
use crate::location::Location;
use crate::notice::Notice;

/// What all volumes of a mount have in common.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) store: Store,
    /// Bytes in flight.
    budget: Budget,
}

impl Common {
    /// Opens the state folder.
    pub(crate) fn open(config: &Config, notices: &mut Vec<Notice>) -> Result<Common, Error> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let metrics = Arc::new(Metrics::new());
        let options = store::Options { dir: config.state_dir.clone(), cache: config.cache };
        let store = Store::open(options, Arc::clone(&clock), Arc::clone(&metrics))
            .map_err(|source| Error::State { dir: config.state_dir.clone(), source })?;
        notices.extend(store.set_aside().map(|path| Notice::Damaged(path.to_owned())));
        Ok(Common { clock, metrics, store, budget: Budget::new(config.memory_bytes_max) })
    }
}

/// The layers of one volume, ready to be served.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) vfs: Arc<Vfs>,
    /// What writes attributes into the bucket.
    pub(crate) namespace: Arc<Bucket>,
    pub(crate) ledger: Arc<StoreLedger>,
    /// The bucket itself.
    pub(crate) remote: Arc<dyn Remote>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether the bucket takes changes.
    pub(crate) changes: Changes,
    /// What bounds the requests under way.
    pub(crate) limit: Arc<Limit>,
    /// As whom the bucket is asked; none for a folder.
    pub(crate) identified: Option<Arc<dyn Identified>>,
}

/// Requests at a time, data and names together. A store gives each connection a part of its speed
/// only, so a fast network needs many.
const REQUESTS_MAX: usize = 128;

/// Requests for file data at a time, in each direction.
const DATA_REQUESTS_MAX: usize = 64;

/// How far a stream is read ahead: bandwidth times latency of a fast link to a distant store.
const WINDOW_BYTES_MAX: u64 = 128 << 20;

/// How long the first requests of a mount are repeated.
const MOUNT_PATIENCE: Duration = Duration::from_secs(10);

/// Nodes that are remembered although the kernel does not hold them.
const NODES_MAX: usize = 1_000_000;

/// Builds everything else, and makes sure that the bucket answers before anything is shown of it.
pub(crate) async fn assemble(
    config: &Config,
    Common { clock, metrics, store, budget }: Common,
    notices: &mut Vec<Notice>,
) -> Result<Assembled, Error> {
    let rng = Arc::new(Rng::from_entropy());
    let (Provider { remote: provider, identified }, volume) =
        provider(config, (&clock, &rng)).await?;
    // Who waits at a terminal wants to hear soon that nothing answers.
    let patience = config.deadline.min(MOUNT_PATIENCE);
    let (checked, _) = decorated(config, (Arc::clone(&provider), patience), &clock, &metrics);
    check_readable(config, checked.as_ref()).await?;
    let changes = check_writable(config, checked.as_ref(), notices).await?;
    let (remote, limit) = decorated(config, (provider, config.deadline), &clock, &metrics);

    let ledger = StoreLedger::new(&store, &volume, Handle::current())
        .map_err(|source| Error::State { dir: config.state_dir.clone(), source })?;
    let ledger = Arc::new(ledger);
    let namespace = Arc::new(Bucket::new(
        Arc::clone(&remote),
        Arc::clone(&clock),
        Arc::clone(&ledger) as _,
        bucket_options(config, changes, &volume, &rng),
    ));
    match changes {
        Changes::Allowed => finish_names(config, &namespace, &ledger, notices).await?,
        Changes::Refused => show_names(config, &namespace, &ledger, notices)?,
    }
    let fetching =
        FetcherOptions { requests_max: DATA_REQUESTS_MAX, window_bytes_max: WINDOW_BYTES_MAX };
    let uploading =
        UploaderOptions { requests_max: DATA_REQUESTS_MAX, part_bytes: config.part_bytes };
    let runtime = Handle::current();
    let fetcher = Fetcher::new(
        (Arc::clone(&remote), store.clone()),
        budget.clone(),
        runtime.clone(),
        Arc::clone(&metrics),
        fetching,
    );
    let log = UploadLog::new(&store, Arc::clone(&clock), &volume);
    let options = VfsOptions {
        volume,
        file_bytes_max: remote.personality().object_bytes_max,
        commit: config.commit,
        dirty_limit: config.dirty_limit,
    };
    let vfs = Vfs::new(
        (Arc::clone(&namespace) as _, store),
        (fetcher, Uploader::new((Arc::clone(&remote), log), budget, rng, uploading)),
        (Arc::clone(&clock), metrics),
        runtime,
        options,
    );
    if changes == Changes::Allowed {
        finish_uploads(&vfs, notices).await?;
    }
    Ok(Assembled { vfs, namespace, ledger, remote, clock, changes, limit, identified })
}

fn bucket_options(config: &Config, changes: Changes, volume: &str, rng: &Rng) -> BucketOptions {
    BucketOptions {
        store_identity: volume.to_owned(),
        metadata_ttl: config.metadata_ttl,
        owner: owner(config),
        file_mode: config.looks.file_mode,
        folder_mode: config.looks.folder_mode,
        attributes: match (changes, config.attributes) {
            (Changes::Refused, Attributes::Kept) => Attributes::Shown,
            (Changes::Allowed | Changes::Refused, attributes) => attributes,
        },
        returns: match config.commit {
            Commit::Close => Returns::InBucket,
            Commit::Async => Returns::Journaled,
        },
        nodes_max: NODES_MAX,
        seed: u64::try_from(rng.id() >> 64).expect("half of it"),
    }
}

/// Whose is what nobody gave an owner.
pub(crate) fn owner(config: &Config) -> Owner {
    Owner {
        uid: config.looks.uid.unwrap_or_else(|| rustix::process::getuid().as_raw()),
        gid: config.looks.gid.unwrap_or_else(|| rustix::process::getgid().as_raw()),
    }
}

/// Finishes the changes of names and attributes that earlier mounts began.
async fn finish_names(
    config: &Config,
    namespace: &Bucket,
    ledger: &StoreLedger,
    notices: &mut Vec<Notice>,
) -> Result<(), Error> {
    let left =
        ledger.left().map_err(|source| Error::State { dir: config.state_dir.clone(), source })?;
    // First what is said of names: it goes with those that are moved.
    let left = namespace.replay_attributes(left);
    let Finished { moves, waiting } = namespace.replay(left).await;
    if 0 < moves {
        notices.push(Notice::Renamed(moves));
    }
    if 0 < waiting {
        notices.push(Notice::Renaming(waiting));
    }
    Ok(())
}

/// Shows the changes of attributes that earlier mounts began, and tells of those of names.
fn show_names(
    config: &Config,
    namespace: &Bucket,
    ledger: &StoreLedger,
    notices: &mut Vec<Notice>,
) -> Result<(), Error> {
    let waiting = ledger
        .waiting()
        .map_err(|source| Error::State { dir: config.state_dir.clone(), source })?;
    let begun = Bucket::moves_begun(namespace.replay_attributes(waiting));
    if 0 < begun {
        notices.push(Notice::HalfRenamed(begun));
    }
    Ok(())
}

/// Finishes the uploads that earlier mounts began.
async fn finish_uploads(vfs: &Vfs, notices: &mut Vec<Notice>) -> Result<(), Error> {
    let recovered = vfs.recover().await.map_err(Error::Recovery)?;
    if 0 < recovered.uploaded {
        notices.push(Notice::Resumed(recovered.uploaded));
    }
    if 0 < recovered.waiting {
        notices.push(Notice::Waiting(recovered.waiting));
    }
    notices.extend(recovered.kept.into_iter().map(Notice::Kept));
    Ok(())
}

/// The object store alone, and the name of the volume.
async fn provider(
    config: &Config,
    (clock, rng): (&Arc<dyn Clock>, &Arc<Rng>),
) -> Result<(Provider, String), Error> {
    let world = (Arc::clone(clock), Arc::clone(rng));
    match &config.location {
        Location::All => {
            let all = "all buckets are no bucket: they are attached one by one";
            Err(explained(
                config,
                remote::Error::new(ErrorKind::Unsupported, "mount", &Key::from("")).because(all),
            ))
        }
        Location::Folder(path) => {
            let folder = Folder::open(path).map_err(|source| explained(config, source))?;
            let provider = Provider { remote: Arc::new(folder), identified: None };
            Ok((provider, format!("file://{}", path.display())))
        }
        Location::Gcs { bucket, prefix } => {
            cloud::gcs(config, (bucket, prefix), world).map_err(|source| explained(config, source))
        }
        Location::Azure { account, container, prefix } => {
            cloud::azure(config, (account, container, prefix), world)
                .map_err(|source| explained(config, source))
        }
        Location::S3 { bucket, prefix } => {
            let options = S3Options {
                endpoint: config.s3.endpoint.clone(),
                region: config.s3.region.clone(),
                credentials: config.s3.credentials.clone(),
                addressing: config.s3.addressing,
                patience: config.deadline,
                ..S3Options::new(bucket.clone())
            };
            let s3 = S3::connect(options, Arc::clone(clock))
                .await
                .map_err(|source| explained(config, source))?;
            let endpoint = config.s3.endpoint.as_deref().unwrap_or("aws");
            let endpoint = endpoint.trim_end_matches('/');
            Ok((Provider::of(s3), format!("s3://{bucket}/{prefix}@{endpoint}")))
        }
    }
}

/// The bucket of `config` alone, if it answers; requests are repeated for as long as `patience`.
pub(crate) async fn reach(config: &Config, patience: Duration) -> Result<Arc<dyn Remote>, Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let rng = Arc::new(Rng::from_entropy());
    let (Provider { remote: provider, .. }, _) = provider(config, (&clock, &rng)).await?;
    let (remote, _) = decorated(config, (provider, patience), &clock, &Arc::new(Metrics::new()));
    check_readable(config, remote.as_ref()).await?;
    Ok(remote)
}

/// An object store with everything around it; requests are repeated for as long as `deadline`.
fn decorated(
    config: &Config,
    (provider, deadline): (Arc<dyn Remote>, Duration),
    clock: &Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> (Arc<dyn Remote>, Arc<Limit>) {
    // Each try counts and takes its turn among the requests; the repeats are around both.
    let metered = Arc::new(Meter::new(provider, Arc::clone(metrics), Arc::clone(clock)));
    let limited = Arc::new(Limit::new(metered, REQUESTS_MAX, Arc::clone(metrics)));
    let options = RetryOptions { deadline, ..RetryOptions::default() };
    let (clock, metrics, rng) = (Arc::clone(clock), Arc::clone(metrics), Rng::from_entropy());
    let retried = Arc::new(Retry::new(Arc::clone(&limited) as _, options, clock, rng, metrics));
    let remote: Arc<dyn Remote> = match config.location.prefix() {
        "" => retried,
        prefix => Arc::new(prefixed(retried, Key::from(prefix))),
    };
    (remote, limited)
}

/// One small listing tells a wrong bucket, wrong credentials and a wrong endpoint apart.
async fn check_readable(config: &Config, remote: &dyn Remote) -> Result<(), Error> {
    let first = ListRequest {
        prefix: Key::from(""),
        delimited: true,
        start_after: None,
        continuation: None,
        entries_max: 1,
    };
    remote.list(&first).await.map(|_| ()).map_err(|source| explained(config, source))
}

/// Begins an upload and forgets it: that needs the permission to write and leaves nothing behind.
async fn check_writable(
    config: &Config,
    remote: &dyn Remote,
    notices: &mut Vec<Notice>,
) -> Result<Changes, Error> {
    if config.changes == Changes::Refused {
        return Ok(Changes::Refused);
    }
    let key = Key::from(".quayfs-write-check");
    let options = PutOptions { condition: Condition::Always, metadata: remote::Metadata::new() };
    match remote.upload_create(&key, &options).await {
        Ok(upload) => {
            remote.upload_abort(&key, &upload).await.map_err(|source| explained(config, source))?;
            Ok(Changes::Allowed)
        }
        Err(error) if error.kind == ErrorKind::Denied => {
            notices.push(Notice::ReadOnly(error.to_string()));
            Ok(Changes::Refused)
        }
        Err(source) => Err(explained(config, source)),
    }
}

/// What people can do about it.
pub(crate) fn explained(config: &Config, source: remote::Error) -> Error {
    if let (Location::Folder(path), ErrorKind::NotFound) = (&config.location, source.kind) {
        let advice = format!("there is no folder {}: make it first", path.display());
        return Error::Remote {
            location: config.location.clone(),
            advice,
            source: Box::new(source),
        };
    }
    if let Some(advice) = cloud::advice(&config.location, source.trouble()) {
        let (location, source) = (config.location.clone(), Box::new(source));
        return Error::Remote { location, advice, source };
    }
    let advice = match source.trouble() {
        Trouble::NoCredentials => "no credentials were found: set AWS_ACCESS_KEY_ID and \
            AWS_SECRET_ACCESS_KEY, name a profile with --aws-profile, or use --anonymous for a public \
            bucket"
            .to_owned(),
        Trouble::BadCredentials => "the store does not accept these credentials: check the access \
            key, the secret key and the session token (or --aws-profile), and the machine's clock"
            .to_owned(),
        Trouble::NoBucket => match &config.location {
            Location::S3 { bucket, .. } => format!(
                "there is no bucket {bucket}: check its name{}",
                if config.s3.endpoint.is_some() { " and --endpoint" } else { " and --region" }
            ),
            Location::Folder(path) => {
                format!("there is no folder {}: make it first", path.display())
            }
            Location::Gcs { .. } | Location::Azure { .. } | Location::All => {
                format!("no {}", config.location)
            }
        },
        Trouble::WrongRegion => "the bucket is in another region: name it with --region".to_owned(),
        Trouble::Unreachable => match &config.s3.endpoint {
            Some(endpoint) => {
                format!("cannot reach {endpoint}: check --endpoint, the network and any firewall")
            }
            None => "cannot reach the store: check the network, DNS and any firewall".to_owned(),
        },
        Trouble::Denied => {
            "these credentials may not list this bucket: they need s3:ListBucket and s3:GetObject"
                .to_owned()
        }
        Trouble::Busy => "the store is asked too often: try again in a while".to_owned(),
        Trouble::Other => "the store gave an unexpected answer".to_owned(),
    };
    Error::Remote { location: config.location.clone(), advice, source: Box::new(source) }
}
