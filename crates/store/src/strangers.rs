//! What is in `objects/` and `staged/` and is none of ours: people and programs put things anywhere.
//!
//! Files go to the recovery folder, since their bytes may exist nowhere else. The rest (folders, links,
//! sockets) stays where it is until it is in somebody's way: what stands at the place of a version is not
//! that version, and goes to the recovery folder as it is when the version wants its place.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::layout::{Layout, VersionName};

/// Something in `objects/`.
#[derive(Debug)]
pub(crate) struct Object {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The version that belongs there; `None` if none does.
    pub(crate) name: Option<VersionName>,
    /// Whether it is a file of bytes.
    pub(crate) is_file: bool,
}

/// Tells of all that is in `objects/`, but for the folders that are ours.
pub(crate) fn each_object(
    layout: &Layout,
    disk: &Disk,
    tell: &mut dyn FnMut(Object),
) -> Result<(), (PathBuf, io::Error)> {
    let top = layout.objects();
    let (mut folders, mut strangers) = (Vec::new(), Vec::new());
    let mut each = |name: &OsStr, metadata: &Metadata| {
        let path = top.join(name);
        match digits(name) {
            // A link to a folder serves as one, too.
            Some(digits) if path.is_dir() => folders.push((path, digits.to_owned())),
            Some(_) | None => {
                strangers.push(Object { path, name: None, is_file: metadata.is_file() });
            }
        }
    };
    disk.list(&top, &mut each).map_err(|error| (top.clone(), error))?;
    strangers.into_iter().for_each(&mut *tell);
    folders.sort();
    for (folder, digits) in folders {
        let mut each = |rest: &OsStr, metadata: &Metadata| {
            let name =
                rest.to_str().and_then(|rest| VersionName::parse(&format!("{digits}{rest}")));
            tell(Object { path: folder.join(rest), name, is_file: metadata.is_file() });
        };
        disk.list(&folder, &mut each).map_err(|error| (folder.clone(), error))?;
    }
    Ok(())
}

/// The beginning of the names of all versions in a folder of ours.
fn digits(folder: &OsStr) -> Option<&str> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    folder.to_str().filter(|digits| digits.len() == 2 && digits.bytes().all(is_digit))
}

/// Whether something is at `path`, the place of a file of ours, that is no file: it is not looked through.
pub(crate) fn is_stranger(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
}

/// What is at `path`, in words.
pub(crate) fn kind_of(path: &Path) -> &'static str {
    match fs::symlink_metadata(path).map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_file() => "a file",
        Ok(kind) if kind.is_dir() => "a folder",
        Ok(kind) if kind.is_symlink() => "a link",
        Ok(kind) if kind.is_fifo() => "a pipe",
        Ok(kind) if kind.is_socket() => "a socket",
        Ok(_) => "a device",
        Err(_) => "something",
    }
}
