//! list: every mount of this machine, a line each.

use std::process::ExitCode;

use anyhow::Result;
use base::printable;
use clap::Args;
use mount::{Answer, Listed, spelled};
use serde_json::{Value, json};

use crate::say;
use crate::units::show_bytes;
use crate::width::{columns, padded};

/// What `list` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs list\n  \
    quayfs list --json | jq -r '.[] | select(.health == \"dead\") | .dir'\n\n\
    A mount whose daemon died is dead: `quayfs umount DIR` clears it, or a mount in its place. Of the mounts of\n\
    other users only root hears more than where they are. `quayfs status DIR` tells all of one.")]
pub(crate) struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints them; that there are none is no failure.
pub(crate) fn run(args: &ListArgs) -> Result<ExitCode> {
    let mounts = mount::list()?;
    if args.json {
        let mounts: Result<Vec<Value>> = mounts.iter().map(object).collect();
        say(&Value::from(mounts?).to_string());
    } else {
        say(&table(&mounts));
    }
    Ok(ExitCode::SUCCESS)
}

const HEADS: [&str; 5] = ["SOURCE", "FOLDER", "PROCESS", "HEALTH", "PENDING"];

/// The columns are as wide as what is in them.
fn table(mounts: &[Listed]) -> String {
    let rows: Vec<[String; 5]> =
        [HEADS.map(str::to_owned)].into_iter().chain(mounts.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| columns(&row[column])).max();
    let widths: Vec<usize> = (0..HEADS.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| padded(cell, width));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn row(mount: &Listed) -> [String; 5] {
    let (process, pending) = match &mount.answer {
        Answer::Status(status) => {
            let pending =
                match status.pending_uploads + status.pending_changes + status.pending_attributes {
                    0 => "0".to_owned(),
                    count => format!("{count} ({})", show_bytes(status.pending_bytes)),
                };
            (status.pid.to_string(), pending)
        }
        Answer::Dead | Answer::Others | Answer::Silent(_) => ("-".to_owned(), "-".to_owned()),
    };
    [
        printable(&mount.source).into_owned(),
        printable(&spelled(&mount.dir)).into_owned(),
        process,
        health(&mount.answer),
        pending,
    ]
}

/// One word.
fn health(answer: &Answer) -> String {
    match answer {
        Answer::Status(status) => match serde_json::to_value(status.health) {
            Ok(Value::String(word)) => word,
            Ok(_) | Err(_) => "unknown".to_owned(),
        },
        Answer::Dead => "dead".to_owned(),
        Answer::Others => "unknown".to_owned(),
        Answer::Silent(_) => "silent".to_owned(),
    }
}

fn object(mount: &Listed) -> Result<Value> {
    let mut object = json!({
        "source": mount.source,
        "dir": spelled(&mount.dir).into_owned(),
        "owner": mount.owner,
        "health": health(&mount.answer),
        "pid": null,
    });
    match &mount.answer {
        Answer::Status(status) => {
            object["pid"] = status.pid.into();
            object["pending_uploads"] = status.pending_uploads.into();
            object["pending_bytes"] = status.pending_bytes.into();
            object["pending_changes"] = status.pending_changes.into();
            object["pending_attributes"] = status.pending_attributes.into();
            object["failures"] = serde_json::to_value(&status.failures)?;
        }
        Answer::Silent(error) => object["error"] = error.to_string().into(),
        Answer::Dead | Answer::Others => {}
    }
    Ok(object)
}
