//! The launcher that Nextflow starts its tasks with where it works on object stores: all buckets below one
//! folder, and a task that is over when the bucket has all of it.
//!
//! ```text
//!   mount ─▶ .command.run read ─▶ inputs on their way ─▶ command, its output into .command.log
//!                                                          │
//!   status ◀─ unmount: .exitcode last ◀─ all else uploaded ◀─ output links become objects
//! ```

mod array;
pub(super) mod help;
mod hold;
mod inputs;
mod links;
mod log;
mod pattern;
mod scratch;
mod script;
mod shared;
mod tags;
mod unusable;
mod words;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use mount::{Arrived, Location, OwnMounts};

use self::hold::Hold;
use self::links::Outputs;
use self::log::Log;
use self::scratch::STATUS;
use self::script::Script;
use self::shared::Share;
use self::unusable::unusable;
use super::super::mount::Life;
use super::child::{Ended, Signals};
use super::haste::Haste;
use super::mounted::{Mounted, Patience};
use super::prefetch::{List, Prefetch, warmed};
use super::task::{MOUNT_VARIABLE, both};
use crate::complain;
use crate::settings::{Flags, Settings};

/// Where tasks look for buckets, unless somebody says otherwise.
const TOP: &str = "/fusion";

/// The variable by which somebody says so.
const TOP_VARIABLE: &str = "QUAYFS_FUSION_AT";

/// The variable that names the folder of the task.
const WORK_VARIABLE: &str = "FUSION_WORK";

/// What a task is started by.
const SCRIPT: &str = ".command.run";

/// What that runs; of a job array, what tells its tasks apart.
const BODY: &str = ".command.sh";

/// Where all that it says is kept.
const LOG: &str = ".command.log";

/// The variable that names the tags of what a task writes.
const TAGS_VARIABLE: &str = "FUSION_TAGS";

/// The variable that names the storage account of all containers: Nextflow's paths on Azure have no account.
const ACCOUNT_VARIABLE: &str = "AZURE_STORAGE_ACCOUNT";

/// Others take a task for done when they see its status, and then look for its files.
const DEFAULTS: [(&str, &str); 2] = [("profile", "pipeline"), ("commit-last", STATUS)];

/// The variable that asks for [`Leftovers::Removed`].
const KEEP_LOCAL_VARIABLE: &str = "QUAYFS_KEEP_LOCAL";

/// The variable that asks for [`Sight::All`].
const SHARED_VARIABLE: &str = "QUAYFS_FUSION_SHARED";

/// A script is no longer.
const SCRIPT_BYTES_MAX: u64 = 256 << 20;

/// What becomes of what a task made that is no output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftovers {
    Uploaded,
    /// With the end of the task, before they were uploaded.
    Removed,
}

/// Who sees the mount of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// Nobody but the task, where the kernel lets it have that.
    Own,
    /// Everybody on the host, and all tasks there use it.
    All,
}

/// A task as Nextflow starts it.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    /// Where all buckets are to be.
    top: PathBuf,
    flags: Flags<Settings>,
    command: Vec<OsString>,
    /// The folder of the task, if that is known.
    work: Option<PathBuf>,
    leftovers: Leftovers,
    sight: Sight,
    /// What is to be fetched beside what its script names.
    warm: Option<List>,
}

/// What is known of a task beside its command.
#[derive(Debug)]
struct Task {
    work: PathBuf,
    script: Script,
}

/// Whether a program of this name is to be the launcher.
pub(super) fn is_name(name: &OsStr) -> bool {
    Path::new(name).file_name() == Some(OsStr::new("fusion"))
}

impl Launch {
    pub(super) fn new(
        at: Option<PathBuf>,
        flags: Flags<Settings>,
        command: Vec<OsString>,
        keep_local: bool,
    ) -> Result<Launch> {
        let top = at.or_else(|| variable(TOP_VARIABLE)).unwrap_or_else(|| TOP.into());
        let top =
            std::path::absolute(&top).with_context(|| format!("{}: not a path", top.display()))?;
        let script = command.iter().map(Path::new).find(|word| word.ends_with(SCRIPT));
        let work = variable(WORK_VARIABLE)
            .or_else(|| script.and_then(Path::parent).map(Path::to_owned))
            .filter(|work| work.is_absolute());
        let leftovers = if keep_local || is_set(KEEP_LOCAL_VARIABLE)? {
            Leftovers::Removed
        } else {
            Leftovers::Uploaded
        };
        let sight = if is_set(SHARED_VARIABLE)? { Sight::All } else { Sight::Own };
        Ok(Launch { top, flags, command, work, leftovers, sight, warm: None })
    }

    /// Has what `list` names fetched as well.
    pub(super) fn warm(self, list: Option<List>) -> Launch {
        Launch { warm: list, ..self }
    }

    /// Does it all. An error is one of ours: with it, the command has not run, or not all that it wrote is
    /// in the bucket.
    pub(super) fn run(&self) -> Result<Ended> {
        let mut signals = Signals::listen()?;
        match std::fs::create_dir_all(&self.top) {
            // Where the mount of a killed daemon is there is a folder.
            Err(_) if mount::is_mounted(&self.top) => shared::clear(&self.top, &mut signals)?,
            made => made.with_context(|| format!("cannot make {}", self.top.display()))?,
        }
        match self.own_mounts() {
            Some(own) => self.run_alone(&own, &mut signals),
            None => self.run_among_others(&mut signals),
        }
    }

    /// Mounts that nobody else sees, if they are wished and can be had; `None` if what all see is to be used.
    fn own_mounts(&self) -> Option<OwnMounts> {
        // In a container of its own it is alone already, and who looks into the container sees the mount.
        let is_alone = std::process::id() == 1;
        if self.sight == Sight::All || is_alone || mount::is_there(&self.top) {
            return None;
        }
        // Whatever the reason is, tasks can share one mount.
        OwnMounts::new().ok()
    }

    fn run_alone(&self, own: &OwnMounts, signals: &mut Signals) -> Result<Ended> {
        let mounted = self.mount(Life::Ours)?;
        own.end_right().context("cannot give up the right to mount")?;
        let ended = self.in_mount(self.task().as_ref(), signals);
        both(ended, mounted.end(signals, Patience::Endless))
    }

    fn run_among_others(&self, signals: &mut Signals) -> Result<Ended> {
        let (mut share, arrived) = Share::take(&self.top, signals)?;
        match arrived {
            Arrived::First => {
                let mounted = self.mount(Life::OfItsOwn)?;
                if let Err(error) = share.settle() {
                    mounted.end(signals, Patience::Endless)?;
                    return Err(error);
                }
            }
            Arrived::AtMount if self.leftovers == Leftovers::Removed => complain(
                "the mount was there already: leftovers of the task may be uploaded before they go",
            ),
            Arrived::AtMount => {}
        }
        let task = self.task();
        let ended = self.in_mount(task.as_ref(), signals);
        // The script of a job array has a folder too, and leaves its own status there.
        let member = task.iter().map(|task| task.work.as_path());
        let array =
            self.work.as_deref().filter(|work| member.clone().all(|member| member != *work));
        let folders: Vec<&Path> = member.chain(array).collect();
        both(ended, share.end(&folders, signals))
    }

    /// The task, if its folder is known; asked when all buckets are mounted.
    fn task(&self) -> Option<Task> {
        self.work.as_deref().map(|work| Task::of(member_of_array(work)))
    }

    fn mount(&self, life: Life) -> Result<Mounted> {
        let tags = variable(TAGS_VARIABLE).and_then(|text| {
            let (rules, unread) = tags::rules(&text.to_string_lossy());
            // A task is worth more than its tags.
            for text in unread {
                complain(&format!("{TAGS_VARIABLE}: nothing gets the tags of {text}"));
            }
            rules
        });
        let tags = tags.as_deref().map(|rules| ("tags", rules));
        let account = variable(ACCOUNT_VARIABLE);
        let account = account.as_deref().and_then(Path::to_str).map(|name| ("azure-account", name));
        let late = match self.leftovers {
            Leftovers::Uploaded => None,
            Leftovers::Removed => Some(("upload-delay", scratch::UPLOAD_DELAY)),
        };
        let defaults: Vec<_> = DEFAULTS.into_iter().chain(tags).chain(account).collect();
        let settings = (&defaults[..], late.as_slice());
        Mounted::new(&Location::All, &self.top, &self.flags, settings, life)
    }

    fn in_mount(&self, task: Option<&Task>, signals: &mut Signals) -> Result<Ended> {
        let (program, arguments) = self.command.split_first().context("no command to run")?;
        let mut command = Command::new(program);
        command.args(arguments).env(MOUNT_VARIABLE, &self.top);
        // Many hosts at a time are in the folder of an array, and one log for all would be changed under them.
        let work = task.map(|task| task.work.as_path());
        let prefetch = task.and_then(|task| task.prefetch(&self.top));
        let warming = warmed(self.warm.as_ref(), &self.top, &mut command);
        if work.is_some() {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        // When the command has been started: a file that it could have got would be closed by it.
        let begin = |child: &mut Child| {
            let Some(work) = work else { return Ok(None) };
            // First of all: the task may be a short one.
            let hold = Hold::begin(work);
            let begun = hold.and_then(|hold| Ok((hold, Log::begin(child, &work.join(LOG))?)));
            begun.map(Some).map_err(|error| unusable(work, &error, &self.top))
        };
        // What may go with the task is not uploaded before its end.
        let is_hasty = self.leftovers == Leftovers::Uploaded;
        let haste = || is_hasty.then(|| Haste::begin(&self.top));
        let ran = signals.run(&mut command, begin, haste);
        drop((prefetch, warming));
        let (ended, begun) = ran?;
        if let (Some(task), Some((hold, log))) = (task, begun) {
            let completed = task.complete(ended, log, (&self.top, self.leftovers));
            if completed.is_err() {
                // The task did well, and its folder is not what it made: nobody must take it for that.
                let _ = std::fs::remove_file(task.work.join(STATUS));
            }
            // Until now the folder of the task was not complete, and so its status not in the bucket.
            let let_go = hold.end().context("the status of the task does not get into the bucket");
            completed.and(let_go)?;
        }
        Ok(ended)
    }
}

impl Task {
    /// What the script in the folder of a task says. One without is run all the same.
    fn of(work: PathBuf) -> Task {
        let mut script = match read(&work.join(SCRIPT)) {
            Ok(text) => Script::read(&text, &work),
            Err(_) => Script::default(),
        };
        if let Some(staging) = &script.staged_by
            && let Ok(text) = read(staging)
        {
            script.read_staging(&text, &work);
        }
        Task { work, script }
    }

    /// Puts the folder in order when the command has ended.
    fn complete(&self, ended: Ended, log: Log, (top, leftovers): (&Path, Leftovers)) -> Result<()> {
        log.end().with_context(|| format!("cannot write {LOG}"))?;
        let outputs = Outputs::of(&self.script);
        // Nobody takes outputs from a task that failed.
        if ended.is_success() {
            links::to_objects(&self.work, top, &outputs)?;
        }
        if leftovers == Leftovers::Removed {
            scratch::remove(&self.work, &outputs);
        }
        Ok(())
    }

    /// Has the inputs fetched; without that the task takes longer, and no more.
    fn prefetch(&self, top: &Path) -> Option<Prefetch> {
        inputs::fetch(&self.script, top).unwrap_or_else(|error| {
            complain(&format!("inputs are not fetched ahead: {error}"));
            None
        })
    }
}

/// The folder of the task that runs here: another one if `work` is that of a job array.
fn member_of_array(work: &Path) -> PathBuf {
    let number = |name: &str| variable(name)?.to_str()?.parse().ok();
    let member = read(&work.join(BODY)).ok().and_then(|text| array::member(&text, number));
    member.unwrap_or_else(|| work.to_owned())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(SCRIPT_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn is_set(name: &str) -> Result<bool> {
    let Some(value) = variable(name) else { return Ok(false) };
    let value = value.to_string_lossy();
    crate::units::switch(&value).map_err(|reason| anyhow::anyhow!("{name}={reason}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Launch, is_name};
    use crate::settings::Flags;

    #[test]
    fn the_folder_of_the_task_is_that_of_its_script() {
        for (command, want) in [
            (vec!["bash", "/fusion/s3/b/w/ab/.command.run"], Some("/fusion/s3/b/w/ab")),
            (vec!["bash", ".command.run"], None),
            (vec!["true"], None),
        ] {
            let command = command.iter().map(Into::into).collect();
            let launch = Launch::new(Some("/top".into()), Flags::none(), command, false).unwrap();
            assert_eq!(launch.work.as_deref(), want.map(Path::new));
            assert_eq!(launch.top, Path::new("/top"));
        }
    }

    #[test]
    fn the_launcher_is_known_by_its_name() {
        for (name, want) in [("/usr/bin/fusion", true), ("fusion", true), ("quayfs", false)] {
            assert_eq!(is_name(name.as_ref()), want, "{name}");
        }
    }
}
