//! Mount, serve until unmounted or told to end, upload what is left, end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{Affinity, Clock};
use fuse::{
    MountError, MountOptions, Mounted, Service, Session, SetIdBits, Transport, Unmount, Unmounter,
};
use store::{CacheLimit, Store};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use vfs::{Commit, Pending};

use crate::all::AllBuckets;
use crate::apart;
use crate::assemble::Common;
use crate::config::{Buckets, Changes, Config, Entrance, Reconfigure};
use crate::control::{self, Controlled};
use crate::end::{self, Attendance, EndPatience, NotUploaded};
use crate::error::Error;
use crate::kernel::Link;
use crate::location::Location;
use crate::notice::Notice;
use crate::prepare::{Prepared, prepare};
use crate::priority;
use crate::process_limits;
use crate::queried::Queried;
use crate::reload::Reloader;
use crate::signals::{Requests, Signals, Wanted};
use crate::socket::Socket;
use crate::tag::Tag;
use crate::tenant;
use crate::umount;
use crate::volume::Volume;
use crate::volumes::Volumes;
use crate::watch::Watch;

/// Threads that read requests: more than cores, because some wait for the local disk.
const SESSION_THREADS: usize = 4;

/// Threads that drive the network. They also write what they fetch to the local disk.
const RUNTIME_THREADS: usize = 4;

/// How far the kernel asks ahead of a sequential reader: enough for several requests at a time.
const READ_AHEAD_BYTES: u64 = 4 << 20;

/// What a small new file was to be is known for sure so long after it was made, if it is still open.
const SETTLE_DELAY: Duration = Duration::from_secs(1);

/// What was fetched since the last checkpoint is fetched again after a crash: one each time that so many
/// delays are over.
const CHECKPOINT_DELAYS: u32 = 30;

/// How often programs are given a moment to close their files after we were told to end; then these fail.
const CLOSE_TRIES_MAX: u32 = 20;
const CLOSE_DELAY: Duration = Duration::from_millis(250);

/// How often it is looked whether somebody is gone who was to unmount.
const ABANDONED_DELAY: Duration = Duration::from_secs(1);

/// How long work that nobody waits for may hold up the end.
pub(crate) const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(2);

/// Reasons that the log has of what was not uploaded; of the others it has the number.
const REASONS_MAX: usize = 100;

/// What becomes of a mount, for whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage<'a> {
    /// So many files that an earlier mount left are still to be uploaded before it answers.
    Recovering {
        /// Files.
        files: u64,
    },
    /// It answers.
    Ready(&'a [Notice]),
    /// It is unmounted, and so much is still to be uploaded.
    Ending {
        /// Files.
        files: u64,
        /// Their bytes.
        bytes: u64,
    },
}

/// Mounts as `config` says, tells when the mount answers and when it ends, and returns when it is unmounted
/// and everything is in the bucket. Where all buckets are mounted, `buckets` says how each of them is.
/// `configuration` reads the settings again when a user or a signal asks for that.
pub fn serve(
    config: &Config,
    (buckets, configuration): (Arc<dyn Buckets>, Arc<dyn Reconfigure>),
    mut tell: impl FnMut(Stage<'_>),
) -> Result<(), Error> {
    let runtime = runtime()?;
    umount::clear_zombie(&config.dir);
    fuse::check_mount_point(&config.dir)?;
    apart::check_apart(config)?;
    process_limits::raise();
    process_limits::outlive(&runtime);
    leave_no_core();
    let served = serve_on(&runtime, config, (buckets, configuration), &mut tell);
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    served
}

/// The threads that all but the session runs on.
pub(crate) fn runtime() -> Result<Runtime, Error> {
    let anywhere = Affinity::of_this_thread();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .thread_name("quayfs")
        // Who starts one may be bound to a processor.
        .on_thread_start(move || anywhere.restore())
        .enable_all()
        .build()
        .map_err(system("cannot start threads"))
}

fn serve_on(
    runtime: &Runtime,
    config: &Config,
    (buckets, configuration): (Arc<dyn Buckets>, Arc<dyn Reconfigure>),
    tell: &mut impl FnMut(Stage<'_>),
) -> Result<(), Error> {
    let mut notices = Vec::new();
    // Before anything that takes time: a signal without a handler ends this process at once.
    let signals = runtime.block_on(async { Signals::listen(config.starter) });
    let common = Common::open(config, &mut notices)?;
    let clock = Arc::clone(&common.clock);
    let requests = runtime.block_on(async { signals.heed(clock, config.starter) });
    // What is one bucket must answer before it is shown.
    let one = if config.location == Location::All {
        None
    } else {
        let told = |files| tell(Stage::Recovering { files });
        let preparing = prepare(config, &common, (&requests, &mut notices), told);
        match runtime.block_on(preparing)? {
            Prepared::Ready(assembled) => Some(*assembled),
            Prepared::Ended => return Ok(()),
        }
    };
    let changes = one.as_ref().map_or(config.changes, |assembled| assembled.changes);
    let volumes = Arc::new(Volumes::default());
    let watch = Watch::start(config, &common, &volumes, runtime)?;
    let options = mount_options(config, changes);
    let (handle, metrics) = (runtime.handle(), Arc::clone(&common.metrics));
    let mounted = Session::mount(&config.dir, &options, handle.clone(), metrics)?;
    tell_mounted(config, changes, &mounted);
    let link = Link::new(&mounted);
    let service: Arc<dyn Service> = if let Some(assembled) = one {
        let volume = Volume::start(config, assembled, link.kernel(Tag::NONE), handle);
        let dispatch = Arc::clone(&volume.dispatch);
        volumes.add(Tag::NONE, Arc::new(volume));
        dispatch
    } else {
        let (common, volumes) = (common.clone(), Arc::clone(&volumes));
        Arc::new(AllBuckets::new(config, common, volumes, (link, buckets), handle))
    };

    let socket = Socket::bind(runtime, &config.dir)?;
    let unmounter = mounted.unmounter();
    // The outermost layer: a wait for uploads is no slow call.
    let service = Queried::new(Arc::new(watch.around(service)), watch.report(), handle);
    let session = mounted.serve(Arc::new(service)).map_err(system("cannot serve requests"))?;
    let report = watch.report();
    let reloader = Reloader::new(configuration, common.clone(), config.insight.log.clone());
    let (asked, common_too) = (Arc::clone(&volumes), common.clone());
    let patience = EndPatience::new(config.shutdown_timeout);
    let controlled =
        Controlled::new(asked, common_too, report, (reloader.clone(), Arc::clone(&patience)));
    let controlled = Arc::new(controlled);
    let serving = runtime.spawn(control::serve(socket, Arc::clone(&controlled)));
    let housekeeping = runtime.spawn(keep_house(common.store.clone(), Arc::clone(&common.clock)));
    let on_signal = end_on_signal(unmounter.clone(), Arc::clone(&common.clock), requests.clone());
    let signals = runtime.spawn(on_signal);
    let reloading = runtime.spawn(reload_on_signal(reloader, Arc::clone(&requests.reload)));
    let (dir, volumes_too) = (config.dir.clone(), Arc::clone(&volumes));
    let deserted = end_when_abandoned(dir, volumes_too, unmounter, Arc::clone(&common.clock));
    let deserted = runtime.spawn(deserted);
    tell(Stage::Ready(&notices));
    // Who was told may have left the session that it was started in.
    priority::raise();

    let ended = session.wait();
    [signals, deserted, housekeeping, reloading].iter().for_each(JoinHandle::abort);
    drop(watch);
    let serving = [Some(serving), serve_process(runtime, controlled)];
    let attendance = match (config.starter, *requests.end.borrow()) {
        (None, Wanted::Orderly | Wanted::Now) => Attendance::Attended,
        (Some(_), _) | (None, Wanted::Serve) => Attendance::Unattended,
    };
    let waits = (&requests, &*patience, attendance);
    let told = |pending: &Pending| {
        let Pending { files, bytes, .. } = *pending;
        tell(Stage::Ending { files, bytes });
    };
    let left = runtime.block_on(end::end(&volumes, &*common.clock, waits, told));
    serving.into_iter().flatten().for_each(|serving| serving.abort());
    let ended = ended.map_err(system("the connection to the kernel broke"));
    finish(config, &common, &left).and(ended)
}

/// Logs how the mount ended; an error if not everything was uploaded.
fn finish(config: &Config, common: &Common, left: &NotUploaded) -> Result<(), Error> {
    let (source, dir) = (config.location.to_string(), config.dir.display());
    let mounted = common.clock.monotonic();
    if left.is_empty() {
        tracing::info!(source, %dir, ?mounted, "unmounted: everything is in the bucket");
        return Ok(());
    }
    for failed in left.failed.iter().take(REASONS_MAX) {
        tracing::error!(reason = failed.reason, "a file could not be uploaded before the end");
    }
    let Pending { files, bytes, changes, attributes, .. } = left.pending;
    let (lost, state) = (left.lost(), config.state_dir.display());
    tracing::error!(
        source, %dir, ?mounted, files, bytes, changes, attributes, lost, %state,
        "unmounted before everything was uploaded: the state folder keeps it for the next mount"
    );
    Err(Error::NotUploaded {
        what: left.words(&config.state_dir),
        location: config.location.clone(),
        dir: config.state_dir.clone(),
    })
}

/// Logs what is mounted, and how.
fn tell_mounted(config: &Config, changes: Changes, mounted: &Mounted) {
    let cache_bytes = match config.cache {
        CacheLimit::Bytes(bytes) => bytes.to_string(),
        CacheLimit::KeepFree { percent } => format!("all but {percent} % of the disk"),
    };
    tracing::info!(
        source = config.location.to_string(),
        dir = %config.dir.display(),
        version = crate::version::VERSION,
        pid = std::process::id(),
        mode = if changes == Changes::Refused { "ro" } else { "rw" },
        commit = match config.commit {
            Commit::Close => "close",
            Commit::Async => "async",
        },
        cache_dir = %config.state_dir.display(),
        cache_bytes,
        passthrough = mounted.passthrough().is_some(),
        io_uring = mounted.transport() == Transport::Rings,
        "mounted"
    );
}

/// Answers under the number of this process, too: the mount is gone, and another one may have its place.
fn serve_process(runtime: &Runtime, controlled: Arc<Controlled>) -> Option<JoinHandle<()>> {
    match Socket::bind_process(runtime) {
        Ok(socket) => Some(runtime.spawn(control::serve(socket, controlled))),
        Err(error) => {
            tracing::warn!(%error, "nobody can ask what is still uploaded after the unmount");
            None
        }
    }
}

fn mount_options(config: &Config, changes: Changes) -> MountOptions {
    MountOptions {
        read_only: changes == Changes::Refused,
        allow_other: config.entrance == Entrance::All,
        threads: SESSION_THREADS,
        read_ahead_bytes: READ_AHEAD_BYTES,
        passthrough: config.passthrough,
        rings: config.rings,
        set_id_bits: SetIdBits::ServiceClears,
        set_id_programs: config.set_id_programs,
        devices: config.devices,
        programs: config.programs,
        ..MountOptions::new(config.location.to_string())
    }
}

/// A request to end is a request to unmount: what hangs on the mount then gets an error.
async fn end_on_signal(unmounter: Unmounter, clock: Arc<dyn Clock>, requests: Requests) {
    requests.wanted(Wanted::Orderly).await;
    tracing::info!("asked to end: unmounting");
    // Not lazily: of a mount that is nowhere any more, no one could be made to let go.
    for _ in 0..CLOSE_TRIES_MAX {
        match unmount(&unmounter, Unmount::Normal).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(%error, "still in use"),
        }
        tokio::select! {
            () = requests.wanted(Wanted::Now) => break,
            () = clock.sleep(CLOSE_DELAY) => {}
        }
    }
    if let Err(error) = unmount(&unmounter, Unmount::Force).await {
        tracing::error!(%error, "cannot unmount");
    }
}

/// A HUP opens log files again and reads the configuration again.
async fn reload_on_signal(reloader: Reloader, reload: Arc<Notify>) {
    loop {
        reload.notified().await;
        tracing::info!("asked by a signal to reload");
        reloader.reload().await;
    }
}

/// Once all are gone who were to unmount, what they closed is uploaded at once, and the mount goes when nothing that they
/// left running uses it.
async fn end_when_abandoned(
    dir: PathBuf,
    volumes: Arc<Volumes>,
    unmounter: Unmounter,
    clock: Arc<dyn Clock>,
) {
    loop {
        clock.sleep(ABANDONED_DELAY).await;
        let there = dir.clone();
        let Ok(claim) = tokio::task::spawn_blocking(move || tenant::abandoned(&there)).await else {
            return;
        };
        if claim.is_some() {
            volumes.hasten();
            match unmount(&unmounter, Unmount::Normal).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(%error, "abandoned, and still in use"),
            }
        }
    }
}

/// Unmounts; the kernel may ask us something meanwhile.
async fn unmount(unmounter: &Unmounter, how: Unmount) -> Result<(), MountError> {
    let unmounter = unmounter.clone();
    let unmounting = tokio::task::spawn_blocking(move || unmounter.unmount(how));
    // Without an answer the runtime is ending, and with it the mount.
    unmounting.await.unwrap_or(Ok(()))
}

/// Records now and then what is known in memory only.
async fn keep_house(store: Store, clock: Arc<dyn Clock>) {
    for delays in (1..=CHECKPOINT_DELAYS).cycle() {
        clock.sleep(SETTLE_DELAY).await;
        let store = store.clone();
        let record = move || match delays {
            CHECKPOINT_DELAYS => store.checkpoint(),
            _ => store.settle(),
        };
        match tokio::task::spawn_blocking(record).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "what is cached could not be recorded"),
            // The runtime is ending.
            Err(_) => return,
        }
    }
}

/// A picture of our memory would have keys and tokens in it. The limit is not asked where the kernel hands core dumps
/// to a program, so it is told as well that there is to be none; nor may other processes of the user look into it then.
fn leave_no_core() {
    use rustix::process::{
        DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
    };
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::debug!(%error, "others of this user may look into the memory");
    }
    let none = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::debug!(%error, "the limit of core dumps stays as it is");
    }
}

fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { what, source }
}
