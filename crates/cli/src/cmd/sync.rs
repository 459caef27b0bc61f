//! sync: wait for the uploads below paths.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use super::umount;
use crate::args::SyncArgs;
use crate::{complain, told};

pub(crate) fn run(args: &SyncArgs) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    // A path that cannot be waited for does not keep the command from the other paths.
    for path in &args.paths {
        if let Err(error) = wait(path) {
            complain(&told(&error));
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn wait(path: &Path) -> Result<()> {
    mount::check_answers([path])?;
    path.symlink_metadata().map_err(|error| mount::not_looked_at(path, error))?;
    mount::sync(path, umount::teller())?;
    Ok(())
}
