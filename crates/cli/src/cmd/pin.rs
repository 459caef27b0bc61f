//! pin and unpin: fetch these files, and keep them whatever else is read.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use base::printable;
use clap::Args as ClapArgs;
use mount::{ListedPin, Location, Pinned, Unpinned, spelled};
use serde_json::json;

use super::files::Bar;
use crate::plain::shown;
use crate::settings::{self, Flags, Resolved, Sources, StateSettings};
use crate::units::show_bytes;
use crate::{complain, say, told};

/// What is to stay in the cache.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs pin /mnt/reference\n  \
    quayfs pin --list\n  \
    quayfs unpin /mnt/reference\n\n\
    Pinned files are fetched whole and never dropped, also after the next mount, until they are unpinned.\n\
    A folder stands for all files below it. What comes into it later, and what is changed, is pinned when\n\
    the mount next looks: at its beginning, every ten minutes, or when the folder is pinned again.\n\
    At most 90 % of the cache can be pinned.")]
pub(crate) struct PinArgs {
    /// Files and folders in a mount.
    #[arg(value_name = "PATH", required_unless_present = "list")]
    paths: Vec<PathBuf>,
    /// Show what is pinned in all mounts of this user, or in the state folder that --cache-dir names.
    #[arg(long, conflicts_with = "paths")]
    list: bool,
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags<StateSettings>,
}

/// What need not stay in the cache any longer.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs unpin /mnt/reference\n\n\
    The path must be one that was pinned: `quayfs pin --list` tells them. Nothing is dropped now, but may\n\
    be when the cache needs room; `quayfs evict` drops it at once.")]
pub(crate) struct UnpinArgs {
    /// As it was pinned.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

pub(crate) fn run(args: &PinArgs) -> Result<ExitCode> {
    if args.list {
        let mut pins = Vec::new();
        for state_dir in state_dirs(&args.flags)? {
            pins.extend(mount::pinned(&state_dir)?);
        }
        say(&if args.json { serde_json::to_string(&pins)? } else { table(&pins) });
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = Vec::new();
    let mut is_whole = true;
    for path in &args.paths {
        let mut bar = Bar::new(0);
        let pinned = mount::pin(path, |progress| {
            bar.of(progress.of_bytes);
            bar.add(progress.bytes);
        });
        bar.clear();
        // One that cannot be pinned keeps no other from it.
        match pinned {
            Ok(pinned) => {
                is_whole &= pinned.failed.is_empty();
                if args.json {
                    all.push(json!({ "path": spelled(path).into_owned(), "pinned": pinned }));
                } else {
                    tell(path, &pinned);
                }
            }
            Err(error) => {
                is_whole = false;
                let error = told(&error.into());
                complain(&error);
                all.push(json!({ "path": spelled(path).into_owned(), "error": error }));
            }
        }
    }
    if args.json {
        say(&serde_json::to_string(&all)?);
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The state folder that somebody named, or else the usual one and those of all mounts.
fn state_dirs(flags: &Flags<StateSettings>) -> Result<BTreeSet<PathBuf>> {
    let Resolved { settings, given } = Sources::read(flags)?.resolve(None)?;
    let mut dirs = BTreeSet::from([settings::state_dir(&settings.disk.state)?]);
    if given.contains_key("cache-dir") {
        return Ok(dirs);
    }
    for (_, status) in mount::statuses()? {
        match status {
            Ok(status) => drop(dirs.insert(status.cache.dir)),
            Err(error) => complain(&format!("what is pinned there is not shown: {error}")),
        }
    }
    Ok(dirs)
}

pub(crate) fn unpin(args: &UnpinArgs) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in &args.paths {
        let told = match mount::unpin(path) {
            Ok(Unpinned::Yes) => continue,
            Ok(Unpinned::WasNot) => {
                let told = "is not pinned by this name; `quayfs pin --list` tells what is";
                format!("{}: {told}", shown(path))
            }
            Err(error) => told(&error.into()),
        };
        complain(&told);
        code = ExitCode::FAILURE;
    }
    code
}

fn tell(path: &std::path::Path, pinned: &Pinned) {
    say(&format!(
        "{}: {} file(s), {}, of which {} were fetched",
        shown(path),
        pinned.files,
        show_bytes(pinned.bytes),
        show_bytes(pinned.brought_bytes)
    ));
    for reason in &pinned.failed {
        complain(&format!("not here yet, the mount tries again: {}", printable(reason)));
    }
}

fn table(pins: &[ListedPin]) -> String {
    let line = |pin: &ListedPin| {
        let volume = Location::told(&pin.volume);
        let (volume, path) = (printable(&volume), printable(&pin.path));
        format!("{volume}  {path}  {} file(s), {}", pin.files, show_bytes(pin.bytes))
    };
    match pins {
        [] => "nothing is pinned".to_owned(),
        pins => pins.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}
