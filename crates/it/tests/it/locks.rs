//! Locks among the processes of one host, which the kernel keeps, and what inotify sees.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Mount, python, wait, write_new};

use crate::{SOON, mounted};

const KINDS: [&str; 3] = ["flock", "fcntl", "ofd"];

/// A script of `py/` that says a line when something happens.
struct Script {
    process: Child,
    said: Option<BufReader<ChildStdout>>,
}

impl Script {
    fn start(name: &str, arguments: &[&str]) -> Script {
        let mut command = Command::new(python());
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("py").join(name)).args(arguments);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = process.stdout.take().map(BufReader::new);
        Script { process, said }
    }

    /// Tries to lock `path`.
    fn lock(path: &Path, kind: &str, mode: &str, patience: &str) -> Script {
        Script::start("locks.py", &[path.to_str().unwrap(), kind, mode, patience])
    }

    /// The next line, which must come soon.
    fn says(&mut self) -> String {
        let mut said = self.said.take().unwrap();
        let (said, line) = wait::within("waiting for a script's word", SOON, move || {
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            (said, line)
        });
        self.said = Some(said);
        line.trim_end().to_owned()
    }

    /// Whether it is inside a system call that waits for a lock.
    fn waits_for_a_lock(&self) -> bool {
        let call = std::fs::read_to_string(format!("/proc/{}/wchan", self.process.id()));
        call.is_ok_and(|call| call.contains("lock") || call.contains("setlk"))
    }

    fn kill(&mut self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        self.process.wait().unwrap();
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        wait::until("the script to end", SOON, || self.process.try_wait().unwrap().is_some());
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Gone already, if the test went well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn file(mount: &Mount, name: &str) -> PathBuf {
    let path = mount.join(name);
    write_new(&path, b"bytes").unwrap();
    path
}

#[test]
fn locks_of_each_kind_keep_others_out_and_let_sharers_in() {
    let (_bucket, mount) = mounted();
    for kind in KINDS {
        let path = file(&mount, kind);
        let mut holder = Script::lock(&path, kind, "exclusive", "try");
        assert_eq!(holder.says(), "held", "{kind}");
        for mode in ["exclusive", "shared"] {
            let mut other = Script::lock(&path, kind, mode, "try");
            assert_eq!(other.says(), "refused", "{kind} {mode}");
            other.end();
        }
        holder.end();
        let mut sharers = [(); 2].map(|()| Script::lock(&path, kind, "shared", "try"));
        for sharer in &mut sharers {
            assert_eq!(sharer.says(), "held", "{kind}");
        }
        let mut writer = Script::lock(&path, kind, "exclusive", "try");
        assert_eq!(writer.says(), "refused", "{kind}");
        writer.end();
        for sharer in sharers {
            sharer.end();
        }
    }
}

#[test]
fn who_waits_for_a_lock_gets_it_when_its_holder_is_killed() {
    let (_bucket, mount) = mounted();
    for kind in KINDS {
        let path = file(&mount, kind);
        let mut holder = Script::lock(&path, kind, "exclusive", "try");
        assert_eq!(holder.says(), "held", "{kind}");
        let mut waiter = Script::lock(&path, kind, "exclusive", "wait");
        wait::until("the waiter to wait", SOON, || waiter.waits_for_a_lock());
        holder.kill();
        assert_eq!(waiter.says(), "held", "{kind}");
        waiter.end();
    }
}

#[test]
fn who_waits_for_a_lock_can_be_interrupted_and_holds_nothing_up() {
    let (bucket, mount) = mounted();
    for kind in KINDS {
        let path = file(&mount, kind);
        let mut holder = Script::lock(&path, kind, "exclusive", "try");
        assert_eq!(holder.says(), "held", "{kind}");
        let mut waiter = Script::lock(&path, kind, "exclusive", "wait");
        wait::until("the waiter to wait", SOON, || waiter.waits_for_a_lock());
        let mut interrupted = Script::lock(&path, kind, "exclusive", "interrupted");
        assert_eq!(interrupted.says(), "interrupted", "{kind}");
        interrupted.end();
        // The locked file itself is read and written on by who does not ask for the lock.
        testkit::append(&path, b" and more").unwrap();
        assert_eq!(bucket.get(kind).as_deref(), Some(&b"bytes and more"[..]));
        waiter.kill();
        holder.end();
    }
}

#[test]
fn locks_that_are_held_and_waited_for_do_not_hang_an_unmount() {
    let (_bucket, mount) = mounted();
    let path = file(&mount, "file");
    let mut holder = Script::lock(&path, "fcntl", "exclusive", "try");
    assert_eq!(holder.says(), "held");
    let mut waiter = Script::lock(&path, "fcntl", "exclusive", "wait");
    wait::until("the waiter to wait", SOON, || waiter.waits_for_a_lock());
    // Open files are a reason to refuse, and said at once.
    let refused = mount.try_umount();
    assert!(!refused.status.success() && refused.took < SOON, "{}", refused.report());
    waiter.kill();
    holder.kill();
    mount.umount();
}

#[test]
fn watchers_of_a_folder_see_what_is_done_on_this_mount() {
    let (_bucket, mount) = mounted();
    let mut watcher = Script::start("watch.py", &[mount.path().to_str().unwrap()]);
    assert_eq!(watcher.says(), "watching");
    let path = file(&mount, "one");
    std::fs::rename(&path, mount.join("two")).unwrap();
    std::fs::remove_file(mount.join("two")).unwrap();
    std::fs::create_dir(mount.join("folder")).unwrap();
    let expected = [
        "create one",
        "modify one",
        "close_write one",
        "moved_from one",
        "moved_to two",
        "delete two",
        "create folder",
    ];
    for event in expected {
        assert_eq!(watcher.says(), event);
    }
    // A watch does not keep the mount.
    mount.umount();
}
