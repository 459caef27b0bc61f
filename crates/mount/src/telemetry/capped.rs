//! A log file that does not grow without end.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// A log file is begun anew at this size.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// How much is written between two looks at the file, which other mounts may write to as well.
const LOOK_BYTES: u64 = 64 << 10;

/// A file that is renamed to `.old` and begun anew when it is full.
#[derive(Debug)]
pub(super) struct CappedFile {
    path: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Since the last look.
    written_bytes: u64,
}

impl CappedFile {
    pub(super) fn open(path: PathBuf) -> io::Result<CappedFile> {
        let mut open = Open { file: private(&path)?, written_bytes: 0 };
        open.look(&path);
        Ok(CappedFile { path, open: Mutex::new(open) })
    }

    /// Opens the file again if another program has renamed or removed it. The old one stays in use if that fails.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let mut open = self.open.lock();
        let ours = open.file.metadata()?;
        let is_ours = |there: fs::Metadata| (there.dev(), there.ino()) == (ours.dev(), ours.ino());
        if !fs::metadata(&self.path).is_ok_and(is_ours) {
            *open = Open { file: private(&self.path)?, written_bytes: 0 };
        }
        Ok(())
    }

    /// Name of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Open {
    /// Goes on in a new file if this one is full, or if another process found it so. Nobody is waited for, and
    /// what fails is tried again at the next look: a log has nowhere to complain.
    fn look(&mut self, path: &Path) {
        self.written_bytes = 0;
        // Of several only one begins anew; the others find another file there, and nothing of it is lost.
        if self.file.try_lock().is_err() {
            return;
        }
        let fresh = self.fresh(path);
        let _ = self.file.unlock();
        if let Ok(Some(file)) = fresh {
            self.file = file;
        }
    }

    /// The file to go on in, if it is another one.
    fn fresh(&self, path: &Path) -> io::Result<Option<File>> {
        let ours = self.file.metadata()?;
        if fs::metadata(path).is_ok_and(|there| there.ino() == ours.ino()) {
            if ours.len() < FILE_BYTES_MAX {
                return Ok(None);
            }
            if fs::rename(path, old(path)).is_err() {
                // It is mounted by itself, as in a container, or the folder is not ours to change.
                self.file.set_len(0)?;
                return Ok(None);
            }
        }
        private(path).map(Some)
    }
}

/// Where the last full one is kept.
fn old(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    name.into()
}

/// Opens the log, which only its owner may read: names of files are in it. A symbolic link in its place is followed if
/// root or this user made it, as `/dev/stderr`; another user's could lead anywhere.
fn private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).append(true).mode(0o600);
    match options.clone().custom_flags(libc::O_NOFOLLOW).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) && is_trusted_link(path) => {
            options.open(path)
        }
        opened => opened,
    }
}

fn is_trusted_link(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|link| link.uid() == 0 || link.uid() == user)
}

impl<'a> MakeWriter<'a> for CappedFile {
    type Writer = &'a CappedFile;

    fn make_writer(&'a self) -> &'a CappedFile {
        self
    }
}

impl Write for &CappedFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut open = self.open.lock();
        if LOOK_BYTES <= open.written_bytes {
            open.look(&self.path);
        }
        open.written_bytes += line.len() as u64;
        open.file.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open.lock().file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use super::{CappedFile, FILE_BYTES_MAX, LOOK_BYTES};

    #[test]
    fn a_log_that_cannot_be_renamed_is_begun_anew_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q.log");
        // A folder in its way that is not empty.
        std::fs::create_dir_all(dir.path().join("q.log.old/in the way")).unwrap();
        let logs = [0, 1].map(|_| CappedFile::open(path.clone()).unwrap());
        let many = vec![b'x'; usize::try_from(FILE_BYTES_MAX).unwrap()];
        (&logs[0]).write_all(&many).unwrap();
        for log in logs.iter().chain(&logs) {
            (&*log).write_all(b"a line\n").unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"a line\n".repeat(4));
    }

    #[test]
    fn reopened_log_writes_to_its_own_name_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, rotated) = (dir.path().join("q.log"), dir.path().join("q.log.1"));
        let log = CappedFile::open(path.clone()).unwrap();
        (&log).write_all(b"one\n").unwrap();
        log.reopen().unwrap();
        (&log).write_all(b"two\n").unwrap();
        std::fs::rename(&path, &rotated).unwrap();
        (&log).write_all(b"three\n").unwrap();
        log.reopen().unwrap();
        (&log).write_all(b"four\n").unwrap();
        assert_eq!(std::fs::read(&rotated).unwrap(), b"one\ntwo\nthree\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"four\n");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);

        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        log.reopen().unwrap_err();
        (&log).write_all(b"five\n").unwrap();
        std::fs::remove_dir(&path).unwrap();
        log.reopen().unwrap();
        (&log).write_all(b"six\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"six\n");
    }

    #[test]
    fn link_of_another_user_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("q.log"), dir.path().join("target"));
        std::os::unix::fs::symlink(&target, &path).unwrap();
        drop(CappedFile::open(path.clone()).unwrap());
        assert!(target.exists(), "its own link is followed");
        if rustix::process::geteuid().is_root() {
            std::fs::remove_file(&target).unwrap();
            std::os::unix::fs::lchown(&path, Some(23456), None).unwrap();
            let refused = CappedFile::open(path).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::ELOOP));
            assert!(!target.exists());
        }
    }

    #[test]
    fn a_full_log_is_begun_anew_by_one_of_its_writers_and_the_last_one_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q.log");
        let logs = [0, 1].map(|_| CappedFile::open(path.clone()).unwrap());
        let many = vec![b'x'; usize::try_from(FILE_BYTES_MAX).unwrap()];
        (&logs[0]).write_all(&many).unwrap();
        let block = vec![b'y'; usize::try_from(LOOK_BYTES).unwrap()];
        (&logs[1]).write_all(&block).unwrap();
        for log in &logs {
            (&*log).write_all(b"a line\n").unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"a line\na line\n");
        let old = dir.path().join("q.log.old").metadata().unwrap();
        assert_eq!(old.len(), FILE_BYTES_MAX + LOOK_BYTES);
        for name in ["q.log", "q.log.old"] {
            let mode = dir.path().join(name).metadata().unwrap().mode();
            assert_eq!(mode & 0o777, 0o600, "names of files are in it");
        }
    }
}
