//! Which openings of the state folder are alive: each holds a lock on a byte of one file.
//!
//! ```text
//! byte 0        shared by all; exclusive while the only one sweeps
//! byte 1 + n    exclusive for opening number n, for as long as it lives
//! ```

use std::fs::File;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::lock::{self, Mode};

const SWEEP_BYTE: u64 = 0;

/// Putting a folder of millions of files in order takes minutes.
const SWEEP_PATIENCE: Duration = Duration::from_mins(10);

/// From the first byte on, whatever there is.
const ALL: (u64, u64) = (0, 0);

/// Whether opening number `owner` is alive, by the file of locks. Takes none itself.
pub(crate) fn lives(file: &File, owner: u64) -> io::Result<bool> {
    lock::is_held(file, 1 + owner)
}

/// The file of locks.
#[derive(Debug)]
pub(crate) struct Owners {
    file: File,
    /// What we entered as. A lock on its byte would be granted to us, who have it, and given back with ours.
    ours: OnceLock<u64>,
    path: std::path::PathBuf,
}

/// Who else has the state folder open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// Nobody, and nobody comes before [`Owners::join`].
    None,
    /// Others.
    Some,
}

impl Drop for Owners {
    /// Not only by closing the file: a child that was forked a moment ago has it open until it runs its program.
    fn drop(&mut self) {
        if let Err(error) = lock::release_run(&self.file, ALL.0, ALL.1) {
            tracing::debug!(%error, "locks go when the last who has their file closes it");
        }
    }
}

impl Owners {
    /// Opens the file of locks; waits while another process sweeps.
    pub(crate) fn open(layout: &Layout, disk: &Disk) -> Result<(Owners, Company)> {
        let path = layout.owners();
        let file = disk.open_or_create(&path).map_err(|error| Error::io("open", &path, error))?;
        let owners = Owners { file, ours: OnceLock::new(), path };
        let company = owners.company()?;
        if company == Company::Some {
            owners.join()?;
        }
        Ok((owners, company))
    }

    /// Whether others have the state folder open; if not, none can until [`Owners::join`].
    pub(crate) fn company(&self) -> Result<Company> {
        let is_alone = lock::attempt(&self.file, SWEEP_BYTE, Mode::Exclusive);
        let is_alone = is_alone.map_err(|error| self.error(error))?;
        Ok(if is_alone { Company::None } else { Company::Some })
    }

    /// Whether others have the state folder open just now.
    pub(crate) fn has_company(&self) -> Result<bool> {
        lock::is_held(&self.file, SWEEP_BYTE).map_err(|error| self.error(error))
    }

    /// Lets others in.
    pub(crate) fn join(&self) -> Result<()> {
        let joined = lock::wait(&self.file, SWEEP_BYTE, Mode::Shared, SWEEP_PATIENCE);
        joined.map_err(|error| self.error(error))
    }

    /// Says that opening number `owner` is alive, until we are not.
    pub(crate) fn enter(&self, owner: u64) -> Result<()> {
        let is_entered = lock::attempt(&self.file, 1 + owner, Mode::Exclusive);
        let is_entered = is_entered.map_err(|error| self.error(error))?;
        let is_first = is_entered && self.ours.set(owner).is_ok();
        assert!(is_first, "opening {owner} of {} was given twice", self.path.display());
        Ok(())
    }

    /// Whether opening number `owner` is dead.
    pub(crate) fn is_dead(&self, owner: u64) -> Result<bool> {
        if self.ours.get() == Some(&owner) {
            return Ok(false);
        }
        let is_free = lock::attempt(&self.file, 1 + owner, Mode::Exclusive);
        let is_free = is_free.map_err(|error| self.error(error))?;
        if is_free {
            lock::release(&self.file, 1 + owner).map_err(|error| self.error(error))?;
        }
        Ok(is_free)
    }

    fn error(&self, error: io::Error) -> Error {
        Error::io("lock", &self.path, error)
    }
}

#[cfg(test)]
mod tests {
    use super::Owners;
    use crate::disk::Disk;
    use crate::layout::Layout;

    #[test]
    fn who_asks_whether_he_is_dead_himself_lives_on() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        let (ours, _) = Owners::open(&layout, &Disk::default()).unwrap();
        ours.join().unwrap();
        let (other, _) = Owners::open(&layout, &Disk::default()).unwrap();
        ours.enter(7).unwrap();
        assert!(!ours.is_dead(7).unwrap());
        assert!(!other.is_dead(7).unwrap());
        drop(ours);
        assert!(other.is_dead(7).unwrap());
    }
}
