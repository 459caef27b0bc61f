//! All that watches a mount while it is served, begun and ended together.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fuse::Service;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::assemble::Common;
use crate::config::Config;
use crate::error::Error;
use crate::hot::Hot;
use crate::in_flight::Calls;
use crate::metrics::Exports;
use crate::observe::{Observed, Observer};
use crate::refusals;
use crate::report::Report;
use crate::samples::{self, Samples};
use crate::volumes::Volumes;

/// What watches a mount, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    report: Arc<Report>,
    background: [JoinHandle<()>; 2],
    /// Calls that take longer are logged.
    slow: Option<Duration>,
    _exports: Exports,
}

impl Watch {
    /// Begins to watch `volumes`, and to hand out metrics if `config` says so.
    pub(crate) fn start(
        config: &Config,
        common: &Common,
        volumes: &Arc<Volumes>,
        runtime: &Runtime,
    ) -> Result<Watch, Error> {
        let samples = Arc::new(Samples::default());
        let report = Arc::new(Report {
            volumes: Arc::clone(volumes),
            common: common.clone(),
            source: config.location.to_string(),
            state_dir: config.state_dir.clone(),
            starter: config.starter,
            prices: config.insight.prices.clone(),
            begun: common.clock.monotonic(),
            samples: Arc::clone(&samples),
            hot: Arc::new(Hot::default()),
            calls: Arc::new(Calls::default()),
            role: config.insight.role.clone(),
            memory_bytes_max: config.memory_bytes_max,
        });
        let exports = Exports::start(&config.insight, &report, runtime)?;
        let (clock, metrics) = (Arc::clone(&common.clock), Arc::clone(&common.metrics));
        let sampling =
            samples::sample(Arc::downgrade(&samples), metrics, clock, common.sizes.clone());
        let refusals = refusals::log(Arc::downgrade(volumes), Arc::clone(&common.clock));
        let background = [runtime.spawn(sampling), runtime.spawn(refusals)];
        Ok(Watch { report, background, slow: config.insight.slow_calls, _exports: exports })
    }

    /// `service`, with every call of it observed.
    pub(crate) fn around(&self, service: Arc<dyn Service>) -> Observed {
        let Report { volumes, common, hot, calls, .. } = &*self.report;
        let observer = Observer {
            metrics: Arc::clone(&common.metrics),
            clock: Arc::clone(&common.clock),
            hot: Arc::clone(hot),
            calls: Arc::clone(calls),
            volumes: Arc::clone(volumes),
            slow: self.slow,
            last: AtomicU64::new(0),
        };
        Observed::new(service, observer)
    }

    /// What is told of the mount.
    pub(crate) fn report(&self) -> Arc<Report> {
        Arc::clone(&self.report)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.background.iter().for_each(JoinHandle::abort);
    }
}
