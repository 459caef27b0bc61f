//! du: the sizes of the folders of a bucket, without a mount.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use base::printable;
use clap::Args as ClapArgs;
use mount::{FolderSum, Location, spelled};
use serde_json::json;

use crate::say;
use crate::settings::{self, Flags, ReachSettings, Sources};
use crate::units::show_bytes;

/// The folder to sum up.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs du s3://my-bucket\n  \
    quayfs du -s s3://my-bucket/some/folder\n  \
    quayfs du -d 3 --json s3://my-bucket\n\n\
    Each folder has a line with the bytes and the number of the files below it; the last line is the total. The bucket\n\
    is listed once, in requests of 1,000 objects. Old versions and unfinished uploads, which a listing does not show,\n\
    and the objects in which mounts record attributes are not counted.")]
pub(crate) struct DuArgs {
    /// A bucket, a folder of it, or an object.
    #[arg(value_name = "URL")]
    url: String,
    /// Show the total only.
    #[arg(short = 's', long, conflicts_with = "depth")]
    summarize: bool,
    /// Show folders down to this many below the URL.
    #[arg(short = 'd', long = "max-depth", value_name = "N", default_value = "1", id = "depth")]
    depth: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags<ReachSettings>,
}

pub(crate) fn run(args: &DuArgs) -> Result<ExitCode> {
    let location = Location::parse(&args.url)?;
    let settings = Sources::read(&args.flags)?.resolve(Some(&location))?.settings;
    let config = settings::config(location, Path::new("/"), &settings)?;
    let depth = if args.summarize { 0 } else { args.depth };
    let mut starts = ["["].into_iter();
    mount::sum_up(&config, depth, &mut |sum: FolderSum| {
        if args.json {
            let path = path(&sum);
            let object = json!({ "path": path, "files": sum.files, "bytes": sum.bytes });
            say(&format!("{}{object}", starts.next().unwrap_or(",")));
        } else {
            say(&line(&sum));
        }
    })?;
    if args.json {
        say("]");
    }
    Ok(ExitCode::SUCCESS)
}

fn path(sum: &FolderSum) -> String {
    spelled(Path::new(OsStr::from_bytes(&sum.path))).into_owned()
}

fn line(sum: &FolderSum) -> String {
    let path = path(sum);
    let path = if path.is_empty() { "." } else { &path };
    let files = if sum.files == 1 { "file " } else { "files" };
    format!("{:>10}  {:>9} {files}  {}", show_bytes(sum.bytes), sum.files, printable(path))
}
