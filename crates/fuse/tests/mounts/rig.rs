//! A mount of [`Memory`] in a folder of its own, gone when the test ends, however it ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Metrics;
use quayfs_fuse::{MountOptions, Mounted, Passthrough, RingWish, Session, Transport};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::memory::{Memory, Served};

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    Device,
    Rings,
}

impl Via {
    /// Those options, with this way.
    pub(crate) fn options(self, options: &MountOptions) -> MountOptions {
        let rings = match self {
            Via::Device => RingWish::Off,
            Via::Rings => {
                // Off where nobody has asked for it; a mount that does not want it has none.
                std::fs::write("/sys/module/fuse/parameters/enable_uring", "1").unwrap();
                RingWish::Wanted
            }
        };
        MountOptions { rings, ..options.clone() }
    }
}

/// A test each for the two ways of a function that takes one.
macro_rules! by_both_ways {
    ($($name:ident)*) => {
        mod by_device {
            $(#[test] fn $name() { super::$name(super::Via::Device); })*
        }
        mod by_rings {
            $(#[test] fn $name() { super::$name(super::Via::Rings); })*
        }
    };
}
pub(crate) use by_both_ways;

/// Fields go in order: unmounted, then the runtime, then the folder.
pub(crate) struct Rig {
    pub(crate) session: Option<Session>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) passthrough: Option<Passthrough>,
    _runtime: Runtime,
    place: Place,
}

/// Folders for a test, one of them to mount at.
pub(crate) struct Place {
    pub(crate) root: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("mount")).unwrap();
        Place { root }
    }

    pub(crate) fn mount(&self) -> PathBuf {
        self.root.path().join("mount")
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap()
}

pub(crate) fn mount(
    via: Via,
    dir: &Path,
    options: &MountOptions,
    runtime: &Runtime,
) -> (Mounted, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new());
    let (options, handle) = (via.options(options), runtime.handle().clone());
    let mounted = Session::mount(dir, &options, handle, Arc::clone(&metrics));
    let mounted = mounted.expect("these tests need root and /dev/fuse");
    assert_eq!(mounted.transport() == Transport::Rings, via == Via::Rings);
    (mounted, metrics)
}

impl Rig {
    pub(crate) fn new(via: Via) -> Rig {
        Rig::with(via, &MountOptions::new("memory"))
    }

    pub(crate) fn with(via: Via, options: &MountOptions) -> Rig {
        let (place, runtime, memory) = (Place::new(), runtime(), Memory::new());
        let (mounted, metrics) = mount(via, &place.mount(), options, &runtime);
        let passthrough = mounted.passthrough();
        let session = Some(mounted.serve(Arc::new(Served(Arc::clone(&memory)))).unwrap());
        Rig { session, memory, metrics, passthrough, _runtime: runtime, place }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.place.mount()
    }

    /// Of a file on the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Of a file beside the mount.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.place.root.path().join(name)
    }

    pub(crate) fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    /// Waits for the session's end.
    pub(crate) fn wait(&mut self) {
        self.session.take().unwrap().wait().unwrap();
    }
}
