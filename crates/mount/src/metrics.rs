//! Metrics for programs that gather them: as text, over HTTP and in a file.

mod file;
mod http;
mod page;
mod text;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::config::InsightSettings;
use crate::error::Error;
use crate::report::Report;

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
            let listener = runtime.block_on(listen(address))?;
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

async fn listen(address: SocketAddr) -> Result<tokio::net::TcpListener, Error> {
    let listener = tokio::net::TcpListener::bind(address).await;
    listener.map_err(|source| Error::System {
        what: "cannot serve metrics (--metrics-listen)",
        source: naming(&address, &source),
    })
}

/// The error, with the address or the file that it is about.
fn naming(what: &dyn std::fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
