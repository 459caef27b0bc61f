//! Unmounting from outside: wait for the uploads, detach, wait for the daemon's end.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fuse::{MountEntry, MountError, MountErrorKind, Unmount};
use serde::de::IgnoredAny;

use crate::control::{ANSWER_PATIENCE, Asked, Daemon, Drained, drained, is_zombie, silent};
use crate::error::Error;
use crate::status::Status;
use crate::tenant;
use crate::users;
use crate::working::{self, Working};

/// When a mount is detached, and what its daemon does about uploads then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detach {
    /// Once everything is uploaded; else it stays mounted.
    Uploaded,
    /// At once. The daemon uploads on as after `fusermount3 -u`. The caller waits for its end so long at most.
    Lazy(Duration),
    /// At once. The daemon tries each upload only once; if it does not answer, calls under way on the mount fail. The caller
    /// waits for its end so long at most.
    Force(Duration),
}

/// What an unmount, or a sync, has to say on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many files of so many bytes are still to be uploaded.
    Waiting {
        /// Files.
        files: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// So much is not in the bucket, and the mount goes all the same.
    Left {
        /// Work that its daemon has left.
        left: Working,
        /// Why some of it failed at the last try.
        reasons: Vec<String>,
    },
    /// So much is not in the bucket yet; the mount goes, and its daemon uploads on.
    Behind {
        /// Work that its daemon has left.
        left: Working,
    },
    /// Attributes could not be brought into the bucket; they are in the journal.
    AttributesLeft {
        /// Why.
        reason: String,
    },
    /// The mount is gone, and its daemon is not: it still uploads. What, if it says so.
    StillThere {
        /// Its number, if it is seen from here.
        pid: Option<u32>,
        /// What it has still to do.
        left: Option<Working>,
        /// Its state folder, if it names it.
        state_dir: Option<PathBuf>,
    },
    /// Its daemon lives on since it is mounted in other mount namespaces, such as those of containers.
    Elsewhere {
        /// Processes in these.
        processes: Vec<String>,
    },
    /// The daemon was dead; its mount is cleared away.
    WasDead,
}

/// How long programs that are just ending may take: 1 s.
const BUSY_TRIES_MAX: u32 = 10;
const BUSY_DELAY: Duration = Duration::from_millis(100);

/// How long the daemon may take to end after it was detached, if all is in the bucket.
const END_PATIENCE: Duration = Duration::from_mins(1);

/// After so much of that, it is looked for whoever else has it mounted.
const ELSEWHERE_PATIENCE: Duration = Duration::from_secs(2);

/// How long a daemon may take to make its socket anew: 5 s.
const SOCKET_TRIES_MAX: u32 = 25;
const SOCKET_DELAY: Duration = Duration::from_millis(200);

/// How long a daemon that stopped answering may take to be gone.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);

/// How long a daemon may take to say what it has to do, for a user who does not want to wait.
const FORCED_ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// Unmounts `dir` and returns when its daemon has ended.
pub fn umount(dir: &Path, how: Detach, mut tell: impl FnMut(Progress)) -> Result<(), Error> {
    let entry = fuse::our_mount(dir)?;
    if is_zombie(&entry) {
        return clear(dir, &mut tell);
    }
    match how {
        Detach::Uploaded => when_uploaded(&entry, dir, &mut tell),
        Detach::Lazy(patience) => at_once(&entry, dir, (Firmness::Lazy, patience), &mut tell),
        Detach::Force(patience) => at_once(&entry, dir, (Firmness::Force, patience), &mut tell),
    }
}

fn when_uploaded(
    entry: &MountEntry,
    dir: &Path,
    tell: &mut impl FnMut(Progress),
) -> Result<(), Error> {
    let failed = |source| silent(entry, source);
    let (daemon, asked) = match ask(entry, "drain").and_then(|asked| Ok((asked.daemon()?, asked))) {
        Ok(asked) => asked,
        Err(_) if fuse::is_dead(dir) => return clear(dir, tell),
        Err(source) => return Err(failed(source)),
    };
    // While it waits for uploads it says so each second.
    let mut asked = asked.patient(ANSWER_PATIENCE).map_err(failed)?;
    let Drained { missing, left } = match drained(&mut asked, waiting(tell)) {
        Ok(drained) => drained,
        // It died before it could answer, and what it left is in its journal.
        Err(_) if daemon.end(DEATH_PATIENCE).is_ok() && fuse::is_dead(dir) => {
            return clear(dir, tell);
        }
        Err(error) => return Err(failed(error)),
    };
    if !missing.is_empty() {
        return Err(Error::Unpublished { dir: dir.to_owned(), missing });
    }
    if let Some(reason) = left {
        tell(Progress::AttributesLeft { reason });
    }
    is_gone(unmount_patiently(dir, Unmount::Normal))?;
    ended(&daemon, entry, tell).map_err(failed)
}

/// How much an unmount that waits for no upload breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Firmness {
    Lazy,
    Force,
}

impl Firmness {
    /// The unmount of a mount whose daemon does not answer: only a forced one ends the calls that wait for it.
    fn of_silent(self) -> Unmount {
        match self {
            Firmness::Lazy => Unmount::Lazy,
            Firmness::Force => Unmount::Force,
        }
    }
}

fn at_once(
    entry: &MountEntry,
    dir: &Path,
    (firmness, patience): (Firmness, Duration),
    tell: &mut impl FnMut(Progress),
) -> Result<(), Error> {
    let asked = match ask(entry, "status") {
        Ok(asked) => asked,
        Err(_) if fuse::is_dead(dir) => return clear(dir, tell),
        Err(_) => {
            is_gone(unmount_patiently(dir, firmness.of_silent()))?;
            tell(Progress::StillThere { pid: None, left: None, state_dir: None });
            return Ok(());
        }
    };
    let failed = |source| silent(entry, source);
    let pid = asked.process().map_err(failed)?;
    // Where the daemon runs in another namespace of processes, its end is not seen from here.
    let daemon = asked.daemon().ok();
    let mut asked = asked.patient(FORCED_ANSWER_PATIENCE).map_err(failed)?;
    let status = asked.line::<Status>().ok().flatten();
    match &status {
        Some(status) => detach(entry, dir, firmness, &Working::of(pid, status), status, tell)?,
        None => is_gone(unmount_patiently(dir, firmness.of_silent()))?,
    }
    let state_dir = status.as_ref().map(|status| status.cache.dir.clone());
    match daemon.map(|daemon| daemon.end(patience)) {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) if !is_timeout(&error) => Err(failed(error)),
        Some(Err(_)) | None => {
            let asked = pid.filter(|_| status.is_some());
            let left = asked.and_then(|pid| working::left_by(entry, pid));
            tell(Progress::StillThere { pid, left, state_dir });
            Ok(())
        }
    }
}

/// Detaches a mount whose daemon answers, and tells what is not uploaded yet. A forced unmount has the daemon wait for no store
/// that does not answer; if that mount cannot be detached, the daemon waits for uploads as before.
fn detach(
    entry: &MountEntry,
    dir: &Path,
    firmness: Firmness,
    left: &Working,
    status: &Status,
    tell: &mut impl FnMut(Progress),
) -> Result<(), Error> {
    if !left.is_done() {
        let (left, reasons) = (left.clone(), status.failures.clone());
        tell(match firmness {
            Firmness::Lazy => Progress::Behind { left },
            Firmness::Force => Progress::Left { left, reasons },
        });
    }
    if firmness == Firmness::Lazy {
        return is_gone(unmount_patiently(dir, Unmount::Lazy));
    }
    say(entry, "force");
    let detached = is_gone(unmount_patiently(dir, Unmount::Lazy));
    if detached.is_err() {
        say(entry, "unforce");
    }
    detached
}

/// Tells the daemon of `entry` a word. One of an older version does not know it.
fn say(entry: &MountEntry, word: &str) {
    let told = Asked::new(entry, word).and_then(|told| told.patient(FORCED_ANSWER_PATIENCE));
    drop(told.and_then(|mut told| told.line::<IgnoredAny>()));
}

/// A mount that has ended between our question and now is gone too.
fn is_gone(unmounted: Result<(), MountError>) -> Result<(), Error> {
    match unmounted {
        Err(error) if error.is_not_mounted() => Ok(()),
        unmounted => Ok(unmounted?),
    }
}

/// Waits for the end of a daemon that has brought all into the bucket, unless others keep it.
fn ended(daemon: &Daemon, entry: &MountEntry, tell: &mut impl FnMut(Progress)) -> io::Result<()> {
    match daemon.end(ELSEWHERE_PATIENCE) {
        Err(error) if is_timeout(&error) => {}
        ended => return ended,
    }
    let processes = users::where_mounted(entry.device);
    if processes.is_empty() {
        return daemon.end(END_PATIENCE);
    }
    tell(Progress::Elsewhere { processes });
    Ok(())
}

fn is_timeout(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

/// Asks the daemon of `entry`; one whose socket is gone makes another one soon.
#[expect(clippy::disallowed_methods, reason = "a person waits, and there is nothing to listen to")]
fn ask(entry: &MountEntry, question: &str) -> io::Result<Asked> {
    for _ in 1..SOCKET_TRIES_MAX {
        match Asked::new(entry, question) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && !fuse::is_dead(&entry.path) =>
            {
                std::thread::sleep(SOCKET_DELAY);
            }
            asked => return asked,
        }
    }
    Asked::new(entry, question)
}

/// Takes a mount away whose daemon is dead. What remains of one may keep the connection open: it is aborted.
fn clear(dir: &Path, tell: &mut impl FnMut(Progress)) -> Result<(), Error> {
    fuse::unmount_path(dir, Unmount::Force)?;
    tell(Progress::WasDead);
    Ok(())
}

/// Takes away what this user has mounted at `dir`, if its daemon is a zombie: its threads wait for the kernel, which waits for
/// an answer of the daemon, and no look at the mount would end.
pub(crate) fn clear_zombie(dir: &Path) {
    let own = rustix::process::geteuid().as_raw();
    let ours = fuse::our_mount(dir).ok().filter(|entry| entry.owner == Some(own));
    if ours.is_some_and(|entry| is_zombie(&entry)) {
        // A mount that stays is found by the caller.
        let _ = clear(dir, &mut |_| {});
    }
}

/// Takes away what this user has mounted at `dir`, if its daemon is dead. Returns whether nothing is mounted there
/// now: who goes to what is waits for its daemon.
pub fn clear_dead(dir: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let ours = fuse::our_mount(dir).ok().filter(|entry| entry.owner == Some(own));
    // Whoever listens lives, be it that he does not answer: to ask his mount then would keep this process from ending.
    let is_deaf = |entry: &MountEntry| Asked::new(entry, "status").is_err();
    // Who else clears it may have been faster, and others may have mounted anew.
    let is_same =
        |entry: &MountEntry| fuse::our_mount(dir).is_ok_and(|now| now.device == entry.device);
    if let Some(entry) = &ours
        && (is_zombie(entry) || (is_deaf(entry) && fuse::is_dead(dir)))
        && is_same(entry)
    {
        // What cannot be taken away is as dead as before.
        let _ = clear(dir, &mut |_| {});
    }
    fuse::mounted_at(dir).is_ok_and(|entry| entry.is_none())
}

/// As [`clear_dead`], while nobody mounts there: others may have seen that, too, and what they have made since lives.
/// Does not wait for those whose mount it was.
pub fn clear_dead_alone(dir: &Path) {
    let lock = tenant::keep_from_mounting(dir);
    if let Err(error) = &lock {
        tracing::debug!(dir = %dir.display(), %error, "others may mount there meanwhile");
    }
    clear_dead(dir);
}

/// Unmounts; programs that are just ending get a moment to close their files.
#[expect(clippy::disallowed_methods, reason = "a person waits, and there is nothing to listen to")]
fn unmount_patiently(dir: &Path, how: Unmount) -> Result<(), MountError> {
    for _ in 1..BUSY_TRIES_MAX {
        match fuse::unmount_path(dir, how) {
            Err(error) if error.kind == MountErrorKind::Busy => std::thread::sleep(BUSY_DELAY),
            done => return done,
        }
    }
    fuse::unmount_path(dir, how)
}

/// Tells how far a drain is.
pub(crate) fn waiting(tell: &mut impl FnMut(Progress)) -> impl FnMut(u64, u64) {
    |files, bytes| tell(Progress::Waiting { files, bytes })
}
