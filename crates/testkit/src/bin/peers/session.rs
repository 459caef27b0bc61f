//! One client with a fresh cache: mounted, read through step by step, and unmounted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{Scratch, SlowLink};

use crate::client::{Client, Site};
use crate::limited::{Numbers, Stop, run_limited};
use crate::mounted::{Mounted, Taken};
use crate::record::Step;
use crate::stage::{Road, Stage, beside};

/// A reader that may take as long as others ends by itself; how much later it is ended.
const GRACE: Duration = Duration::from_secs(15);
/// For what only prepares others.
const ALL_WITHIN: Duration = Duration::from_mins(1);

/// A client that reads.
pub(crate) struct Session<'a> {
    pub(crate) client: Client,
    pub(crate) stage: &'a Stage<'a>,
    pub(crate) road: Road,
    limit: Duration,
    folder: Scratch,
    mounted: Option<Mounted>,
    told: Told,
}

/// What was measured.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) steps: Vec<Step>,
    /// On the local disk, past the client, in turns with its own.
    pub(crate) local: Vec<Step>,
}

#[derive(Clone, Copy, Default)]
struct Counted {
    taken: Taken,
    requests: u64,
    fetched: u64,
}

impl<'a> Session<'a> {
    /// Mounts. The store has its files in memory, and nobody else has them.
    pub(crate) fn begin(
        client: Client,
        stage: &'a Stage<'a>,
        road: Road,
        limit: Duration,
    ) -> Result<Session<'a>, Stop> {
        if client == Client::Local {
            stage.forget();
        } else {
            stage.remember();
        }
        let folder = Scratch::new();
        let (mounted, told) = (None, Told::default());
        let mut session = Session { client, stage, road, limit, folder, mounted, told };
        session.mount()?;
        Ok(session)
    }

    /// Unmounts, and tells what all steps came to.
    pub(crate) fn end(mut self) -> Told {
        self.unmount();
        std::mem::take(&mut self.told)
    }

    /// The path of what is called `name` in the bucket.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        if self.client.mounts() { self.dir().join(name) } else { self.stage.local().join(name) }
    }

    /// Runs our reader of that kind on `name`, as far as the time goes.
    pub(crate) fn read(
        &mut self,
        step: &str,
        how: &str,
        name: &str,
        more: &[&str],
    ) -> Result<Numbers, Stop> {
        let mut command = reader(self.limit, how);
        command.arg(self.path(name)).args(more);
        self.run(step, &mut command, self.limit + GRACE)
    }

    /// Reads a whole file to its end, so that all of it is here.
    pub(crate) fn read_all(&mut self, step: &str, name: &str) -> Result<Numbers, Stop> {
        let mut command = reader(ALL_WITHIN, "whole");
        command.arg(self.path(name));
        self.run(step, &mut command, ALL_WITHIN)
    }

    /// The file of just so many bytes in the client's cache.
    pub(crate) fn cached(&self, bytes: u64) -> Option<PathBuf> {
        file_of(&self.folder.folder("state"), bytes)
    }

    /// Runs the plain client.
    pub(crate) fn raw(&mut self, step: &str, arguments: &[&str]) -> Result<Numbers, Stop> {
        let mut command = self.stage.raw(self.road);
        self.step(step, command.args(arguments))
    }

    /// Runs the plain client, which writes `key` to a file and hands it on through a pipe, as a mount must.
    pub(crate) fn raw_download(&mut self, step: &str, key: &str) -> Result<Numbers, Stop> {
        let raw = self.stage.raw(self.road);
        let mut command = reader(self.limit, "output");
        command.arg(raw.get_program()).args(raw.get_args()).args(["get", key]);
        command.arg(self.folder.path().join("download"));
        command.envs(raw.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.run(step, &mut command, self.limit + GRACE)
    }

    /// Runs a line of shell in which `$1` is the path of `name`, to its end.
    pub(crate) fn shell(&mut self, step: &str, line: &str, name: &str) -> Result<Numbers, Stop> {
        let mut command = reader(self.limit, "timed");
        command.args(["sh", "-c", line, "sh"]).arg(self.path(name));
        self.step(step, &mut command)
    }

    /// Reads what `tar` makes of a folder, as far as the time goes.
    pub(crate) fn tar(&mut self, step: &str, name: &str) -> Result<Numbers, Stop> {
        let mut command = reader(self.limit, "output");
        command.args(["tar", "-cf", "-", "-C"]).arg(self.path(name)).arg(".");
        self.run(step, &mut command, self.limit + GRACE)
    }

    /// Runs what measures itself, within the time of a step.
    pub(crate) fn step(&mut self, name: &str, command: &mut Command) -> Result<Numbers, Stop> {
        self.run(name, command, self.limit)
    }

    /// As [`Session::step`], of a command that reads the local disk and not what the client shows.
    pub(crate) fn step_on_disk(
        &mut self,
        name: &str,
        command: &mut Command,
    ) -> Result<Numbers, Stop> {
        let told = run_limited(command, self.limit, || {});
        self.told.local.push(Step { name: name.to_owned(), told: told.clone() });
        told
    }

    fn run(&mut self, name: &str, command: &mut Command, limit: Duration) -> Result<Numbers, Stop> {
        let before = self.counted();
        let mounted = &mut self.mounted;
        // Without its server the mount fails what hangs in it.
        let mut told = run_limited(command, limit, || drop(mounted.take()));
        let after = self.counted();
        if let Ok(numbers) = &mut told {
            let used = self.used(before, after).into_iter();
            numbers.extend(used.map(|(name, number)| (name.to_owned(), number)));
        }
        self.told.steps.push(Step { name: name.to_owned(), told: told.clone() });
        told
    }

    /// Makes the kernel forget the client's files as all others, but those of the store.
    pub(crate) fn forget(&self) {
        self.stage.forget();
        if self.client != Client::Local {
            self.stage.remember();
        }
    }

    /// Unmounts and mounts again, with what was kept on the disk.
    pub(crate) fn remount(&mut self) -> Result<(), Stop> {
        self.unmount();
        self.mount()
    }

    fn mount(&mut self) -> Result<(), Stop> {
        let (dir, state, home) =
            (self.dir(), self.folder.folder("state"), self.folder.folder("home"));
        let endpoint = self.stage.endpoint(self.client, self.road);
        let site = Site {
            endpoint: &endpoint,
            bucket: self.stage.bucket(self.client).name(),
            dir: &dir,
            local: self.stage.local(),
            state: &state,
            home: &home,
        };
        if let Some(command) = self.client.command(&site) {
            let log = self.folder.path().join("output");
            self.mounted = Some(Mounted::start(command, &dir, &log).map_err(Stop::Failed)?);
        }
        Ok(())
    }

    fn unmount(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            mounted.end();
        }
    }

    fn dir(&self) -> PathBuf {
        self.folder.folder("mnt")
    }

    fn counted(&self) -> Counted {
        let link = self.stage.link(self.client, self.road);
        Counted {
            taken: self.mounted.as_ref().map(Mounted::taken).unwrap_or_default(),
            requests: link.map_or(0, SlowLink::requests),
            fetched: link.map_or(0, SlowLink::answer_bytes),
        }
    }

    fn used(&self, before: Counted, after: Counted) -> Vec<(&'static str, f64)> {
        let mut used = Vec::new();
        if self.mounted.is_some() {
            used.push(("cpu", after.taken.cpu_seconds - before.taken.cpu_seconds));
            used.push(("peak", after.taken.peak_mib));
        }
        if self.stage.link(self.client, self.road).is_some() && self.client != Client::Local {
            used.push(("requests", number(after.requests - before.requests)));
            used.push(("fetched", number(after.fetched - before.fetched)));
        }
        used
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Before the folder that it is mounted in.
        self.unmount();
    }
}

fn file_of(folder: &Path, bytes: u64) -> Option<PathBuf> {
    fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let (path, found) = (entry.path(), entry.metadata().ok()?);
        if found.is_dir() {
            return file_of(&path, bytes);
        }
        (found.len() == bytes).then_some(path)
    })
}

fn reader(limit: Duration, how: &str) -> Command {
    let mut command = Command::new(beside("quayfs-bench-reader"));
    command.arg(limit.as_secs().to_string()).arg(how);
    command
}

/// What is counted here is far below what a float tells apart.
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}
