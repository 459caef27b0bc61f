//! Reload of a running mount: log files are opened again, and the configuration is read again.
//!
//! Few settings can change while programs use the mount. The others are named, and wait for a remount.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::assemble::Common;
use crate::config::{Effect, Reconfigure, Reconfigured};
use crate::telemetry::LogControl;

/// The changes that a reload made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Settings that hold from now on, each with its old and its new value.
    #[serde(default)]
    pub now: Vec<String>,
    /// Settings that hold from the next mount on, likewise.
    #[serde(default)]
    pub remount: Vec<String>,
    /// The reason if nothing was changed.
    #[serde(default)]
    pub failed: Option<String>,
}

/// The parts of a mount that a reload changes.
#[derive(Clone, Debug)]
pub(crate) struct Reloader {
    configuration: Arc<dyn Reconfigure>,
    common: Common,
    log: Option<LogControl>,
}

impl Reloader {
    pub(crate) fn new(
        configuration: Arc<dyn Reconfigure>,
        common: Common,
        log: Option<LogControl>,
    ) -> Reloader {
        Reloader { configuration, common, log }
    }

    /// The log of the mount, if it writes one.
    pub(crate) fn log(&self) -> Option<&LogControl> {
        self.log.as_ref()
    }

    /// Opens log files again, reads the configuration again, and logs what changed.
    pub(crate) async fn reload(&self) -> Reloaded {
        let this = self.clone();
        let reloading = tokio::task::spawn_blocking(move || this.reload_here());
        // Without an answer the runtime is ending.
        reloading.await.unwrap_or_default()
    }

    fn reload_here(&self) -> Reloaded {
        if let Some(log) = &self.log {
            log.reopen();
        }
        if let Some(log) = &self.common.access {
            log.reopen();
        }
        let reloaded = match self.configuration.reconfigure() {
            Ok(reconfigured) => self.apply(reconfigured),
            Err(reason) => Reloaded { failed: Some(reason), ..Reloaded::default() },
        };
        reloaded.log();
        reloaded
    }

    fn apply(&self, reconfigured: Reconfigured) -> Reloaded {
        let mut reloaded = Reloaded::default();
        self.common.upload_bandwidth.set(reconfigured.upload_limit);
        self.common.download_bandwidth.set(reconfigured.download_limit);
        for change in reconfigured.changes {
            match change.effect {
                Effect::Now => reloaded.now.push(change.words),
                Effect::Remount => reloaded.remount.push(change.words),
            }
        }
        if let (Some(filter), Some(log)) = (reconfigured.log_filter, &self.log)
            && let Err(error) = log.set(&filter)
        {
            reloaded.failed = Some(error.to_string());
        }
        reloaded
    }
}

impl Reloaded {
    fn log(&self) {
        if let Some(reason) = &self.failed {
            tracing::error!(
                reason,
                "the configuration could not be read again: nothing was changed"
            );
            return;
        }
        for setting in &self.now {
            tracing::info!(setting, "reloaded: a setting has changed");
        }
        for setting in &self.remount {
            tracing::warn!(setting, "reloaded: a setting has changed, and needs a remount");
        }
        if self.now.is_empty() && self.remount.is_empty() {
            tracing::info!("reloaded: no setting has changed");
        }
    }
}
