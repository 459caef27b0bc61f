//! All mounts of this machine, by whomever.

use std::path::PathBuf;

use crate::control::status;
use crate::error::Error;
use crate::status::Status;

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

/// All of them, in the order in which they were mounted.
pub fn list() -> Result<Vec<Listed>, Error> {
    let own = rustix::process::geteuid();
    let mounts = fuse::mounts()
        .map_err(|source| Error::System { what: "cannot read the table of mounts", source })?;
    let listed = mounts.into_iter().map(|entry| {
        let is_others = !own.is_root() && entry.owner.is_some_and(|owner| owner != own.as_raw());
        let answer = match status(&entry.path) {
            Ok(status) => Answer::Status(Box::new(status)),
            Err(_) if is_others => Answer::Others,
            Err(_) if fuse::is_dead(&entry.path) => Answer::Dead,
            Err(error) => Answer::Silent(error),
        };
        Listed { dir: entry.path, source: entry.source, owner: entry.owner, answer }
    });
    Ok(listed.collect())
}
