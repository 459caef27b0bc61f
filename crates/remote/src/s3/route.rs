//! Which requests of Amazon's library go through the environment's proxy: not those to this machine, nor
//! those for its own credentials, which no proxy could pass on. And how much of an answer the library reads,
//! which keeps all of it in memory: what is large goes straight.

use aws_sdk_s3::config::{RuntimeComponents, SharedHttpClient};
use aws_sdk_s3::primitives::SdkBody;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;

use http_body_util::Limited;

use crate::http::is_asked_straight;

/// A page of a thousand unfinished uploads, each with a key as long as it may be, spelt as in a URL.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Two clients, one for each way.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) proxied: SharedHttpClient,
    pub(super) straight: SharedHttpClient,
}

#[derive(Debug)]
struct Connectors {
    proxied: SharedHttpConnector,
    straight: SharedHttpConnector,
}

impl HttpClient for Routes {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let [proxied, straight] = [&self.proxied, &self.straight]
            .map(|client| client.http_connector(settings, components));
        SharedHttpConnector::new(Connectors { proxied, straight })
    }
}

impl HttpConnector for Connectors {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let server = request.uri().parse::<http::Uri>();
        let is_straight = server.is_ok_and(|uri| uri.host().is_some_and(is_asked_straight));
        let way = if is_straight { &self.straight } else { &self.proxied };
        let asking = way.call(request);
        HttpConnectorFuture::new(async move {
            let answer = asking.await?;
            Ok(answer.map(|body| SdkBody::from_body_1_x(Limited::new(body, ANSWER_BYTES_MAX))))
        })
    }
}
