//! A log file that does not grow without end.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// A log file is begun anew at this size.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file that is renamed to `.old` and begun anew when it is full.
#[derive(Debug)]
pub(super) struct CappedFile {
    path: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

impl CappedFile {
    pub(super) fn open(path: PathBuf) -> io::Result<CappedFile> {
        let file = private(&path)?;
        let bytes = file.metadata()?.len();
        Ok(CappedFile { path, open: Mutex::new(Open { file, bytes }) })
    }
}

/// A log for who mounted alone: names of files are in it.
fn private(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).mode(0o600).open(path)
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
        if FILE_BYTES_MAX < open.bytes + line.len() as u64 {
            fs::rename(&self.path, self.path.with_extension("old"))?;
            *open = Open { file: private(&self.path)?, bytes: 0 };
        }
        open.bytes += line.len() as u64;
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

    use super::{CappedFile, FILE_BYTES_MAX};

    #[test]
    fn a_full_log_is_begun_anew_and_the_last_one_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q.log");
        std::fs::write(&path, vec![b'x'; usize::try_from(FILE_BYTES_MAX).unwrap()]).unwrap();
        let log = CappedFile::open(path.clone()).unwrap();
        (&log).write_all(b"a line\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"a line\n");
        assert_eq!(dir.path().join("q.old").metadata().unwrap().len(), FILE_BYTES_MAX);
    }
}
