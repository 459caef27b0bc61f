//! completions: what a shell completes after `quayfs`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

/// What `completions` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs completions bash > ~/.local/share/bash-completion/completions/quayfs\n  \
    quayfs completions zsh  > ~/.zfunc/_quayfs        (a folder of $fpath)\n  \
    quayfs completions fish > ~/.config/fish/completions/quayfs.fish")]
pub(crate) struct CompletionsArgs {
    /// For which shell: bash, zsh or fish.
    #[arg(value_parser = shell)]
    shell: Shell,
}

fn shell(text: &str) -> Result<Shell, String> {
    match text {
        "bash" => Ok(Shell::Bash),
        "zsh" => Ok(Shell::Zsh),
        "fish" => Ok(Shell::Fish),
        _ => Err(format!("{text}: neither bash nor zsh nor fish")),
    }
}

/// Prints what completes the commands and flags of `program`.
pub(crate) fn run(args: &CompletionsArgs, mut program: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "quayfs", &mut script);
    std::io::stdout().write_all(&script).context("cannot write to the standard output")?;
    Ok(ExitCode::SUCCESS)
}
