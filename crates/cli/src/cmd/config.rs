//! config: what holds of all that was set, and who said so.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use mount::{Location, spelled};
use serde_json::{Value, json};

use crate::settings::{self, Default, Flags, Given, Origin, Resolved, Setting, Settings, Sources};
use crate::{complain, say};

/// What `config` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs config\n  \
    quayfs config s3://my-bucket/some/folder\n  \
    quayfs config s3://my-bucket --cache-size 100GiB --json\n\n\
    The output is a valid configuration file: copy lines from it into your own. All flags of `quayfs mount` are\n\
    accepted, to see their effect.\n\n\
    Settings come from /etc/quayfs/config.toml, then ~/.config/quayfs/config.toml (or --config FILE, or\n\
    QUAYFS_CONFIG, instead of both), then from variables such as QUAYFS_CACHE_SIZE, then from flags; later\n\
    ones win. In a file, [bucket.\"s3://my-bucket\"] overrides [general] for this bucket and every path in it;\n\
    of several such sections the longest wins.")]
pub(crate) struct ConfigArgs {
    /// Show the settings for this bucket, or path in a bucket; without it, those for all.
    pub(crate) url: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) flags: Flags<Settings>,
}

pub(crate) fn run(args: &ConfigArgs) -> Result<ExitCode> {
    let location = args.url.as_deref().map(Location::parse).transpose()?;
    let sources = Sources::read(&args.flags)?;
    let resolved = sources.resolve(location.as_ref())?;
    for warning in sources.warnings() {
        complain(&warning);
    }
    say(&if args.json {
        of_programs(&sources, &resolved).to_string()
    } else {
        of_people(&sources, &resolved)
    });
    Ok(ExitCode::SUCCESS)
}

/// A configuration file, with the reason of each line behind it.
fn of_people(sources: &Sources, resolved: &Resolved) -> String {
    let files = sources.files().map(|(path, is_there)| {
        format!("# {}{}", path.display(), if is_there { "" } else { ": not there" })
    });
    let settings = settings::all();
    let lines = settings.iter().map(|setting| match resolved.given.get(&setting.name) {
        Some(given) => (written(setting, &given.value), reason(&given.origin)),
        None => match &setting.default {
            Default::Value(value) => (written(setting, value), "default".to_owned()),
            Default::Words(words) => (format!("# {}", setting.name), format!("default: {words}")),
        },
    });
    let lines: Vec<(String, String)> = lines.collect();
    // The few long ones stand out rather than move all reasons to the edge.
    let lines = lines.into_iter().map(|(line, reason)| format!("{line:<30} # {reason}"));
    files.chain(["[general]".to_owned()]).chain(lines).collect::<Vec<_>>().join("\n")
}

/// `cache-size = "100GiB"`.
fn written(setting: &Setting, value: &OsStr) -> String {
    let value = shown(value);
    let name = &setting.name;
    // People may say yes and no; a file has true and false.
    if setting.is_switch {
        format!("{name} = {}", !settings::is_off(&value))
    } else {
        format!("{name} = {value:?}")
    }
}

/// The value, without a password that somebody may have put into a URL.
pub(super) fn shown(value: &OsStr) -> String {
    let text = spelled(Path::new(value)).into_owned();
    let Some((scheme, rest)) = text.split_once("://") else { return text };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match host.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}{path}"),
        None => text,
    }
}

fn reason(origin: &Origin) -> String {
    match origin {
        Origin::File { bucket: Some(bucket), .. } => format!("{origin} [bucket.{bucket:?}]"),
        Origin::File { bucket: None, .. }
        | Origin::Environment(_)
        | Origin::Flag
        | Origin::Profile => origin.to_string(),
    }
}

fn of_programs(sources: &Sources, resolved: &Resolved) -> Value {
    let files: Vec<Value> = sources
        .files()
        .map(|(path, is_there)| json!({ "path": spelled(path).into_owned(), "found": is_there }))
        .collect();
    let settings = settings::all();
    let settings: serde_json::Map<String, Value> = settings
        .iter()
        .map(|setting| (setting.name.clone(), entry(setting, resolved.given.get(&setting.name))))
        .collect();
    json!({ "files": files, "settings": settings })
}

fn entry(setting: &Setting, given: Option<&Given>) -> Value {
    let Some(given) = given else {
        return match &setting.default {
            Default::Value(value) => json!({ "value": shown(value), "from": "default" }),
            Default::Words(words) => json!({ "value": null, "from": "default", "default": words }),
        };
    };
    let value = shown(&given.value);
    match &given.origin {
        Origin::File { path, line, bucket } => json!({
            "value": value,
            "from": "file",
            "file": spelled(path).into_owned(),
            "line": line,
            "bucket": bucket,
        }),
        Origin::Environment(variable) => {
            json!({ "value": value, "from": "environment", "variable": variable })
        }
        Origin::Flag => json!({ "value": value, "from": "flag" }),
        Origin::Profile => json!({ "value": value, "from": "profile" }),
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        for (value, want) in [
            ("http://me:hush@host:9000/a@b", "http://…@host:9000/a@b"),
            ("http://host/a@b", "http://host/a@b"),
            ("me@host", "me@host"),
        ] {
            assert_eq!(shown(value.as_ref()), want);
        }
    }
}
