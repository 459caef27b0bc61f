//! Check that no other user can change what is in a state folder.
//!
//! The daemon opens, creates and replaces files of the state folder by path. A user that owns the folder, a folder
//! above it or an entry in it could put a symbolic link in the way, and a daemon of root would write to the link's
//! target. So the folder and its entries belong to the user of the daemon, no entry is a link, and for root every folder
//! above belongs to root and is closed to writes of other users, unless its sticky bit protects the entries of others.
//!
//! An ordinary user may have the state folder below folders that a group shares, as on clusters: the members of that group
//! can then replace it, and the next check refuses what they put there.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use rustix::process::geteuid;

/// Why a state folder is not safe to use.
#[derive(Debug, thiserror::Error)]
pub enum Unsafe {
    /// A folder or a file belongs to another user.
    #[error("{} belongs to user {uid}, who can change what is written there", path.display())]
    Owner {
        /// The folder or file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Other users can replace entries of a folder above.
    #[error("other users can write to {}, and replace what is in it (its mode is {mode:04o})", path.display())]
    Writable {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// An entry is a symbolic link.
    #[error("{} is a symbolic link, where a file or folder of quayfs belongs", path.display())]
    Link {
        /// The entry.
        path: PathBuf,
    },
    /// A symbolic link on the way belongs to another user.
    #[error("{} is a symbolic link of user {uid}, who can make it lead elsewhere", path.display())]
    ForeignLink {
        /// The link.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The folder cannot be examined.
    #[error("cannot look at {}: {source}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Owner, permissions and kind of a folder or file, as far as the check needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
    pub(crate) is_link: bool,
}

/// Where a folder or file stands, from the state folder's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// A folder above the state folder.
    Above,
    /// The state folder.
    Top,
    /// An entry of the state folder, or of its folder of cached files.
    Entry,
}

/// A broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Owner,
    Writable,
    Link,
}

pub(crate) const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Returns the canonical path of the state folder `dir`, once no user but this one (and root) can change what it leads
/// to.
pub fn check_ownership(dir: &Path) -> Result<PathBuf, Unsafe> {
    let io = |path: &Path, source| Unsafe::Io { path: path.to_owned(), source };
    let dir = fs::canonicalize(dir).map_err(|source| io(dir, source))?;
    let user = geteuid().as_raw();
    let check = |path: &Path, position| {
        // An entry that goes meanwhile is no danger.
        let Some(metadata) = look(path).map_err(|source| io(path, source))? else { return Ok(()) };
        broken_rule(user, path, position, Facts::of(&metadata))
    };
    if user == ROOT && is_initial_user_namespace() {
        for above in dir.ancestors().skip(1) {
            check(above, Position::Above)?;
        }
    }
    check(&dir, Position::Top)?;
    for folder in [&dir, &dir.join("objects")] {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|source| io(folder, source))?,
        };
        for entry in entries {
            check(&entry.map_err(|source| io(folder, source))?.path(), Position::Entry)?;
        }
    }
    Ok(dir)
}

fn look(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Whether users of this process are those of the machine: in a user namespace of its own, folders of the machine's
/// root belong to nobody, and root is an ordinary user.
pub(crate) fn is_initial_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

impl Facts {
    fn of(metadata: &Metadata) -> Facts {
        Facts {
            uid: metadata.uid(),
            gid: metadata.gid(),
            mode: metadata.mode(),
            is_link: metadata.is_symlink(),
        }
    }

    pub(crate) fn of_stat(stat: &Stat) -> Facts {
        Facts {
            uid: stat.st_uid,
            gid: stat.st_gid,
            mode: stat.st_mode,
            is_link: FileType::from_raw_mode(stat.st_mode) == FileType::Symlink,
        }
    }
}

/// An error if the folder or file at `path` breaks a rule for a daemon of `user`.
pub(crate) fn broken_rule(
    user: u32,
    path: &Path,
    position: Position,
    facts: Facts,
) -> Result<(), Unsafe> {
    let path = path.to_owned();
    match fault(user, position, facts) {
        None => Ok(()),
        Some(Fault::Owner) => Err(Unsafe::Owner { path, uid: facts.uid }),
        Some(Fault::Writable) => Err(Unsafe::Writable { path, mode: facts.mode & 0o7777 }),
        Some(Fault::Link) => Err(Unsafe::Link { path }),
    }
}

/// The rule that a folder or file breaks for a daemon of `user`, if any.
fn fault(user: u32, position: Position, facts: Facts) -> Option<Fault> {
    let Facts { uid, gid, mode, is_link } = facts;
    let is_ours = match position {
        Position::Top => uid == user,
        // The folder `lost+found` of a disk is root's.
        Position::Above | Position::Entry => uid == user || uid == ROOT,
    };
    if !is_ours {
        return Some(Fault::Owner);
    }
    match position {
        Position::Above => {
            let is_writable = mode & OTHERS_WRITE != 0 || (mode & GROUP_WRITES != 0 && gid != ROOT);
            (is_writable && mode & STICKY == 0).then_some(Fault::Writable)
        }
        // The caller closes the folder to other users.
        Position::Top => None,
        Position::Entry => is_link.then_some(Fault::Link),
    }
}

#[cfg(test)]
mod tests {
    use super::{Facts, Fault, Position, Unsafe, check_ownership, fault};

    fn facts(uid: u32, gid: u32, mode: u32) -> Facts {
        Facts { uid, gid, mode, is_link: false }
    }

    #[test]
    fn each_rule_names_its_fault() {
        use Position::{Above, Entry, Top};
        let (owner, writable) = (Some(Fault::Owner), Some(Fault::Writable));
        for (user, position, facts, want) in [
            (0, Top, facts(0, 0, 0o700), None),
            (0, Top, facts(7, 0, 0o700), owner),
            (7, Top, facts(7, 7, 0o755), None),
            (7, Top, facts(0, 0, 0o777), owner),
            (0, Entry, facts(0, 0, 0o600), None),
            (0, Entry, facts(7, 7, 0o600), owner),
            (7, Entry, facts(0, 0, 0o700), None),
            (0, Entry, Facts { is_link: true, ..facts(0, 0, 0o777) }, Some(Fault::Link)),
            (0, Above, facts(0, 0, 0o755), None),
            (0, Above, facts(0, 0, 0o775), None),
            (0, Above, facts(0, 50, 0o775), writable),
            (0, Above, facts(0, 0, 0o777), writable),
            (0, Above, facts(0, 0, 0o1777), None),
            (0, Above, facts(7, 7, 0o700), owner),
        ] {
            assert_eq!(fault(user, position, facts), want, "{user} {position:?} {facts:?}");
        }
    }

    #[test]
    fn linked_entry_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("state");
        std::fs::create_dir_all(dir.join("objects/ab")).unwrap();
        std::fs::write(dir.join("state.db"), "").unwrap();
        let canonical = check_ownership(&dir).unwrap();
        assert!(canonical.is_absolute());

        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert_eq!(check_ownership(&link).unwrap(), canonical, "a link to the folder is resolved");

        let log = dir.join("quayfs.log");
        std::os::unix::fs::symlink("/nowhere", &log).unwrap();
        let refused = check_ownership(&dir).unwrap_err();
        assert!(matches!(refused, Unsafe::Link { path } if path.ends_with("quayfs.log")));
    }
}
