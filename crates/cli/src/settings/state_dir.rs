//! Where local state is kept: it holds bytes that exist nowhere else, so never a cache folder that
//! people and systems wipe.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::flags::StateSettings;

/// The folder that is wished for, or the usual one of this user.
#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
pub(crate) fn state_dir(settings: &StateSettings) -> Result<PathBuf> {
    if let Some(dir) = &settings.cache_dir {
        return std::path::absolute(dir).with_context(|| format!("{}: not a path", dir.display()));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/quayfs"));
    }
    let home =
        std::env::var_os("HOME").context("HOME is not set: name a folder with --cache-dir")?;
    Ok(Path::new(&home).join(".local/share/quayfs"))
}

/// Makes it, for this user alone.
pub(crate) fn make_state_dir(dir: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(|| {
        format!(
            "cannot make the state folder {}: choose another one with --cache-dir",
            dir.display()
        )
    })
}
