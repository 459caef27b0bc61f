//! mount: serve in the background.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use mount::{
    Addressing, CacheLimit, Changes, Config, Credentials, Entrance, Location, LogTarget, Looks,
    Notice, PassthroughWish, S3Settings, Trust,
};

use super::access;
use super::buckets::EachBucket;
use crate::args::MountArgs;
use crate::complain;
use crate::units::CacheSize;

/// What the daemon says on its standard output when the mount answers.
const READY: &str = "mounted";

pub(crate) fn run(args: &MountArgs) -> Result<ExitCode> {
    let config = config(args)?;
    if args.foreground || args.detach {
        serve(args, &config)?;
        return Ok(ExitCode::SUCCESS);
    }
    start_daemon()
}

/// Starts this program again, detached, and waits until it has mounted or failed. Its complaints
/// come through, because it has our standard error output until then.
fn start_daemon() -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find the quayfs program")?;
    let mut daemon = Command::new(program)
        .args(std::env::args_os().skip(1))
        .arg("--detach")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the daemon")?;
    if first_line(&mut daemon)?.trim_end() == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let status = daemon.wait().context("cannot learn how the daemon ended")?;
    if status.success() {
        bail!("the daemon ended before the mount answered");
    }
    Ok(ExitCode::FAILURE)
}

fn first_line(daemon: &mut Child) -> Result<String> {
    let output = daemon.stdout.take().context("the daemon has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("cannot hear the daemon")?;
    Ok(line)
}

fn serve(args: &MountArgs, config: &Config) -> Result<()> {
    make_state_dir(&config.state_dir)?;
    let log = match &args.log_file {
        Some(file) => LogTarget::File(absolute(file)?),
        None if args.detach => LogTarget::File(config.state_dir.join("quayfs.log")),
        None => LogTarget::Terminal,
    };
    mount::start_logging(&log, &args.log_level).context("cannot start the log")?;
    let mut detached = Ok(());
    let buckets = Arc::new(EachBucket::new(args, &config.dir));
    mount::serve(config, buckets, |notices| {
        for notice in notices {
            complain(&explain(notice));
        }
        if args.detach {
            detached = detach();
        }
    })?;
    detached
}

/// Leaves the terminal, the folder and the process group that the user started us in.
fn detach() -> Result<()> {
    rustix::process::chdir("/").context("cannot leave the working folder")?;
    // Fails only for who leads a group already, and then there is no terminal to leave.
    let _ = rustix::process::setsid();
    let mut output = std::io::stdout();
    writeln!(output, "{READY}").and_then(|()| output.flush()).context("nobody waits for us")?;
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

pub(super) fn explain(notice: &Notice) -> String {
    match notice {
        Notice::ReadOnly(reason) => {
            format!("mounted read-only, because these credentials cannot write: {reason}")
        }
        Notice::Resumed(files) => {
            format!("{files} file(s) that an earlier mount had not finished are uploaded now")
        }
        Notice::Waiting(files) => format!(
            "{files} file(s) that an earlier mount had not finished could not be uploaded now; they \
             are safe in the state folder, and the next mount tries again"
        ),
        Notice::Renamed(changes) => {
            format!(
                "{changes} change(s) of names that an earlier mount had not finished are complete now"
            )
        }
        Notice::Renaming(changes) => format!(
            "{changes} change(s) of names that an earlier mount had not finished could not be finished \
             now; the next mount tries again"
        ),
        Notice::HalfRenamed(changes) => format!(
            "{changes} rename(s) that an earlier mount had not finished may show both names; the next \
             mount that may write finishes them"
        ),
        Notice::Damaged(path) => format!(
            "the database of the state folder is damaged and is kept in {}; bytes that were not in \
             the bucket yet are beside it",
            path.display()
        ),
        Notice::Kept(path) => format!(
            "an earlier mount ended before these bytes were in the bucket; they are kept in {}",
            path.display()
        ),
    }
}

pub(super) fn config(args: &MountArgs) -> Result<Config> {
    let (location, dir) = match (&args.all, &args.url, &args.dir) {
        (Some(dir), _, _) => (Location::All, dir),
        (None, Some(url), Some(dir)) => (Location::parse(url)?, dir),
        (None, _, _) => bail!("what to mount, and where, is missing"),
    };
    config_of(args, location, dir)
}

/// The configuration of one bucket, mounted with `args` at `dir` or below it.
pub(super) fn config_of(args: &MountArgs, location: Location, dir: &Path) -> Result<Config> {
    let credentials = match (&args.access.aws_profile, args.access.anonymous) {
        (Some(profile), _) => Credentials::Profile(profile.clone()),
        (None, true) => Credentials::Anonymous,
        (None, false) => Credentials::Default,
    };
    Ok(Config {
        gcs: access::gcs(&args.access, &location)?,
        azure: access::azure(&args.access, &location)?,
        location,
        dir: absolute(dir)?,
        s3: S3Settings {
            endpoint: args.access.endpoint.clone().or_else(endpoint_of_environment),
            region: args.access.region.clone(),
            credentials,
            addressing: if args.access.path_style { Addressing::Path } else { Addressing::Auto },
        },
        changes: if args.read_only { Changes::Refused } else { Changes::Allowed },
        entrance: if args.allow_other { Entrance::All } else { Entrance::Owner },
        set_id_programs: if args.suid { Trust::Granted } else { Trust::Denied },
        devices: if args.dev { Trust::Granted } else { Trust::Denied },
        looks: Looks {
            uid: args.uid,
            gid: args.gid,
            file_mode: args.file_mode & !args.umask,
            folder_mode: args.dir_mode & !args.umask,
        },
        state_dir: state_dir(args.cache_dir.as_deref())?,
        cache: match args.cache_size {
            Some(CacheSize(bytes)) => CacheLimit::Bytes(bytes),
            None => CacheLimit::KeepFree { percent: 10 },
        },
        dirty_limit: args.dirty_limit.unwrap_or_default(),
        attributes: args.attributes,
        commit: args.commit,
        metadata_ttl: args.metadata_ttl,
        memory_bytes_max: args.memory_limit,
        part_bytes: args.part_size,
        deadline: args.deadline,
        passthrough: if args.no_passthrough {
            PassthroughWish::Off
        } else {
            PassthroughWish::Wanted
        },
    })
}

/// The names under which AWS's own tools look for it.
#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
fn endpoint_of_environment() -> Option<String> {
    let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
    names.into_iter().find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()))
}

/// Where local state is kept: it holds bytes that exist nowhere else, so never a cache folder that
/// people and systems wipe.
#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
pub(super) fn state_dir(wish: Option<&Path>) -> Result<PathBuf> {
    if let Some(dir) = wish {
        return absolute(dir);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/quayfs"));
    }
    let home =
        std::env::var_os("HOME").context("HOME is not set: name a folder with --cache-dir")?;
    Ok(Path::new(&home).join(".local/share/quayfs"))
}

pub(super) fn make_state_dir(dir: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(|| {
        format!(
            "cannot make the state folder {}: choose another one with --cache-dir",
            dir.display()
        )
    })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{}: not a path", path.display()))
}
