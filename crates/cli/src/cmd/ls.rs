//! ls: the entries of a bucket or a folder of it, without a mount.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use base::{FileKind, printable};
use clap::Args as ClapArgs;
use mount::{Attributed, Browsed, Depth, Location, spelled};
use serde_json::{Value, json};

use crate::settings::{self, Flags, ReachSettings, Sources};
use crate::units::show_utc;
use crate::{say, say_more};

/// The folder or the object to list.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
    quayfs ls s3://my-bucket/some/folder\n  \
    quayfs ls -lR s3://my-bucket/some/folder\n  \
    quayfs ls -R --json s3://my-bucket | jq -r '.[] | select(.bytes > 1e9) | .path'\n\n\
    Names are those that a mount shows, and folders end in a slash. Lines are printed while the bucket is listed.\n\
    -l reads the modes, owners and links that mounts have recorded, which takes one more request a folder.")]
pub(crate) struct LsArgs {
    /// A bucket, a folder of it, or an object.
    #[arg(value_name = "URL")]
    url: String,
    /// Show type, permissions, owner, group, size and time too.
    #[arg(short = 'l', long)]
    long: bool,
    /// Show everything below the folder, by path.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Print JSON: a list, one entry a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags<ReachSettings>,
}

pub(crate) fn run(args: &LsArgs) -> Result<ExitCode> {
    let location = Location::parse(&args.url)?;
    let settings = Sources::read(&args.flags)?.resolve(Some(&location))?.settings;
    let config = settings::config(location, Path::new("/"), &settings)?;
    let depth = if args.recursive { Depth::All } else { Depth::Folder };
    let attributed = if args.long { Attributed::Yes } else { Attributed::No };
    let mut lines = Lines { json: args.json, count: 0 };
    let listed = mount::browse(&config, (depth, attributed), &mut |browsed| lines.print(&browsed));
    // A list that breaks off is no JSON: its reader is to notice.
    listed?;
    if args.json {
        lines.end();
    }
    Ok(ExitCode::SUCCESS)
}

/// Progress of the output.
struct Lines {
    json: bool,
    count: u64,
}

impl Lines {
    fn print(&mut self, browsed: &Browsed) -> ControlFlow<()> {
        let start = match (self.json, self.count) {
            (false, _) => "",
            (true, 0) => "[",
            (true, _) => ",",
        };
        self.count += 1;
        let line = if self.json { object(browsed).to_string() } else { line(browsed) };
        say_more(&format!("{start}{line}"))
    }

    fn end(&self) {
        say(if self.count == 0 { "[]" } else { "]" });
    }
}

fn line(browsed: &Browsed) -> String {
    let slash = if browsed.kind == FileKind::Directory { "/" } else { "" };
    let name = format!("{}{slash}", shown(&browsed.path));
    let Some((mode, owner)) = browsed.looks else { return name };
    let time = browsed.mtime.map_or_else(|| "-".to_owned(), |time| show_utc(time.secs));
    let target = browsed.target.as_ref().map(|target| format!(" -> {}", shown(target)));
    format!(
        "{}{}  {:>5} {:>5}  {:>14}  {time:<20}  {name}{}",
        letter(browsed.kind),
        permissions(mode),
        owner.uid,
        owner.gid,
        browsed.size,
        target.unwrap_or_default(),
    )
}

fn shown(path: &[u8]) -> String {
    printable(&spelled(Path::new(OsStr::from_bytes(path)))).into_owned()
}

fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
    }
}

fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "folder",
        FileKind::Symlink => "link",
        FileKind::Fifo => "pipe",
        FileKind::Socket => "socket",
        FileKind::CharDevice | FileKind::BlockDevice => "device",
    }
}

/// `rwxr-xr-x`, with `s` and `t` as `ls` shows them.
fn permissions(mode: u16) -> String {
    let mut text = String::with_capacity(9);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
        });
    }
    text
}

fn object(browsed: &Browsed) -> Value {
    let path = |bytes: &[u8]| spelled(Path::new(OsStr::from_bytes(bytes))).into_owned();
    let mut object = json!({
        "path": path(&browsed.path),
        "type": word(browsed.kind),
        "bytes": browsed.size,
        "mtime_secs": browsed.mtime.map(|time| time.secs),
    });
    if let Some((mode, owner)) = browsed.looks {
        object["mode"] = format!("{mode:o}").into();
        object["uid"] = owner.uid.into();
        object["gid"] = owner.gid.into();
        object["target"] = browsed.target.as_deref().map(path).into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::permissions;

    #[test]
    fn permissions_are_those_of_ls() {
        for (mode, want) in [
            (0o644, "rw-r--r--"),
            (0o755, "rwxr-xr-x"),
            (0o4755, "rwsr-xr-x"),
            (0o2640, "rw-r-S---"),
            (0o1777, "rwxrwxrwt"),
        ] {
            assert_eq!(permissions(mode), want);
        }
    }
}
