//! info: the state of one file or directory, on this host and in the bucket.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use base::printable;
use clap::Args;
use mount::{Info, UploadState};
use serde_json::json;

use crate::plain::shown;
use crate::say;
use crate::units::{show_bytes, show_plural};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs info ~/data/slides/a.svs\n  \
    quayfs info ~/data/slides/a.svs --json | jq -r .url\n\n\
    Works for each user that may read the path. Class, encryption and version number cost one request to the store.\n\
    Programs are listed if this user may see which files they have open.")]
pub(crate) struct InfoArgs {
    /// A file or directory of a mount.
    path: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &InfoArgs) -> Result<ExitCode> {
    mount::check_answers([&*args.path])?;
    args.path.symlink_metadata().map_err(|error| mount::not_looked_at(&args.path, error))?;
    let info = mount::info(&args.path)?;
    let programs = if 0 < info.handles { mount::users(&args.path) } else { Vec::new() };
    say(&if args.json {
        let mut object = serde_json::to_value(&info)?;
        object["open_by"] = json!(programs);
        object.to_string()
    } else {
        page(&shown(&args.path), &info, &programs)
    });
    Ok(ExitCode::SUCCESS)
}

fn page(path: &str, info: &Info, programs: &[String]) -> String {
    let is_file = info.kind == "file";
    let size = if is_file { format!(", {}", show_bytes(info.bytes)) } else { String::new() };
    let mut lines = vec![format!("{path}: {}{size}", info.kind)];
    let mut entry = |name: &str, text: Option<String>| {
        lines.extend(text.map(|text| format!("  {name:<11} {}", printable(&text))));
    };
    entry("url", Some(info.url.clone()));
    entry("version", info.version.clone());
    entry("version id", info.version_id.clone());
    entry("class", info.storage_class.clone());
    entry("encryption", info.encryption.clone());
    entry("store", info.store_error.as_ref().map(|reason| format!("no answer: {reason}")));
    entry("cached", is_file.then(|| show_bytes(info.cached_bytes)));
    entry("pinned", info.pinned.then(|| "yes".to_owned()));
    entry("upload", Some(upload(info)));
    if 0 < info.handles {
        let by =
            if programs.is_empty() { String::new() } else { format!(": {}", programs.join(", ")) };
        entry("open", Some(format!("{}{by}", show_plural(info.handles, "handle"))));
    }
    lines.join("\n")
}

fn upload(info: &Info) -> String {
    let reason = info.upload_error.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    match info.upload {
        Some(UploadState::Waiting) => "waiting".to_owned(),
        Some(UploadState::UnderWay) if reason.is_empty() => "under way".to_owned(),
        Some(UploadState::UnderWay) => format!("under way, the last try failed{reason}"),
        Some(UploadState::Failed) => format!("failed, will be tried again{reason}"),
        None if 0 < info.pending_files => {
            format!("{} pending below", show_plural(info.pending_files, "file"))
        }
        None if !reason.is_empty() => format!("failed{reason}"),
        None => "complete".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use mount::{Info, UploadState};

    use super::page;

    #[test]
    fn page_shows_what_is_known() {
        let info = Info {
            kind: "file".to_owned(),
            url: "s3://b/a".to_owned(),
            key: Some("a".to_owned()),
            bytes: 2048,
            version: Some("\"e\"".to_owned()),
            version_id: None,
            storage_class: Some("STANDARD".to_owned()),
            encryption: None,
            store_error: None,
            cached_bytes: 1024,
            pinned: true,
            upload: Some(UploadState::Failed),
            upload_error: Some("denied".to_owned()),
            pending_files: 1,
            handles: 2,
        };
        let want = "/mnt/a: file, 2 KiB\n  \
              url         s3://b/a\n  \
              version     \"e\"\n  \
              class       STANDARD\n  \
              cached      1 KiB\n  \
              pinned      yes\n  \
              upload      failed, will be tried again: denied\n  \
              open        2 handles: cat (7)";
        assert_eq!(page("/mnt/a", &info, &["cat (7)".to_owned()]), want);
    }
}
