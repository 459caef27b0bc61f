//! share: a signed URL by which any client can read one file for a limited time.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::plain::shown;
use crate::units::duration;
use crate::{complain, say};

/// Longest time that S3 and Google accept.
const EXPIRES_MAX: Duration = Duration::from_hours(7 * 24);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs share ~/data/results/report.html\n  \
    quayfs share ~/data/slides/a.svs --expires 10m\n  \
    curl -r 0-99 \"$(quayfs share ~/data/slides/a.svs)\"\n\n\
    The URL is signed with the credentials of the mount, so only the user that mounted and root can make one. Any\n\
    client that has the URL can read the object until it expires, and it cannot be revoked. It expires earlier if\n\
    the mount has temporary credentials that end before. The file must be uploaded: `quayfs sync` waits for that.")]
pub(crate) struct ShareArgs {
    /// A file of a mount.
    path: PathBuf,
    /// Time until the URL expires, 7d at most.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    expires: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ShareArgs) -> Result<ExitCode> {
    if args.expires.as_secs() == 0 || EXPIRES_MAX < args.expires {
        bail!("--expires takes a time from 1s to 7d");
    }
    mount::check_answers([&*args.path])?;
    args.path.symlink_metadata().map_err(|error| mount::not_looked_at(&args.path, error))?;
    let shared = match mount::share(&args.path, args.expires)? {
        Ok(shared) => shared,
        Err(reason) => bail!("{}: {reason}", shown(&args.path)),
    };
    if shared.credentials_end.is_some() {
        complain("the URL expires earlier, together with the temporary credentials of the mount");
    }
    say(&if args.json { serde_json::to_string(&shared)? } else { shared.url });
    Ok(ExitCode::SUCCESS)
}
