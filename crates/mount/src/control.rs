//! The control socket: one question a connection, answered in lines of JSON.
//!
//! ```text
//!   status ──▶ one Status
//!   drain  ──▶ a Drain for each second that uploads take, the last with `done`
//!   sync N ──▶ as drain, for what is below the inode N
//!   {task} ──▶ as `task.rs` says; more lines may follow the question
//! ```

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as ClientStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::Ino;
use fuse::MountEntry;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::PidfdFlags;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncWriteExt, BufReader as AsyncBufReader};
use tokio::net::{UnixListener, UnixStream};
use vfs::Unpublished;

use crate::assemble::Common;
use crate::attend::attend;
use crate::error::Error;
use crate::lines::{Lines, say};
use crate::runtime_dir;
use crate::volumes::Volumes;

/// What a mount says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// What is mounted.
    pub source: String,
    /// The process that serves it.
    pub pid: u32,
    /// Files that the bucket does not have yet.
    pub pending_uploads: u64,
    /// Their bytes.
    pub pending_bytes: u64,
    /// Changes of names that the bucket does not have yet.
    #[serde(default)]
    pub pending_changes: u64,
    /// Why some of all these failed at the last try.
    pub failures: Vec<String>,
    /// The local disk.
    pub cache: CacheStatus,
    /// What was counted, by name.
    pub counters: BTreeMap<String, u64>,
}

/// What a mount says of the local disk. All mounts of one state folder share it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CacheStatus {
    /// Where it is.
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
    /// Files in the recovery folder: bytes that could not be brought to a bucket.
    pub recovery_files: u64,
}

/// How far the uploads are that a drain waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Drain {
    pending_uploads: u64,
    pending_bytes: u64,
    done: bool,
    failed: Vec<String>,
    /// Why attributes are left for the next mount, if they are.
    #[serde(default)]
    left: Option<String>,
}

/// What came of a drain.
#[derive(Debug)]
pub(crate) struct Drained {
    /// What could not be brought into the bucket, and why.
    pub(crate) failed: Vec<String>,
    /// Why attributes are left for the next mount, if they are.
    pub(crate) left: Option<String>,
}

/// What the control socket answers from.
#[derive(Debug)]
pub(crate) struct Controlled {
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) common: Common,
    pub(crate) source: String,
    pub(crate) state_dir: PathBuf,
}

/// Connections at a time; a status takes no longer than the disk.
const CONNECTIONS_MAX: usize = 16;

/// No question is longer.
const QUESTION_BYTES_MAX: usize = 64 << 10;

/// How often a drain says how far it is.
const DRAIN_REPORT_DELAY: Duration = Duration::from_secs(1);

/// Answers questions until dropped.
pub(crate) async fn serve(listener: UnixListener, controlled: Arc<Controlled>) {
    let connections = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await.expect("never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the control socket does not accept");
                controlled.common.clock.sleep(DRAIN_REPORT_DELAY).await;
                continue;
            }
        };
        let controlled = Arc::clone(&controlled);
        tokio::spawn(async move {
            if let Err(error) = answer(stream, &controlled).await {
                tracing::debug!(%error, "a control connection broke");
            }
            drop(permit);
        });
    }
}

async fn answer(stream: UnixStream, controlled: &Controlled) -> io::Result<()> {
    let (reading, mut writing) = stream.into_split();
    let mut lines = Lines::new(AsyncBufReader::new(reading), QUESTION_BYTES_MAX);
    let Some(question) = lines.next().await? else { return Ok(()) };
    let question = String::from_utf8_lossy(&question);
    match question.trim_end() {
        "status" => say(&mut writing, &controlled.status()?).await,
        "drain" => controlled.report(&mut writing, controlled.volumes.drain()).await,
        task if task.starts_with('{') => {
            let task = serde_json::from_str(task)?;
            attend(task, &mut lines, &mut writing, &controlled.volumes).await
        }
        question => match question.strip_prefix("sync ").map(str::parse) {
            Some(Ok(number)) => {
                let syncing = controlled.volumes.sync(Ino(number));
                controlled.report(&mut writing, syncing).await
            }
            Some(Err(_)) | None => Ok(()),
        },
    }
}

impl Controlled {
    fn status(&self) -> io::Result<Status> {
        let usage = self.common.store.usage().map_err(io::Error::other)?;
        let kept = store::kept(&self.state_dir).map_err(io::Error::other)?;
        let pending = self.volumes.pending();
        let dirty = self.volumes.dirty().map_err(io::Error::other)?;
        let counters = self.common.metrics.snapshot();
        Ok(Status {
            source: self.source.clone(),
            pid: std::process::id(),
            pending_uploads: pending.files,
            pending_bytes: pending.bytes,
            pending_changes: pending.changes,
            failures: pending.failures,
            cache: CacheStatus {
                dir: self.state_dir.clone(),
                cached_bytes: usage.cached_bytes,
                staged_bytes: usage.staged_bytes,
                dirty_bytes: dirty.bytes,
                dirty_limit_bytes: dirty.limit_bytes,
                pinned_bytes: self.common.store.pinned_bytes().map_err(io::Error::other)?,
                disk_free_bytes: usage.disk_free_bytes,
                recovery_files: kept.len() as u64,
            },
            counters: counters.map(|(counter, n)| (counter.name().to_owned(), n)).collect(),
        })
    }

    /// Says how far `draining` is, until it is done.
    async fn report(
        &self,
        to: &mut (impl AsyncWriteExt + Unpin),
        draining: impl Future<Output = Vec<Unpublished>>,
    ) -> io::Result<()> {
        let mut draining = std::pin::pin!(draining);
        let unpublished = loop {
            tokio::select! {
                biased;
                unpublished = &mut draining => break unpublished,
                () = self.common.clock.sleep(DRAIN_REPORT_DELAY) => say(to, &self.progress()).await?,
            }
        };
        let failed = unpublished.into_iter().map(|file| file.reason).collect();
        let left = self.volumes.left_for_the_next_mount();
        say(to, &Drain { done: true, failed, left, ..self.progress() }).await
    }

    fn progress(&self) -> Drain {
        let pending = self.volumes.pending();
        Drain {
            pending_uploads: pending.files,
            pending_bytes: pending.bytes,
            done: false,
            failed: Vec::new(),
            left: None,
        }
    }
}

/// A question to the daemon of a mount.
pub(crate) struct Asked {
    lines: BufReader<ClientStream>,
}

impl Asked {
    /// Asks the daemon that serves `entry`.
    pub(crate) fn new(entry: &MountEntry, question: &str) -> io::Result<Asked> {
        // A mount of this user, or, for root, of any user that left a socket.
        let own = rustix::process::geteuid().as_raw();
        let socket = runtime_dir::socket(entry.owner.unwrap_or(own), entry.device);
        let mut stream = ClientStream::connect(socket)?;
        stream.write_all(format!("{question}\n").as_bytes())?;
        Ok(Asked { lines: BufReader::new(stream) })
    }

    /// The next line of the answer; `None` at its end.
    pub(crate) fn line<T: for<'a> Deserialize<'a>>(&mut self) -> io::Result<Option<T>> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&line)?))
    }

    /// Where more lines of the question go.
    pub(crate) fn more(&self) -> io::Result<ClientStream> {
        self.lines.get_ref().try_clone()
    }

    /// The process that answers.
    pub(crate) fn daemon(&self) -> io::Result<Daemon> {
        let peer = rustix::net::sockopt::socket_peercred(self.lines.get_ref())?;
        Ok(Daemon(rustix::process::pidfd_open(peer.pid, PidfdFlags::empty())?))
    }
}

/// Listens until a drain is over, telling how many files and bytes it waits for.
pub(crate) fn drained(asked: &mut Asked, mut tell: impl FnMut(u64, u64)) -> io::Result<Drained> {
    loop {
        let drain: Drain = asked.line()?.ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?;
        if drain.done {
            return Ok(Drained { failed: drain.failed, left: drain.left });
        }
        tell(drain.pending_uploads, drain.pending_bytes);
    }
}

/// A process that serves a mount.
#[derive(Debug)]
pub(crate) struct Daemon(OwnedFd);

impl Daemon {
    /// Waits until it has ended, at most for `patience`.
    pub(crate) fn end(&self, patience: Duration) -> io::Result<()> {
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        let mut ended = [PollFd::new(&self.0, PollFlags::IN)];
        match rustix::event::poll(&mut ended, Some(&patience))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

/// What the mount at `dir` says of itself.
pub fn status(dir: &Path) -> Result<Status, Error> {
    let entry = fuse::our_mount(dir)?;
    let failed = |source| Error::Daemon { dir: dir.to_owned(), source };
    let line = Asked::new(&entry, "status").and_then(|mut asked| asked.line());
    line.map_err(failed)?.ok_or_else(|| failed(io::ErrorKind::UnexpectedEof.into()))
}
