//! Connections: straight, or through the proxy that the environment names; TLS with the machine's
//! own roots.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower_service::Service;

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

/// A client whose connections come about within `patience`.
pub(super) fn client(patience: Duration) -> Client<Connector, Sending> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(patience.min(CONNECT_MAX)));
    let route = Route { tcp, proxies: Arc::new(Matcher::from_env()) };
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls())
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

fn tls() -> ClientConfig {
    use hyper_rustls::ConfigBuilderExt as _;
    let builder = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has the protocol versions that rustls thinks safe")
    };
    match builder().with_native_roots() {
        Ok(builder) => builder.with_no_client_auth(),
        Err(error) => {
            // Stores on plain HTTP can be used all the same; with TLS no one will be believed.
            tracing::warn!(%error, "this machine has no root certificates");
            builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    }
}

/// The way to a server.
#[derive(Clone, Debug)]
pub(super) struct Route {
    tcp: HttpConnector,
    proxies: Arc<Matcher>,
}

impl Service<Uri> for Route {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        // Plain HTTP is spoken with emulators and servers of one's own, which are near.
        let secure = server.scheme() == Some(&Scheme::HTTPS);
        match self.proxies.intercept(&server).filter(|_| secure) {
            None => {
                let connecting = self.tcp.call(server);
                Box::pin(async move { Ok(connecting.await?) })
            }
            Some(proxy) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp.clone());
                if let Some(login) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(login.clone());
                }
                let connecting = tunnel.call(server);
                Box::pin(async move { Ok(connecting.await?) })
            }
        }
    }
}
