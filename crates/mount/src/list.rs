//! All mounts of this machine, by whomever.

use std::io;
use std::path::{Path, PathBuf};

use fuse::MountEntry;

use crate::ask_all::ask_all;
use crate::control::status;
use crate::error::Error;
use crate::status::Status;
use crate::tenant;

/// A mount, and what it says of itself.
#[derive(Debug)]
pub struct Listed {
    /// Where it is.
    pub dir: PathBuf,
    /// What is mounted.
    pub source: String,
    /// The number of who mounted it, if the kernel tells.
    pub owner: Option<u32>,
    /// What its daemon says.
    pub answer: Answer,
}

/// What the daemon of a mount says.
#[derive(Debug)]
pub enum Answer {
    /// How it is.
    Status(Box<Status>),
    /// Nothing: it is gone, and programs get errors.
    Dead,
    /// Nothing that we may hear: it is another user's.
    Others,
    /// Nothing, though it is there.
    Silent(Error),
}

/// Where a mount is, and what it says of itself.
pub type Said = (PathBuf, Result<Status, Error>);

/// All of them, in the order in which they were mounted.
pub fn list() -> Result<Vec<Listed>, Error> {
    let own = rustix::process::geteuid();
    let listed = asked(table()?).into_iter().map(|(entry, said)| {
        let is_others = !own.is_root() && entry.owner.is_some_and(|owner| owner != own.as_raw());
        let answer = match said {
            Ok(status) => Answer::Status(Box::new(status)),
            Err(_) if is_others => Answer::Others,
            Err(Error::Dead { .. }) => Answer::Dead,
            Err(error) => Answer::Silent(error),
        };
        Listed { dir: entry.path, source: entry.source, owner: entry.owner, answer }
    });
    Ok(listed.collect())
}

/// What the mounts of this user say of themselves, or, for root, anybody's. One that ends meanwhile is not
/// among them.
pub fn statuses() -> Result<Vec<Said>, Error> {
    let said = asked(own(table()?));
    let still_there = table()?;
    let is_there = |entry: &MountEntry| {
        still_there.iter().any(|other| (&other.path, other.device) == (&entry.path, entry.device))
    };
    let told = said.into_iter().filter(|(entry, said)| said.is_ok() || is_there(entry));
    Ok(told.map(|(entry, said)| (entry.path, said)).collect())
}

/// The places where this user has something mounted, or, for root, anybody.
pub fn mounts() -> Result<Vec<PathBuf>, Error> {
    Ok(own(table()?).into_iter().map(|entry| entry.path).collect())
}

/// The places where this user has something mounted, the last one first; root's own alone, for root.
pub fn own_mounts() -> Result<Vec<PathBuf>, Error> {
    let own = rustix::process::geteuid().as_raw();
    let is_own = |entry: &MountEntry| entry.owner == Some(own);
    Ok(table()?.into_iter().rev().filter(is_own).map(|entry| entry.path).collect())
}

/// As [`own_mounts`], without those that a running `quayfs run` uses: it takes them away itself when its command has ended.
pub fn own_mounts_of_no_run() -> Result<Vec<PathBuf>, Error> {
    let own = own_mounts()?;
    let in_use = ask_all(&own, |dir| is_of_a_run(dir));
    Ok(own.into_iter().zip(in_use).filter(|(_, in_use)| !in_use).map(|(dir, _)| dir).collect())
}

/// Whether the mount at `dir` is for a `quayfs run`, or several share it. One whose daemon says nothing is not.
fn is_of_a_run(dir: &Path) -> bool {
    status(dir).is_ok_and(|status| status.starter.is_some()) || tenant::is_in_use(dir)
}

/// The mounts of this user, or, for root, of all users.
pub(crate) fn own_table() -> io::Result<Vec<MountEntry>> {
    Ok(own(fuse::mounts()?))
}

fn table() -> Result<Vec<MountEntry>, Error> {
    let what = "cannot read the table of mounts";
    fuse::mounts().map_err(|source| Error::System { what, source })
}

fn own(entries: Vec<MountEntry>) -> Vec<MountEntry> {
    let own = rustix::process::geteuid();
    let is_own = |owner: u32| own.is_root() || owner == own.as_raw();
    entries.into_iter().filter(|entry| entry.owner.is_none_or(is_own)).collect()
}

/// Each with what its daemon says.
fn asked(entries: Vec<MountEntry>) -> Vec<(MountEntry, Result<Status, Error>)> {
    let said = ask_all(&entries, |entry| status(&entry.path));
    entries.into_iter().zip(said).collect()
}
