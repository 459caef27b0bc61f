//! What mount(8) and umount(8) call, by the names under which they look for it: `mount -t quayfs`, a line
//! of `/etc/fstab`, and `umount DIR` of any mount of ours, which so waits for the bucket.
//!
//! ```text
//!   mount.quayfs    SOURCE DIR [-sfnv] [-o OPTIONS] [-t TYPE] [-N NAMESPACE]
//!   umount.quayfs   DIR [-flnrv] [-t TYPE] [-N NAMESPACE]
//! ```

mod home;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{ArgAction, Args, FromArgMatches};
use mount::Location;

use super::mount::{Life, Started, start, warn};
use super::umount::{self, UmountArgs};
use crate::complain;
use crate::settings::{Flags, Settings, Sources, Unknown};

/// The status of a mount that failed, as mount(8) has it.
const MOUNT_FAILED: u8 = 32;

/// Whom this program is called as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// `mount.quayfs`
    Mount,
    /// `umount.quayfs`
    Umount,
}

impl Called {
    /// What the program is to be, going by its name; `None` for itself.
    pub(crate) fn by(name: &OsStr) -> Option<Called> {
        match Path::new(name).file_name()?.to_str()? {
            "mount.quayfs" | "mount.fuse.quayfs" => Some(Called::Mount),
            "umount.quayfs" | "umount.fuse.quayfs" => Some(Called::Umount),
            _ => None,
        }
    }

    /// Does what it is called for, with its arguments as they came.
    pub(crate) fn run(self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        let done = match self {
            Called::Mount => parsed(arguments).and_then(|args| mount(&args)),
            Called::Umount => parsed(arguments).and_then(|args| unmount(&args)),
        };
        done.unwrap_or_else(|error| {
            complain(&format!("{error:#}"));
            ExitCode::from(MOUNT_FAILED)
        })
    }
}

/// What mount(8) gives.
#[derive(Debug, Args)]
struct HelperArgs {
    /// What to mount.
    source: String,
    /// Where.
    dir: PathBuf,
    /// Options, with commas.
    #[arg(short)]
    options: Vec<String>,
    /// Unknown options are no errors.
    #[arg(short)]
    sloppy: bool,
    /// Everything but the mount itself.
    #[arg(short)]
    fake: bool,
    #[command(flatten)]
    others: OtherArgs,
}

/// What umount(8) gives.
#[derive(Debug, Args)]
struct UnmountArgs {
    /// The mount.
    dir: PathBuf,
    /// Detach at once.
    #[arg(short)]
    lazy: bool,
    /// Detach at once, and try each upload only once.
    #[arg(short)]
    force: bool,
    /// If it is busy, mount it read-only: it is not.
    #[arg(short)]
    remount: bool,
    #[command(flatten)]
    others: OtherArgs,
}

/// What is of no use here: that no table is to be written, that more is to be told, and the type, which is
/// in the name that we are called by.
#[derive(Debug, Args)]
struct OtherArgs {
    #[arg(short)]
    no_table: bool,
    #[arg(short, action = ArgAction::Count)]
    verbose: u8,
    #[arg(short)]
    type_name: Option<String>,
    #[arg(short = 'N')]
    namespace: Option<PathBuf>,
}

fn parsed<T: Args + FromArgMatches>(arguments: impl IntoIterator<Item = OsString>) -> Result<T> {
    let command = T::augment_args(clap::Command::new("mount.quayfs"));
    match command.try_get_matches_from(arguments) {
        Ok(matches) => Ok(T::from_arg_matches(&matches)?),
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => Err(anyhow!("{}", error.render().to_string().trim_end())),
    }
}

fn mount(args: &HelperArgs) -> Result<ExitCode> {
    let unknown = if args.sloppy { Unknown::Ignored } else { Unknown::Refused };
    let flags = Flags::<Settings>::none().with_options(&args.options, unknown)?;
    let location = Location::parse(&args.source)?;
    let sources = Sources::read(&flags)?;
    warn(&sources, &sources, &location)?;
    if args.fake {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(match start(&location, &args.dir, &flags, &home::missing(), Life::OfItsOwn)? {
        Started::Mounted => ExitCode::SUCCESS,
        Started::Failed => ExitCode::from(MOUNT_FAILED),
    })
}

fn unmount(args: &UnmountArgs) -> Result<ExitCode> {
    let UnmountArgs { dir, lazy, force, .. } = args;
    umount::run(&UmountArgs { dirs: vec![dir.clone()], all: false, lazy: *lazy, force: *force })
}

#[cfg(test)]
mod tests {
    use super::{Called, HelperArgs, UnmountArgs, parsed};

    #[test]
    fn the_name_says_what_the_program_is_to_be() {
        for (name, want) in [
            ("/sbin/mount.quayfs", Some(Called::Mount)),
            ("mount.fuse.quayfs", Some(Called::Mount)),
            ("umount.fuse.quayfs", Some(Called::Umount)),
            ("/usr/bin/quayfs", None),
            ("quayfs-mount.quayfs", None),
        ] {
            assert_eq!(Called::by(name.as_ref()), want, "{name}");
        }
    }

    #[test]
    fn arguments_come_as_mount_and_umount_write_them() {
        let words = |text: &str| text.split(' ').map(Into::into).collect::<Vec<_>>();
        let args: HelperArgs =
            parsed(words("mount.quayfs s3://b /mnt -s -f -n -v -o ro,_netdev -t fuse.quayfs"))
                .unwrap();
        assert_eq!((args.source.as_str(), args.options), ("s3://b", vec!["ro,_netdev".to_owned()]));
        assert!(args.sloppy && args.fake);
        let args: HelperArgs = parsed(words("mount.quayfs s3://b /mnt -sv -o rw")).unwrap();
        assert!(args.sloppy && !args.fake);
        let args: UnmountArgs = parsed(words("umount.quayfs /mnt -l -n -v")).unwrap();
        assert!(args.lazy && !args.force && args.dir.ends_with("mnt"));
        assert!(parsed::<HelperArgs>(words("mount.quayfs s3://b")).is_err());
    }
}
