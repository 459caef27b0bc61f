//! Processes that work on a state folder and what they have still to bring into a bucket, whether their mounts are
//! still there or not.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fuse::MountEntry;
use serde::Serialize;

use crate::ask_all::ask_all;
use crate::control::{ANSWER_PATIENCE, Asked};
use crate::runtime_dir::{self, Of};
use crate::status::Status;

/// A process that works on what a bucket does not have yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Working {
    /// Its number; none if it cannot be seen from here.
    pub pid: Option<u32>,
    /// What it has mounted, or had; none if it does not answer.
    pub source: Option<String>,
    /// Where; none if it is mounted nowhere any more, or not to be seen from here.
    #[serde(serialize_with = "crate::spelling::serialize_some")]
    pub dir: Option<PathBuf>,
    /// Files that the bucket does not have yet.
    pub files: u64,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
    /// Changes of names that it does not have yet.
    pub changes: u64,
    /// Names with attributes that it does not have yet.
    pub attributes: u64,
}

/// The processes that say that they use the state folder `state_dir`.
pub(crate) fn on(state_dir: &Path) -> Vec<Working> {
    let mounts = fuse::mounts().unwrap_or_default();
    let sockets = runtime_dir::all();
    let said = ask_all(&sockets, |(owner, of, path)| status(*owner, *of, path));
    let mut found: Vec<Working> = Vec::new();
    for ((_, of, _), said) in sockets.iter().zip(said) {
        // Who does not answer does not say which folder it uses either.
        let Ok((pid, status)) = said else { continue };
        if !is_same(&status.cache.dir, state_dir) {
            continue;
        }
        let entry = mounts.iter().find(|entry| *of == Of::Mount(entry.device));
        let dir = entry.map(|entry| entry.path.clone());
        let working = Working { dir, ..Working::of(pid, &status) };
        // It may have been told of twice while it lets go of its mount.
        match found.iter_mut().find(|other| pid.is_some() && other.pid == pid) {
            Some(other) if other.dir.is_none() => *other = working,
            Some(_) => {}
            None => found.push(working),
        }
    }
    found
}

/// What the process `pid` has still to do, whose mount `entry` was taken away; `None` if it does not say so.
pub(crate) fn left_by(entry: &MountEntry, pid: u32) -> Option<Working> {
    let owner = entry.owner.unwrap_or(rustix::process::geteuid().as_raw());
    // Before its last files are closed it does not know that the mount is gone.
    let told = [Of::Process(pid), Of::Mount(entry.device)].into_iter().find_map(|of| {
        let paths = runtime_dir::sockets(owner, of);
        let (process, status) = paths.iter().find_map(|path| status(owner, of, path).ok())?;
        (process == Some(pid)).then_some(status)
    });
    told.map(|status| Working::of(Some(pid), &status))
}

impl Working {
    /// What the process `pid`, which is mounted nowhere as far as it matters, says of itself.
    pub(crate) fn of(pid: Option<u32>, status: &Status) -> Working {
        Working {
            pid,
            source: Some(status.source.clone()),
            dir: None,
            files: status.pending_uploads,
            bytes: status.pending_bytes,
            changes: status.pending_changes,
            attributes: status.pending_attributes,
        }
    }

    /// Whether there is nothing that a bucket does not have.
    pub fn is_done(&self) -> bool {
        self.files == 0 && self.changes == 0 && self.attributes == 0
    }
}

/// Asks who listens at `path`, who must be `owner` or root.
fn status(owner: u32, of: Of, path: &PathBuf) -> io::Result<(Option<u32>, Status)> {
    let asked = match Asked::at(std::slice::from_ref(path), owner, "status") {
        // A process that was killed could not remove it.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            if let Of::Process(_) = of {
                drop(fs::remove_file(path));
            }
            return Err(error);
        }
        asked => asked?,
    };
    let process = asked.process()?;
    let line = asked.patient(ANSWER_PATIENCE)?.line()?;
    Ok((process, line.ok_or(io::ErrorKind::UnexpectedEof)?))
}

/// Whether two paths lead to one folder.
fn is_same(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    inode(one).is_some_and(|found| Some(found) == inode(other))
}
