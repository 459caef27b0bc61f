//! sync: wait for the uploads below a path.

use std::process::ExitCode;

use anyhow::Result;

use super::umount;
use crate::args::SyncArgs;

pub(crate) fn run(args: &SyncArgs) -> Result<ExitCode> {
    let path = &args.path;
    mount::check_answers([&**path])?;
    path.symlink_metadata().map_err(|error| mount::not_looked_at(path, error))?;
    mount::sync(&args.path, umount::teller())?;
    Ok(ExitCode::SUCCESS)
}
