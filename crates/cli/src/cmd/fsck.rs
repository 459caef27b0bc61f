//! fsck: compare the state folder with itself, and attribute objects with the bucket.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use base::printable;
use clap::Args as ClapArgs;
use mount::{AttributeFlaw, CheckedBucket, LocalFlaw, Location, Repair};
use serde_json::json;

use crate::plain::shown;
use crate::say;
use crate::settings::{self, Flags, ReachSettings, Sources};

/// What to check.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs fsck\n  \
    quayfs fsck --repair --cache-dir /scratch/quayfs\n  \
    quayfs fsck s3://my-bucket/some/folder --json\n\n\
    The state folder is compared with itself: the database, backing files, their sizes and the checksums\n\
    of all that is cached, staged files, pins, the journal. No mount may use it meanwhile. With --repair\n\
    copies of what the bucket has are dropped where they are wrong, and bytes of which nothing is known go\n\
    to the recovery folder, as do files that others put there; their folders and links are named and left.\n\
    Bytes that may exist nowhere else are never removed. What waits for upload is left to the next mount,\n\
    or to `quayfs recover`.\n\n\
    With a URL the hidden objects that hold attributes are compared with the objects that they speak of;\n\
    what they say too much a mount leaves out, and removes when it next writes them.\n\n\
    Exits with 0 if nothing is wrong, or everything wrong was repaired.")]
pub(crate) struct FsckArgs {
    /// Check the attribute objects of this bucket, too.
    url: Option<String>,
    /// Repair the state folder.
    #[arg(long)]
    repair: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags<ReachSettings>,
}

pub(crate) fn run(args: &FsckArgs) -> Result<ExitCode> {
    let location = args.url.as_deref().map(Location::parse).transpose()?;
    let settings = Sources::read(&args.flags)?.resolve(location.as_ref())?.settings;
    let state_dir = settings::state_dir(&settings.disk.state)?;
    if !state_dir.is_dir() {
        bail!("{}: there is no state folder; name it with --cache-dir", shown(&state_dir));
    }
    let state_dir = settings::safe_state_dir(&state_dir)?;
    let repair = if args.repair { Repair::Yes } else { Repair::No };
    let local = mount::fsck(&state_dir, repair)?;
    let bucket = match location {
        Some(location) => {
            let config = settings::config(location, Path::new("/"), &settings)?;
            Some(mount::fsck_attributes(&config)?)
        }
        None => None,
    };
    if args.json {
        say(&json!({ "local": local, "bucket": bucket }).to_string());
    } else {
        say(&table(&state_dir, &local, bucket.as_ref()));
    }
    let is_well = local.iter().all(|flaw| flaw.repaired)
        && bucket.is_none_or(|bucket| bucket.flaws.is_empty());
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(state_dir: &Path, local: &[LocalFlaw], bucket: Option<&CheckedBucket>) -> String {
    let of_local = |flaw: &LocalFlaw| {
        // What was in a database that was begun anew is not put right by that.
        let repaired = if flaw.repaired && flaw.aside.is_none() { " (repaired)" } else { "" };
        format!("{}: {}{repaired}", shown(&flaw.path), printable(&flaw.what))
    };
    let of_bucket =
        |flaw: &AttributeFlaw| format!("{}: {}", printable(&flaw.key), printable(&flaw.what));
    let mut lines: Vec<String> = local.iter().map(of_local).collect();
    if local.is_empty() {
        lines.push(format!("{}: nothing is wrong", shown(state_dir)));
    }
    if let Some(bucket) = bucket {
        lines.extend(bucket.flaws.iter().map(of_bucket));
        lines.push(format!(
            "{} objects, {} attribute objects, {} flaws in these",
            bucket.objects,
            bucket.attribute_objects,
            bucket.flaws.len()
        ));
    }
    lines.join("\n")
}
