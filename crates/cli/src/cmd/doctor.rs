//! doctor: look at everything that a mount needs, with advice for each line.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use base::printable;
use clap::Args as ClapArgs;
use mount::{Finding, Location, Patient, Verdict};

use crate::settings::{self, Flags, ReachSettings, Sources};
use crate::{complain, say};

/// As wide as the longest name of what is looked at.
const SUBJECT_COLUMNS: usize = 32;

/// As wide as a verdict.
const INDENT: &str = "      ";

/// What to look at.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs doctor\n  \
    quayfs doctor s3://my-bucket/some/folder --json\n\n\
    Without a URL, doctor checks this machine only: it mounts a folder on the disk of the cache for a moment,\n\
    and writes and reads 64 MiB. With a URL, it also tries each request that a mount sends, on a few small\n\
    objects whose names begin with .quayfs-doctor- and which it removes at the end; it reads and changes no\n\
    other object. Each line says ok, warn (works, but could work better) or fail. The exit status is 0 when\n\
    nothing failed.")]
pub(crate) struct DoctorArgs {
    /// A bucket or folder, as for mount.
    url: Option<String>,
    /// Print JSON: a list of findings.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags<ReachSettings>,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let location = args.url.as_deref().map(Location::parse).transpose()?;
    let sources = Sources::read(&args.flags)?;
    let settings = sources.resolve(location.as_ref())?.settings;
    let patient = if location.is_some() { Patient::Bucket } else { Patient::Machine };
    // Where nothing is asked of a bucket any folder does.
    let location = location.map_or_else(|| Location::parse("file:///"), Ok)?;
    for warning in settings::exposed(&sources, &location)? {
        complain(&warning);
    }
    let config = settings::config(location, Path::new("/"), &settings)?;
    let mut found = Vec::new();
    mount::doctor(&config, patient, |finding| {
        if !args.json {
            say(&line(&finding));
        }
        found.push(finding);
    })?;
    if args.json {
        say(&serde_json::to_string(&found)?);
    }
    let failed = found.iter().any(|finding| finding.verdict == Verdict::Fail);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn line(finding: &Finding) -> String {
    let verdict = match finding.verdict {
        Verdict::Ok => "ok",
        Verdict::Warn => "warn",
        Verdict::Fail => "fail",
    };
    let seen = within(&finding.seen);
    let line = format!("{verdict:<5} {:<SUBJECT_COLUMNS$} {seen}", finding.subject);
    match &finding.advice {
        Some(advice) => format!("{line}\n{INDENT}{:<SUBJECT_COLUMNS$} → {}", "", within(advice)),
        None => line,
    }
}

/// Text that goes on in the column where it began, whatever the store had to say.
fn within(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| printable(line.trim_start())).collect();
    lines.join(&format!("\n{INDENT}{:<SUBJECT_COLUMNS$} ", ""))
}

#[cfg(test)]
mod tests {
    use mount::{Finding, Verdict};

    use super::line;

    #[test]
    fn advice_stands_below_what_it_is_for() {
        let finding = Finding {
            subject: "clock",
            verdict: Verdict::Warn,
            seen: "60 s off\n  (it says \x1b[2J)".to_owned(),
            advice: Some("set it".to_owned()),
        };
        let columns = " ".repeat(39);
        let want = format!(
            "warn  {:<32} 60 s off\n{columns}(it says \\u{{1b}}[2J)\n{columns}→ set it",
            "clock"
        );
        assert_eq!(line(&finding), want);
    }
}
