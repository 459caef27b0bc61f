//! The process that goes on when the command returns.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail};
use mount::Location;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::super::this_program::this_program;
use crate::settings::{Flags, Settings};

/// What the daemon says on its standard output when the mount answers.
const READY: &str = "mounted";

/// What became of a daemon that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// Its mount answers.
    Mounted,
    /// It has said why not.
    Failed,
}

/// How long a daemon lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Until somebody unmounts.
    OfItsOwn,
    /// At most as long as this process: nobody else could find its mount.
    Ours,
    /// So, too, and the folder goes with the mount: what the command leaves running finds no folder of the local disk
    /// at its place.
    OursWithFolder,
}

/// Starts this program again, detached, and waits until it has mounted `location` at `dir` or failed. Its
/// complaints come through, because it has our standard error output until then. `variables` are added to
/// our own.
pub(crate) fn start(
    location: &Location,
    dir: &Path,
    flags: &Flags<Settings>,
    variables: &[(&str, OsString)],
    life: Life,
) -> Result<Started> {
    let place = [OsString::from("--"), location.to_string().into(), dir.into()];
    let ends_with = format!("--ends-with={}", std::process::id());
    let lives = match life {
        Life::OfItsOwn => vec![],
        Life::Ours => vec![ends_with],
        Life::OursWithFolder => vec![ends_with, "--with-folder".to_owned()],
    };
    let mut daemon = this_program()?
        .args(["mount", "--detach"])
        .args(lives)
        .args(flags.arguments())
        .args(place)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the daemon")?;
    if first_line(&mut daemon)?.trim_end() == READY {
        return Ok(Started::Mounted);
    }
    let status = daemon.wait().context("cannot learn how the daemon ended")?;
    if status.success() {
        bail!("the daemon ended before the mount answered");
    }
    Ok(Started::Failed)
}

fn first_line(daemon: &mut Child) -> Result<String> {
    let output = daemon.stdout.take().context("the daemon has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("cannot hear the daemon")?;
    Ok(line)
}

/// Has this process told to end when the one that started it, of the number `starter`, ends.
pub(super) fn end_with(starter: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .context("cannot end with who started us")?;
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    if parent.and_then(|parent| u32::try_from(parent).ok()) != Some(starter) {
        bail!("who started us has ended");
    }
    Ok(())
}

/// Leaves the terminal, the folder and the process group that the user started us in.
pub(super) fn detach() -> Result<()> {
    rustix::process::chdir("/").context("cannot leave the working folder")?;
    // Fails only for who leads a group already, and then there is no terminal to leave.
    let _ = rustix::process::setsid();
    let mut output = std::io::stdout();
    writeln!(output, "{READY}").and_then(|()| output.flush()).context("nobody waits for us")?;
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
