//! Where a task's mount is.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};

/// Names that others may have taken.
const TRIES_MAX: u32 = 100;

/// How the name of a temporary folder begins; what tells this kernel from others, the number of its process and one more
/// follow.
const NAME: &str = "quayfs-run-";

/// What the kernel says of each start of a machine, and how much of it is enough.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
const BOOT_CHARS: usize = 8;

/// Names in the folder of temporary files that are looked at for what was left there, and how much of that is cleared
/// at a time.
const NAMES_MAX: usize = 100_000;
const CLEARED_MAX: usize = 64;

/// A folder to mount at: given, or made for the task and removed after it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Of a temporary one: for as long as we live nobody takes it for one that was left.
    lock: Option<File>,
}

impl Folder {
    /// The folder `wish`, or a new one that only this user may enter.
    pub(super) fn new(wish: Option<&Path>) -> Result<Folder> {
        if let Some(path) = wish {
            let path = std::path::absolute(path)
                .with_context(|| format!("{}: not a path", path.display()))?;
            return Ok(Folder { path, lock: None });
        }
        let parent = std::env::temp_dir();
        let boot = boot();
        if let Some(boot) = &boot {
            clear_left(&parent, boot);
        }
        let boot = boot.unwrap_or_else(|| "unknown".to_owned());
        for number in 0..TRIES_MAX {
            let path = parent.join(format!("{NAME}{boot}-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    // Somebody may just take it for one that was left: then the next one will do.
                    if let Some(lock) = locked(&path).filter(|lock| is_at(lock, &path)) {
                        return Ok(Folder { path, lock: Some(lock) });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| {
                        format!("cannot make {}: name a folder with --at", path.display())
                    });
                }
            }
        }
        bail!("no folder can be made in {}: name one with --at", parent.display())
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nobody but the task knows it.
    pub(super) fn is_temporary(&self) -> bool {
        self.lock.is_some()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary() {
            // Only if it is empty: with the mount still there it is not ours to clear.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// Clears what runs that were killed have left in `parent`: folders, and mounts whose daemons were killed, too. What is
/// mounted there is known by the table of mounts: to look at it waits for its daemon, and one that does not answer
/// would hold up every run of this user. Only what was made under this kernel: where the folder of temporary files is one
/// of the network, others' processes and locks are not seen from here.
fn clear_left(parent: &Path, boot: &str) {
    let Ok(parent) = parent.canonicalize() else { return };
    let (Ok(entries), Ok(mounted)) = (fs::read_dir(&parent), mount::mounted_below(&parent)) else {
        return;
    };
    let names = entries.take(NAMES_MAX).filter_map(|entry| Some(entry.ok()?.file_name()));
    let gone =
        names.filter(|name| process(name, boot).is_some_and(is_gone)).map(|name| parent.join(name));
    for path in
        gone.filter(|path| mounted.contains(path) || is_folder_of_ours(path)).take(CLEARED_MAX)
    {
        // A daemon that lives ends by itself when the bucket has everything.
        if mounted.contains(&path) && !mount::clear_dead(&path) {
            continue;
        }
        // The process may live where its number is another one, as in a container.
        if locked(&path).is_some() {
            // Only if it is empty.
            let _ = fs::remove_dir(&path);
        }
    }
}

/// Also not where a link leads to.
fn is_folder_of_ours(path: &Path) -> bool {
    let found = path.symlink_metadata();
    found.is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
}

/// What tells this start of this machine from others.
fn boot() -> Option<String> {
    let id = fs::read_to_string(BOOT).ok()?;
    id.get(..BOOT_CHARS).map(str::to_owned)
}

/// The process for which a folder of this name was made under the kernel `boot`.
fn process(name: &OsStr, boot: &str) -> Option<Pid> {
    let of_boot = name.to_str()?.strip_prefix(NAME)?.strip_prefix(boot)?.strip_prefix('-')?;
    let (process, number) = of_boot.split_once('-')?;
    number.parse::<u32>().ok()?;
    Pid::from_raw(process.parse().ok()?)
}

fn is_gone(process: Pid) -> bool {
    test_kill_process(process) == Err(Errno::SRCH)
}

/// The folder of this user at `path`, if nobody else has it locked.
fn locked(path: &Path) -> Option<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    let folder = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let is_ours = folder.metadata().ok()?.uid() == geteuid().as_raw();
    (is_ours && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()).then_some(folder)
}

fn is_at(folder: &File, path: &Path) -> bool {
    let at = |found: fs::Metadata| (found.dev(), found.ino());
    match (folder.metadata(), path.symlink_metadata()) {
        (Ok(folder), Ok(found)) => at(folder) == at(found),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{NAME, boot, clear_left, locked};

    #[test]
    fn only_empty_folders_of_processes_that_are_gone_are_cleared() {
        let dir = tempfile::tempdir().unwrap();
        // No number of a process is as high.
        let boot = boot().unwrap();
        let gone = format!("{NAME}{boot}-{}", i32::MAX);
        let elsewhere = format!("{NAME}00000000-{}-0", i32::MAX);
        let alive = format!("{NAME}{boot}-{}-0", std::process::id());
        let (full, held) = (format!("{gone}-1"), format!("{gone}-2"));
        let others =
            ["", "x-0", "2147483647", "0-0", "2147483647-0"].map(|rest| format!("{NAME}{rest}"));
        for name in [&alive, &full, &held, &elsewhere, &format!("{gone}-0")] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        for name in &others {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join(&full).join("file"), b"").unwrap();
        fs::write(dir.path().join(format!("{gone}-3")), b"").unwrap();
        let lock = locked(&dir.path().join(&held)).unwrap();
        clear_left(dir.path(), &boot);
        let there = |name: &str| dir.path().join(name).exists();
        assert!(!there(&format!("{gone}-0")));
        for name in [&alive, &full, &held, &elsewhere, &format!("{gone}-3")] {
            assert!(there(name), "{name}");
        }
        assert!(others.iter().all(|name| there(name)));
        drop(lock);
        clear_left(dir.path(), &boot);
        assert!(!there(&held));
    }
}
