//! A client that serves a mount, what it takes of the machine, and its end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use testkit::{mounted_at, run, wait};

const MOUNT_WITHIN: Duration = Duration::from_mins(1);
/// Long enough to remove a cache, as some do at their end. Not longer: some never end after they were
/// unmounted.
const END_WITHIN: Duration = Duration::from_secs(15);

/// A mount and the process that serves it.
#[derive(Debug)]
pub(crate) struct Mounted {
    server: Child,
    dir: PathBuf,
}

/// What a process took of the machine until now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) cpu_seconds: f64,
    /// The most memory at any time.
    pub(crate) peak_mib: f64,
}

impl Mounted {
    /// Starts `command`, which stays in the foreground, and returns when `dir` is mounted; the error is
    /// what it said.
    pub(crate) fn start(mut command: Command, dir: &Path, log: &Path) -> Result<Mounted, String> {
        let output = File::create(log).expect("the scratch disk takes a file");
        let complaints = output.try_clone().expect("a file can be held twice");
        command.stdin(Stdio::null()).stdout(output).stderr(complaints);
        let server = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let mut mounted = Mounted { server, dir: dir.to_owned() };
        let is_there = wait::try_until_some(MOUNT_WITHIN, || {
            let has_ended = mounted.has_ended();
            (mounted_at(dir) || has_ended).then_some(!has_ended)
        });
        match is_there {
            Some(true) => Ok(mounted),
            _ => Err(format!("did not mount: {}", last_lines(log))),
        }
    }

    /// What the server took since it was started.
    pub(crate) fn taken(&self) -> Taken {
        let proc = |name: &str| {
            fs::read_to_string(format!("/proc/{}/{name}", self.server.id())).unwrap_or_default()
        };
        let (stat, status) = (proc("stat"), proc("status"));
        // After the name of the program, which may have spaces in it.
        let fields: Vec<&str> =
            stat.rsplit(") ").next().unwrap_or_default().split_whitespace().collect();
        let number = |text: Option<&&str>| text.and_then(|text| text.parse().ok()).unwrap_or(0.0);
        let ticks = number(fields.get(11)) + number(fields.get(12));
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|line| line.split_whitespace().next());
        Taken { cpu_seconds: ticks / 100.0, peak_mib: number(peak.as_ref()) / 1024.0 }
    }

    /// Unmounts, and waits for the server to end by itself; by force when it does not.
    pub(crate) fn end(mut self) {
        let unmounted = run(Command::new("umount").arg(&self.dir), END_WITHIN);
        if unmounted.status.success() {
            let _ = wait::try_until_some(END_WITHIN, || self.has_ended().then_some(()));
        }
    }

    fn has_ended(&mut self) -> bool {
        self.server.try_wait().expect("the child is ours").is_some()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        while mounted_at(&self.dir) {
            if unmount(&self.dir, UnmountFlags::DETACH).is_err() {
                break;
            }
        }
        if !self.has_ended() {
            let _ = self.server.kill();
            let _ = self.server.wait();
        }
    }
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join(" / ")
}
