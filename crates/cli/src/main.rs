//! The binary: arguments in, exit code out; alone in printing and exiting.

mod args;
mod cmd;
mod hints;
mod left;
mod plain;
mod service;
mod settings;
mod units;
mod width;

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory, Parser};

use crate::args::{Args, Command};
use crate::cmd::fstab::Called;
use crate::plain::plain;

// What the C library has costs a small file a tenth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().peekable();
    if let Some(called) = arguments.peek().and_then(|name| Called::by(name)) {
        return called.run(arguments);
    }
    if arguments.peek().is_some_and(|name| cmd::run::is_launcher(name)) {
        return cmd::run::launch(arguments.skip(1).collect());
    }
    let hinted = |error| {
        let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        hints::with_hint(error, &words.collect::<Vec<_>>())
    };
    let args = match Args::try_parse().map_err(hinted) {
        Ok(args) => args,
        Err(error)
            if error.use_stderr() && std::env::args_os().nth(1).is_some_and(|a| a == "run") =>
        {
            // Whatever the command would have returned, it is not this.
            let _ = error.print();
            return ExitCode::from(cmd::run::FAILED);
        }
        Err(error) => error.exit(),
    };
    match run(args.command) {
        // Whoever reads what was said would take a part of it for the whole.
        Ok(_) if IS_OUTPUT_LOST.load(Ordering::Relaxed) => ExitCode::FAILURE,
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
        Command::Sync(sync) => Ok(cmd::sync::run(&sync)),
        Command::Info(info) => cmd::info::run(&info),
        Command::Share(share) => cmd::share::run(&share),
        Command::Status(status) => cmd::status::run(&status),
        Command::Top(top) => cmd::top::run(&top),
        Command::Reload(reload) => cmd::reload::run(&reload),
        Command::Metrics(metrics) => cmd::metrics::run(&metrics),
        Command::LogLevel(log_level) => cmd::log_level::run(&log_level),
        Command::Recover(recover) => cmd::recover::run(&recover),
        Command::Warm(warm) => cmd::warm::run(&warm),
        Command::Evict(evict) => cmd::evict::run(&evict),
        Command::Pin(pin) => cmd::pin::run(&pin),
        Command::Bench(bench) => cmd::bench::run(&bench),
        Command::Doctor(doctor) => cmd::doctor::run(&doctor),
        Command::Fsck(fsck) => cmd::fsck::run(&fsck),
        Command::Ls(ls) => cmd::ls::run(&ls),
        Command::Du(du) => cmd::du::run(&du),
        Command::Unpin(unpin) => cmd::pin::unpin(&unpin),
        Command::Config(config) => cmd::config::run(&config),
        Command::Completions(completions) => {
            Ok(cmd::completions::run(&completions, Args::command()))
        }
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

/// Says something on the standard error output. Whoever closed it does not want to know.
pub(crate) fn complain(text: &str) {
    let mut output = std::io::stderr();
    let text = plain(text, &output).into_owned();
    let _ = writeln!(output, "quayfs: {text}");
}

/// Whether the standard output did not take something that was said.
static IS_OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

/// Says something on the standard output. Whoever closed it has read enough; that it cannot be written
/// otherwise is told once, and makes the command fail at its end.
pub(crate) fn say(text: &str) {
    let _ = say_more(text);
}

/// As [`say`]; `Break` if the output takes no more.
pub(crate) fn say_more(text: &str) -> ControlFlow<()> {
    let mut output = std::io::stdout();
    let Err(error) = writeln!(output, "{}", plain(text, &output)) else {
        return ControlFlow::Continue(());
    };
    if error.kind() != ErrorKind::BrokenPipe && !IS_OUTPUT_LOST.swap(true, Ordering::Relaxed) {
        complain(&format!("cannot write to the standard output: {error}"));
    }
    ControlFlow::Break(())
}
