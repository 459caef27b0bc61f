//! The control socket: one question a connection, answered in lines of JSON.
//!
//! ```text
//!   status ──▶ one Status
//!   live   ──▶ one Live
//!   log-level FILTER ──▶ one LogLevel
//!   drain  ──▶ a Drain for each second that uploads take, the last with `done`
//!   sync N ──▶ as drain, for what is below the inode N
//!   {task} ──▶ as `task.rs` says; more lines may follow the question
//! ```

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
use crate::report::Report;
use crate::runtime_dir;
use crate::status::{Live, Status};
use crate::telemetry::LogControl;
use crate::volumes::Volumes;

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

/// What came of a wish to change what is logged.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LogLevel {
    /// Why it was not changed.
    refused: Option<String>,
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
    pub(crate) report: Arc<Report>,
    pub(crate) log: Option<LogControl>,
}

/// Connections at a time; a status takes no longer than the disk.
const CONNECTIONS_MAX: usize = 16;

/// No question is longer.
const QUESTION_BYTES_MAX: usize = 64 << 10;

/// How often a drain says how far it is.
const DRAIN_REPORT_DELAY: Duration = Duration::from_secs(1);

/// How long a daemon may take to answer what it knows, on a machine that is busy.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

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
        "status" => say(&mut writing, &controlled.report.status().await?).await,
        "live" => say(&mut writing, &controlled.report.live().await?).await,
        "drain" => controlled.tell(&mut writing, controlled.volumes.drain()).await,
        task if task.starts_with('{') => {
            let task = serde_json::from_str(task)?;
            attend(task, &mut lines, &mut writing, &controlled.volumes).await
        }
        question => match question.split_once(' ') {
            Some(("log-level", filter)) => say(&mut writing, &controlled.set_log(filter)).await,
            Some(("sync", number)) => match number.parse() {
                Ok(number) => {
                    let syncing = controlled.volumes.sync(Ino(number));
                    controlled.tell(&mut writing, syncing).await
                }
                Err(_) => Ok(()),
            },
            Some(_) | None => Ok(()),
        },
    }
}

impl Controlled {
    /// Changes what is logged.
    fn set_log(&self, filter: &str) -> LogLevel {
        let Some(log) = &self.log else {
            return LogLevel { refused: Some("this mount writes no log".to_owned()) };
        };
        let set = log.set(filter);
        if set.is_ok() {
            tracing::info!(filter, "the log lets this through from now on");
        }
        LogLevel { refused: set.err().map(|error| error.to_string()) }
    }

    /// Says how far `draining` is, until it is done.
    async fn tell(
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

    /// Waits for each line for so long at most.
    pub(crate) fn patient(self, patience: Duration) -> io::Result<Asked> {
        self.lines.get_ref().set_read_timeout(Some(patience))?;
        Ok(self)
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
    one(dir, "status")
}

/// What the mount at `dir` says of itself and of the last minutes.
pub fn live(dir: &Path) -> Result<Live, Error> {
    one(dir, "live")
}

/// Makes the mount at `dir` log what `filter` lets through; why it does not, if it does not.
pub fn set_log_level(dir: &Path, filter: &str) -> Result<Option<String>, Error> {
    let LogLevel { refused } = one(dir, &format!("log-level {filter}"))?;
    Ok(refused)
}

/// The places where this user has something mounted, or, for root, anybody.
pub fn mounts() -> Result<Vec<PathBuf>, Error> {
    let own = rustix::process::geteuid();
    let is_own = |owner: u32| own.is_root() || owner == own.as_raw();
    let all = fuse::mounts().map_err(|source| Error::System { what: "no mount table", source })?;
    let own = all.into_iter().filter(|entry| entry.owner.is_none_or(is_own));
    Ok(own.map(|entry| entry.path).collect())
}

/// The answer of the mount at `dir` to a question that has one line of it.
fn one<T: for<'a> Deserialize<'a>>(dir: &Path, question: &str) -> Result<T, Error> {
    let entry = fuse::our_mount(dir)?;
    let failed = |source| Error::Daemon { dir: dir.to_owned(), source };
    let asked = Asked::new(&entry, question).and_then(|asked| asked.patient(ANSWER_PATIENCE));
    let line = asked.and_then(|mut asked| asked.line());
    line.map_err(failed)?.ok_or_else(|| failed(io::ErrorKind::UnexpectedEof.into()))
}
