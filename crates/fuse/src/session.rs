//! Session threads, and an orderly end.
//!
//! Mounting and serving are two steps, because a service may need the [`Notifier`] and the
//! [`Passthrough`], which exist only after the handshake, while requests may arrive at once. In
//! between whoever touches the mount waits: build the service from [`Mounted`] without looking
//! at the mounted folder, then [`Mounted::serve`].

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use base::Metrics;
use tokio::runtime::Handle;

use crate::answer::Core;
use crate::channel::Channel;
use crate::error::{MountError, MountErrorKind};
use crate::init::{self, Wishes};
use crate::mount::{self, MountOptions, Unmount};
use crate::notify::Notifier;
use crate::passthrough::{Passthrough, PassthroughWish};
use crate::ring::{Rings, Transport};
use crate::service::Service;
use crate::table::{self, Device, MountEntry};

/// A mount that nobody serves yet: every request waits. Dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    channel: Channel,
    /// Of those who read the device.
    threads: usize,
    rings: Option<Rings>,
    runtime: Handle,
    metrics: Arc<Metrics>,
    place: Place,
    passthrough: Option<Passthrough>,
}

/// A mount that is served. Dropping it unmounts, without waiting for anyone; see
/// [`Session::wait`] for an orderly end.
#[derive(Debug)]
pub struct Session {
    /// Taken by [`Session::wait`].
    threads: Option<JoinHandle<io::Result<()>>>,
    unmounter: Unmounter,
    /// Unmounts on drop; after the threads have ended there is nothing left to unmount.
    _place: Place,
    notifier: Notifier,
    passthrough: Option<Passthrough>,
}

/// Unmounts one particular mount, and never another that has come to the same place.
#[derive(Clone, Debug)]
pub struct Unmounter {
    /// Resolved.
    path: PathBuf,
    device: Device,
    /// Set when the session threads have ended, and with them the mount. From then on the kernel
    /// may give the device's number to another mount, even at the same place.
    ended: Arc<AtomicBool>,
}

/// Unmounts on drop.
#[derive(Debug)]
struct Place(Unmounter);

impl Session {
    /// Mounts at `dir` and agrees with the kernel on how to talk. A mount of ours there whose
    /// daemon is gone is cleared away first. `runtime` is where [`crate::Answer::Later`] work
    /// will run.
    pub fn mount(
        dir: &Path,
        options: &MountOptions,
        runtime: Handle,
        metrics: Arc<Metrics>,
    ) -> Result<Mounted, MountError> {
        let path = table::resolve(dir).map_err(|error| MountError::of_path(dir, error))?;
        mount::prepare(&path)?;
        let device = mount::attach(&path, options)?;
        // Nobody else knows the mount yet, so it is the topmost there.
        let entry = mount::topmost_at(&path)?
            .ok_or_else(|| MountError::plain(MountErrorKind::Other, &path))?;
        let place = Place(Unmounter::new(path.clone(), entry.device));

        let other = |error| MountError::with_source(MountErrorKind::Other, &path, error);
        let rings = Rings::prepare(options.rings);
        let wishes = Wishes {
            passthrough: options.passthrough.if_privileged(),
            set_id_bits: options.set_id_bits,
            rings: rings.is_some(),
        };
        let channel = Channel::new(device);
        let agreed = init::shake_hands(&channel, wishes).map_err(other)?;
        let rings = rings.filter(|_| agreed.rings());
        let passthrough = match wishes.passthrough {
            PassthroughWish::Wanted => Passthrough::probe(channel.clone()),
            PassthroughWish::Off => None,
        };
        mount::set_read_ahead(entry.device, options.read_ahead_bytes);
        let threads = options.threads.max(1);
        Ok(Mounted { channel, threads, rings, runtime, metrics, place, passthrough })
    }

    /// What tells the kernel to forget.
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// What registers backing files; none if kernel or privileges do not allow it.
    pub fn passthrough(&self) -> Option<Passthrough> {
        self.passthrough.clone()
    }

    /// What unmounts from elsewhere, while someone sits in [`Session::wait`].
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Unmounts; see [`Unmounter::unmount`].
    pub fn unmount(&self, how: Unmount) -> Result<(), MountError> {
        self.unmounter.unmount(how)
    }

    /// Returns when the file system is no longer mounted, by whomever, and no file on it is open
    /// any more; all session threads have then ended. Work that is still to answer a request may
    /// go on and is the runtime's to end.
    pub fn wait(mut self) -> io::Result<()> {
        let threads = self.threads.take().expect("only wait takes them, and it takes self");
        threads.join().unwrap_or_else(panicked)
    }
}

impl Mounted {
    /// What tells the kernel to forget.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(self.channel.clone())
    }

    /// What registers backing files; none if kernel or privileges do not allow it.
    pub fn passthrough(&self) -> Option<Passthrough> {
        self.passthrough.clone()
    }

    /// How requests are going to come.
    pub fn transport(&self) -> Transport {
        if self.rings.is_some() { Transport::Rings } else { Transport::Device }
    }

    /// What unmounts from elsewhere.
    pub fn unmounter(&self) -> Unmounter {
        self.place.0.clone()
    }

    /// The mount point, absolute and without links.
    pub fn path(&self) -> &Path {
        &self.place.0.path
    }

    /// Lets `service` answer what has been asked and will be asked.
    pub fn serve(self, service: Arc<dyn Service>) -> io::Result<Session> {
        let notifier = self.notifier();
        let Mounted { channel, threads, rings, runtime, metrics, place, passthrough } = self;
        let core = Arc::new(Core::new(service, runtime, metrics));
        let unmounter = place.0.clone();
        let readers = (0..threads).map(|index| {
            let (core, channel) = (Arc::clone(&core), channel.clone());
            worker(format!("fuse-{index}"), &unmounter, move || {
                let channel = if index == 0 { channel } else { channel.another() };
                channel.serve(&core)
            })
        });
        let readers = readers.collect::<io::Result<Vec<_>>>()?;
        let bells = rings.as_ref().map(Rings::bells);
        let (registering, registered) = mpsc::channel();
        let queues = rings.into_iter().flat_map(|rings| rings.queues(&channel));
        let queues = queues.enumerate().map(|(index, queue)| {
            let (core, registering) = (Arc::clone(&core), registering.clone());
            worker(format!("fuse-ring-{index}"), &unmounter, move || queue.run(&core, registering))
        });
        let queues = queues.collect::<io::Result<Vec<_>>>()?;
        drop(registering);
        // Nothing is sent: it fails when the last of them has dropped its end.
        let _ = registered.recv();

        let at_end = unmounter.clone();
        let threads = std::thread::Builder::new().name("fuse-session".into()).spawn(move || {
            let read = ends(readers);
            // The readers have seen the end of the mount; who has nothing to wait for may not.
            drop(bells);
            let result = read.and(ends(queues));
            at_end.ended.store(true, Ordering::Release);
            result
        })?;
        Ok(Session { threads: Some(threads), unmounter, _place: place, notifier, passthrough })
    }
}

type Worker = JoinHandle<io::Result<()>>;

/// A thread that answers requests. Without it the mount would hang whoever touches it, so the
/// mount goes where it fails.
fn worker(
    name: String,
    unmounter: &Unmounter,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<Worker> {
    let unmounter = unmounter.clone();
    std::thread::Builder::new().name(name).spawn(move || {
        let ended = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked);
        ended.inspect_err(|error| {
            tracing::error!(%error, "the session ended early");
            unmounter.unmount_or_log();
        })
    })
}

fn panicked(_: Box<dyn Any + Send>) -> io::Result<()> {
    Err(io::Error::other("a session thread panicked"))
}

/// Waits for all of them; the first error counts.
fn ends(workers: Vec<Worker>) -> io::Result<()> {
    let ends: Vec<io::Result<()>> =
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(panicked)).collect();
    ends.into_iter().collect()
}

impl Unmounter {
    fn new(path: PathBuf, device: Device) -> Unmounter {
        Unmounter { path, device, ended: Arc::default() }
    }

    /// Unmounts; does nothing if it is not mounted any more. [`Unmount::Normal`] may wait for the
    /// service to take what the kernel has still to write, so don't call it from a thread that
    /// the service needs.
    pub fn unmount(&self, how: Unmount) -> Result<(), MountError> {
        if self.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        match mount::topmost_at(&self.path)? {
            Some(MountEntry { device, .. }) if device == self.device => {
                mount::detach(&self.path, device, how)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn unmount_or_log(&self) {
        if let Err(error) = self.unmount(Unmount::Force) {
            tracing::error!(%error, "not unmounted");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.unmount_or_log();
    }
}
