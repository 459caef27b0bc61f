//! Who keeps a mount busy: processes that have a file of it open or mapped, or a folder of it as their own, and other
//! mounts in it. `/proc` is read only, so that a mount that hangs is not asked.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::shown;

/// So many are told: whoever has more will look for himself.
const TOLD_MAX: usize = 8;

/// What of a process may be in a mount, beside its open files.
const PLACES: [&str; 3] = ["cwd", "root", "exe"];

/// What uses what is mounted at `dir`, which may be a link to it: other mounts in it, and processes but this one, as
/// `name (number)`, as far as this user may know.
pub fn users(dir: &Path) -> Vec<String> {
    let mounts = fuse::mounted_below(dir).unwrap_or_default().into_iter().take(TOLD_MAX);
    let mounts = mounts.map(|place| format!("the mount at {}", shown(&place)));
    mounts.chain(users_besides(std::process::id(), dir)).collect()
}

fn users_besides(own: u32, dir: &Path) -> Vec<String> {
    let Ok(dir) = fuse::resolve(dir) else { return Vec::new() };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let others = numbers.filter(|number| *number != own);
    let using = others.filter(|number| uses(Path::new(&format!("/proc/{number}")), &dir));
    using.take(TOLD_MAX).map(|number| format!("{} ({number})", name(number))).collect()
}

/// Processes in whose mount namespace the file system `device` is mounted, as `name (number)`.
pub(crate) fn where_mounted(device: fuse::Device) -> Vec<String> {
    let numbers = fuse::where_mounted(device).into_iter();
    numbers.take(TOLD_MAX).map(|number| format!("{} ({number})", name(number))).collect()
}

fn uses(process: &Path, dir: &Path) -> bool {
    let is_there = |link: &Path| fs::read_link(link).is_ok_and(|to| to.starts_with(dir));
    let files = || fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    PLACES.iter().any(|place| is_there(&process.join(place)))
        || files().any(|file| is_there(&file.path()))
        || fs::read(process.join("maps")).is_ok_and(|maps| is_mapped(&maps, dir))
}

/// Whether a table of mappings has a file below `dir`: the path is all from the first slash of a line on.
fn is_mapped(maps: &[u8], dir: &Path) -> bool {
    let path = |line: &[u8]| {
        let at = line.iter().position(|&byte| byte == b'/')?;
        Some(Path::new(OsStr::from_bytes(&line[at..])).starts_with(dir))
    };
    maps.split(|&byte| byte == b'\n').any(|line| path(line) == Some(true))
}

/// The name of the program that the process runs; empty if it is gone.
pub(crate) fn name(number: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{is_mapped, users, users_besides};

    #[test]
    fn a_link_to_the_place_is_as_good_as_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::fs::create_dir(folder.path().join("place")).unwrap();
        std::os::unix::fs::symlink("place", &link).unwrap();
        let _file = std::fs::File::create(folder.path().join("place/file")).unwrap();
        let number = format!("({})", std::process::id());
        assert!(users_besides(0, &link).iter().any(|user| user.ends_with(&number)));
        assert!(!users(&link).iter().any(|user| user.ends_with(&number)), "it is who asks");
    }

    #[test]
    fn a_mapped_file_is_found_by_its_path() {
        let maps = b"7f1000-7f2000 r--p 00000000 00:2a 7    /mnt/a b/lib.so (deleted)\n\
            7f3000-7f4000 rw-p 00000000 00:00 0    [heap]\n7f5000-7f6000 rw-p 00000000 00:00 0\n";
        for (dir, want) in [("/mnt", true), ("/mnt/a b", true), ("/mnt/a", false), ("/mn", false)] {
            assert_eq!(is_mapped(maps, Path::new(dir)), want, "{dir}");
        }
    }

    #[test]
    fn who_has_a_file_open_is_found_until_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let file = std::fs::File::create(folder.join("file")).unwrap();
        let found = users_besides(0, &folder);
        let number = format!("({})", std::process::id());
        assert!(found.iter().any(|user| user.ends_with(&number)), "{found:?}");
        assert_eq!(
            users_besides(0, &folder.join("fil")),
            Vec::<String>::new(),
            "a part of a name is none"
        );
        drop(file);
        assert!(!users_besides(0, &folder).iter().any(|user| user.ends_with(&number)));
    }
}
