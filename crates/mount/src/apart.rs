//! The bucket, the state folder and the mount must not lie in one another: a daemon that reads its own
//! mount waits for itself.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::Error;
use crate::location::Location;

/// Fails if one of the folders of `config` lies in another, or the state folder in any mount of this program: what is
/// kept there would be uploaded, and then be kept of that.
pub fn check_apart(config: &Config) -> Result<(), Error> {
    let state = real(&config.state_dir);
    let mounts = fuse::mounts().unwrap_or_default().into_iter();
    if let Some(around) = mounts.map(|mount| mount.path).find(|path| state.starts_with(path)) {
        let (one, other) = ("the state folder", "a mount of quayfs");
        return Err(Error::Within { one, inner: state, other, outer: around });
    }
    let mut folders = vec![("the mount", &config.dir), ("the state folder", &config.state_dir)];
    if let Location::Folder(path) = &config.location {
        folders.push(("the folder that is mounted", path));
    }
    let folders: Vec<_> = folders.iter().map(|(what, path)| (*what, real(path))).collect();
    for (at, (one, outer)) in folders.iter().enumerate() {
        for (_, (other, inner)) in folders.iter().enumerate().filter(|(number, _)| *number != at) {
            if inner.starts_with(outer) {
                let (outer, inner) = (outer.clone(), inner.clone());
                return Err(Error::Within { one: other, inner, other: one, outer });
            }
        }
    }
    Ok(())
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        match (at.canonicalize(), at.parent(), at.file_name()) {
            (Ok(found), _, _) => {
                return missing.iter().rev().fold(found, |path, name| path.join(name));
            }
            (Err(_), Some(parent), Some(name)) => {
                missing.push(name);
                at = parent;
            }
            (Err(_), _, _) => return path.to_owned(),
        }
    }
}
