//! This program once more.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

/// A process of this program, called by its own name whatever we are called: under others it is another program.
pub(super) fn this_program() -> Result<Command> {
    let mut command =
        Command::new(std::env::current_exe().context("cannot find the quayfs program")?);
    command.arg0("quayfs");
    Ok(command)
}
