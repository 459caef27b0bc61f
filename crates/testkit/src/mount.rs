//! The real binary, mounted; whatever a test does, nothing of it stays behind.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bucket::Bucket;
use crate::command::{Finished, run};
use crate::faults::way_to;
use crate::files::copy_program;
use crate::frozen::{freeze, thaw};
use crate::login::Login;
use crate::place::{NO_IO_URING, Scratch, clean_env, log_level, no_io_uring, quayfs, set_mode};
use crate::wait;

/// A debug build, on a machine that is busy with other tests, answers within this.
const COMMAND_WITHIN: Duration = Duration::from_mins(2);
const END_WITHIN: Duration = Duration::from_secs(20);
const LOG_LINES_SHOWN: usize = 60;

/// How a mount is to be made: what comes before and after `URL DIR`, and around it.
#[derive(Debug)]
pub struct Plan {
    url: String,
    flags: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    user: Option<String>,
    output: Output,
    folder: Scratch,
    path: PathBuf,
    state: PathBuf,
}

/// Where what the mount command prints goes.
#[derive(Clone, Copy, Debug)]
enum Output {
    /// To files, which anyone may hold open.
    Files,
    /// Through a pipe, whose reader waits until everyone has closed it.
    Pipe,
}

/// What became of the mount command alone.
#[derive(Debug)]
pub struct Attempt {
    /// How the command ended.
    pub finished: Finished,
    mount: Mount,
}

/// A mounted file system.
#[derive(Debug)]
pub struct Mount {
    plan: Plan,
    daemon: Option<Pid>,
    // Whether what is mounted at the path may be ours to detach.
    is_ours: bool,
}

impl Plan {
    /// A mount of `url`, with no credentials at all.
    pub fn of_url(url: &str) -> Plan {
        let folder = Scratch::new();
        let (path, state) = (folder.folder("mnt"), folder.folder("state"));
        let runtime = folder.folder("run");
        set_mode(&runtime, 0o700);
        let env = [
            ("HOME", folder.folder("home").into_os_string()),
            ("XDG_RUNTIME_DIR", runtime.into_os_string()),
            // The metadata service of a cloud's machines: none here, and asking takes seconds.
            ("AWS_EC2_METADATA_DISABLED", "true".into()),
            (NO_IO_URING, no_io_uring()),
        ];
        let env = env.map(|(name, value)| (name.into(), value)).into();
        let (flags, user, output) = (Vec::new(), None, Output::Files);
        Plan { url: url.into(), flags, env, user, output, folder, path, state }
    }

    /// A mount of `bucket`, by its owner.
    pub fn of(bucket: &Bucket<'_>) -> Plan {
        let plan = Plan::of_url(&bucket.url()).flags(["--path-style", "--region", "us-east-1"]);
        plan.flags(["--endpoint", &way_to(bucket.endpoint())]).login(&Login::root())
    }

    /// Mounts this rather than what was said first.
    #[must_use]
    pub fn instead_of_url(mut self, url: &str) -> Plan {
        self.url = url.into();
        self
    }

    /// Adds flags.
    #[must_use]
    pub fn flags<S: AsRef<OsStr>>(mut self, flags: impl IntoIterator<Item = S>) -> Plan {
        self.flags.extend(flags.into_iter().map(|flag| flag.as_ref().into()));
        self
    }

    /// Replaces the value of a flag that was added before.
    #[must_use]
    pub fn instead(mut self, flag: &str, value: &str) -> Plan {
        let at = self.flags.iter().position(|given| given == flag).expect("added before");
        self.flags[at + 1] = value.into();
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Plan {
        self.env.retain(|(given, _)| given != name);
        self.env.push((name.into(), value.into()));
        self
    }

    /// Takes requests through `io_uring`, for which it switches that on in the kernel.
    #[must_use]
    pub fn by_io_uring(self) -> Plan {
        switch_io_uring_on();
        self.env(NO_IO_URING, "false")
    }

    /// Whose keys it uses.
    #[must_use]
    pub fn login(self, login: &Login) -> Plan {
        let plan = self.env("AWS_ACCESS_KEY_ID", &login.user);
        plan.env("AWS_SECRET_ACCESS_KEY", &login.secret)
    }

    /// Uses nobody's keys.
    #[must_use]
    pub fn without_login(mut self) -> Plan {
        self.env.retain(|(name, _)| {
            !name.as_bytes().ends_with(b"KEY_ID") && !name.as_bytes().ends_with(b"ACCESS_KEY")
        });
        self
    }

    /// Runs the mount command with a pipe for its output, and waits for the pipe's end.
    #[must_use]
    pub fn through_pipe(mut self) -> Plan {
        self.output = Output::Pipe;
        self
    }

    /// Uses the local state of another mount, or of an earlier one.
    #[must_use]
    pub fn state_in(mut self, state: &Path) -> Plan {
        self.state = state.into();
        self
    }

    /// Mounts at `path` rather than at a fresh folder.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Plan {
        self.path = path.into();
        self
    }

    /// Runs everything as this user, who gets a copy of the binary and owns all folders.
    #[must_use]
    pub fn by_user(mut self, user: &str) -> Plan {
        let binary = self.folder.path().join("quayfs");
        copy_program(&quayfs(), &binary);
        let mut chown = Command::new("chown");
        chown.args(["-R", user]).arg(self.folder.path());
        run(&mut chown, COMMAND_WITHIN).ok();
        self.user = Some(user.into());
        self
    }

    /// The folder it will be mounted at.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of its local state.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// A folder of the test's own, beside the mount's, on the same disk.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.folder.folder(name)
    }

    /// The `quayfs` command with `arguments`, in this mount's surroundings.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let binary = match self.user {
            Some(_) => self.folder.path().join("quayfs"),
            None => quayfs(),
        };
        let mut command = self.other_command(binary.as_os_str());
        command.args(arguments);
        command
    }

    /// Any command, by the user and in the surroundings of this mount.
    pub fn other_command(&self, program: &OsStr) -> Command {
        let mut command = match &self.user {
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", user, "--regid", "nogroup", "--clear-groups"]);
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        command.env_clear().envs(clean_env());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the mount command, and takes whatever becomes of it.
    pub fn attempt(self) -> Attempt {
        let mut command = self.mount_command();
        if let Output::Pipe = self.output {
            // `sh` gives the status of the mount, after `cat` has seen the end of the pipe.
            let mut shell = self.other_command(OsStr::new("bash"));
            shell.args(["-c", r#"set -o pipefail; "$@" 2>&1 | cat"#, "bash"]);
            shell.arg(command.get_program()).args(command.get_args());
            command = shell;
        }
        let finished = run(&mut command, COMMAND_WITHIN);
        let is_ours = finished.status.success();
        Attempt { finished, mount: Mount { plan: self, daemon: None, is_ours } }
    }

    /// Starts the mount command, given `--foreground`, and does not wait for anything.
    pub fn in_foreground(self) -> (Child, Mount) {
        let mut command = self.mount_command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the binary is there");
        let daemon = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        (child, Mount { plan: self, daemon, is_ours: true })
    }

    fn mount_command(&self) -> Command {
        let mut command = self.command(["mount", &self.url]);
        command.arg(&self.path).arg("--cache-dir").arg(&self.state);
        command.arg("--log-file").arg(self.log());
        if let Some(level) = log_level() {
            command.arg("--log-level").arg(level);
        }
        command.args(&self.flags);
        command
    }

    /// Mounts.
    ///
    /// # Panics
    ///
    /// When that fails.
    pub fn mount(self) -> Mount {
        self.attempt().ok()
    }

    /// The last lines of the log of its mounts, for people.
    pub fn last_log(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

/// Whoever does not want it is not changed by that.
fn switch_io_uring_on() {
    std::fs::write(fuse::RING_SWITCH, "1").expect("root on Linux 6.14 or newer");
}

impl Attempt {
    /// The mount, when it succeeded.
    ///
    /// # Panics
    ///
    /// When it did not, with all it said.
    pub fn ok(self) -> Mount {
        let Attempt { finished, mut mount } = self;
        finished.ok();
        assert!(mounted_at(mount.path()), "mount returned 0 and mounted nothing");
        let pid = mount.status()["pid"].as_i64().expect("status tells the pid");
        mount.daemon = Pid::from_raw(i32::try_from(pid).expect("a pid"));
        mount
    }

    /// The message, when the command failed as it should: one complaint, and nothing left behind.
    ///
    /// # Panics
    ///
    /// When it succeeded, or left a mount, a process or a socket.
    pub fn refused(self) -> Finished {
        let Attempt { finished, mut mount } = self;
        mount.is_ours = true;
        assert!(!finished.status.success(), "mounted: {}", finished.report());
        assert!(!finished.stderr.contains("panicked"), "{}", finished.report());
        assert!(!finished.stderr.trim().is_empty(), "no word: {}", finished.report());
        assert!(!mounted_at(mount.path()), "left a mount: {}", finished.report());
        assert_eq!(processes_that_name(mount.plan.folder.path()), [], "{}", finished.report());
        assert_eq!(sockets_below(mount.plan.folder.path()), Vec::<PathBuf>::new());
        mount.is_ours = false;
        finished
    }
}

impl Mount {
    /// The folder it is mounted at.
    pub fn path(&self) -> &Path {
        &self.plan.path
    }

    /// A path in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.plan.path.join(name)
    }

    /// The folder of its local state.
    pub fn state(&self) -> &Path {
        &self.plan.state
    }

    /// How it was mounted, and with what around it.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What `quayfs status --json` says.
    pub fn status(&self) -> Value {
        let mut command = self.plan.command([OsStr::new("status"), self.path().as_os_str()]);
        let finished = run(command.arg("--json"), COMMAND_WITHIN);
        let status = serde_json::from_str(finished.ok());
        status.unwrap_or_else(|error| panic!("{error}: {}", finished.report()))
    }

    /// One of its counters.
    pub fn counter(&self, name: &str) -> u64 {
        let status = self.status();
        let value = status["counters"][name].as_u64();
        value.unwrap_or_else(|| panic!("no counter {name} in {status}"))
    }

    /// Whether the daemon still runs.
    pub fn is_alive(&self) -> bool {
        self.daemon.is_some_and(|pid| program_of(pid).is_some())
    }

    /// Kills the daemon, without a word to it, and returns when it is gone.
    pub fn kill(&self) {
        let pid = self.daemon.expect("mounted");
        kill_process(pid, Signal::KILL).expect("the daemon runs");
        wait::until("the killed daemon to be gone", END_WITHIN, || !self.is_alive());
    }

    /// Has the daemon stand still while `look` looks at what it does otherwise. That must not use the mount.
    pub fn frozen<T>(&self, look: impl FnOnce() -> T) -> T {
        let pid = self.daemon.expect("mounted");
        freeze(pid);
        let seen = look();
        thaw(pid);
        seen
    }

    /// Runs `quayfs umount`, whatever becomes of it.
    pub fn try_umount(&self) -> Finished {
        let mut command = self.plan.command([OsStr::new("umount"), self.path().as_os_str()]);
        run(&mut command, COMMAND_WITHIN)
    }

    /// Unmounts, and gives the plan back, to mount the same again.
    ///
    /// # Panics
    ///
    /// When that fails, or leaves a mount or a daemon.
    pub fn umount(mut self) -> Plan {
        let finished = self.try_umount();
        finished.ok();
        assert!(!mounted_at(self.path()), "still mounted: {}", finished.report());
        // That umount itself waits for the end is one test's business, not everybody's.
        wait::until("the daemon to end", END_WITHIN, || !self.is_alive());
        self.daemon = None;
        self.give_back()
    }

    /// Forgets the daemon, which was killed or told to end, and gives the plan back, to mount over the dead mount point.
    ///
    /// # Panics
    ///
    /// When the daemon lives on: longer than some other test has a copy of its mount in a mount namespace.
    pub fn abandon(mut self) -> Plan {
        wait::until("the daemon to end", END_WITHIN, || !self.is_alive());
        self.daemon = None;
        self.give_back()
    }

    fn give_back(mut self) -> Plan {
        let empty = Plan {
            url: String::new(),
            flags: Vec::new(),
            env: Vec::new(),
            user: None,
            output: Output::Files,
            folder: Scratch::new(),
            path: PathBuf::new(),
            state: PathBuf::new(),
        };
        self.is_ours = false;
        std::mem::replace(&mut self.plan, empty)
    }

    fn show_log(&self) {
        #[expect(clippy::print_stderr, reason = "what a failing test has to tell")]
        {
            eprintln!("--- the mount's log, last lines\n{}\n---", self.plan.last_log());
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        if std::thread::panicking() {
            self.show_log();
        } else if self.is_alive() && self.try_umount().status.success() {
            return;
        }
        // A test failed, or the daemon is dead or does not listen: by force, from the outside.
        while mounted_at(self.path()) {
            if unmount(self.path(), UnmountFlags::DETACH).is_err() {
                break;
            }
        }
        for pid in processes_that_name(self.plan.folder.path()) {
            let _ = kill_process(pid, Signal::KILL);
            let gone = || program_of(pid).is_none().then_some(());
            let _ = wait::try_until_some(END_WITHIN, gone);
        }
    }
}

/// Whether a file system is mounted at exactly this path.
pub fn mounted_at(path: &Path) -> bool {
    let table = fs::read("/proc/self/mountinfo").expect("the kernel tells its mounts");
    let wanted = escaped(path);
    table.split(|&byte| byte == b'\n').any(|line| {
        line.split(|&byte| byte == b' ').nth(4).is_some_and(|mounted| mounted == wanted)
    })
}

/// The path as the mount table writes it.
fn escaped(path: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => text.extend(format!("\\{byte:03o}").into_bytes()),
            byte => text.push(byte),
        }
    }
    text
}

/// The processes of our binary that were given something below `folder`.
fn processes_that_name(folder: &Path) -> Vec<Pid> {
    let ours = fs::read_dir("/proc").expect("the kernel tells its processes").flatten();
    let pids = ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw).filter(|&pid| names(pid, folder)).collect()
}

fn names(pid: Pid, folder: &Path) -> bool {
    let Some(program) = program_of(pid) else { return false };
    let command = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let folder = folder.as_os_str().as_bytes();
    program.file_name().is_some_and(|name| name.as_bytes().starts_with(b"quayfs"))
        && command.windows(folder.len()).any(|window| window == folder)
}

/// The program a process runs; `None` when it has ended.
fn program_of(pid: Pid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).ok()
}

fn sockets_below(folder: &Path) -> Vec<PathBuf> {
    let mut find = Command::new("find");
    let finished = run(find.arg(folder).args(["-xdev", "-type", "s"]), COMMAND_WITHIN);
    finished.ok().lines().map(PathBuf::from).collect()
}
