//! Metrics for programs that gather them: as text, over HTTP and in a file.

mod file;
mod http;
mod merge;
mod page;
mod process;
mod text;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::config::InsightSettings;
use crate::error::Error;
use crate::report::Report;

pub(crate) use self::http::{Paged, serve};
pub(crate) use self::merge::Merged;
pub(crate) use self::page::{MetricsPage, page_for};
pub(crate) use self::text::Dialect;

/// Who hands metrics out, for as long as it is not dropped.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    tasks: Vec<JoinHandle<()>>,
}

impl Exports {
    /// Begins what `settings` ask for.
    pub(crate) fn start(
        settings: &InsightSettings,
        report: &Arc<Report>,
        runtime: &Runtime,
    ) -> Result<Exports, Error> {
        let mut exports = Exports::default();
        if let Some(address) = settings.metrics_listen {
            let listener =
                runtime.block_on(listen(address, "cannot serve metrics (--metrics-listen)"))?;
            exports.tasks.push(runtime.spawn(http::serve(listener, Arc::clone(report))));
        }
        if let Some(path) = &settings.metrics_file {
            // Now, while somebody hears of it.
            let written = runtime.block_on(file::write(Arc::new(path.clone()), report));
            written.map_err(|source| Error::System {
                what: "cannot write metrics (--metrics-file)",
                source: naming(&path.display(), &source),
            })?;
            exports.tasks.push(runtime.spawn(file::keep(path.clone(), Arc::clone(report))));
        }
        Ok(exports)
    }
}

impl Drop for Exports {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

pub(crate) async fn listen(
    address: SocketAddr,
    what: &'static str,
) -> Result<tokio::net::TcpListener, Error> {
    let listener = tokio::net::TcpListener::bind(address).await;
    listener.map_err(|source| Error::System { what, source: naming(&address, &source) })
}

/// The error, with the address or the file that it is about.
fn naming(what: &dyn std::fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
