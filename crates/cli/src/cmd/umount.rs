//! umount: drain, then detach.

use std::process::ExitCode;

use anyhow::Result;
use mount::{Force, Progress};

use crate::args::UmountArgs;
use crate::complain;
use crate::units::show_bytes;

pub(crate) fn run(args: &UmountArgs) -> Result<ExitCode> {
    let force = if args.force { Force::Yes } else { Force::No };
    mount::umount(&args.dir, force, |progress| complain(&explain(&progress)))?;
    Ok(ExitCode::SUCCESS)
}

fn explain(progress: &Progress) -> String {
    match progress {
        Progress::Waiting { files, bytes } => {
            format!("waiting for {files} upload(s), {}", show_bytes(*bytes))
        }
        Progress::Left(reasons) => format!(
            "detaching although {} file(s) could not be uploaded; the next mount puts their bytes \
             into the recovery folder:\n  {}",
            reasons.len(),
            reasons.join("\n  ")
        ),
        Progress::WasDead => "its daemon was gone; the mount point is free again".to_owned(),
    }
}
