//! recover: finish what a mount left, or list and discard what cannot be finished.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use base::printable;
use mount::{Fate, Kept, Location, Notice, Waiting};

use super::mount::explain;
use crate::args::RecoverArgs;
use crate::plain::shown;
use crate::settings::{self, Resolved, Sources};
use crate::units::show_bytes;
use crate::{complain, say};

pub(crate) fn run(args: &RecoverArgs) -> Result<ExitCode> {
    let location = args.url.as_deref().map(Location::parse).transpose()?;
    let Resolved { settings, given } = Sources::read(&args.flags)?.resolve(location.as_ref())?;
    let state_dir = settings::state_dir(&settings.disk.state)?;
    // The usual one is not there before the first mount; one that somebody names is misspelt.
    if given.contains_key("cache-dir") && location.is_none() && !state_dir.is_dir() {
        bail!("{}: there is no state folder", shown(&state_dir));
    }
    if args.list {
        let (waiting, kept) = (mount::waiting(&state_dir)?, mount::kept(&state_dir)?);
        say(&if args.json {
            serde_json::json!({ "waiting": waiting, "kept": kept }).to_string()
        } else {
            table(&waiting, &kept)
        });
        return Ok(ExitCode::SUCCESS);
    }
    if !args.discard.is_empty() {
        // One name that is wrong keeps no other.
        let failed = args.discard.iter().filter_map(|name| mount::discard(&state_dir, name).err());
        let failed = failed.inspect(|error| complain(&error.to_string())).count();
        return Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let location = location.context("a URL is needed: the bucket, as it was mounted")?;
    // Nothing is mounted: the folder is not looked at.
    let config = settings::config(location, Path::new("/"), &settings)?;
    settings::make_state_dir(&state_dir)?;
    let notices = mount::recover(&config)?;
    if notices.is_empty() {
        say("nothing was left to finish");
    }
    // Some of it may have been there before, and some of it nobody knows a bucket of.
    let kept = mount::kept(&state_dir)?.len();
    if 0 < kept {
        complain(&format!(
            "{kept} file(s) are in the recovery folder: see `quayfs recover --list`"
        ));
    }
    for notice in &notices {
        match notice {
            Notice::ReadOnly(reason) => bail!("these credentials cannot write: {reason}"),
            Notice::Resumed(_)
            | Notice::Waiting(_)
            | Notice::Renamed(_)
            | Notice::Renaming(_)
            | Notice::HalfRenamed(_)
            | Notice::Damaged(_)
            | Notice::Unconditional
            | Notice::Kept(_) => say(&explain(notice)),
        }
    }
    // Whoever asks in a script wants to know whether all is in the bucket now.
    let is_left = |notice: &Notice| match notice {
        Notice::Waiting(_)
        | Notice::Renaming(_)
        | Notice::HalfRenamed(_)
        | Notice::Damaged(_)
        | Notice::ReadOnly(_) => true,
        Notice::Unconditional | Notice::Resumed(_) | Notice::Renamed(_) | Notice::Kept(_) => false,
    };
    Ok(if notices.iter().any(is_left) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What is for the next mount, and what is for people.
fn table(waiting: &[Waiting], kept: &[Kept]) -> String {
    let of_waiting = |waiting: &Waiting| {
        let key = waiting.key.as_deref().unwrap_or("an object of which nothing is known here");
        let key = printable(key);
        let volume = printable(waiting.volume.as_deref().unwrap_or("a bucket"));
        let fate = match waiting.fate {
            Fate::Kept if waiting.key.is_none() => {
                "nothing is recorded of it: the next mount moves it to the recovery folder"
                    .to_owned()
            }
            Fate::Uploaded => format!("the next mount of {volume} uploads it as {key}"),
            Fate::Kept => format!(
                "of {key} of {volume}, neither closed nor synced: the next mount moves it to the \
                 recovery folder"
            ),
        };
        format!("{}  {}\n  {fate}", shown(&waiting.path), show_bytes(waiting.bytes))
    };
    let of_kept = |kept: &Kept| {
        format!("{}  {}\n  {}", shown(&kept.path), show_bytes(kept.bytes), printable(&kept.reason))
    };
    let lines: Vec<String> =
        waiting.iter().map(of_waiting).chain(kept.iter().map(of_kept)).collect();
    match &lines[..] {
        [] => "nothing waits for the next mount, and the recovery folder is empty".to_owned(),
        lines => lines.join("\n"),
    }
}
