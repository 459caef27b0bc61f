//! status: how mounts are, what they do and what it costs.

mod page;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use mount::{Status, spelled};
use serde_json::{Value, json};

use crate::plain::shown;
use crate::{complain, say};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs status                                all your mounts on this machine\n  \
    quayfs status ~/data\n  \
    quayfs status ~/data --json | jq .health     ok, busy, degraded or failing\n  \
    quayfs status ~/data --json | jq '.uploads[] | select(.state == \"failed\")'\n\n\
    Costs are those of the requests at the list prices of the cloud; bytes cost what the\n\
    configuration says, or nothing. Passthrough reads are not counted.")]
pub(crate) struct StatusArgs {
    /// The mount, or a path in it [default: all mounts].
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON: an object, or a list of objects for all mounts.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &StatusArgs) -> Result<ExitCode> {
    match &args.dir {
        Some(dir) => {
            let (dir, status) = match mount::status_around(dir) {
                Err(error) if error.is_closed() => return brief(args, dir, error),
                found => found?,
            };
            say(&if args.json {
                serde_json::to_string(&status)?
            } else {
                page::page(&status, &dir)
            });
            Ok(ExitCode::SUCCESS)
        }
        None => all(args),
    }
}

/// Shows as much of the state of another user's mount as each user that may read `path` may see.
fn brief(args: &StatusArgs, path: &Path, closed: mount::Error) -> Result<ExitCode> {
    let Ok((dir, status)) = mount::brief_status(path) else { return Err(closed.into()) };
    say(&if args.json { serde_json::to_string(&status)? } else { page::brief(&status, &dir) });
    Ok(ExitCode::SUCCESS)
}

/// Each mount, be it that it does not answer.
fn all(args: &StatusArgs) -> Result<ExitCode> {
    let found = mount::statuses()?;
    let all_answer = found.iter().all(|(_, status)| status.is_ok());
    let code = if all_answer { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if args.json {
        let list: Result<Vec<Value>> =
            found.iter().map(|(dir, found)| object(dir, found)).collect();
        say(&Value::from(list?).to_string());
        return Ok(code);
    }
    if found.is_empty() {
        complain("nothing of yours is mounted; `quayfs mount URL DIR` mounts");
        return Ok(code);
    }
    let pages = found.iter().map(|(dir, found)| match found {
        Ok(status) => page::page(status, dir),
        Err(error) => format!("{}: {error}", shown(dir)),
    });
    say(&pages.collect::<Vec<_>>().join("\n\n"));
    Ok(code)
}

fn object(dir: &Path, found: &Result<Status, mount::Error>) -> Result<Value> {
    let dir = spelled(dir).into_owned();
    Ok(match found {
        Ok(status) => {
            let mut object = serde_json::to_value(status)?;
            object["dir"] = dir.into();
            object
        }
        Err(error) => json!({ "dir": dir, "error": error.to_string() }),
    })
}
