//! sync: wait for the uploads below a path.

use std::process::ExitCode;

use anyhow::{Context, Result};

use super::umount;
use crate::args::SyncArgs;

pub(crate) fn run(args: &SyncArgs) -> Result<ExitCode> {
    let path = &args.path;
    path.symlink_metadata().with_context(|| path.display().to_string())?;
    mount::sync(&args.path, umount::teller())?;
    Ok(ExitCode::SUCCESS)
}
