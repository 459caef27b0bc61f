//! A mount for as long as a command runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mount::{Detach, Error, Location, Progress};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::super::mount::{Life, Started, start, warn};
use super::super::umount::{of_users, teller};
use super::child::Signals;
use crate::complain;
use crate::settings::{Flags, Origin, Settings, Sources};

/// What is mounted, and where.
#[derive(Debug)]
pub(super) struct Mounted {
    location: Location,
    dir: PathBuf,
    life: Life,
}

/// How long the bucket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Until a signal asks us to end: the daemon goes on without us.
    UntilSignal,
    /// Whatever comes: with us the daemon would end, too, as in a container, and a signal may be the notice that
    /// the machine goes soon.
    Endless,
}

/// A setting, and its value.
type Preset<'a> = (&'a str, &'a str);

/// Those of `defaults` of which nobody said anything, and those of `own` of which at most a profile does.
fn unsaid<'a, 'b>(
    origin: impl Fn(&str) -> Option<&'b Origin>,
    defaults: &[Preset<'a>],
    own: &[Preset<'a>],
) -> Vec<Preset<'a>> {
    let is_unsaid = |(name, _): &&Preset<'_>| origin(name).is_none();
    let is_own =
        |(name, _): &&Preset<'_>| origin(name).is_none_or(|origin| *origin == Origin::Profile);
    let defaults = defaults.iter().filter(is_unsaid);
    defaults.chain(own.iter().filter(is_own)).copied().collect()
}

impl Mounted {
    /// Mounts `location` at `dir`, with `defaults` for settings of which nobody said anything, and `own` for those
    /// that at most a profile says.
    pub(super) fn new(
        location: &Location,
        dir: &Path,
        flags: &Flags<Settings>,
        (defaults, own): (&[Preset<'_>], &[Preset<'_>]),
        life: Life,
    ) -> Result<Mounted> {
        let sources = Sources::read(flags)?;
        let given = sources.resolve(Some(location))?.given;
        let origin = |name: &str| given.get(name).map(|given| &given.origin);
        let mut flags = flags.clone();
        for (name, value) in unsaid(origin, defaults, own) {
            flags = flags.with_default(name, value);
        }
        warn(&sources, &Sources::read(&flags)?, location)?;
        match start(location, dir, &flags, &[], life)? {
            Started::Mounted => Ok(Mounted { life, ..Mounted::there(location, dir) }),
            Started::Failed => bail!("{location} could not be mounted; nothing was run"),
        }
    }

    /// What somebody else has mounted, and is for us to unmount.
    pub(super) fn there(location: &Location, dir: &Path) -> Mounted {
        Mounted { location: location.clone(), dir: dir.to_owned(), life: Life::OfItsOwn }
    }

    /// Waits for the bucket, and unmounts also if it does not get everything.
    pub(super) fn end(self, signals: &mut Signals, patience: Patience) -> Result<()> {
        let Mounted { location, dir, life } = self;
        let there = dir.clone();
        let waited = match patience {
            Patience::UntilSignal => signals.meanwhile(move || wait_for_bucket(&there)),
            Patience::Endless => Some(wait_for_bucket(&there)),
        };
        let Some((ended, was_dead)) = waited else {
            detach(&dir, signals);
            bail!(
                "told to end before the bucket had everything; what was closed is safe on the local disk: {}",
                finished_by(&location)
            )
        };
        match ended {
            Ok(()) if was_dead => bail!(
                "the daemon of the mount ended before the bucket had everything; what was closed is safe on \
                 the local disk: {}",
                finished_by(&location)
            ),
            Ok(()) => Ok(()),
            Err(Error::Unpublished { missing, .. }) => {
                detach(&dir, signals);
                bail!(
                    "not everything could be uploaded:\n{}\n  {}",
                    missing.lines(),
                    missing.advice(&finished_by(&location))
                )
            }
            // Everything was uploaded; somebody has a file open or is in a folder.
            Err(error @ Error::Mount(_)) if !error.is_not_mounted() => {
                complain(&format!(
                    "programs that the command left behind still use the mount{}: ending it",
                    of_users(&dir)
                ));
                match patience {
                    Patience::Endless => end_daemon(&dir, life),
                    Patience::UntilSignal => {
                        signals.meanwhile(move || end_daemon(&dir, life)).unwrap_or_else(|| {
                            bail!("told to end before the daemon of the mount had ended; it goes on by itself")
                        })
                    }
                }
            }
            Err(error) => {
                detach(&dir, signals);
                let told =
                    "what was closed is safe on the local disk, if the bucket has not all of it";
                Err(error).with_context(|| format!("{told}: {}", finished_by(&location)))
            }
        }
    }
}

/// Unmounts when the bucket has everything; also tells whether the daemon was dead.
fn wait_for_bucket(dir: &Path) -> (std::result::Result<(), Error>, bool) {
    let (mut was_dead, mut tell) = (false, teller());
    let ended = mount::umount(dir, Detach::Uploaded, |progress: Progress| {
        was_dead |= progress == Progress::WasDead;
        tell(progress);
    });
    (ended, was_dead)
}

/// A container may end with us, and its daemon with it: what that still tries has this long.
const DETACHED_PATIENCE: Duration = Duration::from_mins(1);

/// Takes the mount away, whatever the bucket has; who asks us to end once more does not wait for the daemon.
fn detach(dir: &Path, signals: &mut Signals) {
    let dir = dir.to_owned();
    let detached =
        signals.meanwhile(move || mount::umount(&dir, Detach::Force(DETACHED_PATIENCE), teller()));
    if let Some(Err(error)) = detached {
        complain(&error.to_string());
    }
}

/// What brings the rest into the bucket.
fn finished_by(location: &Location) -> String {
    match location {
        Location::All => "the next mount of all buckets, or of theirs, uploads them".to_owned(),
        Location::S3 { .. }
        | Location::Gcs { .. }
        | Location::Azure { .. }
        | Location::Folder(_) => {
            format!("`quayfs recover {location}`, with the flags of this run, uploads them")
        }
    }
}

/// Has the daemon of a mount end, which gives those who use the mount a moment, and then errors.
fn end_daemon(dir: &Path, life: Life) -> Result<()> {
    let pid = mount::status(dir)?.pid;
    let pid =
        i32::try_from(pid).ok().and_then(Pid::from_raw).context("the daemon has no number")?;
    let daemon = pidfd_open(pid, PidfdFlags::empty()).context("the daemon is gone")?;
    let signal = match life {
        Life::OfItsOwn => Signal::TERM,
        // As long as we live, TERM does not end it.
        Life::Ours | Life::OursWithFolder => Signal::QUIT,
    };
    kill_process(pid, signal).context("cannot end the daemon")?;
    // It uploads what was written meanwhile, however long that takes.
    while poll(&mut [PollFd::new(&daemon, PollFlags::IN)], None) == Err(Errno::INTR) {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::unsaid;
    use crate::settings::Origin;

    #[test]
    fn what_is_its_own_is_stronger_than_a_profile_and_weaker_than_a_person() {
        let (defaults, own) = ([("commit", "async")], [("upload-delay", "8760h")]);
        let settings = |origin: Option<&Origin>| unsaid(|_| origin, &defaults, &own);
        assert_eq!(settings(None), [defaults[0], own[0]]);
        assert_eq!(settings(Some(&Origin::Profile)), own);
        assert_eq!(settings(Some(&Origin::Flag)), []);
    }
}
