//! Who cares for the folder of a server, so that one whose keeper was killed is found and removed by the next.
//!
//! ```text
//!   quayfs-a1b2c3          the folder
//!   quayfs-a1b2c3.kept     locked for as long as its keeper lives
//! ```
//!
//! A keeper outlives the test and removes the folder, but a run that is ended with all its processes, as by the end of
//! its container, takes the keeper along, be it in the middle of the removal.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

const ENDING: &str = "kept";

/// The file whose lock says that `folder` has a keeper.
pub(crate) fn path(folder: &Path) -> PathBuf {
    let mut path = OsString::from(folder);
    path.push(".");
    path.push(ENDING);
    path.into()
}

/// The lock of `folder`, which a keeper is to hold.
pub(crate) fn take(folder: &Path) -> File {
    let path = path(folder);
    // Under its name it is locked from the start: a free one is one to be removed.
    let draft = path.with_extension("draft");
    let lock = File::create(&draft).expect("the scratch disk takes a file");
    lock.lock().expect("nobody else knows this file");
    fs::rename(&draft, &path).expect("the scratch disk takes a file");
    lock
}

/// Removes the folders beside `folder` whose keepers are dead.
pub(crate) fn remove_abandoned(folder: &Path) {
    let parent = folder.parent().expect("a scratch folder is in one");
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(b"quayfs-");
        if is_ours && path.extension() == Some(OsStr::new(ENDING)) {
            remove_if_abandoned(&path);
        }
    }
}

/// What cannot be removed, as by who is not root, is left to others.
fn remove_if_abandoned(kept: &Path) {
    let Ok(lock) = File::open(kept) else { return };
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return,
    }
    let folder = kept.with_extension("");
    let removal = Command::new("rm").args(["-rf", "--one-file-system"]).arg(&folder).output();
    if removal.is_ok_and(|removal| removal.status.success()) {
        // Somebody else may have done the same.
        let _ = fs::remove_file(kept);
    }
}
