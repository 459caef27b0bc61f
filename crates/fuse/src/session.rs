//! Session threads, and an orderly end.
//!
//! Mounting and serving are two steps, because a service may need the [`Notifier`] and the
//! [`Passthrough`], which exist only after the handshake, while requests may arrive at once. In
//! between whoever touches the mount waits: build the service from [`Mounted`] without looking
//! at the mounted folder, then [`Mounted::serve`].

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use base::Metrics;
use tokio::runtime::Handle;

use crate::answer::Core;
use crate::dispatch::Dispatch;
use crate::error::{MountError, MountErrorKind};
use crate::init::Wishes;
use crate::mount::{self, MountOptions, Unmount};
use crate::notify::Notifier;
use crate::passthrough::{Passthrough, PassthroughWish};
use crate::service::Service;
use crate::table::{self, Device, MountEntry};

/// A mount that nobody serves yet: every request waits. Dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    inner: fuser::Session<Dispatch>,
    core: Arc<Core>,
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
        let entry = mount::ours_at(&path)?
            .ok_or_else(|| MountError::plain(MountErrorKind::Other, &path))?;
        let place = Place(Unmounter::new(path.clone(), entry.device));

        let other = |error| MountError::with_source(MountErrorKind::Other, &path, error);
        let core = Arc::new(Core::new(runtime, metrics));
        let wishes = Wishes {
            passthrough: options.passthrough.if_privileged(),
            set_id_bits: options.set_id_bits,
        };
        let inner = fuser::Session::from_fd(
            Dispatch::new(Arc::clone(&core), wishes),
            device,
            // Who may enter is the kernel's business, which was told when mounting; `fuser` would
            // refuse an inherited descriptor its flush.
            fuser::SessionACL::All,
            config(options),
        )
        .map_err(other)?;
        let passthrough = passthrough(&inner, wishes.passthrough).map_err(other)?;
        mount::set_read_ahead(entry.device, options.read_ahead_bytes);
        Ok(Mounted { inner, core, place, passthrough })
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
        threads.join().unwrap_or_else(|_| Err(io::Error::other("a session thread panicked")))
    }
}

impl Mounted {
    /// What tells the kernel to forget.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(self.inner.notifier())
    }

    /// What registers backing files; none if kernel or privileges do not allow it.
    pub fn passthrough(&self) -> Option<Passthrough> {
        self.passthrough.clone()
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
        let Mounted { inner, core, place, passthrough } = self;
        core.open(service);
        let unmounter = place.0.clone();
        let at_end = unmounter.clone();
        let threads = std::thread::Builder::new().name("fuse-session".into()).spawn(move || {
            let result = inner.run().or_else(end_or_error);
            if let Err(error) = &result {
                // Without its threads the mount would hang whoever touches it.
                tracing::error!(%error, "the session ended early");
                at_end.unmount_or_log();
            }
            at_end.ended.store(true, Ordering::Release);
            result
        })?;
        Ok(Session { threads: Some(threads), unmounter, _place: place, notifier, passthrough })
    }
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
        match mount::ours_at(&self.path)? {
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

/// A thread that is just taking a request when the mount ends sees the connection aborted, where
/// the others, who wait for one, see that there is no device any more.
fn end_or_error(error: io::Error) -> io::Result<()> {
    let aborted = rustix::io::Errno::CONNABORTED.raw_os_error();
    if error.raw_os_error() == Some(aborted) { Ok(()) } else { Err(error) }
}

fn config(options: &MountOptions) -> fuser::Config {
    let mut config = fuser::Config::default();
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = mount::can_open_device();
    config
}

fn passthrough(
    inner: &fuser::Session<Dispatch>,
    wish: PassthroughWish,
) -> io::Result<Option<Passthrough>> {
    match wish {
        PassthroughWish::Wanted => Ok(Passthrough::probe(inner.as_fd().try_clone_to_owned()?)),
        PassthroughWish::Off => Ok(None),
    }
}
