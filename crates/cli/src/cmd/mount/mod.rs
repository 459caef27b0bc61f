//! mount: serve in the background.

mod args;
mod daemon;
mod notices;
mod reconfigure;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use mount::{Location, LogTarget, Stage};

pub(crate) use args::MountArgs;
pub(crate) use daemon::{Life, Started, start};
pub(crate) use notices::explain;

use self::reconfigure::Reread;
use super::buckets::EachBucket;
use crate::plain::shown;
use crate::service::Manager;
use crate::settings::{self, Resolved, Sources};
use crate::units::{show_bytes, show_plural};
use crate::{complain, told};

pub(crate) fn run(args: &MountArgs) -> Result<ExitCode> {
    if args.detach {
        mount::close_inherited().context("cannot close what was open before")?;
    }
    let (location, dir) = args.place()?;
    let flags = args.flags()?;
    let sources = Sources::read(&flags)?;
    // Who started it has warned.
    if !args.detach {
        warn(&sources, &sources, &location)?;
    }
    if args.foreground || args.detach {
        return match serve(args, sources, location, dir) {
            Err(error) if is_not_uploaded(&error) => {
                complain(&told(&error));
                Ok(ExitCode::from(FAILED))
            }
            served => served.map(|()| ExitCode::SUCCESS),
        };
    }
    // Before a process is started for it, as much is checked as can be.
    settings::config(location.clone(), dir, &sources.resolve(Some(&location))?.settings)?;
    Ok(match start(&location, dir, &flags, &[], Life::OfItsOwn)? {
        Started::Mounted => ExitCode::SUCCESS,
        Started::Failed => ExitCode::FAILURE,
    })
}

/// The exit status when everything was done but for uploads, and of a `quayfs run` whose command did not fail.
pub(crate) const FAILED: u8 = 174;

/// Whether a mount ended before everything was uploaded.
fn is_not_uploaded(error: &anyhow::Error) -> bool {
    error.downcast_ref::<mount::Error>().is_some_and(mount::Error::is_not_uploaded)
}

/// Tells what may have been meant otherwise; an error if it cannot have been meant. `held` is what was said with what is
/// our own, if anything is.
pub(crate) fn warn(sources: &Sources, held: &Sources, location: &Location) -> Result<()> {
    let Resolved { settings, given } = sources.resolve(Some(location))?;
    if let Some(address) = settings.metrics.metrics_listen.filter(|at| !at.ip().is_loopback()) {
        complain(&format!(
            "metrics are answered at {address} to each client that reaches it, without TLS and password; 127.0.0.1 is for \
             this machine alone"
        ));
    }
    let commit = held.resolve(Some(location))?.settings.tuning.commit;
    settings::check_late(sources, location, commit)?;
    let without_right = settings::without_right(&given, mount::may_trust())?;
    let ignored = settings::of_one_bucket(sources, location);
    let warnings = sources.warnings().into_iter().chain(without_right).chain(ignored);
    for warning in warnings.chain(settings::exposed(sources, location)?) {
        complain(&warning);
    }
    Ok(())
}

fn serve(args: &MountArgs, sources: Sources, location: Location, dir: &Path) -> Result<()> {
    if let Some(starter) = args.ends_with {
        daemon::end_with(starter)?;
    }
    let settings = sources.resolve(Some(&location))?.settings;
    let mut config = settings::config(location, dir, &settings)?;
    config.starter = args.ends_with;
    // A folder that is not ours to keep state in is left as it is.
    mount::check_apart(&config)?;
    config.state_dir = settings::make_state_dir(&config.state_dir)?;
    let own = if args.detach {
        LogTarget::File(config.state_dir.join("quayfs.log"))
    } else {
        LogTarget::Terminal
    };
    let log = settings::log(&settings.logs, own, &config.dir);
    config.insight.log = Some(mount::start_logging(&log).context("cannot start the log")?);
    let hides_files = mount::has_files(dir);
    let mut detached = Ok(());
    // Once: somebody else may make one of its name then.
    let mut with_folder = args.with_folder;
    let manager = Manager::ours();
    let serving = format!("serving {} at {}", config.location, config.dir.display());
    let again = Arc::new(Reread::new(sources.clone(), config.location.clone())?);
    let buckets = Arc::new(EachBucket::new(sources, &config.dir));
    mount::serve(&config, (buckets, again), |stage| match stage {
        Stage::Recovering { files } => {
            let files = show_plural(files, "file");
            let status = format!("uploading {files} left over from an earlier mount");
            manager.starting(&status);
            complain(&status);
        }
        Stage::Ready(notices) => {
            for notice in notices {
                complain(&explain(notice));
            }
            if hides_files {
                let dir = shown(dir);
                complain(&format!(
                    "note: {dir} is not empty: its files are hidden until you unmount"
                ));
            }
            if args.detach {
                detached = daemon::detach();
            }
            manager.ready(&serving);
        }
        Stage::Ending { files, bytes } => {
            if std::mem::take(&mut with_folder) {
                // Only if it is empty; it may be removed already.
                let _ = std::fs::remove_dir(dir);
            }
            let files = show_plural(files, "file");
            manager.stopping(&format!("uploading {files}, {}", show_bytes(bytes)));
        }
    })?;
    detached
}
