//! An ordinary user mounts and unmounts through `fusermount3`.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use quayfs_fuse::{Unmount, mounted_at, unmount_path};

use crate::rig::Place;

const NOBODY: u32 = 65534;

/// A folder, a program and a mount point that `nobody` may use, and the daemon, if it runs.
struct Desk {
    place: Place,
    daemon: Option<Child>,
}

impl Desk {
    fn new() -> Desk {
        // As udev has it where fuse3 is installed; without, no ordinary user could mount.
        fs::set_permissions("/dev/fuse", Permissions::from_mode(0o666)).unwrap();
        let place = Place::new();
        let root = place.root.path();
        fs::set_permissions(root, Permissions::from_mode(0o755)).unwrap();
        chown(place.mount(), Some(NOBODY), Some(NOBODY)).unwrap();
        let desk = Desk { place, daemon: None };
        // Copied by another process: a child of another test could inherit our descriptor, and
        // what is open for writing cannot be run.
        let copied = Command::new("cp").arg(example()).arg(desk.program()).status().unwrap();
        assert!(copied.success());
        fs::set_permissions(desk.program(), Permissions::from_mode(0o755)).unwrap();
        desk
    }

    fn program(&self) -> PathBuf {
        self.place.root.path().join("one_file")
    }

    /// Returns the daemon's first words: that it has mounted, or why not.
    fn mount(&mut self, how: &str) -> String {
        let mut child = nobody(&self.program())
            .args(["mount", how])
            .arg(self.place.mount())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.daemon = Some(child);
        line.trim().to_owned()
    }

    fn unmount(&self, how: &str) -> Output {
        nobody(&self.program()).args(["unmount", how]).arg(self.place.mount()).output().unwrap()
    }

    fn end(&mut self) {
        assert!(self.daemon.take().unwrap().wait().unwrap().success());
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            // A test has failed, or the mount has; there may be nothing left to end.
            let _ = unmount_path(&self.place.mount(), Unmount::Force);
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A command that `nobody` gives.
fn nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(program).current_dir("/");
    command
}

/// Cargo builds examples before tests, beside them.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/one_file")
}

#[test]
fn an_ordinary_user_mounts_reads_and_unmounts() {
    let mut desk = Desk::new();
    assert_eq!(desk.mount("private"), "mounted without passthrough");
    let entry = mounted_at(&desk.place.mount()).unwrap().unwrap();
    assert_eq!((entry.source.as_str(), entry.is_ours()), ("one,file\\", true));

    let file = desk.place.mount().join("hello");
    let read = nobody(Path::new("cat")).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stdout), "hello\n");
    let error = fs::read(&file).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "it is the user's alone");

    let unmounted = desk.unmount("normal");
    assert!(unmounted.status.success(), "{unmounted:?}");
    desk.end();
    assert_eq!(mounted_at(&desk.place.mount()).unwrap(), None);
}

#[test]
fn an_ordinary_user_unmounts_lazily_what_is_busy() {
    let mut desk = Desk::new();
    desk.mount("private");
    let mut reader = nobody(Path::new("sh"))
        .arg("-c")
        .arg("exec 3<\"$0\"; echo open; read -r _")
        .arg(desk.place.mount().join("hello"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(reader.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");

    let busy = desk.unmount("normal");
    assert!(String::from_utf8_lossy(&busy.stdout).contains("Busy"), "{busy:?}");
    assert!(desk.unmount("lazy").status.success());
    assert_eq!(mounted_at(&desk.place.mount()).unwrap(), None);
    drop(reader.stdin.take());
    reader.wait().unwrap();
    desk.end();
}

#[test]
fn an_ordinary_user_is_told_what_root_has_to_allow() {
    if fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "user_allow_other"))
    {
        return;
    }
    let mut desk = Desk::new();
    let words = desk.mount("shared");
    assert!(words.contains("AllowOtherDenied"), "{words}");
    assert!(words.contains("/etc/fuse.conf"), "{words}");
}
