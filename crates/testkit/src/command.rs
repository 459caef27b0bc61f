//! Commands that end within a bound, and what they said.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::wait;

/// A command that ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
    /// The command itself, for messages.
    pub said: String,
}

/// Runs `command` to its end.
///
/// Its output goes to files, not pipes: a daemon that it leaves behind may hold a pipe open for
/// ever, and the test would wait for that.
///
/// # Panics
///
/// When it cannot be started, or has not ended within `limit`; it is killed then.
pub fn run(command: &mut Command, limit: Duration) -> Finished {
    let mut stdout = tempfile::tempfile().expect("the temporary folder takes a file");
    let mut stderr = tempfile::tempfile().expect("the temporary folder takes a file");
    let said = format!("{command:?}");
    let started = wait::now();
    let spawned = command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().expect("a file can be held twice"))
        .stderr(stderr.try_clone().expect("a file can be held twice"))
        .spawn();
    let mut child = spawned.unwrap_or_else(|error| panic!("{said}: {error}"));
    let status = wait::try_until_some(limit, || child.try_wait().expect("the child is ours"));
    let took = started.elapsed();
    if status.is_none() {
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
    }
    let (stdout, stderr) = (text(&mut stdout), text(&mut stderr));
    let Some(status) = status else {
        panic!("{said} had not ended after {limit:?}\n{stdout}\n{stderr}");
    };
    Finished { status, stdout, stderr, took, said }
}

impl Finished {
    /// What it printed, when it succeeded.
    ///
    /// # Panics
    ///
    /// When it failed, with all it said.
    pub fn ok(&self) -> &str {
        assert!(self.status.success(), "{}", self.report());
        &self.stdout
    }

    /// All that is known of it, for a message.
    pub fn report(&self) -> String {
        let mut report = String::new();
        let Finished { status, stdout, stderr, took, said } = self;
        let _ = write!(report, "{said}\n{status} after {took:?}\n{stdout}\n{stderr}");
        report
    }
}

/// All that a program wrote to `file`.
///
/// # Panics
///
/// When the file cannot be read.
pub fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().expect("a file can be rewound");
    file.read_to_end(&mut bytes).expect("the file is ours");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::run;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_command_is_heard_on_both_channels() {
        let finished =
            run(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]), LIMIT);
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    #[should_panic(expected = "had not ended")]
    fn a_command_that_does_not_end_is_a_failure() {
        run(Command::new("sleep").arg("600"), Duration::from_millis(50));
    }

    #[test]
    fn a_child_left_behind_is_not_waited_for() {
        let finished = run(Command::new("sh").args(["-c", "sleep 30 & echo $!"]), LIMIT);
        run(Command::new("kill").arg(finished.stdout.trim()), LIMIT);
        assert!(finished.took < LIMIT);
    }
}
