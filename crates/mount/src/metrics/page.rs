//! The metrics of a mount as they are now.

use std::io;

use super::text::{Dialect, text};
use crate::report::Report;

/// All of them.
pub(super) async fn page(report: &Report, dialect: Dialect) -> io::Result<String> {
    let status = report.status().await?;
    Ok(text(&status, &report.common.metrics, dialect))
}
