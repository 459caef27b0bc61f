//! A mount that others see and use too: one of the host that was passed into a container, which the task leaves as it
//! is, or one of tasks that cannot have mounts of their own, which the last of them takes away.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mount::{Arrived, Error, Location, Tenant};

use super::super::child::Signals;
use super::super::mounted::{Mounted, Patience};
use crate::complain;

/// A share in the mount at the folder of all buckets.
#[derive(Debug)]
pub(super) struct Share {
    top: PathBuf,
    /// `None` where nothing can be noted for others: what is there is not ours then.
    tenant: Option<Tenant>,
}

/// Takes away what is mounted at `top`, if its daemon is dead and others have not done so meanwhile.
pub(super) fn clear(top: &Path, signals: &mut Signals) -> Result<()> {
    let there = top.to_owned();
    let cleared = signals.meanwhile(move || mount::clear_dead_alone(&there));
    cleared.context("told to end before a dead mount could be taken away")
}

impl Share {
    /// Waits while others mount or unmount at `top`; also tells whether there is a mount.
    pub(super) fn take(top: &Path, signals: &mut Signals) -> Result<(Share, Arrived)> {
        let there = top.to_owned();
        let taken = signals.meanwhile(move || Tenant::arrive(&there));
        match taken.context("told to end before the mount of other tasks could be used")? {
            Ok((tenant, arrived)) => {
                Ok((Share { top: top.to_owned(), tenant: Some(tenant) }, arrived))
            }
            Err(error) => {
                let is_there = mount::is_there(top);
                let arrived = if is_there { Arrived::AtMount } else { Arrived::First };
                if !is_there {
                    complain(&format!(
                        "no other task can use {} meanwhile: {error}",
                        top.display()
                    ));
                }
                Ok((Share { top: top.to_owned(), tenant: None }, arrived))
            }
        }
    }

    /// Others may use what was mounted.
    pub(super) fn settle(&mut self) -> Result<()> {
        match &mut self.tenant {
            Some(tenant) => tenant.settle().context("cannot let others use the mount"),
            None => Ok(()),
        }
    }

    /// Brings what the task wrote to `folders` into the bucket, or everything if nobody knows what it wrote to, and
    /// takes the mount away if that is for us to do.
    pub(super) fn end(self, folders: &[&Path], signals: &mut Signals) -> Result<()> {
        let mounted = Mounted::there(&Location::All, &self.top);
        let Some(tenant) = self.tenant.as_ref().filter(|tenant| tenant.is_theirs()) else {
            return self.bring(folders);
        };
        let end = |signals: &mut Signals| {
            mounted.end(signals, Patience::Endless).inspect(|()| tenant.vacate())
        };
        if tenant.is_alone()? {
            return end(signals);
        }
        let brought = self.bring(folders);
        if tenant.leaves_last()? {
            return last_of(brought, end(signals));
        }
        brought
    }

    fn bring(&self, folders: &[&Path]) -> Result<()> {
        if folders.is_empty() {
            // A sync of the folder of all buckets is one of all that is in them.
            return match bring(&self.top, sync_folder) {
                // Of tasks that still run: their launchers bring it.
                Err(error) if is_held(&error) => Ok(()),
                brought => brought,
            };
        }
        folders.iter().try_for_each(|folder| bring(folder, sync_folders))
    }
}

/// What came of it, for who brought its own into the bucket and then unmounts. That brings all, also what could not be
/// brought just now, but does not tell again of what failed for good.
fn last_of(brought: Result<()>, ended: Result<()>) -> Result<()> {
    let for_good =
        |error: &anyhow::Error| error.downcast_ref::<Error>().is_some_and(Error::is_for_good);
    match (brought, ended) {
        (Err(brought), Err(ended)) if for_good(&brought) => {
            Err(ended.context(format!("{brought:#}")))
        }
        (Err(brought), Ok(())) if for_good(&brought) => Err(brought),
        (Ok(()) | Err(_), ended) => ended,
    }
}

/// Brings all below `folder` into the bucket. Where the daemon cannot be asked, the kernel is, by `sync`.
fn bring(folder: &Path, sync: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    match mount::sync(folder, |_| {}) {
        // Its socket is the host's, and not to be reached from here; but the kernel passes a sync on.
        Err(Error::Daemon { .. }) => {
            sync(folder).with_context(|| format!("cannot sync {}", folder.display()))
        }
        synced => Ok(synced?),
    }
}

/// Whether it is that others hold something back, and the bucket has all else.
fn is_held(error: &anyhow::Error) -> bool {
    let told = error.downcast_ref::<Error>().is_some_and(Error::is_held);
    let of_kernel = error.downcast_ref::<io::Error>().map(io::Error::kind);
    told || of_kernel == Some(io::ErrorKind::ResourceBusy)
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
    folders.iter().rev().try_for_each(|folder| sync_folder(folder))
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use anyhow::{Result, bail};
    use mount::Error;

    use super::last_of;

    #[test]
    fn who_unmounts_fails_for_what_it_was_told_of_that_is_lost_for_good() {
        let brought = |missing: &str| -> Result<()> {
            let missing = serde_json::from_str(missing)?;
            Err(Error::Unsynced { path: PathBuf::from("work"), missing }.into())
        };
        let again = || brought(r#"{"failed": ["not now"]}"#);
        let lost = || brought(r#"{"failed": ["gone"], "lost": 1}"#);
        let ended = || -> Result<()> { bail!("no end") };
        for (brought, ended, want) in [
            (Ok(()), Ok(()), None),
            (Ok(()), ended(), Some(&["no end"][..])),
            (again(), Ok(()), None),
            (again(), ended(), Some(&["no end"])),
            (lost(), Ok(()), Some(&["gone"])),
            (lost(), ended(), Some(&["gone", "no end"])),
        ] {
            let told = last_of(brought, ended).err().map(|error| format!("{error:#}"));
            assert_eq!(told.is_some(), want.is_some(), "{told:?}");
            let told = told.unwrap_or_default();
            assert!(want.unwrap_or_default().iter().all(|words| told.contains(words)), "{told}");
            assert!(!told.contains("not now"), "{told}");
        }
    }
}
