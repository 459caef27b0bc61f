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
use crate::units::{show_bytes, show_plural};
use crate::{complain, say, told};

/// Arguments of `pin`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs pin ~/data/reference\n  \
    quayfs pin --list\n  \
    quayfs unpin ~/data/reference\n\n\
    Pinned files are fetched whole and stay in the cache, also across mounts, until they are unpinned.\n\
    A folder stands for all files below it. New and changed files are pinned at the next check: when the\n\
    bucket is mounted, every ten minutes, or when the folder is pinned again.\n\
    At most 90 % of the cache can be pinned.")]
pub(crate) struct PinArgs {
    /// Files and folders in a mount.
    #[arg(value_name = "PATH", required_unless_present = "list")]
    paths: Vec<PathBuf>,
    /// Show what is pinned in all mounts of this user, or in the state folder that --cache-dir names.
    #[arg(long, conflicts_with = "paths")]
    list: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags<StateSettings>,
}

/// Arguments of `unpin`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs unpin ~/data/reference\n  \
    quayfs unpin --all\n\n\
    The path must be one that was pinned: `quayfs pin --list` shows them. The files stay until the cache needs\n\
    room; `quayfs evict` removes them at once.")]
pub(crate) struct UnpinArgs {
    /// Paths as they were pinned.
    #[arg(value_name = "PATH", required_unless_present = "all")]
    paths: Vec<PathBuf>,
    /// Unpin everything in all mounts of this user. Pins of buckets that are not mounted stay.
    #[arg(long, conflicts_with = "paths")]
    all: bool,
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

pub(crate) fn unpin(args: &UnpinArgs) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let mounts = if args.all { mount::mounts()? } else { Vec::new() };
    for dir in mounts {
        if let Err(error) = mount::unpin_all(&dir) {
            complain(&told(&error.into()));
            code = ExitCode::FAILURE;
        }
    }
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
    Ok(code)
}

fn tell(path: &std::path::Path, pinned: &Pinned) {
    say(&format!(
        "{}: {}, {}, of which {} were fetched",
        shown(path),
        show_plural(pinned.files, "file"),
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
        format!("{volume}  {path}  {}, {}", show_plural(pin.files, "file"), show_bytes(pin.bytes))
    };
    match pins {
        [] => "nothing is pinned".to_owned(),
        pins => pins.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}
