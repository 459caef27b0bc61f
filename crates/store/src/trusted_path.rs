//! Walk to a state folder that follows no link which another user controls.
//!
//! A daemon of root that resolves a path in one step follows each symbolic link in it. A user who owns a folder on the way
//! could lead the daemon to any folder, where it would create folders and change modes. So the walk opens one component after
//! another without following it, and examines each folder before it looks up a name there. A link is followed only if its
//! owner could not use it to lead this process to a place that the owner could not choose anyway.
//!
//! Nothing is created in a folder before the walk has examined it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::ownership::{Facts, Position, ROOT, Unsafe, broken_rule, is_initial_user_namespace};

/// Treatment of components that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// They stay in the returned path.
    Kept,
    /// They become folders of this user alone.
    Created,
}

/// Links that a walk follows, as many as the kernel does.
const LINKS_MAX: u32 = 40;

/// Mode of created folders.
const MODE: Mode = Mode::RWXU;

/// Returns `dir`, which is absolute, without symbolic links, as far as it exists.
pub fn resolve_trusted(dir: &Path) -> Result<PathBuf, Unsafe> {
    Walk::new()?.to(dir, Missing::Kept)
}

/// Creates the folders of `dir`, which is absolute, that do not exist, and returns its path without symbolic links.
pub fn create_trusted(dir: &Path) -> Result<PathBuf, Unsafe> {
    Walk::new()?.to(dir, Missing::Created)
}

/// A folder on the way, and the rules of this process.
struct Walk {
    user: u32,
    /// Whether the folders on the way must be closed to other users.
    is_strict: bool,
    folder: OwnedFd,
    path: PathBuf,
}

impl Walk {
    fn new() -> Result<Walk, Unsafe> {
        let user = geteuid().as_raw();
        let path = PathBuf::from("/");
        let folder = open(CWD, path.as_os_str()).map_err(|source| io(&path, source))?;
        Ok(Walk { user, is_strict: user == ROOT && is_initial_user_namespace(), folder, path })
    }

    fn to(mut self, dir: &Path, missing: Missing) -> Result<PathBuf, Unsafe> {
        let mut left = names(dir);
        let mut links = 0;
        while let Some(name) = left.pop() {
            if name == ".." {
                let above = open(&self.folder, &name).map_err(|source| io(&self.path, source))?;
                self.path.pop();
                self.folder = above;
                continue;
            }
            let here = self.check_folder()?;
            let path = self.path.join(&name);
            let found = match (open(&self.folder, &name), missing) {
                (Err(Errno::NOENT), Missing::Kept) => {
                    return Ok(left.into_iter().rev().fold(path, |path, name| path.join(name)));
                }
                (Err(Errno::NOENT), Missing::Created) => {
                    match mkdirat(&self.folder, &name, MODE) {
                        // Another process may have been faster.
                        Ok(()) | Err(Errno::EXIST) => open(&self.folder, &name),
                        Err(error) => Err(error),
                    }
                }
                (found, _) => found,
            };
            let found = found.map_err(|source| io(&path, source))?;
            let stat = fstat(&found).map_err(|source| io(&path, source))?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                (self.folder, self.path) = (found, path);
                continue;
            }
            let link = Facts::of_stat(&stat);
            if !may_follow((self.user, self.is_strict), here, link) {
                return Err(Unsafe::ForeignLink { path, uid: link.uid });
            }
            links += 1;
            if LINKS_MAX < links {
                return Err(io(&path, Errno::LOOP));
            }
            let target = readlinkat(&found, c"", Vec::new()).map_err(|source| io(&path, source))?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            if target.is_absolute() {
                self.path = PathBuf::from("/");
                self.folder =
                    open(CWD, self.path.as_os_str()).map_err(|source| io(&self.path, source))?;
            }
            left.extend(names(&target));
        }
        Ok(self.path)
    }

    /// Facts of the folder that the walk has reached, if a name may be looked up there.
    fn check_folder(&self) -> Result<Facts, Unsafe> {
        let stat = fstat(&self.folder).map_err(|source| io(&self.path, source))?;
        let facts = Facts::of_stat(&stat);
        if self.is_strict {
            broken_rule(self.user, &self.path, Position::Above, facts)?;
        }
        Ok(facts)
    }
}

/// Whether the process of a user may follow `link` in `folder`. An ordinary user, who accepts folders of other users above
/// the state folder, accepts links of the same owners: they could replace what is there anyway.
fn may_follow((user, is_strict): (u32, bool), folder: Facts, link: Facts) -> bool {
    link.uid == user || link.uid == ROOT || (!is_strict && link.uid == folder.uid)
}

/// Opens `name` in `folder` to look at it. A folder first: that has the kernel mount what is mounted on demand.
fn open(folder: impl std::os::fd::AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&folder, name, flags | OFlags::DIRECTORY, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => openat(&folder, name, flags, Mode::empty()),
        opened => opened,
    }
}

/// The components of `path`, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<_> = names.collect();
    names.reverse();
    names
}

fn io(path: &Path, source: Errno) -> Unsafe {
    Unsafe::Io { path: path.to_owned(), source: io::Error::from(source) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::{Facts, create_trusted, may_follow, resolve_trusted};
    use crate::ownership::Unsafe;

    #[test]
    fn link_is_followed_only_if_its_owner_gains_nothing() {
        let of = |uid| Facts { uid, gid: 0, mode: 0o777, is_link: true };
        for (user, is_strict, folder, link, want) in [
            (0, true, 0, 0, true),
            (0, true, 0, 7, false),
            (0, true, 7, 7, false),
            (7, false, 0, 0, true),
            (7, false, 7, 7, true),
            (7, false, 0, 8, false),
            (7, false, 8, 8, true),
            // Of root in a user namespace, where root of the machine is nobody.
            (0, false, 65534, 65534, true),
        ] {
            let may = may_follow((user, is_strict), of(folder), of(link));
            assert_eq!(may, want, "{user} {is_strict} {folder} {link}");
        }
    }

    #[test]
    fn walk_creates_what_is_missing_behind_links() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        fs::create_dir(top.join("real")).unwrap();
        symlink(top.join("real"), top.join("absolute")).unwrap();
        symlink("absolute/../real/./gone", top.join("relative")).unwrap();
        let want = top.join("real/gone/a/b");
        let asked = top.join("relative/a/../a/b");
        // What does not exist is not walked.
        assert_eq!(resolve_trusted(&asked).unwrap(), top.join("real/gone/a/../a/b"));
        assert!(!top.join("real/gone").exists());
        assert_eq!(create_trusted(&asked).unwrap(), want);
        assert_eq!(resolve_trusted(&asked).unwrap(), want);
        for made in [&want, want.parent().unwrap()] {
            assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn walk_in_a_circle_of_links_ends() {
        let scratch = tempfile::tempdir().unwrap();
        let link = scratch.path().join("link");
        symlink(&link, &link).unwrap();
        assert!(matches!(create_trusted(&link), Err(Unsafe::Io { .. })));
    }

    #[test]
    fn walk_creates_nothing_behind_a_file() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("file"), "").unwrap();
        assert!(matches!(create_trusted(&scratch.path().join("file/a")), Err(Unsafe::Io { .. })));
    }
}
