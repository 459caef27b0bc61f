//! Where the control sockets of running mounts are: found by device number, so that it needs
//! nothing of the mount itself, which may hang. Beside them are the locks of folders to mount at.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use base::Rng;
use fuse::Device;

/// How the folder in /tmp begins of who has no session.
const WITHOUT_SESSION: &str = "quayfs-";

/// Where the sockets are of a user without a session.
const TMP: &str = "/tmp";

/// What a control socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// A mount.
    Mount(Device),
    /// A process whose mount is gone: the device number may be another mount's by now.
    Process(u32),
}

/// Sockets that are found at most: there are not nearly as many mounts.
const FOUND_MAX: usize = 4096;

/// Where a new control socket goes, of the user `uid`.
pub(crate) fn socket(uid: u32, of: Of) -> PathBuf {
    folder(uid).join(of.name())
}

/// Where that control socket of the user `uid` may be: who mounts and who asks need not both have a
/// session.
pub(crate) fn sockets(uid: u32, of: Of) -> Vec<PathBuf> {
    folders(uid).into_iter().map(|folder| folder.join(of.name())).collect()
}

/// Every control socket of this user, or, for root, of anybody: whose it is, what it is for, and where.
pub(crate) fn all() -> Vec<(u32, Of, PathBuf)> {
    let own = rustix::process::geteuid().as_raw();
    let others = if own == 0 { users() } else { BTreeSet::new() };
    let mut found = Vec::new();
    for uid in others.into_iter().chain([own]) {
        let folders: BTreeSet<PathBuf> = folders(uid).into_iter().collect();
        for entry in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten() {
            let Ok(entry) = entry else { continue };
            let of = entry.file_name().to_str().and_then(Of::named);
            found.extend(of.map(|of| (uid, of, entry.path())));
            if FOUND_MAX <= found.len() {
                return found;
            }
        }
    }
    found
}

/// Those who may have sockets, but for root.
fn users() -> BTreeSet<u32> {
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let sessions = names("/run/user").into_iter().filter_map(|name| name.parse().ok());
    let without = names(TMP)
        .into_iter()
        .filter_map(|name| name.strip_prefix(WITHOUT_SESSION).and_then(user_of));
    sessions.chain(without).filter(|&uid| uid != 0).collect()
}

/// The user of `1000`, or `1000.5f3a…`.
fn user_of(name: &str) -> Option<u32> {
    name.split_once('.').map_or(name, |(uid, _)| uid).parse().ok()
}

impl Of {
    fn name(self) -> String {
        match self {
            Of::Mount(device) => format!("{}-{}.sock", device.major, device.minor),
            Of::Process(process) => format!("process-{process}.sock"),
        }
    }

    /// What a socket of this name is for.
    fn named(name: &str) -> Option<Of> {
        let (kind, number) = name.strip_suffix(".sock")?.split_once('-')?;
        let number = number.parse().ok()?;
        match kind {
            "process" => Some(Of::Process(number)),
            major => Some(Of::Mount(Device { major: major.parse().ok()?, minor: number })),
        }
    }
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

/// Makes the folder of the sockets of this user, which no other user may enter.
pub(crate) fn make() -> io::Result<()> {
    let uid = rustix::process::geteuid().as_raw();
    let folder = folder(uid);
    make_private(&folder, uid).or_else(|error| {
        if error.kind() != io::ErrorKind::PermissionDenied || folder != without_session(uid) {
            return Err(error);
        }
        // Another user has made a folder of that name: /tmp is open to all. No user can guess this name beforehand.
        make_private(&another(uid, Rng::from_entropy().id()), uid)
    })
}

fn make_private(folder: &Path, uid: u32) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if is_private(folder, uid) {
        return Ok(());
    }
    let text = format!(
        "{} is not a private folder of this user: have root remove it, or give this user a session, where another user \
         cannot be first (`loginctl enable-linger`, which makes /run/user/{uid})",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn is_private(folder: &Path, uid: u32) -> bool {
    fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && found.uid() == uid && found.mode() & 0o777 == 0o700)
}

/// Where sockets of the user `uid` may be, the likeliest first.
fn folders(uid: u32) -> Vec<PathBuf> {
    let mut folders = vec![folder(uid)];
    if uid != 0 {
        folders.extend([of_session(uid), without_session(uid)]);
        folders.extend(others(Path::new(TMP), uid));
    }
    folders
}

fn folder(uid: u32) -> PathBuf {
    if uid == 0 {
        return PathBuf::from("/run/quayfs");
    }
    let session = of_session(uid);
    if session.parent().is_some_and(Path::is_dir) {
        return session;
    }
    let usual = without_session(uid);
    if is_private(&usual, uid) {
        return usual;
    }
    others(Path::new(TMP), uid).into_iter().next().unwrap_or(usual)
}

/// Folders in `tmp` that the user `uid` made because the usual name was taken, in order of their names.
fn others(tmp: &Path, uid: u32) -> BTreeSet<PathBuf> {
    let prefix = format!("{WITHOUT_SESSION}{uid}.");
    let entries = fs::read_dir(tmp).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes()));
    named.map(|entry| entry.path()).filter(|path| is_private(path, uid)).take(FOUND_MAX).collect()
}

/// A name that no other user can have taken.
fn another(uid: u32, random: u128) -> PathBuf {
    format!("{TMP}/{WITHOUT_SESSION}{uid}.{random:032x}").into()
}

fn of_session(uid: u32) -> PathBuf {
    Path::new("/run/user").join(uid.to_string()).join("quayfs")
}

fn without_session(uid: u32) -> PathBuf {
    format!("{TMP}/{WITHOUT_SESSION}{uid}").into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use fuse::Device;

    use super::{Of, another, make_private, others, user_of};

    #[test]
    fn private_folder_is_of_this_user_and_closed() {
        let tmp = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        let name = |uid: u32, rest: &str| tmp.path().join(format!("quayfs-{uid}{rest}"));
        let mine = name(own, ".5f");
        make_private(&mine, own).unwrap();
        make_private(&mine, own).unwrap();
        // None of these is a private folder: one is open, one a link, one of another user.
        fs::create_dir(name(own, ".open")).unwrap();
        fs::set_permissions(name(own, ".open"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&mine, name(own, ".link")).unwrap();
        let refused = make_private(&name(own, ".link"), own).unwrap_err().to_string();
        assert!(refused.contains("is not a private folder of this user"), "{refused}");
        assert!(make_private(&mine, own + 1).is_err());
        assert_eq!(Vec::from_iter(others(tmp.path(), own)), [mine]);
        assert!(others(tmp.path(), own + 1).is_empty());
        for uid in [0, 1000] {
            let file = another(uid, 7);
            let name = file.file_name().unwrap().to_str().unwrap();
            assert_eq!(user_of(name.strip_prefix("quayfs-").unwrap()), Some(uid));
        }
    }

    #[test]
    fn a_socket_is_told_by_its_name() {
        for of in [Of::Mount(Device { major: 0, minor: 41 }), Of::Process(41)] {
            assert_eq!(Of::named(&of.name()), Some(of));
        }
        for other in ["", "0-41", "0.sock", "x-1.sock", "process-.sock", "0-x.sock"] {
            assert_eq!(Of::named(other), None, "{other}");
        }
    }
}
