//! Has inputs fetched while a command begins: a process of its own asks for them, and is ended with the command.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::this_program::this_program;
use crate::complain;

/// Files that are fetched at a time.
const JOBS: &str = "32";

/// What is not there is told for so long after the end of a command that was a quick one.
const TOLD_WITHIN: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// A fetch that is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Prefetch {
    process: Child,
    /// Where it says that it has told what is not there, if it does: fetching is not waited for.
    told: Option<ChildStdout>,
}

/// Where the paths of inputs are listed, one a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum List {
    File(PathBuf),
    /// What the command would have had for its own.
    StandardInput,
}

impl List {
    /// As it is named on a command line.
    pub(super) fn named(name: &Path) -> Result<List> {
        if name == Path::new("-") {
            return Ok(List::StandardInput);
        }
        let path = std::path::absolute(name);
        Ok(List::File(path.with_context(|| format!("{}: not a path", name.display()))?))
    }
}

/// What `list` names is on its way from now on, if there is a list; without that `command` takes longer, and no more.
pub(super) fn warmed(list: Option<&List>, dir: &Path, command: &mut Command) -> Option<Prefetch> {
    let list = list?;
    if *list == List::StandardInput {
        command.stdin(Stdio::null());
    }
    let begun = Prefetch::of_list(list, dir);
    begun.map_err(|error| complain(&format!("inputs are not fetched ahead: {error}"))).ok()
}

impl Prefetch {
    /// Begins with `paths`, each of which ends with a zero byte. What cannot be fetched is not told.
    pub(super) fn of_paths(paths: &[u8]) -> Result<Prefetch> {
        let mut child = this_program()?
            .args(["warm", "--from-file", "-", "-0", "--jobs", JOBS])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = child.stdin.take();
        let prefetch = Prefetch { process: child, told: None };
        if let Some(mut stdin) = stdin {
            // It reads all before it does anything else.
            stdin.write_all(paths)?;
        }
        Ok(prefetch)
    }

    /// Begins with what `list` names, in the mount at `dir`. What cannot be fetched is told to people.
    fn of_list(list: &List, dir: &Path) -> Result<Prefetch> {
        let mut command = this_program()?;
        command.args(["warm", "--tell-first", "--jobs", JOBS, "--from-file"]);
        match list {
            List::File(path) => command.arg(path).stdin(Stdio::null()),
            List::StandardInput => command.arg("-"),
        };
        let mut process = command.current_dir(dir).stdout(Stdio::piped()).spawn()?;
        let told = process.stdout.take();
        Ok(Prefetch { process, told })
    }

    /// There was no command: nobody wants to be told what is not there.
    pub(super) fn was_for_nothing(&mut self) {
        self.told = None;
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        if let Some(told) = &self.told {
            let mut waiting = [PollFd::new(told, PollFlags::IN)];
            if poll(&mut waiting, Some(&TOLD_WITHIN)) == Ok(0) {
                complain("the command has ended before all of the list was looked for");
            }
        }
        // It may have ended by itself. It must be gone, since it holds files of the mount.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
