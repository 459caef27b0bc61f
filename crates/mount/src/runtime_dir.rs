//! Where the control sockets of running mounts are: found by device number, so that it needs
//! nothing of the mount itself, which may hang. Beside them are the locks of folders to mount at.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use fuse::Device;

/// Where a new control socket goes, of the mount `device` of the user `uid`.
pub(crate) fn socket(uid: u32, device: Device) -> PathBuf {
    folder(uid).join(name(device))
}

/// Where the control socket of the mount `device` of the user `uid` may be: who mounts and who asks need
/// not both have a session.
pub(crate) fn sockets(uid: u32, device: Device) -> Vec<PathBuf> {
    let mut folders = vec![folder(uid)];
    if uid != 0 {
        folders.extend([of_session(uid), without_session(uid)]);
    }
    folders.into_iter().map(|folder| folder.join(name(device))).collect()
}

/// The file whose lock those of the user `uid` have who use what is mounted at `dir`.
pub(crate) fn lock(uid: u32, dir: &Path) -> PathBuf {
    let mut name = Vec::new();
    for &byte in dir.as_os_str().as_bytes() {
        match byte {
            b'/' => name.extend(b"%2f"),
            b'%' => name.extend(b"%25"),
            byte => name.push(byte),
        }
    }
    name.extend(b".lock");
    folder(uid).join(OsString::from_vec(name))
}

fn name(device: Device) -> String {
    format!("{}-{}.sock", device.major, device.minor)
}

/// Makes the folder of the sockets of this user, which no one else may enter.
pub(crate) fn make() -> io::Result<()> {
    let uid = rustix::process::geteuid().as_raw();
    let folder = folder(uid);
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // In /tmp, somebody else may have been there first.
    let found = fs::symlink_metadata(&folder)?;
    if found.is_dir() && found.uid() == uid && found.mode() & 0o777 == 0o700 {
        return Ok(());
    }
    let text = format!("{} is not a private folder of this user", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn folder(uid: u32) -> PathBuf {
    if uid == 0 {
        return PathBuf::from("/run/quayfs");
    }
    let session = of_session(uid);
    if session.parent().is_some_and(Path::is_dir) { session } else { without_session(uid) }
}

fn of_session(uid: u32) -> PathBuf {
    Path::new("/run/user").join(uid.to_string()).join("quayfs")
}

fn without_session(uid: u32) -> PathBuf {
    format!("/tmp/quayfs-{uid}").into()
}
