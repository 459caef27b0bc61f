//! status: what is dirty, queued, cached, failing.

use std::process::ExitCode;

use anyhow::Result;
use mount::Status;

use crate::args::StatusArgs;
use crate::say;
use crate::units::show_bytes;

pub(crate) fn run(args: &StatusArgs) -> Result<ExitCode> {
    let status = mount::status(&args.dir)?;
    say(&if args.json { serde_json::to_string(&status)? } else { table(&status) });
    Ok(ExitCode::SUCCESS)
}

fn table(status: &Status) -> String {
    let cache = &status.cache;
    let mut lines = vec![
        format!("source          {}", status.source),
        format!("process         {}", status.pid),
        format!(
            "pending uploads {} ({})",
            status.pending_uploads,
            show_bytes(status.pending_bytes)
        ),
        format!("pending changes {}", status.pending_changes),
        format!("state folder    {}", cache.dir.display()),
        format!("cached          {}", show_bytes(cache.cached_bytes)),
        format!("pinned          {}", show_bytes(cache.pinned_bytes)),
        format!("not uploaded    {}", show_bytes(cache.staged_bytes)),
        format!(
            "dirty           {} (writers wait at {})",
            show_bytes(cache.dirty_bytes),
            show_bytes(cache.dirty_limit_bytes)
        ),
        format!("disk free       {}", show_bytes(cache.disk_free_bytes)),
        format!("recovery folder {} file(s); `quayfs recover --list`", cache.recovery_files),
    ];
    lines.extend(status.failures.iter().map(|reason| format!("failed          {reason}")));
    lines.extend(status.counters.iter().map(|(name, n)| format!("{name:<22} {n}")));
    lines.join("\n")
}
