//! Unmounting from outside: wait for the uploads, detach, wait for the daemon's end.

use std::io;
use std::path::Path;
use std::time::Duration;

use fuse::{MountEntry, MountError, MountErrorKind, Unmount};
use serde::de::IgnoredAny;

use crate::control::{ANSWER_PATIENCE, Asked, Daemon, Drained, drained, silent};
use crate::error::Error;
use crate::status::Status;
use crate::tenant;
use crate::users;
use crate::working::{self, Working};

/// Whether to detach although uploads failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Stay mounted.
    No,
    /// Detach without waiting for uploads, and for the daemon's end so long at most.
    Yes(Duration),
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
        /// What its daemon has still to do.
        left: Working,
        /// Why some of it failed at the last try.
        reasons: Vec<String>,
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
const FORCED_ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// Whether the daemon of a mount answers questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    Yes,
    No,
}

/// Unmounts `dir` and returns when its daemon has ended.
pub fn umount(dir: &Path, force: Force, mut tell: impl FnMut(Progress)) -> Result<(), Error> {
    let entry = fuse::our_mount(dir)?;
    let question = match force {
        Force::No => "drain",
        Force::Yes(_) => "status",
    };
    let asked = ask(&entry, question).and_then(|asked| Ok((asked.daemon()?, asked)));
    let (daemon, asked) = match (asked, force) {
        (Ok(asked), _) => asked,
        (Err(_), _) if fuse::is_dead(dir) => return clear(dir, &mut tell),
        // It brings what it can into the bucket by itself.
        (Err(_), Force::Yes(_)) => {
            fuse::unmount_path(dir, Unmount::Lazy)?;
            tell(Progress::StillThere { pid: None, left: None });
            return Ok(());
        }
        (Err(source), Force::No) => return Err(silent(&entry, source)),
    };
    let failed = |source| silent(&entry, source);
    let patience = match force {
        // While it waits for uploads it says so each second.
        Force::No => ANSWER_PATIENCE,
        Force::Yes(_) => FORCED_ANSWER_PATIENCE,
    };
    let mut asked = asked.patient(patience).map_err(failed)?;
    let mut answers = Answers::Yes;
    let pid = asked.process().map_err(failed)?;
    let how = match force {
        Force::No => {
            let Drained { missing, left } = match drained(&mut asked, waiting(&mut tell)) {
                Ok(drained) => drained,
                // It died before it could answer, and what it left is in its journal.
                Err(_) if daemon.end(DEATH_PATIENCE).is_ok() && fuse::is_dead(dir) => {
                    return clear(dir, &mut tell);
                }
                Err(error) => return Err(failed(error)),
            };
            if !missing.is_empty() {
                return Err(Error::Unpublished { dir: dir.to_owned(), missing });
            }
            if let Some(reason) = left {
                tell(Progress::AttributesLeft { reason });
            }
            Unmount::Normal
        }
        Force::Yes(_) => {
            answers = announce(&entry, &mut asked, pid, &mut tell);
            Unmount::Lazy
        }
    };
    match unmount_patiently(dir, how) {
        // It ended between our question and now.
        Err(error) if error.is_not_mounted() => {}
        other => other?,
    }
    match force {
        Force::No => ended(&daemon, &entry, &mut tell).map_err(failed),
        Force::Yes(patience) => match daemon.end(patience) {
            Err(error) if is_timeout(&error) => {
                let asked = pid.filter(|_| answers == Answers::Yes);
                let left = asked.and_then(|pid| working::left_by(&entry, pid));
                tell(Progress::StillThere { pid, left });
                Ok(())
            }
            ended => ended.map_err(failed),
        },
    }
}

/// Tells what a forced unmount leaves, and has the daemon wait for no store that does not answer. A daemon that does not
/// answer itself is detached all the same.
fn announce(
    entry: &MountEntry,
    asked: &mut Asked,
    pid: Option<u32>,
    tell: &mut impl FnMut(Progress),
) -> Answers {
    let Ok(Some(status)) = asked.line::<Status>() else { return Answers::No };
    let left = Working::of(pid, &status);
    if !left.is_done() {
        tell(Progress::Left { left, reasons: status.failures });
    }
    // A daemon of an older version does not know the word, and tries once anyway.
    let told = Asked::new(entry, "force").and_then(|told| told.patient(FORCED_ANSWER_PATIENCE));
    drop(told.and_then(|mut told| told.line::<IgnoredAny>()));
    Answers::Yes
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

/// Takes a mount away whose daemon is dead.
fn clear(dir: &Path, tell: &mut impl FnMut(Progress)) -> Result<(), Error> {
    fuse::unmount_path(dir, Unmount::Lazy)?;
    tell(Progress::WasDead);
    Ok(())
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
        && is_deaf(entry)
        && fuse::is_dead(dir)
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
