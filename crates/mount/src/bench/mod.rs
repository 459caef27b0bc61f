//! Measures a mount, its bucket and the disk of its cache side by side, in less than a minute.

mod folder;

use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use self::folder::Trial;
use crate::control::{Asked, check_answers, status};
use crate::entry::mount_of;
use crate::error::Error;
use crate::figures::{Figures, Stop};
use crate::lifecycle::{SHUTDOWN_PATIENCE, runtime};
use crate::task::{Answer, Chore, Outcome, Task};
use crate::visit::{Found, visit};

/// What was measured of a mount and of what it is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// The mount.
    pub mount: Figures,
    /// Its bucket, by requests alone.
    pub bucket: Figures,
    /// The disk of its cache.
    pub disk: Option<Figures>,
    /// Whether somebody ended it early.
    pub interrupted: bool,
}

/// What somebody who ends it early ends.
#[derive(Clone, Debug, Default)]
struct Running {
    stop: Stop,
    /// The daemon, while it measures.
    asked: Arc<Mutex<Option<UnixStream>>>,
}

/// Measures the mount that the folder `dir` is in, with files of `bytes` made in it and removed; tells what
/// is measured next. An interrupt ends it early.
pub fn bench(
    dir: &Path,
    bytes: u64,
    tell: impl FnMut(&'static str) + Send + 'static,
) -> Result<Measured, Error> {
    let runtime = runtime()?;
    let measured = runtime.block_on(async {
        let running = Running::default();
        let (dir, work) = (dir.to_owned(), running.clone());
        let mut measuring = tokio::task::spawn_blocking(move || measure(&dir, bytes, &work, tell));
        let listen = |kind| signal(kind).map_err(system("cannot listen to signals"));
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        loop {
            tokio::select! {
                measured = &mut measuring => return measured.expect("it does not panic"),
                _ = interrupt.recv() => running.end(),
                _ = terminate.recv() => running.end(),
            }
        }
    });
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    measured
}

impl Running {
    fn end(&self) {
        self.stop.now();
        if let Some(asked) = &*self.asked.lock() {
            // The daemon removes what it made.
            let _ = asked.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn measure(
    dir: &Path,
    bytes: u64,
    running: &Running,
    mut tell: impl FnMut(&'static str),
) -> Result<Measured, Error> {
    let stop = &running.stop;
    let mut measured = Measured::default();
    check_answers([dir])?;
    let entry = mount_of(dir)?;
    tell("the mount");
    let place = |error| Error::System { what: "cannot measure the mount", source: error };
    let trial = Trial::new(dir).map_err(place)?;
    measured.mount = trial.measure(bytes, stop, &evict).map_err(place)?;
    drop(trial);
    if !stop.is_now() {
        tell("the bucket");
        match bucket(&entry, dir, bytes, running) {
            Ok(figures) => measured.bucket = figures,
            Err(_) if stop.is_now() => {}
            Err(error) => return Err(error),
        }
    }
    if !stop.is_now() {
        tell("the disk");
        let cache = status(&entry.path)?.cache.dir;
        // The folder of another user's mount is his.
        if let Ok(trial) = Trial::new(&cache) {
            let on_disk = trial.measure(bytes, stop, &|_| Ok(()));
            measured.disk = Some(on_disk.map_err(system("cannot measure the disk of the cache"))?);
        }
    }
    measured.interrupted = stop.is_now();
    Ok(measured)
}

/// How often files are asked for that the kernel has yet to close, which takes a moment.
const EVICT_TRIES_MAX: usize = 200;

/// Has the mount forget what it has of files.
fn evict(paths: &[PathBuf]) -> io::Result<()> {
    let of = |path: &PathBuf| {
        let metadata = std::fs::metadata(path)?;
        Ok(Found { path: path.clone(), bytes: metadata.len(), device: metadata.dev() })
    };
    let mut left = paths.iter().map(of).collect::<io::Result<Vec<Found>>>()?;
    for _ in 0..EVICT_TRIES_MAX {
        let mut kept = Vec::new();
        let visited = visit(Chore::Evict {}, &left, &[], |found, outcome| {
            if !matches!(outcome, Outcome::Evicted { .. }) {
                kept.push(found.clone());
            }
            ControlFlow::Continue(())
        });
        visited.map_err(io::Error::other)?;
        left = kept;
        if left.is_empty() {
            break;
        }
    }
    // What stays all the same is read from the cache.
    Ok(())
}

fn bucket(
    entry: &fuse::MountEntry,
    dir: &Path,
    bytes: u64,
    running: &Running,
) -> Result<Figures, Error> {
    let silent = |source: io::Error| Error::Daemon { dir: entry.path.clone(), source };
    let ino = std::fs::metadata(dir).map_err(system("cannot look at the folder"))?.ino();
    let question = serde_json::to_string(&Task::Measure { ino, bytes });
    let question = question.map_err(|error| silent(error.into()))?;
    let mut asked = Asked::new(entry, &question).map_err(silent)?;
    *running.asked.lock() = Some(asked.more().map_err(silent)?);
    let line = asked.line::<Answer>();
    *running.asked.lock() = None;
    let answer = line.and_then(|line| line.ok_or(io::ErrorKind::UnexpectedEof.into()));
    let outcome = answer.map_err(silent)?.outcome;
    if let Outcome::Measured(figures) = outcome {
        return Ok(figures);
    }
    Err(silent(io::Error::other(outcome.reason())))
}

fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { what, source }
}
