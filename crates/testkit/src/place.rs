//! Where things are: the binary under test, the tools that `scripts/setup` installed, scratch space.
#![expect(clippy::disallowed_methods, reason = "the environment says where the tools are")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fuse::RingWish;

/// The folder outside the checkout that keeps tools, build results and made test files.
pub fn dev_dir() -> PathBuf {
    if let Some(dir) = env::var_os("QUAYFS_DEV_DIR") {
        return dir.into();
    }
    let home = env::var_os("HOME").expect("a login has a home folder");
    Path::new(&home).join(".cache/quayfs-dev")
}

/// Whether the long forms of the tests were asked for.
pub fn is_long() -> bool {
    env::var_os("QUAYFS_LONG").is_some_and(|value| value == "1")
}

/// The number of runs of a long form that has no end of its own: as `QUAYFS_LONG_RUNS` says, else `usual`.
///
/// # Panics
///
/// When the variable is set to something else than a number.
pub fn long_runs(usual: u64) -> u64 {
    env::var("QUAYFS_LONG_RUNS")
        .map_or(usual, |runs| runs.parse().expect("QUAYFS_LONG_RUNS is a number"))
}

/// What the mounts of the tests log, where that is asked for.
pub(crate) fn log_level() -> Option<OsString> {
    env::var_os("QUAYFS_TEST_LOG")
}

/// The variable that keeps mounts from `io_uring`.
pub(crate) const NO_IO_URING: &str = "QUAYFS_NO_IO_URING";

/// Its value for mounts that don't say: by `/dev/fuse`, the same way on every machine, if nobody wants it otherwise.
pub(crate) fn no_io_uring() -> OsString {
    env::var_os(NO_IO_URING).unwrap_or("true".into())
}

/// The same for file systems that are not quayfs, and that are compared with it.
pub fn ring_wish() -> RingWish {
    if no_io_uring() == "true" { RingWish::Off } else { RingWish::Wanted }
}

/// The `quayfs` binary under test: `QUAYFS_BIN`, else the one built beside the running test.
pub fn quayfs() -> PathBuf {
    if let Some(binary) = env::var_os("QUAYFS_BIN") {
        return binary.into();
    }
    let test = env::current_exe().expect("a running program has a path");
    // Tests run from `deps/` of the profile's folder, our own programs from the folder itself.
    let beside = test.ancestors().skip(1).take(2).map(|folder| folder.join("quayfs"));
    beside.into_iter().find(|path| path.is_file()).expect(
        "no quayfs binary: run `make test`, or `cargo build -p quayfs-cli`, or set QUAYFS_BIN",
    )
}

/// A program that `scripts/setup` installed.
pub fn tool(name: &str) -> PathBuf {
    let path = dev_dir().join("bin").join(name);
    assert!(path.is_file(), "no {name} at {}: run scripts/setup", path.display());
    path
}

/// The Python that has the clients and readers the tests use.
pub fn python() -> PathBuf {
    let path = dev_dir().join("venv/bin/python");
    assert!(path.is_file(), "no Python at {}: run scripts/setup", path.display());
    path
}

/// A workflow engine that `scripts/setup` installed.
pub fn engine(name: &str) -> PathBuf {
    let path = dev_dir().join("engines/bin").join(name);
    assert!(path.is_file(), "no {name} at {}: run scripts/setup", path.display());
    path
}

/// The folder of the checkout.
pub fn root_folder() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("the crate lies two folders down").to_path_buf()
}

/// What a test may hand on to the programs it starts: nothing of the caller's clouds and keys.
pub(crate) fn clean_env() -> Vec<(&'static str, OsString)> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
    vec![("PATH", path), ("LANG", "C.UTF-8".into()), ("RUST_BACKTRACE", "1".into())]
}

/// A folder on a real disk, which goes away with its owner.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// An empty folder that any user may enter.
    ///
    /// On a real disk: a memory file system has no passthrough, no holes worth the name, and takes
    /// the memory that the tests bound. The path is short, since sockets are made in it.
    pub fn new() -> Scratch {
        Scratch::below(env::var_os("QUAYFS_TEST_DIR").unwrap_or_else(|| "/var/tmp".into()))
    }

    /// As [`Scratch::new`], for the objects of a store: a measurement gives them a disk of their own, so that
    /// who waits for a journal of the other one waits for no store, as where the bucket is far away.
    pub(crate) fn of_store() -> Scratch {
        env::var_os("QUAYFS_TEST_STORE_DIR").map_or_else(Scratch::new, Scratch::below)
    }

    /// As [`Scratch::new`], in memory: what a measurement compares with where no disk is to be waited for.
    pub fn in_memory() -> Scratch {
        Scratch::below("/dev/shm".into())
    }

    fn below(parent: OsString) -> Scratch {
        let folder = tempfile::Builder::new().prefix("quayfs-").tempdir_in(parent);
        let path = folder.expect("the scratch disk takes a folder").keep();
        set_mode(&path, 0o755);
        Scratch { path }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder, from now on in somebody else's care.
    pub(crate) fn into_path(self) -> PathBuf {
        std::mem::ManuallyDrop::new(self).path.clone()
    }

    /// Makes a folder in it.
    pub fn folder(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let path = self.path.join(name.as_ref());
        fs::create_dir_all(&path).expect("the scratch disk takes a folder");
        path
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Stays on its own disk: a mount that could not be detached must not be emptied.
        let removal =
            Command::new("rm").args(["-rf", "--one-file-system"]).arg(&self.path).output();
        if let Ok(removal) = removal
            && !removal.status.success()
            && !std::thread::panicking()
        {
            panic!("left behind: {}", String::from_utf8_lossy(&removal.stderr));
        }
    }
}

/// Sets the permission bits of `path`.
pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the path is ours");
}
