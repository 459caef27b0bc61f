//! The binary: arguments in, exit code out; alone in printing and exiting.

mod args;
mod cmd;
mod units;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Mount(mount) => cmd::mount::run(&mount),
        Command::Umount(umount) => cmd::umount::run(&umount),
        Command::Status(status) => cmd::status::run(&status),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Says something on the standard error output.
#[expect(clippy::print_stderr, reason = "this crate alone talks to people")]
pub(crate) fn complain(text: &str) {
    eprintln!("quayfs: {text}");
}

/// Says something on the standard output.
#[expect(clippy::print_stdout, reason = "this crate alone talks to people")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}
