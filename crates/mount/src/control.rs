//! The control socket: one question a connection, answered in lines of JSON.
//!
//! ```text
//!   status ──▶ one Status
//!   live   ──▶ one Live
//!   metrics DIALECT ──▶ one MetricsPage
//!   log-level FILTER ──▶ one LogLevel
//!   drain  ──▶ a Drain for each second that uploads take, the last with `done`
//!   hasten ──▶ one Drain, when uploads that were delayed have begun
//!   force  ──▶ one Drain, when the end of the mount waits for no store that does not answer
//!   unforce ─▶ one Drain, when the end of the mount waits for it again
//!   sync N ──▶ as drain, for what is below the inode N
//!   share N SECS ──▶ one Offer of a signed URL of the inode N
//!   {task} ──▶ as `task.rs` says; more lines may follow the question
//!   reload ──▶ one Reloaded, as after a HUP
//!   hello  ──▶ nothing, as to all that is no question: the connection ends
//! ```
//!
//! What is told until somebody has heard it, the news of a drain, is heard when who asked ends the connection and has read
//! all of it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as ClientStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{Clock, Ino, SystemClock};
use fuse::MountEntry;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::PidfdFlags;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncWriteExt, BufReader as AsyncBufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use crate::assemble::Common;
use crate::attend::attend;
use crate::end::EndPatience;
use crate::entry::mount_around;
use crate::error::Error;
use crate::lines::{Lines, say};
use crate::metrics;
use crate::missing::Missing;
use crate::peer::Peer;
use crate::process;
use crate::reload::{Reloaded, Reloader};
use crate::report::Report;
use crate::runtime_dir::{self, Of};
use crate::shared_url;
use crate::socket::Socket;
use crate::status::{Live, Status};
use crate::task;
use crate::volumes::{Unbrought, Volumes};

/// Why there is no answer.
#[derive(Debug, Serialize, Deserialize)]
struct WhyNot {
    unanswered: String,
}

/// How far the uploads are that a drain waits for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Drain {
    pending_uploads: u64,
    pending_bytes: u64,
    done: bool,
    /// What could not be brought into the bucket.
    #[serde(flatten)]
    missing: Missing,
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
    /// What could not be brought into the bucket.
    pub(crate) missing: Missing,
    /// Why attributes are left for the next mount, if they are.
    pub(crate) left: Option<String>,
}

/// What the control socket answers from.
#[derive(Debug)]
pub(crate) struct Controlled {
    volumes: Arc<Volumes>,
    common: Common,
    report: Arc<Report>,
    reloader: Reloader,
    /// How long the end of the mount waits.
    patience: Arc<EndPatience>,
    /// Turns of those who wait for the bucket.
    long: Semaphore,
}

/// Connections at a time.
const CONNECTIONS_MAX: usize = 256;

/// Of these, those that wait for the bucket; the others are there for who asks how it goes.
const LONG_MAX: usize = 240;

/// Who connects has so long to ask.
const QUESTION_PATIENCE: Duration = Duration::from_secs(3);

/// What is said to who would wait for the bucket beyond [`LONG_MAX`].
const TOO_MANY: &str = "the mount is waited for by too many at a time: try again";

/// No question is longer.
const QUESTION_BYTES_MAX: usize = 64 << 10;

/// How often a drain says how far it is.
const DRAIN_REPORT_DELAY: Duration = Duration::from_secs(1);

/// Longest line of an answer: another user may listen at the socket of a mount of their own.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// How long a daemon may take to answer what it knows, on a machine that is busy.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// How long the queue of a control socket may be full before its process is taken for no zombie.
const ZOMBIE_PATIENCE: Duration = Duration::from_secs(1);

/// What is said of one that takes longer.
const SILENCE: &str = "nothing was heard for ten seconds";

/// How often it is looked whether others still find the socket.
const SOCKET_LOOK_DELAY: Duration = Duration::from_secs(3);

/// Answers questions until dropped.
pub(crate) async fn serve(mut socket: Socket, controlled: Arc<Controlled>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await.expect("never closed");
        let accepted = loop {
            tokio::select! {
                accepted = socket.listener.accept() => break accepted,
                () = controlled.common.clock.sleep(SOCKET_LOOK_DELAY) => socket.renew(),
            }
        };
        let stream = match accepted {
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
    let question = tokio::select! {
        question = lines.next() => question?,
        () = controlled.common.clock.sleep(QUESTION_PATIENCE) => None,
    };
    let Some(question) = question else { return Ok(()) };
    let question = String::from_utf8_lossy(&question);
    match question.trim_end() {
        "status" => say_or_why_not(&mut writing, controlled.report.status().await).await,
        "live" => say_or_why_not(&mut writing, controlled.report.live().await).await,
        // Nothing after it, which is no level.
        "log-level" => say(&mut writing, &controlled.set_log("")).await,
        "hasten" => {
            controlled.volumes.hasten();
            say(&mut writing, &controlled.progress()).await
        }
        "reload" => say(&mut writing, &controlled.reloader.reload().await).await,
        "force" | "unforce" => {
            let is_forced = question.trim_end() == "force";
            controlled.patience.is_forced.store(is_forced, Ordering::Relaxed);
            if is_forced {
                tracing::info!("forced to unmount: each upload is tried once more");
            } else {
                tracing::info!("the forced unmount failed: the end of the mount waits for uploads");
            }
            say(&mut writing, &controlled.progress()).await
        }
        "drain" => {
            let draining = controlled.volumes.drain();
            controlled.tell(&mut lines, &mut writing, draining).await
        }
        task if task.starts_with('{') => {
            let task = serde_json::from_str(task)?;
            let Ok(_turn) = controlled.long.try_acquire() else {
                return say(&mut writing, &task::Answer::failed(TOO_MANY)).await;
            };
            {
                let means = (&controlled.volumes, &controlled.common.clock);
                attend(task, &mut lines, &mut writing, means).await
            }
        }
        question => match question.split_once(' ') {
            Some(("log-level", filter)) => say(&mut writing, &controlled.set_log(filter)).await,
            Some(("metrics", dialect)) => {
                say_or_why_not(&mut writing, metrics::page_for(&controlled.report, dialect).await)
                    .await
            }
            Some(("sync", number)) => match number.parse() {
                Ok(number) => {
                    let syncing = controlled.volumes.sync(Ino(number));
                    controlled.tell(&mut lines, &mut writing, syncing).await
                }
                Err(_) => Ok(()),
            },
            Some(("share", words)) => match shared_url::offer(&controlled.volumes, words).await {
                Some(offer) => say(&mut writing, &offer).await,
                None => Ok(()),
            },
            Some(_) | None => Ok(()),
        },
    }
}

/// Answers, or says why there is no answer.
async fn say_or_why_not(
    to: &mut (impl AsyncWriteExt + Unpin),
    answer: io::Result<impl Serialize>,
) -> io::Result<()> {
    match answer {
        Ok(answer) => say(to, &answer).await,
        Err(error) => say(to, &WhyNot { unanswered: error.to_string() }).await,
    }
}

impl Controlled {
    pub(crate) fn new(
        volumes: Arc<Volumes>,
        common: Common,
        report: Arc<Report>,
        (reloader, patience): (Reloader, Arc<EndPatience>),
    ) -> Controlled {
        Controlled { volumes, common, report, reloader, patience, long: Semaphore::new(LONG_MAX) }
    }

    /// Changes what is logged.
    fn set_log(&self, filter: &str) -> LogLevel {
        let Some(log) = self.reloader.log() else {
            return LogLevel { refused: Some("this mount writes no log".to_owned()) };
        };
        let set = log.set(filter);
        if set.is_ok() {
            tracing::info!(filter, "log level changed");
        }
        LogLevel { refused: set.err().map(|error| error.to_string()) }
    }

    /// Says how far `draining` is, until it is done. What nobody had heard of is heard when who asked has read it.
    async fn tell(
        &self,
        lines: &mut Lines<impl AsyncBufRead + Unpin>,
        to: &mut (impl AsyncWriteExt + Unpin),
        draining: impl Future<Output = Unbrought>,
    ) -> io::Result<()> {
        let Ok(_turn) = self.long.try_acquire() else {
            let missing = Missing::untried(TOO_MANY);
            return say(to, &Drain { done: true, missing, ..self.progress() }).await;
        };
        let mut draining = std::pin::pin!(draining);
        let unbrought = loop {
            tokio::select! {
                biased;
                unbrought = &mut draining => break unbrought,
                () = self.common.clock.sleep(DRAIN_REPORT_DELAY) => say(to, &self.progress()).await?,
            }
        };
        let missing = Missing::of(unbrought.all()).kept_in(&self.report.state_dir);
        let left = self.volumes.left_for_the_next_mount();
        say(to, &Drain { done: true, missing, left, ..self.progress() }).await?;
        let is_news = unbrought.all().any(|left| left.news.is_some());
        if is_news && is_read(lines, &*self.common.clock).await {
            unbrought.heard();
        }
        Ok(())
    }

    fn progress(&self) -> Drain {
        let pending = self.volumes.pending();
        Drain {
            pending_uploads: pending.files,
            pending_bytes: pending.bytes,
            done: false,
            missing: Missing::default(),
            left: None,
        }
    }
}

/// Whether who asked has read all that it was told. Of one that goes with something unread the kernel says so: such a
/// connection does not end, it breaks.
async fn is_read(lines: &mut Lines<impl AsyncBufRead + Unpin>, clock: &dyn Clock) -> bool {
    tokio::select! {
        end = lines.next() => matches!(end, Ok(None)),
        () = clock.sleep(ANSWER_PATIENCE) => false,
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
        let owner = entry.owner.unwrap_or(rustix::process::geteuid().as_raw());
        Asked::at(&runtime_dir::sockets(owner, Of::Mount(entry.device)), owner, question)
    }

    /// As [`Asked::new`], with a limit on the time to connect.
    pub(crate) fn within(
        entry: &MountEntry,
        question: &str,
        patience: Duration,
    ) -> io::Result<Asked> {
        let owner = entry.owner.unwrap_or(rustix::process::geteuid().as_raw());
        let sockets = runtime_dir::sockets(owner, Of::Mount(entry.device));
        Asked::connected(connect(&sockets, owner, patience)?, question)
    }

    fn connected(mut stream: ClientStream, question: &str) -> io::Result<Asked> {
        stream.write_all(format!("{question}\n").as_bytes())?;
        Ok(Asked { lines: BufReader::new(stream) })
    }

    /// Asks who listens at the first of `sockets` where somebody does, who must be `owner` or root.
    pub(crate) fn at(sockets: &[PathBuf], owner: u32, question: &str) -> io::Result<Asked> {
        Asked::connected(connect(sockets, owner, ANSWER_PATIENCE)?, question)
    }

    /// As [`Asked::new`], with an error that says what to do.
    pub(crate) fn of(entry: &MountEntry, question: &str) -> Result<Asked, Error> {
        Asked::new(entry, question).map_err(|source| silent(entry, source))
    }

    /// The next line of the answer; `None` at its end.
    pub(crate) fn line<T: for<'a> Deserialize<'a>>(&mut self) -> io::Result<Option<T>> {
        let mut line = String::new();
        let late = |error: io::Error| {
            if error.kind() == io::ErrorKind::WouldBlock {
                return io::Error::new(io::ErrorKind::TimedOut, SILENCE);
            }
            error
        };
        // Whoever listens there may send anything.
        if (&mut self.lines).take(LINE_BYTES_MAX).read_line(&mut line).map_err(late)? == 0 {
            return Ok(None);
        }
        let answer = serde_json::from_str(&line);
        answer.map(Some).map_err(|error| match serde_json::from_str(&line) {
            Ok(WhyNot { unanswered }) => io::Error::other(unanswered),
            Err(_) => error.into(),
        })
    }

    /// Waits for each line for so long at most.
    pub(crate) fn patient(self, patience: Duration) -> io::Result<Asked> {
        self.lines.get_ref().set_read_timeout(Some(patience))?;
        Ok(self)
    }

    /// All was read that there is to hear. Returns when the daemon knows: who asks next is not told it again.
    fn hang_up(&mut self) {
        // One that is gone meanwhile has nothing to tell to others either.
        if self.lines.get_ref().shutdown(Shutdown::Write).is_ok() {
            let _ = self.lines.skip_until(b'\n');
        }
    }

    /// Where more lines of the question go.
    pub(crate) fn more(&self) -> io::Result<ClientStream> {
        self.lines.get_ref().try_clone()
    }

    /// The number of the process that answers; none if it is in another namespace of processes.
    pub(crate) fn process(&self) -> io::Result<Option<u32>> {
        let process = Peer::of(self.lines.get_ref().as_fd())?.process;
        Ok(process.and_then(|process| u32::try_from(process.as_raw_nonzero().get()).ok()))
    }

    /// The process that answers.
    pub(crate) fn daemon(&self) -> io::Result<Daemon> {
        let unseen = || io::Error::other("it runs in another namespace of processes: ask there");
        let process = Peer::of(self.lines.get_ref().as_fd())?.process.ok_or_else(unseen)?;
        Ok(Daemon(rustix::process::pidfd_open(process, PidfdFlags::empty())?))
    }
}

/// Why the daemon of `entry` does not answer, as far as that can be told.
pub(crate) fn silent(entry: &MountEntry, source: io::Error) -> Error {
    let dir = entry.path.clone();
    if source.kind() == io::ErrorKind::PermissionDenied {
        return Error::Others { dir };
    }
    if is_zombie(entry) {
        return Error::Dead { dir };
    }
    // What stands still is asked no second time.
    if source.kind() != io::ErrorKind::TimedOut && fuse::is_dead(&dir) {
        return Error::Dead { dir };
    }
    Error::Daemon { dir, source }
}

/// Whether the daemon of `entry` was killed while the kernel keeps some of its threads: these hold its sockets and its
/// connection, and answer nothing any more.
pub(crate) fn is_zombie(entry: &MountEntry) -> bool {
    let owner = entry.owner.unwrap_or(rustix::process::geteuid().as_raw());
    let sockets = runtime_dir::sockets(owner, Of::Mount(entry.device));
    let stream = connect(&sockets, owner, ZOMBIE_PATIENCE);
    let process = stream.and_then(|stream| Peer::of(stream.as_fd())).ok();
    process.and_then(|peer| peer.process).is_some_and(process::is_zombie)
}

/// Connects to the first of `sockets` where `owner` or root listens: in /tmp anybody may. An error is that of
/// the first.
fn connect(sockets: &[PathBuf], owner: u32, patience: Duration) -> io::Result<ClientStream> {
    let mut first = None;
    for socket in sockets {
        let connected = connect_within(socket, patience).and_then(|stream| {
            let listener = Peer::of(stream.as_fd())?.uid;
            if listener == owner || listener == 0 {
                return Ok(stream);
            }
            Err(io::Error::other(format!("user {listener} listens there, who did not mount it")))
        });
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// Connects to `socket`. Before one that nobody takes connections from any more they queue up, and who comes when
/// the queue is full would wait for ever.
fn connect_within(socket: &Path, patience: Duration) -> io::Result<ClientStream> {
    let address = SocketAddrUnix::new(socket)?;
    let flags = SocketFlags::CLOEXEC;
    let stream = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, Some(patience))?;
    match net::connect(&stream, &address) {
        Err(Errno::AGAIN) => return Err(io::Error::new(io::ErrorKind::TimedOut, SILENCE)),
        connected => connected?,
    }
    sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, None)?;
    Ok(stream.into())
}

/// An error if the daemon of a mount stands still that one of `paths` is in by its name: who looks at what is there
/// would wait for it, and hear nothing.
pub fn check_answers<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
    for entry in fuse::mounts_above(paths) {
        let asked = Asked::new(&entry, "hello").and_then(|asked| asked.patient(ANSWER_PATIENCE));
        match asked.and_then(|mut asked| asked.line::<IgnoredAny>()) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(silent(&entry, error));
            }
            // What else may be wrong is said by who wants something of it.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Listens until a drain is over, telling how many files and bytes it waits for.
pub(crate) fn drained(asked: &mut Asked, mut tell: impl FnMut(u64, u64)) -> io::Result<Drained> {
    loop {
        let drain: Drain = asked.line()?.ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?;
        if drain.done {
            if !drain.missing.is_empty() {
                asked.hang_up();
            }
            return Ok(Drained { missing: drain.missing, left: drain.left });
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
        let (clock, mut left) = (SystemClock::new(), patience);
        loop {
            let wait = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut ended = [PollFd::new(&self.0, PollFlags::IN)];
            match rustix::event::poll(&mut ended, Some(&wait)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                // A signal that somebody else looks after.
                Err(Errno::INTR) => left = patience.saturating_sub(clock.monotonic()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What the mount at `dir` says of itself.
pub fn status(dir: &Path) -> Result<Status, Error> {
    one(dir, "status")
}

/// The mount that `path` is at or in, and what it says of itself.
pub fn status_around(path: &Path) -> Result<(PathBuf, Status), Error> {
    let dir = mount_around(path)?.path;
    let status = status(&dir)?;
    Ok((dir, status))
}

/// What the mount at `dir` says of itself and of the last minutes.
pub fn live(dir: &Path) -> Result<Live, Error> {
    one(dir, "live")
}

/// Has the mount at `dir` upload now what was closed there and waits to be uploaded.
pub fn hasten(dir: &Path) -> Result<(), Error> {
    one(dir, "hasten").map(|Drain { .. }| ())
}

/// Has the daemon of the mount at `dir` open its log files again and read its configuration again.
pub fn reload(dir: &Path) -> Result<Reloaded, Error> {
    one(dir, "reload")
}

/// Makes the mount at `dir` log what `filter` lets through; why it does not, if it does not.
pub fn set_log_level(dir: &Path, filter: &str) -> Result<Option<String>, Error> {
    let LogLevel { refused } = one(dir, &format!("log-level {filter}"))?;
    Ok(refused)
}

/// The answer of the mount at `dir` to a question that has one line of it.
fn one<T: for<'a> Deserialize<'a>>(dir: &Path, question: &str) -> Result<T, Error> {
    let entry = fuse::our_mount(dir)?;
    let failed = |source| silent(&entry, source);
    let asked = Asked::new(&entry, question).and_then(|asked| asked.patient(ANSWER_PATIENCE));
    let line = asked.and_then(|mut asked| asked.line());
    line.map_err(failed)?.ok_or_else(|| failed(io::ErrorKind::UnexpectedEof.into()))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use base::SystemClock;
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket as new_socket,
    };
    use tokio::io::BufReader;
    use tokio::net::UnixStream;

    use super::{Asked, Drain, connect_within, is_read, say_or_why_not};
    use crate::lines::{Lines, say};

    #[tokio::test]
    async fn who_goes_before_it_has_read_what_it_was_told_has_not_heard_it() {
        for reads in [true, false] {
            let (client, server) = UnixStream::pair().unwrap();
            let (reading, mut writing) = server.into_split();
            let mut lines = Lines::new(BufReader::new(reading), 1024);
            say(&mut writing, &"news").await.unwrap();
            let mut client = Lines::new(BufReader::new(client), 1024);
            if reads {
                assert!(client.next().await.unwrap().is_some());
            }
            drop(client);
            assert_eq!(is_read(&mut lines, &SystemClock::new()).await, reads);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_gets_no_answer_is_told_why() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut writing = UnixStream::from_std(theirs).unwrap();
        let mut asked = Asked { lines: io::BufReader::new(ours) };
        say_or_why_not(&mut writing, Ok(Drain::default())).await.unwrap();
        let failed: io::Result<Drain> = Err(io::Error::other("no room"));
        say_or_why_not(&mut writing, failed).await.unwrap();
        assert!(asked.line::<Drain>().unwrap().is_some());
        assert_eq!(asked.line::<Drain>().unwrap_err().to_string(), "no room");
    }

    #[test]
    fn who_finds_the_queue_full_does_not_wait_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let still = new_socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&still, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&still, 0).unwrap();
        let mut queued = Vec::new();
        let refused = loop {
            match connect_within(&path, Duration::from_millis(10)) {
                Ok(stream) => queued.push(stream),
                Err(error) => break error,
            }
            assert!(queued.len() < 100, "the queue has no end");
        };
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut, "{refused}");
        assert!(!queued.is_empty());
    }
}
