//! Hints for command lines that users try and that quayfs does not accept.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags by which other programs take secrets.
const SECRETS: [&str; 12] = [
    "--access-key",
    "--access-key-id",
    "--aws-access-key-id",
    "--aws-secret-access-key",
    "--account-key",
    "--key",
    "--password",
    "--passwd-file",
    "--secret",
    "--secret-key",
    "--secret-access-key",
    "--token",
];

const ON_SECRETS: &str = "keys are not taken on the command line, where other users can read them: set \
     AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile with --aws-profile";

/// The error of the parser, with a hint that fits `arguments`, the command line without the program.
pub(crate) fn with_hint(mut error: clap::Error, arguments: &[String]) -> clap::Error {
    if let Some(hint) = hint(&error, arguments) {
        let hint = ContextValue::StyledStrs(vec![StyledStr::from(hint)]);
        // The parser's own guess may be far from what was meant.
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedCommand);
        error.insert(ContextKind::Suggested, hint);
    }
    error
}

fn hint(error: &clap::Error, arguments: &[String]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let kind = error.kind();
    if kind == ErrorKind::UnknownArgument {
        let argument = text(ContextKind::InvalidArg)?;
        let name = argument.split(['=', ' ']).next().unwrap_or(argument).to_ascii_lowercase();
        if SECRETS.contains(&name.as_str()) {
            return Some(ON_SECRETS.to_owned());
        }
        let is_of_run = arguments.first().is_some_and(|command| command == "run");
        let url = arguments.get(1).filter(|url| url.contains("://"))?;
        (is_of_run && !argument.starts_with('-'))
            .then(|| format!("write -- before the command: quayfs run {url} -- {argument}"))
    } else if kind == ErrorKind::InvalidSubcommand {
        let command = text(ContextKind::InvalidSubcommand)?;
        let dir = arguments.get(1).map_or("DIR", String::as_str);
        let is_url = command.contains("://");
        is_url.then(|| format!("to mount it: quayfs mount {command} {dir}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::with_hint;
    use crate::args::Args;

    #[test]
    fn mistyped_command_line_gets_hint() {
        let keys = "keys are not taken on the command line";
        for (line, want) in [
            ("mount s3://lab m --access-key AKIA", keys),
            ("mount s3://lab m --secret-access-key=hush", keys),
            ("doctor s3://lab --secret-key x", keys),
            ("s3://lab m", "to mount it: quayfs mount s3://lab m"),
            ("s3://lab", "to mount it: quayfs mount s3://lab DIR"),
            ("run s3://lab ls -l", "write -- before the command: quayfs run s3://lab -- ls"),
            ("mount s3://lab m --read-onyl", "--read-only"),
            ("umuont m", "umount"),
        ] {
            let words = ["quayfs"].into_iter().chain(line.split(' '));
            let error = Args::try_parse_from(words).unwrap_err();
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let told = with_hint(error, &arguments).to_string();
            assert!(told.contains(want), "{line}: {told}");
            assert_eq!(told.matches("tip:").count(), 1, "{line}: {told}");
            assert!(!told.contains("hush"), "{told}");
        }
    }

    #[test]
    fn words_of_other_programs_are_understood() {
        for line in [
            "unmount m",
            "mount s3://lab m --ro",
            "mount s3://lab m --metadata-ttl forever --deadline 5min --upload-delay 1d --uid root --gid root",
            "sync a b",
            "unpin --all",
        ] {
            let words = ["quayfs"].into_iter().chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_ok(), "{line}");
        }
        for line in ["unpin", "unpin --all a", "sync"] {
            let words = ["quayfs"].into_iter().chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_err(), "{line}");
        }
    }
}
