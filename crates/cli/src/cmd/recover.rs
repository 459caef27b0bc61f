//! recover: finish what a mount left, or list and discard what cannot be finished.

mod page;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use base::printable;
use mount::{Config, Error, GivenUp, Home, Kept, Left, Location, Notice, PutBack};
use serde_json::Value;

use self::page::page;
use super::mount::explain;
use crate::args::RecoverArgs;
use crate::plain::shown;
use crate::settings::{self, Given, Origin, Resolved, Sources};
use crate::units::show_bytes;
use crate::{complain, say};

pub(crate) fn run(args: &RecoverArgs) -> Result<ExitCode> {
    let location = args.url.as_deref().map(Location::parse).transpose()?;
    if let Some(name) = &args.restore {
        return restore(args, name, location);
    }
    let Resolved { settings, given } = Sources::read(&args.flags)?.resolve(location.as_ref())?;
    let state_dir = settings::state_dir(&settings.disk.state)?;
    // Before the first mount neither the usual one is there nor that of a settings file, which is made then; one that
    // somebody names just now is misspelt, and so is one in which nothing but to look is asked for.
    let is_named = |named: &Given| location.is_none() || named.origin == Origin::Flag;
    if given.get("cache-dir").is_some_and(is_named) && !state_dir.is_dir() {
        bail!("{}: there is no state folder", shown(&state_dir));
    }
    if args.list {
        // Nothing is mounted: the folder is not looked at.
        let config = location.map(|location| settings::config(location, Path::new("/"), &settings));
        let left = mount::left(&state_dir, config.transpose()?.as_ref())?;
        let kept = mount::kept(&state_dir)?;
        say(&if args.json {
            object(&left, &kept)?.to_string()
        } else {
            page(&left, &kept, &state_dir)
        });
        return Ok(ExitCode::SUCCESS);
    }
    if !args.discard.is_empty() {
        let state_dir = settings::safe_state_dir(&state_dir)?;
        // One name that is wrong keeps no other.
        let failed = args.discard.iter().filter_map(|name| mount::discard(&state_dir, name).err());
        let failed = failed.inspect(|error| complain(&error.to_string())).count();
        return Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let location = location.context("a URL is needed: the bucket, as it was mounted")?;
    // Nothing is mounted: the folder is not looked at.
    let mut config = settings::config(location, Path::new("/"), &settings)?;
    config.state_dir = settings::make_state_dir(&state_dir)?;
    if args.give_up { give_up(&config) } else { finish(&config) }
}

/// Uploads a file of the recovery folder.
fn restore(args: &RecoverArgs, name: &OsStr, location: Option<Location>) -> Result<ExitCode> {
    let sources = Sources::read(&args.flags)?;
    let found = settings::state_dir(&sources.resolve(location.as_ref())?.settings.disk.state)?;
    let home = match location {
        Some(location) => Home { location, endpoint: None },
        None => mount::home_of(&found, name)?,
    };
    // The file of settings may have some for this bucket only.
    let settings = sources.resolve(Some(&home.location))?.settings;
    let mut config = settings::config(home.location, Path::new("/"), &settings)?;
    config.set_endpoint_if_none(home.endpoint);
    config.state_dir = settings::safe_state_dir(&found)?;
    let mut notices = Vec::new();
    let put_back = mount::put_back(&config, (name, args.to.as_deref()), &mut notices);
    for notice in notices.iter().filter(|notice| !matches!(notice, Notice::EmptyPrefix(_))) {
        complain(&explain(notice));
    }
    let PutBack { key, bytes } = put_back.map_err(with_way_out)?;
    say(&format!("restored {} ({}) to {}", printable(&key), show_bytes(bytes), config.location));
    Ok(ExitCode::SUCCESS)
}

/// Finishes what waits for the bucket of `config`.
fn finish(config: &Config) -> Result<ExitCode> {
    let notices = mount::recover(config).map_err(with_way_out)?;
    // What a process still has in hand is not for us to finish.
    let at_work = mount::left(&config.state_dir, Some(config))?.working;
    for working in &at_work {
        complain(&page::working(working));
    }
    if notices.is_empty() && at_work.is_empty() {
        say("nothing was left to finish");
    }
    // Some of it may have been there before, and some of it nobody knows a bucket of.
    let kept = mount::kept(&config.state_dir)?.len();
    if 0 < kept {
        complain(&format!(
            "{kept} file(s) are in the recovery folder: see `{}`",
            mount::recover_list(&config.state_dir)
        ));
    }
    for notice in &notices {
        match notice {
            Notice::ReadOnly(reason) => bail!("these credentials cannot write: {reason}"),
            // Nothing is mounted here.
            Notice::EmptyPrefix(_) => {}
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
        Notice::EmptyPrefix(_)
        | Notice::Unconditional
        | Notice::Resumed(_)
        | Notice::Renamed(_)
        | Notice::Kept(_) => false,
    };
    Ok(if !at_work.is_empty() || notices.iter().any(is_left) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Gives up what waits for the bucket of `config`.
fn give_up(config: &Config) -> Result<ExitCode> {
    let GivenUp { kept, changes } = mount::give_up(config)?;
    // What they work on, be it for this bucket, is theirs.
    let at_work = mount::left(&config.state_dir, Some(config))?.working;
    for working in &at_work {
        complain(&page::working(working));
    }
    if kept.is_empty() && changes.is_empty() && at_work.is_empty() {
        say("nothing waited for this bucket");
        tell_of_others(&mount::left(&config.state_dir, None)?);
    }
    for path in kept {
        say(&format!("given up; the bytes are kept in {}", shown(&path)));
    }
    for change in changes {
        say(&format!("given up: {}", page::words(&change.change)));
    }
    Ok(if at_work.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// For which buckets something waits: the one that was meant may be among them, under another endpoint or name.
fn tell_of_others(left: &Left) {
    let files = left.waiting.iter().filter_map(|waiting| waiting.volume.as_deref());
    let volumes: BTreeSet<_> =
        files.chain(left.changes.iter().map(|change| &*change.volume)).collect();
    for volume in volumes {
        complain(&format!("something waits for {}", printable(&Location::told(volume))));
    }
}

/// A bucket that cannot be reached may never be again.
fn with_way_out(error: Error) -> anyhow::Error {
    if !matches!(error, Error::Remote { .. }) {
        return error.into();
    }
    anyhow!(
        "{error}\n  if the bucket is gone for good: `quayfs recover --give-up URL` keeps what waits for it on this machine"
    )
}

/// For programs.
fn object(left: &Left, kept: &[Kept]) -> Result<Value> {
    let mut object = serde_json::to_value(left)?;
    object["kept"] = serde_json::to_value(kept)?;
    Ok(object)
}
