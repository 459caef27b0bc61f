//! A mount that is there already, such as one of the host that was passed into a container: the task uses it, and
//! leaves it as it is.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mount::Error;

/// Whether something of ours is mounted at `top` and answers.
pub(super) fn is_there(top: &Path) -> bool {
    let is_ours = mount::mounts().is_ok_and(|mounts| mounts.iter().any(|dir| dir == top));
    is_ours && fs::read_dir(top).is_ok()
}

/// Brings all below the folder `work` of a task into the bucket.
pub(super) fn bring(work: &Path) -> Result<()> {
    match mount::sync(work, |_| {}) {
        // Its socket is the host's, and not to be reached from here; but the kernel passes a sync on.
        Err(Error::Daemon { .. }) => {
            sync_folders(work).with_context(|| format!("cannot sync {}", work.display()))
        }
        synced => Ok(synced?),
    }
}

/// Syncs the folders below `work`, which brings their files too, and `work` last: its files tell of the others.
fn sync_folders(work: &Path) -> io::Result<()> {
    let mut folders: Vec<PathBuf> = vec![work.to_owned()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
        next += 1;
    }
    folders.iter().rev().try_for_each(|folder| File::open(folder)?.sync_all())
}
