//! sync: wait for the uploads below a path.

use std::process::ExitCode;

use anyhow::Result;

use super::umount;
use crate::args::SyncArgs;
use crate::complain;

pub(crate) fn run(args: &SyncArgs) -> Result<ExitCode> {
    mount::sync(&args.path, |progress| complain(&umount::explain(&progress)))?;
    Ok(ExitCode::SUCCESS)
}
