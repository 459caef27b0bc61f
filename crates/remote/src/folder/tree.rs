//! File calls below one folder that cannot lead out of it.
//!
//! Every path is resolved below the folder's descriptor, and no symbolic link is followed: a link is
//! not an object, and what lies behind it is not ours.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::below::open_below;
use super::fault::Outcome;

/// A folder of the disk, held open.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
}

/// A folder that was opened or made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) fd: OwnedFd,
    /// Folders that got a new entry on the way, to be synced.
    pub(super) changed: Vec<OwnedFd>,
}

/// A name in a folder that an object can have something to do with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) name: Vec<u8>,
    pub(super) kind: ChildKind,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildKind {
    File,
    Folder,
}

impl Tree {
    pub(super) fn open(path: &Path) -> Outcome<Tree> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Tree { root: rustix::fs::open(path, flags, Mode::empty())? })
    }

    pub(super) fn open_at(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        // Group and others as the umask allows: the folder may be shared by several users.
        let mode = if flags.contains(OFlags::CREATE) { Mode::from(0o666) } else { Mode::empty() };
        open_below(&self.root, path, flags, mode)
    }

    /// What is at `path`, a link itself and not what it points to.
    pub(super) fn stat(&self, path: &[u8]) -> Outcome<Option<Stat>> {
        let opened = self.open_at(path, OFlags::PATH);
        absent_as_none(opened)?.map(|fd| Ok(rustix::fs::fstat(fd)?)).transpose()
    }

    /// What is at `path` if it is a regular file.
    pub(super) fn stat_file(&self, path: &[u8]) -> Outcome<Option<Stat>> {
        Ok(self.stat(path)?.filter(is_file))
    }

    /// The regular file at `path`, readable, with what is known of it.
    pub(super) fn open_file(&self, path: &[u8]) -> Outcome<Option<(OwnedFd, Stat)>> {
        // Opening a device or a pipe would already do something to it.
        if self.stat_file(path)?.is_none() {
            return Ok(None);
        }
        let opened = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK);
        let Some(fd) = absent_as_none(opened)? else { return Ok(None) };
        let stat = rustix::fs::fstat(&fd)?;
        Ok(is_file(&stat).then_some((fd, stat)))
    }

    pub(super) fn open_folder(&self, path: &[u8]) -> Outcome<Option<OwnedFd>> {
        absent_as_none(self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY))
    }

    /// Opens the folder at `path`, made with all above it where missing. `None` if something that
    /// is no folder, or a name that the disk does not take, is in the way.
    pub(super) fn make_folder(&self, path: &[u8]) -> Outcome<Option<Made>> {
        match self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(fd) => return Ok(Some(Made { fd, changed: Vec::new() })),
            Err(Errno::NOENT) if !path.is_empty() => {}
            Err(errno) if in_the_way(errno) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        let (above, name) = split(path);
        let Some(mut made) = self.make_folder(above)? else { return Ok(None) };
        match rustix::fs::mkdirat(&made.fd, name, Mode::from(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) if in_the_way(errno) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        match self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(fd) => {
                made.changed.push(std::mem::replace(&mut made.fd, fd));
                Ok(Some(made))
            }
            Err(errno) if in_the_way(errno) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes the file at `path`. Says whether there was one.
    pub(super) fn remove_file(&self, path: &[u8]) -> Outcome<bool> {
        self.remove(path, AtFlags::empty())
    }

    /// Removes the folder at `path` if nothing is in it. Says whether it is gone by this call.
    pub(super) fn remove_folder(&self, path: &[u8]) -> Outcome<bool> {
        self.remove(path, AtFlags::REMOVEDIR)
    }

    fn remove(&self, path: &[u8], flags: AtFlags) -> Outcome<bool> {
        let (above, name) = split(path);
        let Some(folder) = self.open_folder(above)? else { return Ok(false) };
        match rustix::fs::unlinkat(folder, name, flags) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Calls `visit` with the files and folders in the folder `fd` until it says no. Links, pipes,
    /// sockets and devices are passed over.
    pub(super) fn children(fd: &OwnedFd, mut visit: impl FnMut(Child) -> bool) -> Outcome<()> {
        let mut dir = Dir::read_from(fd)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => stat_kind(fd, name),
                FileType::RegularFile => Some(ChildKind::File),
                FileType::Directory => Some(ChildKind::Folder),
                FileType::Symlink
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice => None,
            };
            if let Some(kind) = kind
                && !visit(Child { name: name.to_vec(), kind })
            {
                break;
            }
        }
        Ok(())
    }
}

/// The folder and the name of `path`.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

pub(super) fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Whether `errno` says that a path cannot be made because of what is there or how it is spelt.
pub(super) fn in_the_way(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOTDIR
            | Errno::LOOP
            | Errno::EXIST
            | Errno::ISDIR
            | Errno::NAMETOOLONG
            | Errno::INVAL
            | Errno::ILSEQ
    )
}

fn absent_as_none<T>(result: Result<T, Errno>) -> Outcome<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) if in_the_way(errno) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn stat_kind(folder: &impl AsFd, name: &[u8]) -> Option<ChildKind> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some(ChildKind::File),
        FileType::Directory => Some(ChildKind::Folder),
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => None,
    }
}
