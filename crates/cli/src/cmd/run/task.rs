//! A task: mount, run, wait for the bucket, unmount.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use mount::{Error, Force, Location, Progress};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::super::mount::{Started, start};
use super::super::umount::explain;
use super::child::{Ended, Signals};
use super::folder::Folder;
use crate::settings::{Flags, Settings, Sources};
use crate::{complain, told};

/// The status when not the command failed, but we.
pub(crate) const FAILED: u8 = 174;

/// What the command finds the folder of the mount in.
const MOUNT_VARIABLE: &str = "QUAYFS_MOUNT";

/// A command that wants a bucket.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// What is mounted for it.
    pub(crate) location: Location,
    /// Where; in a temporary folder if nobody says.
    pub(crate) at: Option<PathBuf>,
    /// How.
    pub(crate) flags: Flags<Settings>,
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

impl Task {
    /// Does it all. An error is one of ours: with it, the command has not run, or not all that it wrote is
    /// in the bucket.
    pub(crate) fn run(&self) -> Result<Ended> {
        // From here on no signal ends this process: a mount would be left behind.
        let mut signals = Signals::listen()?;
        let folder = Folder::new(self.at.as_deref())?;
        self.mount(folder.path())?;
        let ended = self.in_mount(&folder, &mut signals);
        // Before what became of the command is told: its files are as important.
        self.unmount(folder.path())?;
        ended
    }

    fn mount(&self, dir: &Path) -> Result<()> {
        let sources = Sources::read(&self.flags)?;
        for warning in sources.warnings() {
            complain(&warning);
        }
        let mut flags = self.flags.clone();
        // Who waits for all at the end need not wait for each; but what somebody said holds.
        if !sources.resolve(Some(&self.location))?.given.contains_key("commit") {
            flags = flags.with_default("commit", "async");
        }
        match start(&self.location, dir, &flags, &[])? {
            Started::Mounted => Ok(()),
            Started::Failed => bail!("{} could not be mounted; nothing was run", self.location),
        }
    }

    fn in_mount(&self, folder: &Folder, signals: &mut Signals) -> Result<Ended> {
        let (program, arguments) = self.command.split_first().context("no command to run")?;
        let mut command = Command::new(program);
        command.args(arguments).env(MOUNT_VARIABLE, folder.path());
        if folder.is_temporary() {
            command.current_dir(folder.path());
        }
        signals.run(&mut command).with_context(|| format!("cannot run {}", program.display()))
    }

    /// Waits for the bucket, and unmounts also if it does not get everything.
    fn unmount(&self, dir: &Path) -> Result<()> {
        let tell = |progress: Progress| complain(&explain(&progress));
        match mount::umount(dir, Force::No, tell) {
            Ok(()) => Ok(()),
            Err(Error::Unpublished { reasons, .. }) => {
                mount::umount(dir, Force::Yes, tell)?;
                bail!(
                    "{} file(s) could not be uploaded:\n  {}\nthe bytes are safe on the local disk; \
                     `quayfs recover {}` tries again",
                    reasons.len(),
                    reasons.join("\n  "),
                    self.location
                )
            }
            // Everything was uploaded; somebody has a file open or is in a folder.
            Err(Error::Mount(_)) => {
                complain("programs that the command left behind still use the mount: ending it");
                end_daemon(dir)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Has the daemon of a mount end, which gives those who use the mount a moment, and then errors.
fn end_daemon(dir: &Path) -> Result<()> {
    let pid = mount::status(dir)?.pid;
    let pid =
        i32::try_from(pid).ok().and_then(Pid::from_raw).context("the daemon has no number")?;
    let daemon = pidfd_open(pid, PidfdFlags::empty()).context("the daemon is gone")?;
    kill_process(pid, Signal::TERM).context("cannot end the daemon")?;
    // It uploads what was written meanwhile, however long that takes.
    while poll(&mut [PollFd::new(&daemon, PollFlags::IN)], None) == Err(Errno::INTR) {}
    Ok(())
}
