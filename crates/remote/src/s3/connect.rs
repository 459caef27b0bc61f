//! Where the bucket is, who asks, and the client that follows from it.

use std::fmt;
use std::time::Duration;

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds;
use aws_config::imds::region::ImdsRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    RequestChecksumCalculation, ResponseChecksumValidation, RuntimeComponents,
    SharedCredentialsProvider, SharedHttpClient, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::{Builder, Connector, tls};

use super::page::NoPages;

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The largest object that Amazon copies in one request.
const COPY_BYTES_MAX: u64 = 5 << 30;

/// How long an answer may take to begin.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long a stream may stand still before it is given up.
const STALL_MAX: Duration = Duration::from_secs(20);

/// How long the instance's own metadata service may take. Where there is none nothing answers.
const METADATA_SERVICE_MAX: Duration = Duration::from_secs(1);

/// The region that stands for "none" at stores that have no regions.
const REGION_ELSE: &str = "us-east-1";

/// Which bucket, where, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Options {
    /// The bucket's name.
    pub bucket: String,
    /// The server, such as `http://127.0.0.1:9000`, if it is not Amazon's.
    pub endpoint: Option<String>,
    /// The region, if it is not the environment's, the profile's or the bucket's own.
    pub region: Option<String>,
    /// Where in a URL the bucket is.
    pub addressing: Addressing,
    /// As whom to ask.
    pub credentials: Credentials,
    /// How long a connection, and then the beginning of an answer, may take; at most the limits
    /// that hold anyway, 5 s and 30 s.
    pub patience: Duration,
    /// The largest object that is copied in one request; larger ones are copied in parts of at most
    /// that size.
    pub copy_bytes_max: u64,
}

impl S3Options {
    /// The bucket at Amazon's, in its own region, with the credentials at hand.
    pub fn new(bucket: impl Into<String>) -> S3Options {
        S3Options {
            bucket: bucket.into(),
            endpoint: None,
            region: None,
            addressing: Addressing::Auto,
            credentials: Credentials::Default,
            patience: ANSWER_MAX,
            copy_bytes_max: COPY_BYTES_MAX,
        }
    }
}

/// Where in a URL the bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// In the path if an endpoint is given, else in the host name.
    Auto,
    /// In the host name.
    Virtual,
    /// In the path.
    Path,
}

/// As whom to ask.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// What the environment, the profile, SSO, a web identity or the machine's role gives.
    Default,
    /// What this profile of the configuration files gives.
    Profile(String),
    /// As no one.
    Anonymous,
    /// These.
    Static {
        /// The key's public name.
        access_key_id: String,
        /// The key.
        secret_access_key: String,
        /// What goes with a temporary key.
        session_token: Option<String>,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::Default => f.write_str("Default"),
            Credentials::Profile(name) => write!(f, "Profile({name:?})"),
            Credentials::Anonymous => f.write_str("Anonymous"),
            Credentials::Static { access_key_id, .. } => write!(f, "Static({access_key_id:?}, …)"),
        }
    }
}

/// A client for the bucket, in its region, and as whom it asks.
pub(super) async fn client(options: &S3Options) -> (Client, Option<SharedCredentialsProvider>) {
    let http = http_client();
    let metadata_service = metadata_service(&http);
    let region = region(options, &metadata_service).await;
    let (client, provider) =
        client_in(options, &http, metadata_service.clone(), region.clone()).await;
    if options.endpoint.is_some() {
        return (client, provider);
    }
    match bucket_region(&client, &options.bucket).await {
        Some(own) if own != region => client_in(options, &http, metadata_service, own).await,
        Some(_) | None => (client, provider),
    }
}

async fn client_in(
    options: &S3Options,
    http: &SharedHttpClient,
    metadata_service: imds::Client,
    region: Region,
) -> (Client, Option<SharedCredentialsProvider>) {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(options.patience.min(CONNECT_MAX))
        .read_timeout(options.patience.min(ANSWER_MAX))
        .build();
    let loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http.clone())
        .region(region.clone())
        // Only the caller knows which calls may be repeated.
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .stalled_stream_protection(
            StalledStreamProtectionConfig::enabled().grace_period(STALL_MAX).build(),
        )
        // We send and keep our own.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    let provider = credentials(options, http, metadata_service, region).await;
    let loader = match &options.credentials {
        Credentials::Profile(name) => loader.profile_name(name),
        Credentials::Default | Credentials::Anonymous | Credentials::Static { .. } => loader,
    };
    let loader = match &provider {
        Some(provider) => loader.credentials_provider(provider.clone()),
        None => loader.no_credentials(),
    };
    let loader = match &options.endpoint {
        Some(endpoint) => loader.endpoint_url(endpoint),
        None => loader,
    };
    let shared = loader.load().await;
    let in_path = match options.addressing {
        Addressing::Auto => shared.endpoint_url().is_some(),
        Addressing::Virtual => false,
        Addressing::Path => true,
    };
    let config = aws_sdk_s3::config::Builder::from(&shared)
        .force_path_style(in_path)
        .interceptor(NoPages)
        .build();
    (Client::from_conf(config), provider)
}

/// As whom to ask, if not as no one.
async fn credentials(
    options: &S3Options,
    http: &SharedHttpClient,
    metadata_service: imds::Client,
    region: Region,
) -> Option<SharedCredentialsProvider> {
    let provider_config = ProviderConfig::without_region()
        .with_http_client(http.clone())
        .with_region(Some(region.clone()));
    match &options.credentials {
        Credentials::Anonymous => None,
        Credentials::Default => {
            let chain = DefaultCredentialsChain::builder()
                .configure(provider_config)
                // Without it the chain would look for one itself, and wait for the machine's.
                .region(region)
                .imds_client(metadata_service);
            Some(SharedCredentialsProvider::new(chain.build().await))
        }
        Credentials::Profile(name) => {
            let profile = ProfileFileCredentialsProvider::builder()
                .configure(&provider_config)
                .profile_name(name);
            Some(SharedCredentialsProvider::new(profile.build()))
        }
        Credentials::Static { access_key_id, secret_access_key, session_token } => {
            let (id, secret) = (access_key_id.clone(), secret_access_key.clone());
            let credentials = aws_sdk_s3::config::Credentials::new(
                id,
                secret,
                session_token.clone(),
                None,
                "options",
            );
            Some(SharedCredentialsProvider::new(credentials))
        }
    }
}

/// The region to begin with: asked for, configured, or the machine's own.
async fn region(options: &S3Options, metadata_service: &imds::Client) -> Region {
    if let Some(region) = &options.region {
        return Region::new(region.clone());
    }
    let profile = match &options.credentials {
        Credentials::Profile(name) => ProfileFileRegionProvider::builder().profile_name(name),
        Credentials::Default | Credentials::Anonymous | Credentials::Static { .. } => {
            ProfileFileRegionProvider::builder()
        }
    };
    let configured = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(profile.build());
    let region = match (configured.region().await, &options.endpoint) {
        (Some(region), _) => Some(region),
        (None, Some(_)) => None,
        (None, None) => {
            let machine = ImdsRegionProvider::builder().imds_client(metadata_service.clone());
            machine.build().region().await
        }
    };
    region.unwrap_or_else(|| Region::from_static(REGION_ELSE))
}

/// Where the bucket says it is; it says so even to those whom it lets do nothing else.
async fn bucket_region(client: &Client, bucket: &str) -> Option<Region> {
    let region = match client.head_bucket().bucket(bucket).send().await {
        Ok(found) => found.bucket_region()?.to_owned(),
        Err(error) => error.raw_response()?.headers().get("x-amz-bucket-region")?.to_owned(),
    };
    Some(Region::new(region))
}

fn metadata_service(http: &SharedHttpClient) -> imds::Client {
    imds::Client::builder()
        .configure(&ProviderConfig::without_region().with_http_client(http.clone()))
        .max_attempts(1)
        .connect_timeout(METADATA_SERVICE_MAX)
        .read_timeout(METADATA_SERVICE_MAX)
        .build()
}

/// HTTP/1.1 over TLS, through the environment's proxy if it names one; idle connections are kept.
fn http_client() -> SharedHttpClient {
    Builder::new().build_with_connector_fn(|settings, components| {
        let mut connector = Connector::builder().proxy_config(ProxyConfig::from_env());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        let ring = tls::rustls_provider::CryptoMode::Ring;
        connector.tls_provider(tls::Provider::Rustls(ring)).build()
    })
}

#[cfg(test)]
mod tests {
    use super::Credentials;

    #[test]
    fn a_secret_is_not_in_the_log() {
        let credentials = Credentials::Static {
            access_key_id: "name".to_owned(),
            secret_access_key: "hush".to_owned(),
            session_token: Some("token".to_owned()),
        };
        let text = format!("{credentials:?}");
        assert!(text.contains("name") && !text.contains("hush") && !text.contains("token"));
    }
}
