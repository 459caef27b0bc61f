//! A small disk, to be filled: an ext4 file system in a file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command::run;
use crate::place::Scratch;

const COMMAND_WITHIN: Duration = Duration::from_mins(1);

/// A mounted disk, detached on drop. Needs root.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
    _folder: Scratch,
}

impl SmallDisk {
    /// A disk of `bytes`.
    pub fn new(bytes: u64) -> SmallDisk {
        let folder = Scratch::new();
        let path = folder.folder("disk");
        let image = folder.path().join("image");
        let file = std::fs::File::create(&image).expect("the scratch disk takes a file");
        file.set_len(bytes).expect("a sparse file");
        // No share set aside for root: the daemon under test is root here, and must see it full.
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image), COMMAND_WITHIN).ok();
        run(Command::new("mount").args(["-o", "loop"]).args([&image, &path]), COMMAND_WITHIN).ok();
        SmallDisk { path, _folder: folder }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let mut umount = Command::new("umount");
        if std::thread::panicking() {
            umount.arg("--lazy");
        }
        let _ = umount.arg(&self.path).output();
    }
}

#[cfg(test)]
mod tests {
    use super::SmallDisk;

    #[test]
    fn a_small_disk_can_be_filled() {
        let disk = SmallDisk::new(8 << 20);
        let result = std::fs::write(disk.path().join("big"), vec![1; 16 << 20]);
        assert!(result.is_err_and(|error| error.kind() == std::io::ErrorKind::StorageFull));
    }
}
