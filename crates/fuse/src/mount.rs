//! Mounts and unmounts, by system call or by `fusermount3`; the readahead knob.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::channel::DEVICE;
use crate::error::{MountError, MountErrorKind};
use crate::helper;
use crate::init::SetIdBits;
use crate::passthrough::{PassthroughWish, is_admin};
use crate::ring::RingWish;
use crate::table::{self, Device, MountEntry, SUBTYPE};

/// A daemon that does not answer for so long is taken for alive but stuck.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// What the mount table calls the source, such as `s3://bucket`.
    pub source: String,
    /// What the mount table calls the kind of file system, behind `fuse.`; [`MountEntry::is_ours`] asks for `quayfs`.
    pub subtype: &'static str,
    /// Whether the kernel is to refuse all changes itself.
    pub read_only: bool,
    /// Whether other users may enter; each has the rights that owners and modes give him.
    pub allow_other: bool,
    /// Threads that read requests from the device. Each has a buffer of 1 MiB of address space, of
    /// which as much takes memory as the largest request so far needed.
    pub threads: usize,
    /// Whether requests are to come through `io_uring`.
    pub rings: RingWish,
    /// How far the kernel reads ahead of a sequential reader; 0 leaves it alone. Only root can
    /// raise it.
    pub read_ahead_bytes: u64,
    /// Whether to ask for passthrough.
    pub passthrough: PassthroughWish,
    /// Who clears set-uid and set-gid bits.
    pub set_id_bits: SetIdBits,
    /// Whether programs get the rights that these bits promise.
    pub set_id_programs: Trust,
    /// Whether device nodes can be opened.
    pub devices: Trust,
    /// Whether programs can be run.
    pub programs: Trust,
}

/// Whether the kernel takes a file at its word. Who can write to the bucket can write such words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It does not.
    Denied,
    /// It does; of set-uid programs and devices only root can ask for it.
    Granted,
}

impl MountOptions {
    /// The usual mount of `source`: writable, for its owner, with passthrough where it is possible.
    pub fn new(source: impl Into<String>) -> MountOptions {
        MountOptions {
            source: source.into(),
            subtype: SUBTYPE,
            read_only: false,
            allow_other: false,
            threads: 4,
            rings: RingWish::Wanted,
            read_ahead_bytes: 0,
            passthrough: PassthroughWish::Wanted,
            set_id_bits: SetIdBits::KernelClears,
            set_id_programs: Trust::Denied,
            devices: Trust::Denied,
            programs: Trust::Granted,
        }
    }
}

/// How to unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Only if no file is open on it. May wait for the daemon to take what is still to be written.
    Normal,
    /// The path is free at once; open files go on being served until they are closed.
    Lazy,
    /// The path is free at once, and every request under way or to come fails: whatever hangs
    /// hangs no more.
    Force,
}

/// The mount of this program at `dir`.
pub fn our_mount(dir: &Path) -> Result<MountEntry, MountError> {
    let path = table::resolve(dir).map_err(|error| not_looked_at(dir, error))?;
    match topmost_at(&path)? {
        Some(entry) if entry.is_ours() => Ok(entry),
        Some(other) => {
            let words = format!("{} is mounted there", other.file_system);
            Err(MountError::with_source(MountErrorKind::NotOurs, &path, words))
        }
        None => Err(nothing_at(&path)),
    }
}

/// The mount of this program that `path` is in by its name alone: nothing is asked of what is mounted.
pub fn mount_above(path: &Path) -> Option<MountEntry> {
    let above = |entry: &MountEntry| path.starts_with(&entry.path);
    table::mounts().unwrap_or_default().into_iter().find(above)
}

/// The mounts of this program that `paths` are in by their names alone, each once; nothing is asked of what is
/// mounted.
pub fn mounts_above<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<MountEntry> {
    let mut mounts = table::mounts().unwrap_or_default();
    let mut above = Vec::new();
    for path in paths {
        if mounts.is_empty() {
            break;
        }
        let Ok(path) = std::path::absolute(path) else { continue };
        above.extend(mounts.extract_if(.., |entry| path.starts_with(&entry.path)));
    }
    above
}

/// Nothing is mounted at `path`; who is in a mount is told where that is.
fn nothing_at(path: &Path) -> MountError {
    let Some(entry) = mount_above(path) else {
        return MountError::plain(MountErrorKind::NotMounted, path);
    };
    let words = format!("it is in the mount at {}", entry.path.display());
    MountError::with_source(MountErrorKind::NotMounted, path, words)
}

/// The mount of this program that `path` is in, which must answer.
pub fn mount_of(path: &Path) -> Result<MountEntry, MountError> {
    let found = rustix::fs::stat(path).map_err(|error| not_looked_at(path, error.into()))?;
    let (major, minor) = (rustix::fs::major(found.st_dev), rustix::fs::minor(found.st_dev));
    let device = Device { major, minor };
    let mounts = table::mounts().map_err(|error| MountError::of_path(path, error))?;
    let entry = mounts.into_iter().find(|entry| entry.device == device);
    entry.ok_or_else(|| MountError::plain(MountErrorKind::NotMounted, path))
}

/// As [`MountError::of_path`], for who does not want to mount there: no advice to make the folder.
fn not_looked_at(path: &Path, error: io::Error) -> MountError {
    if error.kind() == io::ErrorKind::NotFound {
        return MountError::with_source(MountErrorKind::NotMounted, path, error);
    }
    MountError::of_path(path, error)
}

/// Unmounts the mount of this program at `dir`: as root by system call, else by `fusermount3`.
pub fn unmount_path(dir: &Path, how: Unmount) -> Result<(), MountError> {
    let entry = our_mount(dir)?;
    detach(&entry.path, entry.device, how)
}

/// Whether a mount of this program is at `dir` whose daemon is gone. Asks the daemon, but does
/// not wait long for one that hangs.
pub fn is_dead(dir: &Path) -> bool {
    let Ok(path) = table::resolve(dir) else { return false };
    let Ok(Some(_)) = ours_at(&path) else { return false };
    let (sender, receiver) = mpsc::channel();
    // A hanging daemon holds the thread until it answers or this process ends.
    let asking = std::thread::Builder::new().name("fuse-probe".into()).spawn(move || {
        // Forced, because the kernel may otherwise answer for the dead from its cache.
        let answer =
            rustix::fs::statx(CWD, &path, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
        // The other end may have stopped waiting.
        let _ = sender.send(answer.map(drop));
    });
    asking.is_ok()
        && receiver.recv_timeout(ANSWER_WAIT).is_ok_and(|answer| answer.is_err_and(is_of_the_dead))
}

/// Whether this is what the kernel says where a daemon is gone. Who asks while it is being killed gets the second answer,
/// or, if it was asked by `io_uring`, the third.
fn is_of_the_dead(error: Errno) -> bool {
    [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED].contains(&error)
}

/// Whether something could be mounted at `dir`, as far as can be told without doing it: it is a
/// folder, and no live mount of ours is there; a dead one is no obstacle.
pub fn check_mount_point(dir: &Path) -> Result<(), MountError> {
    let path = table::resolve(dir).map_err(|error| MountError::of_path(dir, error))?;
    if ours_at(&path)?.is_some() {
        return if is_dead(&path) {
            Ok(())
        } else {
            Err(MountError::plain(MountErrorKind::AlreadyMounted, &path))
        };
    }
    let there = fs::metadata(&path).map_err(|error| MountError::of_path(&path, error))?;
    if there.is_dir() {
        Ok(())
    } else {
        Err(MountError::plain(MountErrorKind::NotADirectory, &path))
    }
}

/// Makes `path`, which is resolved, fit to mount at: dead mounts of ours there are cleared away.
pub(crate) fn prepare(path: &Path) -> Result<(), MountError> {
    check_mount_point(path)?;
    while let Some(dead) = ours_at(path)? {
        tracing::info!(path = %path.display(), "clearing a mount whose daemon is gone");
        detach(path, dead.device, Unmount::Lazy)
            .map_err(|error| MountError::with_source(MountErrorKind::DeadMount, path, error))?;
        check_mount_point(path)?;
    }
    Ok(())
}

/// Whether a mount of this process has set-uid programs and devices if it asks for them: `fusermount3` takes them from
/// who is not root, and says nothing.
pub fn may_trust() -> bool {
    is_admin() || rustix::process::getuid().is_root()
}

/// Mounts at `path` and returns the descriptor of the device.
pub(crate) fn attach(path: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    if !is_admin() {
        return helper::mount(path, &helper_options(options));
    }
    match attach_by_call(path, options) {
        // A container's root may have the capability and still not be allowed to mount.
        Err(denied) if denied.kind == MountErrorKind::Denied => {
            match helper::mount(path, &helper_options(options)) {
                Err(error) if error.kind == MountErrorKind::NoHelper => Err(denied),
                done => done,
            }
        }
        done => done,
    }
}

fn attach_by_call(path: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let device = File::options()
        .read(true)
        .write(true)
        .open(DEVICE)
        .map_err(|error| MountError::with_source(MountErrorKind::NoDevice, path, error))?;
    let mut parameters = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if options.allow_other {
        parameters.push_str(",allow_other");
    }
    let parameters = CString::new(parameters).expect("numbers and fixed words hold no zero byte");
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID, options.set_id_programs == Trust::Denied);
    flags.set(MountFlags::NODEV, options.devices == Trust::Denied);
    flags.set(MountFlags::NOEXEC, options.programs == Trust::Denied);
    rustix::mount::mount(
        options.source.as_str(),
        path,
        format!("fuse.{}", options.subtype),
        flags,
        parameters.as_c_str(),
    )
    .map_err(|error| MountError::with_source(not_mounted(error), path, error))?;
    Ok(device.into())
}

fn not_mounted(error: Errno) -> MountErrorKind {
    match error {
        Errno::PERM | Errno::ACCESS => MountErrorKind::Denied,
        // The kernel knows no FUSE, though there is a device.
        Errno::NODEV => MountErrorKind::NoDevice,
        _ => MountErrorKind::Other,
    }
}

/// For ordinary users the program adds `nosuid` and `nodev` itself.
fn helper_options(options: &MountOptions) -> String {
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let subtype = options.subtype;
    let mut words = format!("fsname={source},subtype={subtype},default_permissions");
    if options.allow_other {
        words.push_str(",allow_other");
    }
    if options.read_only {
        words.push_str(",ro");
    }
    if options.set_id_programs == Trust::Denied {
        words.push_str(",nosuid");
    }
    if options.devices == Trust::Denied {
        words.push_str(",nodev");
    }
    if options.programs == Trust::Denied {
        words.push_str(",noexec");
    }
    words
}

/// The topmost mount at `path`, which is resolved.
pub(crate) fn topmost_at(path: &Path) -> Result<Option<MountEntry>, MountError> {
    table::mounted_at(path).map_err(|error| MountError::of_path(path, error))
}

/// The topmost mount at `path`, which is resolved, if it is one of ours.
fn ours_at(path: &Path) -> Result<Option<MountEntry>, MountError> {
    Ok(topmost_at(path)?.filter(MountEntry::is_ours))
}

/// Unmounts what is at `path`, which is resolved and has been seen to be ours.
pub(crate) fn detach(path: &Path, device: Device, how: Unmount) -> Result<(), MountError> {
    let flags = match how {
        Unmount::Normal => UnmountFlags::empty(),
        Unmount::Lazy => UnmountFlags::DETACH,
        Unmount::Force => UnmountFlags::FORCE | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(path, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => detach_by_helper(path, device, how),
        Err(error) => Err(MountError::of_path(path, error.into())),
    }
}

fn detach_by_helper(path: &Path, device: Device, how: Unmount) -> Result<(), MountError> {
    match how {
        Unmount::Normal => helper::unmount(path, &["-u"]),
        Unmount::Lazy => helper::unmount(path, &["-u", "-z"]),
        Unmount::Force => {
            if let Err(error) = abort(device) {
                tracing::debug!(%device, %error, "connection not aborted");
            }
            helper::unmount(path, &["-u", "-z"])
        }
    }
}

/// Fails all requests of a connection; the file belongs to whoever mounted.
fn abort(device: Device) -> io::Result<()> {
    fs::write(format!("/sys/fs/fuse/connections/{}/abort", device.minor), "1")
}

/// Lifts the kernel's limit on reading ahead, which no handshake can. Only root may; for anyone
/// else reads are just as right, but shorter.
pub(crate) fn set_read_ahead(device: Device, bytes: u64) {
    if bytes == 0 {
        return;
    }
    let knob = format!("/sys/class/bdi/{device}/read_ahead_kb");
    if let Err(error) = fs::write(&knob, (bytes / 1024).to_string()) {
        tracing::debug!(knob, %error, "readahead stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::{Errno, MountOptions, helper_options, is_of_the_dead};

    #[test]
    fn a_daemon_that_is_being_killed_is_as_dead_as_one_that_is_gone() {
        let dead = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED];
        assert!(dead.into_iter().all(is_of_the_dead));
        assert!(![Errno::IO, Errno::INTR, Errno::ACCESS].into_iter().any(is_of_the_dead));
    }

    #[test]
    fn a_source_cannot_smuggle_in_options() {
        let options = MountOptions::new("s3://a,allow_other\\");
        assert_eq!(
            helper_options(&options),
            "fsname=s3://a\\,allow_other\\\\,subtype=quayfs,default_permissions,nosuid,nodev"
        );
    }
}
