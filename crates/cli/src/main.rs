//! The binary: arguments in, exit code out; alone in printing and exiting.

mod args;
mod cmd;
mod service;
mod settings;
mod units;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Args, Command};
use crate::cmd::fstab::Called;

// One lock for all threads is what musl's own allocator has.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().peekable();
    if let Some(called) = arguments.peek().and_then(|name| Called::by(name)) {
        return called.run(arguments);
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error)
            if error.use_stderr() && std::env::args_os().nth(1).is_some_and(|a| a == "run") =>
        {
            // Whatever the command would have returned, it is not this.
            complain(error.render().to_string().trim_end());
            return ExitCode::from(cmd::run::FAILED);
        }
        Err(error) => error.exit(),
    };
    match run(args.command) {
        Ok(code) => code,
        Err(error) => {
            complain(&told(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Mount(mount) => cmd::mount::run(&mount),
        Command::Umount(umount) => cmd::umount::run(&umount),
        Command::List(list) => cmd::list::run(&list),
        Command::Run(run) => Ok(cmd::run::run(&run)),
        Command::Sync(sync) => cmd::sync::run(&sync),
        Command::Status(status) => cmd::status::run(&status),
        Command::Top(top) => cmd::top::run(&top),
        Command::LogLevel(log_level) => cmd::log_level::run(&log_level),
        Command::Recover(recover) => cmd::recover::run(&recover),
        Command::Warm(warm) => cmd::warm::run(&warm),
        Command::Evict(evict) => cmd::evict::run(&evict),
        Command::Pin(pin) => cmd::pin::run(&pin),
        Command::Bench(bench) => cmd::bench::run(&bench),
        Command::Doctor(doctor) => cmd::doctor::run(&doctor),
        Command::Fsck(fsck) => cmd::fsck::run(&fsck),
        Command::Unpin(unpin) => cmd::pin::unpin(&unpin),
        Command::Config(config) => cmd::config::run(&config),
        Command::Completions(completions) => cmd::completions::run(&completions, Args::command()),
        Command::Man(man) => cmd::man::run(&man, Args::command()),
    }
}

/// The error with its causes, but for those that it tells of itself.
pub(crate) fn told(error: &anyhow::Error) -> String {
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
