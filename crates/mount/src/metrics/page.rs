//! The metrics of a mount as they are now.

use std::io;

use serde::{Deserialize, Serialize};

use super::process::ProcessFigures;
use super::text::{Dialect, text};
use crate::report::Report;

/// All of them.
pub(super) async fn page(report: &Report, dialect: Dialect) -> io::Result<String> {
    let status = report.status().await?;
    Ok(text(&status, (&report.common.metrics, &ProcessFigures::now()), dialect))
}

/// The answer of a daemon to the question for its metrics.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MetricsPage {
    pub(crate) page: String,
}

/// The answer to the question of the control socket for the metrics in the dialect `word`.
pub(crate) async fn page_for(report: &Report, word: &str) -> io::Result<MetricsPage> {
    let dialect = if word == Dialect::Open.word() { Dialect::Open } else { Dialect::Plain };
    Ok(MetricsPage { page: page(report, dialect).await? })
}
