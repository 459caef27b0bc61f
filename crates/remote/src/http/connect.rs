//! Connections: straight, or through the proxy that the environment names; TLS with the machine's
//! own roots.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower_service::Service;

use super::line::Line;
use super::proxies::Proxies;
use super::roots::Authorities;
use super::sending::Sending;

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long a connection that nobody uses is kept; servers close theirs after a minute or more.
const IDLE_MAX: Duration = Duration::from_secs(45);

/// How many connections that nobody uses are kept: as many as there are requests at a time.
const IDLE_CONNECTIONS_MAX: usize = 128;

/// What a read takes at a time at most.
const READ_BYTES_MAX: usize = 512 << 10;

/// Headers of an answer: user metadata is up to 8 KiB in small pieces.
const HEADERS_MAX: usize = 256;

pub(super) type Connector = HttpsConnector<Route>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A client whose connections come about within `patience`, and that believes whom `authorities` has.
pub(super) fn client(
    patience: Duration,
    authorities: &Authorities,
    proxies: Proxies,
) -> Client<Connector, Sending> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(patience.min(CONNECT_MAX)));
    let route = Route { tcp, proxies };
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(authorities.tls())
        .https_or_http()
        .enable_http1()
        .wrap_connector(route);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .http1_max_buf_size(READ_BYTES_MAX)
        .http1_max_headers(HEADERS_MAX)
        .build(connector)
}

/// The way to a server.
#[derive(Clone, Debug)]
pub(super) struct Route {
    tcp: HttpConnector,
    proxies: Proxies,
}

impl Service<Uri> for Route {
    type Response = Line;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Line, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let secure = server.scheme() == Some(&Scheme::HTTPS);
        match self.proxies.of(&server) {
            None => {
                let connecting = self.tcp.call(server);
                Box::pin(async move { Ok(Line::to_server(connecting.await?)) })
            }
            Some(proxy) if secure => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp.clone());
                if let Some(login) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(login.clone());
                }
                let connecting = tunnel.call(server);
                Box::pin(async move { Ok(Line::to_server(connecting.await?)) })
            }
            Some(proxy) => {
                let connecting = self.tcp.call(proxy.uri().clone());
                Box::pin(async move { Ok(Line::to_proxy(connecting.await?)) })
            }
        }
    }
}
