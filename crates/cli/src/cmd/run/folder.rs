//! Where a task's mount is.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Names that others may have taken.
const TRIES_MAX: u32 = 100;

/// A folder to mount at: given, or made for the task and removed after it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    is_temporary: bool,
}

impl Folder {
    /// The folder `wish`, or a new one that only this user may enter.
    pub(super) fn new(wish: Option<&Path>) -> Result<Folder> {
        if let Some(path) = wish {
            let path = std::path::absolute(path)
                .with_context(|| format!("{}: not a path", path.display()))?;
            return Ok(Folder { path, is_temporary: false });
        }
        let parent = std::env::temp_dir();
        for number in 0..TRIES_MAX {
            let path = parent.join(format!("quayfs-run-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder { path, is_temporary: true }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| {
                        format!("cannot make {}: name a folder with --at", path.display())
                    });
                }
            }
        }
        bail!("no folder can be made in {}: name one with --at", parent.display())
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nobody but the task knows it.
    pub(super) fn is_temporary(&self) -> bool {
        self.is_temporary
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary {
            // Only if it is empty: with the mount still there it is not ours to clear.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}
