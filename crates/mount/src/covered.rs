//! Files that a mount hides.

use std::fs;
use std::path::Path;

/// The folder that file systems make for their checks.
const OF_CHECKS: &str = "lost+found";

/// Whether the folder `dir` has files that a mount there hides.
///
/// Where something is mounted already, it is not opened: that would mount what an automounter has there, and a dead
/// server might not answer.
pub fn has_files(dir: &Path) -> bool {
    if !matches!(fuse::mounted_at(dir), Ok(None)) {
        return false;
    }
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name() != OF_CHECKS)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::has_files;

    #[test]
    fn folder_with_files_is_told_from_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_files(folder.path()));
        fs::create_dir(folder.path().join("lost+found")).unwrap();
        assert!(!has_files(folder.path()));
        fs::write(folder.path().join(".hidden"), "").unwrap();
        assert!(has_files(folder.path()));
        assert!(!has_files(&folder.path().join("missing")));
    }

    #[test]
    fn mounted_file_system_is_not_opened() {
        assert!(!has_files(Path::new("/proc")));
    }
}
