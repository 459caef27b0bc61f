//! A task: mount, run, wait for the bucket, unmount.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use mount::Location;

pub(crate) use super::super::mount::FAILED;
use super::super::mount::Life;
use super::child::{Ended, Signals};
use super::folder::Folder;
use super::haste::Haste;
use super::mounted::{Mounted, Patience};
use super::prefetch::{List, warmed};
use crate::settings::{Flags, Settings};
use crate::{complain, told};

/// What the command finds the folder of the mount in.
pub(super) const MOUNT_VARIABLE: &str = "QUAYFS_MOUNT";

/// Who waits for all at the end need not wait for each; but what somebody said holds.
const DEFAULTS: &[(&str, &str)] = &[("commit", "async")];

/// A command that wants a bucket.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// What is mounted for it.
    pub(crate) location: Location,
    /// Where; in a temporary folder if nobody says.
    pub(crate) at: Option<PathBuf>,
    /// How.
    pub(crate) flags: Flags<Settings>,
    /// What is to be fetched while it begins.
    pub(super) warm: Option<List>,
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
}

/// The status of this process when a task has ended, or could not be done.
pub(crate) fn status(done: Result<Ended>) -> ExitCode {
    match done {
        Ok(ended) => ExitCode::from(ended.status()),
        Err(error) => {
            complain(&told(&error));
            ExitCode::from(FAILED)
        }
    }
}

/// How a command ended whose mount has ended so. Our failure counts; it is told what the command said.
pub(super) fn both(command: Result<Ended>, mount: Result<()>) -> Result<Ended> {
    if let (Ok(ended), Err(_)) = (&command, &mount) {
        complain(&format!("the command itself ended with status {}", ended.status()));
    }
    match (command, mount) {
        // What went wrong first may be why the other did.
        (Err(command), Err(mount)) => Err(mount.context(format!("{command:#}"))),
        (command, mount) => mount.and(command),
    }
}

impl Task {
    /// Does it all. An error is one of ours: with it, the command has not run, or not all that it wrote is
    /// in the bucket.
    pub(crate) fn run(&self) -> Result<Ended> {
        // From here on no signal ends this process: a mount would be left behind.
        let mut signals = Signals::listen()?;
        let folder = Folder::new(self.at.as_deref())?;
        let settings = (DEFAULTS, &[][..]);
        let life = if folder.is_temporary() { Life::OursWithFolder } else { Life::Ours };
        let mounted = Mounted::new(&self.location, folder.path(), &self.flags, settings, life)?;
        let ended = self.in_mount(&folder, &mut signals);
        // Before what became of the command is told: its files are as important.
        both(ended, mounted.end(&mut signals, Patience::UntilSignal))
    }

    fn in_mount(&self, folder: &Folder, signals: &mut Signals) -> Result<Ended> {
        let (program, arguments) = self.command.split_first().context("no command to run")?;
        let mut command = Command::new(program);
        command.args(arguments).env(MOUNT_VARIABLE, folder.path());
        if folder.is_temporary() {
            command.current_dir(folder.path());
        }
        let mut warming = warmed(self.warm.as_ref(), folder.path(), &mut command);
        let ended = signals.run(&mut command, |_| Ok(()), || Haste::begin(folder.path()));
        if let (Err(_), Some(warming)) = (&ended, &mut warming) {
            warming.was_for_nothing();
        }
        drop(warming);
        Ok(ended?.0)
    }
}
