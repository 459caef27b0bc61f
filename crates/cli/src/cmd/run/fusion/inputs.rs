//! Has the inputs of a task fetched while it begins: a process of its own asks for them, and is ended with the
//! task.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::Result;

use super::super::super::this_program::this_program;
use super::script::Script;

/// Files that are fetched at a time.
const JOBS: &str = "32";

/// A fetch that is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Prefetch(Child);

impl Prefetch {
    /// Begins with those inputs that are in the mount at `top`; `None` if none is.
    pub(super) fn begin(script: &Script, top: &Path) -> Result<Option<Prefetch>> {
        let mut list = Vec::new();
        for input in script.inputs.iter().filter(|input| input.from.starts_with(top)) {
            list.extend(input.from.as_os_str().as_bytes());
            list.push(0);
        }
        if list.is_empty() {
            return Ok(None);
        }
        let mut child = this_program()?
            .args(["warm", "--from-file", "-", "-0", "--jobs", JOBS])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = child.stdin.take();
        let prefetch = Prefetch(child);
        if let Some(mut stdin) = stdin {
            // It reads all before it does anything else.
            stdin.write_all(&list)?;
        }
        Ok(Some(prefetch))
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        // It may have ended by itself. It must be gone, since it holds files of the mount.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
