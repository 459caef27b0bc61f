//! metrics: those of all mounts of this machine, printed once or served to collectors.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::{complain, say};

/// Addresses of the exporter.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs metrics                               print them once\n  \
    sudo quayfs metrics --listen 127.0.0.1:9465  serve those of all users' mounts\n  \
    curl http://127.0.0.1:9465/metrics\n\n\
    Gathers the metrics of all mounts of this machine that the user may ask: its own, or those of all users for root. Each\n\
    sample has the label `mount`, the mount point. `quayfs_up` is 0 for a mount whose daemon is dead, or does not answer\n\
    within three seconds; the others are shown all the same. Mounts can come and go while the metrics are served.")]
pub(crate) struct MetricsArgs {
    /// Serve the metrics as GET /metrics at this address until the command is ended.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

pub(crate) fn run(args: &MetricsArgs) -> Result<ExitCode> {
    let Some(address) = args.listen else {
        say(mount::node_metrics()?.trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    if !address.ip().is_loopback() {
        complain(&format!(
            "other machines reach {address}: metrics have no authentication, and show the URLs of mounts"
        ));
    }
    mount::serve_node_metrics(address, || complain(&format!("serving http://{address}/metrics")))?;
    Ok(ExitCode::SUCCESS)
}
