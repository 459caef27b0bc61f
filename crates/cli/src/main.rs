//! The binary: arguments in, exit code out; alone in printing and exiting.

mod args;
mod cmd;
mod settings;
mod units;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Args, Command};

// One lock for all threads is what musl's own allocator has.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Mount(mount) => cmd::mount::run(&mount),
        Command::Umount(umount) => cmd::umount::run(&umount),
        Command::Sync(sync) => cmd::sync::run(&sync),
        Command::Status(status) => cmd::status::run(&status),
        Command::LogLevel(log_level) => cmd::log_level::run(&log_level),
        Command::Recover(recover) => cmd::recover::run(&recover),
        Command::Warm(warm) => cmd::warm::run(&warm),
        Command::Evict(evict) => cmd::evict::run(&evict),
        Command::Pin(pin) => cmd::pin::run(&pin),
        Command::Unpin(unpin) => cmd::pin::unpin(&unpin),
        Command::Config(config) => cmd::config::run(&config),
        Command::Completions(completions) => cmd::completions::run(&completions, Args::command()),
        Command::Man(man) => cmd::man::run(&man, Args::command()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            complain(&told(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error with its causes, but for those that it tells of itself.
fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        match (told.is_empty(), told.contains(&cause)) {
            (true, _) => cause,
            (false, true) => told,
            (false, false) => format!("{told}: {cause}"),
        }
    })
}

/// Says something on the standard error output.
#[expect(clippy::print_stderr, reason = "this crate alone talks to people")]
pub(crate) fn complain(text: &str) {
    eprintln!("quayfs: {text}");
}

/// Says something on the standard output. Whoever closed it has read enough.
pub(crate) fn say(text: &str) {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain(&format!("cannot write to the standard output: {error}"));
        }
        Ok(()) | Err(_) => {}
    }
}
