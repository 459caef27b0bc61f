//! umount: drain, then detach.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use base::printable;
use clap::Args;
use mount::{Detach, Progress};

use crate::left::show_left;
use crate::units::{show_bytes, show_plural};
use crate::{complain, say, told};

/// What `umount` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs umount ~/data\n  \
    quayfs umount --all              all mounts of this user, the last one first\n  \
    quayfs umount --lazy ~/data      detach now, upload in the background\n  \
    quayfs umount --force ~/data     although the store or the daemon does not answer\n\n\
    `umount ~/data` does the same, where quayfs is installed as umount.fuse.quayfs.")]
pub(crate) struct UmountArgs {
    /// The mounts.
    #[arg(required_unless_present = "all", value_name = "DIR")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Unmount all mounts of this user, but not those of a running `quayfs run`; for root, root's own alone.
    #[arg(long, conflicts_with = "dirs")]
    pub(crate) all: bool,
    /// Detach now; the daemon uploads the rest in the background.
    #[arg(short, long)]
    pub(crate) lazy: bool,
    /// Detach now although files could not be uploaded; they wait on the local disk for the next mount.
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// How long the daemon of a mount that is detached at once is waited for: most end soon, and the user does not want to wait
/// for the store.
const DETACHED_PATIENCE: Duration = Duration::from_secs(3);

pub(crate) fn run(args: &UmountArgs) -> Result<ExitCode> {
    let how = args.how();
    if args.all {
        return Ok(each(&mount::own_mounts_of_no_run()?, how, args.all));
    }
    let [dir] = &args.dirs[..] else { return Ok(each(&args.dirs, how, args.all)) };
    unmount(dir, how)?;
    Ok(ExitCode::SUCCESS)
}

impl UmountArgs {
    /// With both `--force` and `--lazy`, as at a hung mount of another file system, `--force` wins.
    fn how(&self) -> Detach {
        match (self.force, self.lazy) {
            (true, _) => Detach::Force(DETACHED_PATIENCE),
            (false, true) => Detach::Lazy(DETACHED_PATIENCE),
            (false, false) => Detach::Uploaded,
        }
    }
}

/// Unmounts all of `dirs` that can be, and tells which cannot.
fn each(dirs: &[PathBuf], how: Detach, all: bool) -> ExitCode {
    let mut ended = ExitCode::SUCCESS;
    for dir in dirs {
        match unmount(dir, how) {
            // Of all mounts, another process may have ended one meanwhile.
            Err(_) if all && !mount::is_mounted(dir) => {}
            Err(error) => {
                complain(&told(&error));
                ended = ExitCode::FAILURE;
            }
            Ok(()) if all => say(&format!("{}: unmounted", mount::spelled(dir))),
            Ok(()) => {}
        }
    }
    ended
}

fn unmount(dir: &Path, how: Detach) -> Result<()> {
    match mount::umount(dir, how, teller()) {
        Err(error) if error.is_busy() => Err(anyhow!("{error}{}", of_users(dir))),
        ended => Ok(ended?),
    }
}

/// ` (used by less (17))`: who keeps the mount at `dir`, if that can be known.
pub(super) fn of_users(dir: &Path) -> String {
    match &mount::users(dir)[..] {
        [] => String::new(),
        users => format!(" (used by {})", users.join(", ")),
    }
}

/// Tells people of progress, and nothing twice in a row.
pub(super) fn teller() -> impl FnMut(Progress) {
    let mut told = String::new();
    move |progress| {
        let text = explain(&progress);
        if text != told {
            complain(&text);
            told = text;
        }
    }
}

fn explain(progress: &Progress) -> String {
    match progress {
        Progress::Waiting { files: 0, .. } => "waiting for the bucket".to_owned(),
        Progress::Waiting { files, bytes } => {
            format!("waiting for {}, {}", show_plural(*files, "upload"), show_bytes(*bytes))
        }
        Progress::Left { left, reasons } => {
            let detached = format!(
                "unmounting with {} not uploaded; the next mount uploads what is left, or moves it to the \
                 recovery folder",
                show_left(left)
            );
            let reasons = reasons.iter().map(|reason| printable(reason).into_owned());
            std::iter::once(detached).chain(reasons).collect::<Vec<_>>().join("\n  ")
        }
        Progress::Behind { left } => format!(
            "unmounting with {} not uploaded yet: the daemon uploads on in the background",
            show_left(left)
        ),
        Progress::AttributesLeft { reason } => {
            format!(
                "attributes could not be brought into the bucket; they are in the state folder, and \
                 the next mount of the bucket with it writes them:\n  {}",
                printable(reason)
            )
        }
        Progress::StillThere { pid, left, state_dir } => {
            let daemon = match pid {
                Some(pid) => format!("its daemon, process {pid},"),
                None => "its daemon".to_owned(),
            };
            let does = match left {
                Some(left) if left.is_done() => {
                    "has brought all into the bucket, and ends when nothing is open on it any more"
                        .to_owned()
                }
                Some(left) => {
                    format!("still tries to bring into the bucket {}", show_left(left))
                }
                None => "does not answer".to_owned(),
            };
            let list = match state_dir {
                Some(dir) => mount::recover_list(dir),
                None => "quayfs recover --list".to_owned(),
            };
            format!("the mount point is free; {daemon} {does}: `{list}` shows what is left")
        }
        Progress::Elsewhere { processes } => format!(
            "all is in the bucket, and the mount point is free here; its daemon goes on while it is mounted in other \
             mount namespaces, such as those of containers: {}",
            processes.join(", ")
        ),
        Progress::WasDead => "its daemon was gone; the mount point is free again".to_owned(),
    }
}
