//! Has the inputs of a task fetched while it begins.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;

use super::super::prefetch::Prefetch;
use super::script::Script;

/// Begins with those inputs of `script` that are in the mount at `top`; `None` if none is.
pub(super) fn fetch(script: &Script, top: &Path) -> Result<Option<Prefetch>> {
    let mut paths = Vec::new();
    for input in script.inputs.iter().filter(|input| input.from.starts_with(top)) {
        paths.extend(input.from.as_os_str().as_bytes());
        paths.push(0);
    }
    if paths.is_empty() { Ok(None) } else { Prefetch::of_paths(&paths).map(Some) }
}
