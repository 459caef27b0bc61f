//! `GET /metrics` and nothing else, with a bound on everything that a client may do.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::page::page;
use super::text::Dialect;
use crate::report::Report;

/// Clients at a time. More of them wait.
const CLIENTS_MAX: usize = 64;

/// A request has to fit into this.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// How long a client may take for its question, so that who says nothing is soon no client any more.
const QUESTION_MAX: Duration = Duration::from_secs(3);

/// How long it may take for all.
const CLIENT_MAX: Duration = Duration::from_secs(10);

/// After a failure to accept, which lasts for as long as there are no descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Metrics(Dialect),
    /// Something else: what to say.
    Refused(&'static str),
}

/// Source of the page.
#[async_trait]
pub(crate) trait Paged: Send + Sync + 'static {
    /// The clock of all limits.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// All metrics as they are now.
    async fn page(&self, dialect: Dialect) -> io::Result<String>;
}

#[async_trait]
impl Paged for Report {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.common.clock
    }

    async fn page(&self, dialect: Dialect) -> io::Result<String> {
        page(self, dialect).await
    }
}

/// Answers clients until dropped.
pub(crate) async fn serve(listener: TcpListener, report: Arc<impl Paged>) {
    let clients = Arc::new(Semaphore::new(CLIENTS_MAX));
    let clock = Arc::clone(report.clock());
    loop {
        let permit = Arc::clone(&clients).acquire_owned().await.expect("never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "no client is accepted that asks for metrics");
                clock.sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (report, clock) = (Arc::clone(&report), Arc::clone(&clock));
        // Ends by itself after `CLIENT_MAX`, or with the runtime.
        tokio::spawn(async move {
            tokio::select! {
                answered = answer(stream, &*report) => if let Err(error) = answered {
                    tracing::debug!(%error, "a client that asked for metrics broke off");
                },
                () = clock.sleep(CLIENT_MAX) => {}
            }
            drop(permit);
        });
    }
}

async fn answer(mut stream: TcpStream, report: &impl Paged) -> io::Result<()> {
    let head = tokio::select! {
        head = head(&mut stream) => head?,
        () = report.clock().sleep(QUESTION_MAX) => return Ok(()),
    };
    let asked = asked(&head);
    let (status, kind, body) = match asked {
        Asked::Metrics(Dialect::Plain) => (
            "200 OK",
            "text/plain; version=0.0.4; charset=utf-8",
            report.page(Dialect::Plain).await?,
        ),
        Asked::Metrics(Dialect::Open) => (
            "200 OK",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            report.page(Dialect::Open).await?,
        ),
        Asked::Refused(status) => (status, "text/plain; charset=utf-8", format!("{status}\n")),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// The head of a request, or as much as there may be of it.
async fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !is_whole(&head) && head.len() <= REQUEST_BYTES_MAX {
        match stream.read(&mut piece).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => head.extend(&piece[..length]),
        }
    }
    Ok(head)
}

fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n")
}

fn asked(head: &[u8]) -> Asked {
    if !is_whole(head) {
        return Asked::Refused("431 Request Header Fields Too Large");
    }
    let Ok(text) = str::from_utf8(head) else { return Asked::Refused("400 Bad Request") };
    let (first, fields) = text.split_once("\r\n").unwrap_or((text, ""));
    let words: Vec<&str> = first.split(' ').collect();
    let &[method, path, version] = words.as_slice() else {
        return Asked::Refused("400 Bad Request");
    };
    if !version.starts_with("HTTP/1.") {
        return Asked::Refused("400 Bad Request");
    }
    match (method, path.split('?').next()) {
        ("GET", Some("/metrics")) => Asked::Metrics(dialect(fields)),
        ("GET", _) => Asked::Refused("404 Not Found"),
        _ => Asked::Refused("405 Method Not Allowed"),
    }
}

/// The newer dialect for who says that he reads it.
fn dialect(fields: &str) -> Dialect {
    let is_open = fields.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        line.starts_with("accept:") && line.contains("application/openmetrics-text")
    });
    if is_open { Dialect::Open } else { Dialect::Plain }
}

#[cfg(test)]
mod tests {
    use super::{Asked, asked};
    use crate::metrics::text::Dialect;

    #[test]
    fn only_a_get_of_metrics_is_answered() {
        for (head, want) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Asked::Metrics(Dialect::Plain)),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Asked::Metrics(Dialect::Plain)),
            (
                "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n",
                Asked::Metrics(Dialect::Open),
            ),
            ("GET / HTTP/1.1\r\n\r\n", Asked::Refused("404 Not Found")),
            ("GET /metrics/../x HTTP/1.1\r\n\r\n", Asked::Refused("404 Not Found")),
            ("POST /metrics HTTP/1.1\r\n\r\n", Asked::Refused("405 Method Not Allowed")),
            ("GET /metrics\r\n\r\n", Asked::Refused("400 Bad Request")),
            ("\r\n\r\n", Asked::Refused("400 Bad Request")),
            ("GET /metrics HTTP/1.1\r\n", Asked::Refused("431 Request Header Fields Too Large")),
        ] {
            assert_eq!(asked(head.as_bytes()), want, "{head:?}");
        }
        assert_eq!(asked(b"GET /\xff HTTP/1.1\r\n\r\n"), Asked::Refused("400 Bad Request"));
    }
}
