//! Holds the status of a task back until its folder is complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::log::named;

/// How it is named: after the file that it holds back, as `--commit-last` has it.
pub(super) const NAME: &str = ".exitcode.held";

/// A file in the folder of a task that is open, and holds back what comes last there until it is removed: closed before,
/// or left in the bucket, where it is if somebody synced the folder meanwhile, it says that the launcher was killed.
///
/// The log will not do. In the folder of a job array's task the script writes it, too, and a close of that is one of the
/// file.
#[derive(Debug)]
pub(super) struct Hold {
    /// Until it is removed.
    path: Option<PathBuf>,
    _open: File,
}

impl Hold {
    /// Begins, in the folder `work`.
    pub(super) fn begin(work: &Path) -> io::Result<Hold> {
        let path = work.join(NAME);
        // One that a launcher left behind, as when it was killed, is not for this task.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(named(&path, &error));
            }
            _ => {}
        }
        let open = File::create_new(&path).map_err(|error| named(&path, &error))?;
        Ok(Hold { path: Some(path), _open: open })
    }

    /// What was held back may come. If this fails, it does not.
    pub(super) fn end(mut self) -> io::Result<()> {
        let Some(path) = self.path.take() else { return Ok(()) };
        match fs::remove_file(&path) {
            // By the task itself, as with all that was in its folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // Whoever closes it before it is removed is taken for one that was killed.
            removed => removed.map_err(|error| named(&path, &error)),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Without a name it is not uploaded when it is closed, right after this.
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}
