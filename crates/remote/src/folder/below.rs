//! Opening of paths below a folder, through no symbolic link.
//!
//! The kernel resolves a whole path at once from Linux 5.6 on. Older kernels, and emulators that lack the call, open one
//! folder after the other, with the same result.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, retry_on_intr};

/// Opens `path`, which is relative and not empty, below `root`.
pub(super) fn open_below(
    root: &impl AsFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    match at_once(root, path, flags, mode) {
        Err(Errno::NOSYS) => step_by_step(root, path, flags, mode),
        opened => opened,
    }
}

fn at_once(root: &impl AsFd, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    retry_on_intr(|| rustix::fs::openat2(root, path, flags, mode, resolve))
}

/// Opens each folder of the path without following a link. A path that could lead upwards is refused.
fn step_by_step(
    root: &impl AsFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut names = path.split(|&byte| byte == b'/').peekable();
    let mut folder: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        if name.is_empty() || name == b".." {
            return Err(Errno::XDEV);
        }
        let (flags, mode) = match names.peek() {
            Some(_) => (on_the_way, Mode::empty()),
            None => (flags, mode),
        };
        let above = folder.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        folder = Some(retry_on_intr(|| rustix::fs::openat(above, name, flags, mode))?);
    }
    folder.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use rustix::fs::{Mode, OFlags, fstat};
    use rustix::io::Errno;

    use super::{at_once, step_by_step};
    use crate::folder::tree::in_the_way;

    #[test]
    fn steps_open_what_the_kernel_opens_at_once() {
        let (_guard, root) = tree();
        for path in [
            "file",
            "folder",
            "folder/file",
            "folder/deep/file",
            ".",
            "folder/.",
            "missing",
            "folder/missing",
            "missing/file",
            "file/below",
            "link",
            "folder/link",
            "way/file",
            "way/deep/file",
            "loop",
            "..",
            "../outside",
            "folder/../../outside",
            "/outside",
        ] {
            for flags in [
                OFlags::RDONLY,
                OFlags::PATH,
                OFlags::RDONLY | OFlags::DIRECTORY,
                OFlags::WRONLY,
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            ] {
                let kernel = outcome(at_once(&root, path.as_bytes(), flags, Mode::empty()));
                let steps = outcome(step_by_step(&root, path.as_bytes(), flags, Mode::empty()));
                if flags.contains(OFlags::CREATE) && matches!(kernel, Outcome::Opened(_)) {
                    assert!(matches!(steps, Outcome::Refused), "{path} was made just now");
                } else {
                    assert_eq!(steps, kernel, "{path} {flags:?}");
                }
            }
        }
    }

    #[test]
    fn step_makes_file_below_folder_only() {
        let (guard, root) = tree();
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let made = step_by_step(&root, b"folder/made", flags, Mode::from(0o600)).expect("made");
        File::from(made).write_all(b"bytes").expect("written");
        let mut text = String::new();
        let path = guard.path().join("root/folder/made");
        File::open(path).and_then(|mut file| file.read_to_string(&mut text)).expect("read");
        assert_eq!(text, "bytes");
        assert_eq!(
            step_by_step(&root, b"way/made", flags, Mode::from(0o600)).err().map(in_the_way),
            Some(true)
        );
        assert!(!guard.path().join("elsewhere/made").exists());
    }

    /// The result of an opening that a caller sees: the file, or the kind of refusal.
    #[derive(Debug, PartialEq, Eq)]
    enum Outcome {
        Opened(u64),
        Missing,
        Refused,
        Outside,
    }

    fn outcome(opened: Result<impl std::os::fd::AsFd, Errno>) -> Outcome {
        match opened {
            Ok(fd) => Outcome::Opened(fstat(fd).expect("an open file has attributes").st_ino),
            Err(Errno::NOENT) => Outcome::Missing,
            Err(Errno::XDEV) => Outcome::Outside,
            Err(errno) if in_the_way(errno) => Outcome::Refused,
            Err(errno) => panic!("{errno}"),
        }
    }

    /// A folder with files, folders, and links to files and folders inside and outside.
    fn tree() -> (tempfile::TempDir, File) {
        let guard = tempfile::tempdir().expect("a scratch folder");
        let root: PathBuf = guard.path().join("root");
        fs::create_dir_all(root.join("folder/deep")).expect("folders");
        fs::create_dir_all(guard.path().join("elsewhere/deep")).expect("folders");
        for path in
            ["root/file", "root/folder/file", "root/folder/deep/file", "outside", "elsewhere/file"]
        {
            fs::write(guard.path().join(path), path).expect("a file");
        }
        symlink("file", root.join("link")).expect("a link");
        symlink("../../outside", root.join("folder/link")).expect("a link");
        symlink("../elsewhere", root.join("way")).expect("a link");
        symlink("loop", root.join("loop")).expect("a link");
        let root = File::open(&root).expect("the folder");
        (guard, root)
    }
}
