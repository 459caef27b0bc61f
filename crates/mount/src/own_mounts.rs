//! Mounts that only this process and those that it starts see: a namespace of its own.
//!
//! Root has one for the asking. An ordinary user gets one together with a namespace of users, in which he is who he
//! was and may mount; what he has not mounted himself is as closed to him as before.

use std::fs;
use std::io;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{getgid, getuid};
use rustix::thread::{
    CapabilitySet, UnshareFlags, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, set_capabilities, unshare_unsafe,
};

/// That this process has mounts of its own.
#[derive(Debug)]
pub struct OwnMounts(());

impl OwnMounts {
    /// What is mounted from now on shows to this process and its children alone; what others mount shows here too.
    /// Of an ordinary user the programs that are started next may mount, until [`OwnMounts::end_right`].
    ///
    /// Fails if this is not allowed, if others could then not end a mount of this program before this process ends,
    /// and if this process has more than one thread. It then is as it was, but that root may have left the namespace
    /// of the others and sees just what they see.
    pub fn new() -> io::Result<OwnMounts> {
        if fuse::would_be_kept()? {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        match leave(UnshareFlags::NEWNS) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            left => return left.map(OwnMounts),
        }
        // From a namespace of users there is no way back, also if nothing can be mounted in it: one that can be
        // spared tries it.
        if !is_done_by_another(leave_with_users)? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        leave_with_users()?;
        hand_right_on().map(OwnMounts)
    }

    /// Programs that are started from now on may not mount, unless they are root's.
    pub fn end_right(&self) -> io::Result<()> {
        Ok(clear_ambient_capability_set()?)
    }
}

/// Leaves the namespace of mounts, and such others, that this process is in.
fn leave(what: UnshareFlags) -> io::Result<()> {
    // SAFETY: tables of descriptors are not among what is left.
    unsafe { unshare_unsafe(what) }?;
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

fn leave_with_users() -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // SAFETY: tables of descriptors are not among what is left.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
    // In this order: a group may be named only by who cannot leave others.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Only root's programs have what their parent may do, unless it is said.
fn hand_right_on() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets)?;
    Ok(configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?)
}

/// Whether a process like this one can do `work`.
fn is_done_by_another(work: fn() -> io::Result<()>) -> io::Result<bool> {
    // A copy of a process has only one of its threads, and whatever locks the others held for ever.
    if 1 < fs::read_dir("/proc/self/task")?.count() {
        return Err(io::Error::other("a process of several threads stays in its namespaces"));
    }
    // SAFETY: this is the only thread, so that the copy is whole; it works, and ends.
    let copy = unsafe { libc::fork() };
    if copy == 0 {
        let status = i32::from(work().is_err());
        // SAFETY: ends the copy, and runs nothing that was to be run at the end of the original.
        unsafe { libc::_exit(status) };
    }
    let copy = rustix::process::Pid::from_raw(copy).ok_or_else(io::Error::last_os_error)?;
    let ended = rustix::process::waitpid(Some(copy), rustix::process::WaitOptions::empty())?;
    Ok(ended.is_some_and(|(_, status)| status.exit_status() == Some(0)))
}
