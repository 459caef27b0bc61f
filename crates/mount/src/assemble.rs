//! Builds the layers, bottom up; the only place that knows them all.

use std::sync::Arc;
use std::time::Duration;

use base::{Budget, Clock, Metrics, Rng, Share, Shares, SystemClock};
use fuse::Trust;
use namespace::{Attributes, Bucket, BucketOptions, Finished, Foresight, Owner, Returns, Top};
use remote::{
    CloudStore, ErrorKind, Folder, Hedge, Identity, Key, Learned, Limit, ListRequest, Meta, Meter,
    Page, Remote, Retry, RetryOptions, S3, Suited, Traffic, prefixed,
};
use store::Store;
use tokio::runtime::Handle;
use tokio::sync::watch;
use transfer::{Bandwidth, Fetcher, FetcherOptions, Tuned, UploadLog, Uploader, UploaderOptions};
use vfs::{Commit, PendingLimit, Recovered, TrustedXattrs, Vfs, VfsOptions};

use crate::access_log::Logged;
use crate::advice::{self, advice};
use crate::cloud::{self, Provider};
use crate::config::{Changes, Config};
use crate::error::Error;
use crate::knowledge::Knowledge;
use crate::ledger::StoreLedger;
use crate::location::Location;
use crate::notice::Notice;
use crate::process_limits;
use crate::recall::{Asked, Recall};
use crate::sizes::Sizes;
use crate::telemetry::AccessLog;
use crate::writes::{self, Company, Writes};

/// What all volumes of a mount have in common.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) store: Store,
    /// Bytes in flight.
    budget: Budget,
    /// Nodes that are remembered although the kernel does not hold them.
    nodes: Shares,
    /// Files that wait for their upload.
    pending: Arc<PendingLimit>,
    /// What follows the network.
    pub(crate) sizes: Sizes,
    /// How fast file data may go and come.
    pub(crate) upload_bandwidth: Bandwidth,
    pub(crate) download_bandwidth: Bandwidth,
    /// The log of requests to the store, if there is one.
    pub(crate) access: Option<AccessLog>,
    /// Files that an earlier mount left and that are still to be uploaded before a volume answers.
    pub(crate) left_over: watch::Sender<u64>,
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
        let (budget, nodes) = (Budget::new(config.memory_bytes_max), Shares::of(NODES_MAX));
        let pending = process_limits::pending_limit();
        let sizes = Sizes::new(config.part_bytes, config.memory_bytes_max);
        let limited = |limit| Bandwidth::new(limit, Arc::clone(&clock));
        let (up, down) = (limited(config.upload_limit), limited(config.download_limit));
        let access = config.insight.access_log.clone().map(|path| {
            AccessLog::open(path.clone()).map_err(|source| Error::AccessLog { path, source })
        });
        let access = access.transpose()?;
        Ok(Common {
            clock,
            metrics,
            store,
            budget,
            nodes,
            pending,
            sizes,
            upload_bandwidth: up,
            download_bandwidth: down,
            access,
            left_over: watch::Sender::new(0),
        })
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
    /// The requests under way.
    pub(crate) traffic: Arc<Traffic>,
    /// How large the parts of its uploads are.
    pub(crate) parts: Tuned,
    /// As whom the bucket is asked; none for a folder.
    pub(crate) cloud: Option<Arc<dyn CloudStore>>,
    /// What the bucket's store can do.
    pub(crate) knowledge: Knowledge,
    /// Which folders were used last.
    pub(crate) recall: Recall,
    /// First pages of folders, as they are.
    pub(crate) asked: Vec<Asked>,
}

/// Requests at a time, data and names together. A store gives each connection a part of its speed
/// only, so a fast network needs many.
const REQUESTS_MAX: usize = 128;

/// Requests for file data at a time, in each direction.
const DATA_REQUESTS_MAX: usize = 64;

/// How long the first requests of a mount are repeated.
const MOUNT_PATIENCE: Duration = Duration::from_secs(10);

/// Nodes that are remembered although the kernel does not hold them, in all volumes of a mount.
const NODES_MAX: usize = 1_000_000;

/// Builds everything else, and makes sure that the bucket answers before anything is shown of it.
pub(crate) async fn assemble(
    (config, company): (&Config, Company),
    common: Common,
    notices: &mut Vec<Notice>,
) -> Result<Assembled, Error> {
    let Common { clock, metrics, store, budget, nodes, pending, sizes, .. } = common.clone();
    let rng = Arc::new(Rng::from_entropy());
    let Provider { remote: provider, cloud, learned } = provider(config, (&clock, &rng)).await?;
    let knowledge = Knowledge::recall(&store, config, learned, &clock);
    let (limit, traffic) = limited(logged(config, provider, &common), &clock, &metrics);
    // Who waits at a terminal wants to hear soon that nothing answers.
    let patience = config.deadline.min(MOUNT_PATIENCE);
    let checked = repeated(config, (Arc::clone(&limit) as _, patience), &traffic, &clock, &metrics);
    let recall = Recall::new(&store, config);
    let (asked_at, asked) = (clock.monotonic(), recall.ask(&checked, clock.as_ref()));
    let page = top_page((config, company), checked.as_ref(), (&*clock, patience)).await?;
    let top = page.as_ref().map_or(Top::OnTheWay, |_| Top::Listed);
    let is_empty = page.as_ref().is_some_and(|page| page.entries.is_empty() && page.next.is_none());
    let (asked, wanted) = (asked.with_top(page, asked_at), (config.changes, company, top));
    let writes = writes::check(wanted, checked.as_ref(), &knowledge, notices)
        .await
        .map_err(|source| explained(config, source))?;
    let changes = writes.changes();
    let suited = Suited::new(Arc::clone(&limit) as _, Arc::clone(knowledge.learned()));
    let remote = repeated(config, (Arc::new(suited), config.deadline), &traffic, &clock, &metrics);

    let volume = config.volume();
    let ledger = StoreLedger::new(&store, &volume, Handle::current())
        .map(Arc::new)
        .map_err(|source| Error::State { dir: config.state_dir.clone(), source })?;
    let options = bucket_options(config, (changes, top, nodes.join()), &volume, &rng);
    let (bucket, timed) = (Arc::clone(&remote), Arc::clone(&clock));
    let namespace = Arc::new(Bucket::new(bucket, timed, Arc::clone(&ledger) as _, options));
    if let Writes::InPlaces(refusal) = writes {
        namespace.ask_before_changes(writes::trying(checked, &knowledge), refusal);
    }
    let names_left = match changes {
        Changes::Allowed => finish_names(config, &namespace, &ledger, notices).await?,
        Changes::Refused => show_names(config, &namespace, &ledger, notices)?,
    };
    let parts = sizes.parts_where(remote.personality().part_copies);
    let (fetching, uploading) = transfers(&common, parts.clone());
    let read = (Arc::clone(&remote), store.clone());
    let (handle, counted) = (Handle::current(), Arc::clone(&metrics));
    let fetcher = Fetcher::new(read, budget.clone(), handle, counted, fetching);
    let log = UploadLog::new(&store, Arc::clone(&clock), &volume);
    let vfs = Vfs::new(
        (Arc::clone(&namespace) as _, store),
        (fetcher, Uploader::new((Arc::clone(&remote), log), budget, rng, uploading)),
        (Arc::clone(&clock), metrics),
        Handle::current(),
        vfs_options(config, (volume, pending), remote.as_ref(), &knowledge),
    );
    let uploads_left = match changes {
        Changes::Allowed => finish_uploads(&vfs, &common.left_over, notices).await?,
        Changes::Refused => Left::Nothing,
    };
    // What was listed before those were finished may be of the past.
    let is_as_listed = (names_left, uploads_left) == (Left::Nothing, Left::Nothing);
    check_no_object(config, (limit.as_ref(), is_empty && is_as_listed), notices).await?;
    Ok(Assembled {
        vfs,
        recall,
        asked: if is_as_listed { asked } else { Vec::new() },
        namespace,
        ledger,
        remote,
        clock,
        changes,
        limit,
        traffic,
        parts,
        cloud,
        knowledge,
    })
}

/// `provider`, with a line in the access log for each request if there is one.
fn logged(config: &Config, provider: Arc<dyn Remote>, common: &Common) -> Arc<dyn Remote> {
    let Some(log) = common.access.clone() else { return provider };
    let bucket = config.location.whole().to_string();
    Arc::new(Logged::new(provider, log, Arc::clone(&common.clock), &bucket))
}

/// Bounds on what a volume fetches and uploads, in parts of the size `part_bytes`.
fn transfers(common: &Common, part_bytes: Tuned) -> (FetcherOptions, UploaderOptions) {
    let fetching = FetcherOptions {
        requests_max: DATA_REQUESTS_MAX,
        window: common.sizes.window.clone(),
        bandwidth: Some(common.download_bandwidth.clone()),
    };
    let uploading = UploaderOptions {
        requests_max: DATA_REQUESTS_MAX,
        part_bytes,
        bandwidth: Some(common.upload_bandwidth.clone()),
    };
    (fetching, uploading)
}

fn vfs_options(
    config: &Config,
    (volume, pending_limit): (String, Arc<PendingLimit>),
    remote: &dyn Remote,
    knowledge: &Knowledge,
) -> VfsOptions {
    VfsOptions {
        volume,
        file_bytes_max: remote.personality().object_bytes_max,
        commit: config.commit,
        dirty_limit: config.dirty_limit,
        upload_delay: config.upload_delay,
        pending_limit,
        last: config.last.clone(),
        trusted_xattrs: match config.trusted_xattrs {
            Trust::Granted => TrustedXattrs::Kept,
            Trust::Denied => TrustedXattrs::Refused,
        },
        learned: Arc::clone(knowledge.learned()),
    }
}

fn bucket_options(
    config: &Config,
    (changes, top, nodes): (Changes, Top, Share),
    volume: &str,
    rng: &Rng,
) -> BucketOptions {
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
        foresight: Foresight::Names,
        nodes,
        seed: u64::try_from(rng.id() >> 64).expect("half of it"),
        top,
    }
}

/// Whose is what nobody gave an owner.
pub(crate) fn owner(config: &Config) -> Owner {
    Owner {
        uid: config.looks.uid.unwrap_or_else(|| rustix::process::getuid().as_raw()),
        gid: config.looks.gid.unwrap_or_else(|| rustix::process::getgid().as_raw()),
    }
}

/// Whether earlier mounts began changes that they did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Something,
}

impl Left {
    fn of<T>(records: &[T]) -> Left {
        if records.is_empty() { Left::Nothing } else { Left::Something }
    }
}

/// Finishes the changes of names and attributes that earlier mounts began.
async fn finish_names(
    config: &Config,
    namespace: &Bucket,
    ledger: &StoreLedger,
    notices: &mut Vec<Notice>,
) -> Result<Left, Error> {
    let left =
        ledger.left().map_err(|source| Error::State { dir: config.state_dir.clone(), source })?;
    let is_left = Left::of(&left);
    // First what is said of names: it goes with those that are moved.
    let left = namespace.replay_attributes(left);
    let Finished { moves, waiting } = namespace.replay(left).await;
    if 0 < moves {
        notices.push(Notice::Renamed(moves));
    }
    if 0 < waiting {
        notices.push(Notice::Renaming(waiting));
    }
    Ok(is_left)
}

/// Shows the changes of attributes that earlier mounts began, and tells of those of names.
fn show_names(
    config: &Config,
    namespace: &Bucket,
    ledger: &StoreLedger,
    notices: &mut Vec<Notice>,
) -> Result<Left, Error> {
    let waiting = ledger
        .waiting()
        .map_err(|source| Error::State { dir: config.state_dir.clone(), source })?;
    let is_left = Left::of(&waiting);
    let begun = Bucket::moves_begun(namespace.replay_attributes(waiting));
    if 0 < begun {
        notices.push(Notice::HalfRenamed(begun));
    }
    Ok(is_left)
}

/// Finishes the uploads that earlier mounts began.
async fn finish_uploads(
    vfs: &Vfs,
    left_over: &watch::Sender<u64>,
    notices: &mut Vec<Notice>,
) -> Result<Left, Error> {
    let tell = |files| {
        left_over.send_replace(files);
    };
    let recovered = vfs.recover_telling(tell).await.map_err(Error::Recovery)?;
    let is_left = if recovered == Recovered::default() { Left::Nothing } else { Left::Something };
    if 0 < recovered.uploaded {
        notices.push(Notice::Resumed(recovered.uploaded));
    }
    if 0 < recovered.waiting {
        notices.push(Notice::Waiting(recovered.waiting));
    }
    notices.extend(recovered.kept.into_iter().map(Notice::Kept));
    Ok(is_left)
}

/// The object store alone.
async fn provider(
    config: &Config,
    (clock, rng): (&Arc<dyn Clock>, &Arc<Rng>),
) -> Result<Provider, Error> {
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
            let learned = Arc::new(Learned::of_service(&Folder::HAS));
            Ok(Provider { remote: Arc::new(folder), cloud: None, learned })
        }
        Location::Gcs { bucket, prefix } => {
            cloud::gcs(config, (bucket, prefix), world).map_err(|source| explained(config, source))
        }
        Location::Azure { account, container, .. } => {
            cloud::azure(config, (account, container), world)
                .map_err(|source| explained(config, source))
        }
        Location::S3 { bucket, .. } => {
            let s3 = S3::connect(cloud::s3_options(config, bucket), Arc::clone(clock))
                .await
                .map_err(|source| explained(config, source))?;
            let learned = Arc::clone(s3.learned());
            Ok(Provider::of(s3, learned))
        }
    }
}

/// The bucket of `config` alone, if it answers, with nothing worked around that it lacks, and what is
/// known of that; requests are repeated for as long as `patience`.
pub(crate) async fn reach(
    config: &Config,
    patience: Duration,
) -> Result<(Arc<dyn Remote>, Arc<Learned>), Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let rng = Arc::new(Rng::from_entropy());
    let metrics = Arc::new(Metrics::new());
    let Provider { remote: provider, learned, .. } = provider(config, (&clock, &rng)).await?;
    let (limit, traffic) = limited(provider, &clock, &metrics);
    let remote = repeated(config, (limit, patience), &traffic, &clock, &metrics);
    let least = ListRequest { entries_max: 1, ..Bucket::first_page(&Key::from("")) };
    check_readable(config, (remote.as_ref(), &least), (&*clock, patience)).await?;
    Ok((remote, learned))
}

/// As whom the bucket of `config` is asked; `None` if that cannot be told.
pub(crate) async fn identity(config: &Config) -> Result<Option<Identity>, Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let Provider { cloud, .. } = provider(config, (&clock, &Arc::new(Rng::from_entropy()))).await?;
    Ok(match cloud {
        Some(store) => store.identity().await,
        None => None,
    })
}

/// An object store whose requests are counted and bounded.
fn limited(
    provider: Arc<dyn Remote>,
    clock: &Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> (Arc<Limit>, Arc<Traffic>) {
    // Each try counts and takes its turn among the requests; the repeats are around both. A second request for
    // what is late is in the turn of the first: a wait for a turn is not the store's.
    let traffic = Arc::new(Traffic::new(Arc::clone(clock)));
    let metered = Meter::new(provider, Arc::clone(metrics), Arc::clone(clock));
    let metered = Arc::new(metered.noting_in(Arc::clone(&traffic)));
    let hedged = Arc::new(Hedge::new(metered, Arc::clone(clock), Arc::clone(metrics)));
    (Arc::new(Limit::new(hedged, REQUESTS_MAX, Arc::clone(metrics))), traffic)
}

/// A store as far as it lies below the prefix, whose requests are repeated for as long as `deadline`.
fn repeated(
    config: &Config,
    (inner, deadline): (Arc<dyn Remote>, Duration),
    traffic: &Arc<Traffic>,
    clock: &Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> Arc<dyn Remote> {
    let options = RetryOptions { deadline, ..RetryOptions::default() };
    let (clock, metrics, rng) = (Arc::clone(clock), Arc::clone(metrics), Rng::from_entropy());
    let retried = Retry::new(inner, options, clock, rng, metrics);
    let retried = Arc::new(retried.noting_in(Arc::clone(traffic)));
    Arc::new(prefixed(retried, Key::from(config.location.prefix())))
}

/// One listing tells a wrong bucket, wrong credentials and a wrong endpoint apart, and that nobody answers.
async fn check_readable(
    config: &Config,
    (remote, first): (&dyn Remote, &ListRequest),
    (clock, patience): (&dyn Clock, Duration),
) -> Result<Page, Error> {
    let listed = tokio::select! {
        listed = remote.list(first) => listed,
        // A request that is under way may take much longer than repeats may, which say more of what is wrong.
        () = clock.sleep(patience * 3 / 2) => {
            let error = remote::Error::new(ErrorKind::Unavailable, "list", &first.prefix);
            let source = Box::new(error.because("there was no answer"));
            let location = config.location.clone();
            let seconds = (patience * 3 / 2).as_secs();
            let advice = advice::silent(endpoint(config), seconds);
            return Err(Error::Remote { location, advice: Box::new(advice), failed: source });
        }
    };
    listed.map_err(|source| explained(config, source))
}

/// What is in the bucket; `None` if that may not be looked at, and what is below it may be allowed all the same.
async fn top_page(
    (config, company): (&Config, Company),
    remote: &dyn Remote,
    patience: (&dyn Clock, Duration),
) -> Result<Option<Page>, Error> {
    let first = Bucket::first_page(&Key::from(""));
    match check_readable(config, (remote, &first), patience).await {
        Err(Error::Remote { failed: source, .. })
            if company != Company::Alone
                && source.is_refusal()
                && tells_refusals(&config.location) =>
        {
            tracing::info!(%source, "what is in this bucket is reached by its names only");
            Ok(None)
        }
        page => page.map(Some),
    }
}

/// Whether the store tells whom it does not know from who may not do something.
fn tells_refusals(location: &Location) -> bool {
    match location {
        Location::S3 { .. } | Location::Gcs { .. } => true,
        // A wrong key is refused in the same words.
        Location::Azure { .. } | Location::Folder(_) | Location::All => false,
    }
}

/// Where nothing is in the mounted folder, and nothing was to get there, an object of its name would be taken for
/// lost: that is refused, unless it is an empty one, by which others mark a folder.
async fn check_no_object(
    config: &Config,
    (remote, is_empty): (&dyn Remote, bool),
    notices: &mut Vec<Notice>,
) -> Result<(), Error> {
    let name = config.location.prefix().strip_suffix('/').filter(|_| is_empty);
    let Some(name) = name else { return Ok(()) };
    // An error of this request shows again in the first operation on the folder.
    if let Ok(Meta { size: 1.., .. }) = remote.head(&Key::from(name)).await {
        return Err(Error::NotAFolder(config.location.clone()));
    }
    notices.push(Notice::EmptyPrefix(config.location.clone()));
    Ok(())
}

/// The error that says what is wrong with the store of `config`, and what to do about it.
pub(crate) fn explained(config: &Config, source: remote::Error) -> Error {
    let location = config.location.clone();
    if let Location::Folder(path) = &location
        && path.metadata().is_ok_and(|found| !found.is_dir())
    {
        return Error::NotAFolder(location);
    }
    let advice = advice(&location, endpoint(config), &source);
    Error::Remote { location, advice: Box::new(advice), failed: Box::new(source) }
}

/// Where the store of `config` is, if that is not the cloud's own place.
fn endpoint(config: &Config) -> Option<&str> {
    match config.location {
        Location::Gcs { .. } => config.gcs.endpoint.as_deref(),
        Location::Azure { .. } => config.azure.endpoint.as_deref(),
        Location::S3 { .. } | Location::Folder(_) | Location::All => config.s3.endpoint.as_deref(),
    }
}
