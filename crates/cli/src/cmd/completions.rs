//! completions: what a shell completes after `quayfs`.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command};
use clap_complete::Shell;

use crate::say;

/// What `completions` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs completions bash > ~/.local/share/bash-completion/completions/quayfs\n  \
    quayfs completions zsh  > ~/.zfunc/_quayfs        (a folder of $fpath)\n  \
    quayfs completions fish > ~/.config/fish/completions/quayfs.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell: bash, zsh or fish.
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

/// The words that arguments take which are read by functions of our own: those that a shell may offer.
const WORDS: [(&str, &[&str]); 8] = [
    ("acl", &["private", "bucket-owner-read", "bucket-owner-full-control", "public-read"]),
    ("attributes", &["keep", "off"]),
    ("commit", &["close", "async"]),
    ("log_format", &["text", "json", "journald"]),
    ("log_level", &["error", "warn", "info", "debug", "trace"]),
    ("profile", &["pipeline", "interactive", "training", "shared"]),
    ("shell", &["bash", "zsh", "fish"]),
    ("sse", &["store", "kms"]),
];

/// With the words that it takes, for whoever offers them.
fn with_words(argument: Arg) -> Arg {
    match WORDS.iter().find(|(name, _)| argument.get_id() == *name) {
        Some((_, words)) => argument.value_parser(PossibleValuesParser::new(*words)),
        None => argument,
    }
}

/// Prints what completes the commands and flags of `program`.
pub(crate) fn run(args: &CompletionsArgs, program: Command) -> ExitCode {
    let mut program = program.mut_subcommands(|command| command.mut_args(with_words));
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "quayfs", &mut script);
    say(String::from_utf8_lossy(&script).trim_end());
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::WORDS;
    use crate::args::Args;

    #[test]
    fn the_words_that_are_offered_are_taken() {
        let mount = Args::command().find_subcommand("mount").unwrap().clone();
        for (name, words) in WORDS.iter().filter(|(name, _)| *name != "shell") {
            let flag = mount.get_arguments().find(|argument| argument.get_id() == *name).unwrap();
            let flag = format!("--{}", flag.get_long().unwrap());
            for word in *words {
                Args::try_parse_from(["quayfs", "mount", &flag, word, "s3://b", "/mnt"]).unwrap();
            }
        }
    }
}
