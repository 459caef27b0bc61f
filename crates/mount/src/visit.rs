//! Has the daemons of mounts do something with many files, from outside.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use base::ByteRange;
use fuse::MountEntry;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};

use crate::control::Asked;
use crate::error::Error;
use crate::task::{Answer, Chore, Outcome, Task, Wish};

/// A file that was found in a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub path: PathBuf,
    /// How large it is.
    pub bytes: u64,
    /// The device number of its mount.
    pub device: u64,
}

/// Files that the daemon has been asked for and has not answered. Each is held open by its name, so that
/// its number stays what it is.
#[derive(Debug, Default)]
struct Underway {
    held: Mutex<HashMap<u64, OwnedFd>>,
}

/// Has `chore` done with `ranges` of each of `files`, and tells what comes of each, until told to stop. Some
/// are told of more than once: see [`Outcome::Came`].
pub fn visit(
    chore: Chore,
    files: &[Found],
    ranges: &[ByteRange],
    mut tell: impl FnMut(&Found, Outcome) -> ControlFlow<()>,
) -> Result<(), Error> {
    let mut by_mount: BTreeMap<u64, Vec<&Found>> = BTreeMap::new();
    for found in files {
        by_mount.entry(found.device).or_default().push(found);
    }
    for files in by_mount.into_values() {
        let Some(first) = files.first() else { continue };
        let entry = match fuse::mount_of(&first.path) {
            Ok(entry) => entry,
            Err(error) => {
                // They are in no mount, and those of others are none the worse for it. Each is named by who tells.
                for found in files {
                    let _ = tell(found, Outcome::Failed { reason: error.kind.to_string() });
                }
                continue;
            }
        };
        if let ControlFlow::Break(()) = visit_mount(chore, (&entry, &files), ranges, &mut tell)? {
            break;
        }
    }
    Ok(())
}

fn visit_mount(
    chore: Chore,
    (entry, files): (&MountEntry, &[&Found]),
    ranges: &[ByteRange],
    tell: &mut impl FnMut(&Found, Outcome) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    let silent = |source| Error::Daemon { dir: entry.path.clone(), source };
    let question = serde_json::to_string(&Task::Files(chore)).map_err(io::Error::other);
    let mut asked = Asked::of(entry, &question.map_err(silent)?)?;
    let stream = asked.more().map_err(silent)?;
    let at_a_time = match chore {
        Chore::Warm { at_a_time } => at_a_time.max(1),
        Chore::Evict {} => 1,
    };
    // As many as are worked on, and as many that wait.
    let (turns, taken) = sync_channel(2 * at_a_time);
    let underway = Underway::default();
    std::thread::scope(|scope| {
        let (underway, writing) = (&underway, stream.try_clone().map_err(silent)?);
        let asking = scope.spawn(move || underway.ask_all(writing, files, ranges, &turns));
        let heard = underway.hear_all(&mut asked, files, &taken, tell);
        // Whoever still asks is told that nobody listens any more.
        drop(taken);
        let _ = stream.shutdown(Shutdown::Both);
        let missed = asking.join().expect("it does not panic");
        let flow = heard.map_err(silent)?;
        for (at, reason) in missed {
            let _ = tell(files[at], Outcome::Failed { reason });
        }
        Ok(flow)
    })
}

impl Underway {
    /// Asks for all of them, as fast as answers come; returns those that could not be asked for.
    fn ask_all(
        &self,
        mut writing: UnixStream,
        files: &[&Found],
        ranges: &[ByteRange],
        turns: &SyncSender<()>,
    ) -> Vec<(usize, String)> {
        let ranges: Vec<(u64, u64)> =
            ranges.iter().map(|range| (range.start(), range.end())).collect();
        let mut missed = Vec::new();
        for (at, found) in files.iter().enumerate() {
            let (fd, ino) = match hold(&found.path) {
                Ok(held) => held,
                Err(error) => {
                    missed.push((at, error.to_string()));
                    continue;
                }
            };
            if turns.send(()).is_err() {
                break;
            }
            let id = at as u64;
            self.held.lock().insert(id, fd);
            let wish = Wish { id, ino, ranges: ranges.clone() };
            let line = serde_json::to_string(&wish).expect("numbers can be written");
            if writeln!(writing, "{line}").is_err() {
                break;
            }
        }
        // The daemon then answers what it was asked, and goes.
        let _ = writing.shutdown(Shutdown::Write);
        missed
    }

    fn hear_all(
        &self,
        asked: &mut Asked,
        files: &[&Found],
        taken: &Receiver<()>,
        tell: &mut impl FnMut(&Found, Outcome) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        while let Some(Answer { id, outcome }) = asked.line()? {
            let at = usize::try_from(id).ok().filter(|at| *at < files.len());
            let at = at.ok_or_else(|| io::Error::other("an answer to nothing"))?;
            if outcome.is_last() {
                self.held.lock().remove(&id);
                // It was taken before it was asked for.
                let _ = taken.try_recv();
            }
            if let ControlFlow::Break(()) = tell(files[at], outcome) {
                return Ok(ControlFlow::Break(()));
            }
        }
        if self.held.lock().is_empty() {
            Ok(ControlFlow::Continue(()))
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

/// Has the kernel remember the file, without opening it, for as long as the descriptor lives; returns its
/// number too.
pub(crate) fn hold(path: &Path) -> rustix::io::Result<(OwnedFd, u64)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    let ino = rustix::fs::fstat(&fd)?.st_ino;
    Ok((fd, ino))
}
