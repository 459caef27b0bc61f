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
use aws_credential_types::provider::ProvideCredentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Providing;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    RequestChecksumCalculation, ResponseChecksumValidation, RuntimeComponents,
    SharedCredentialsProvider, SharedHttpClient, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::{Builder, Connector, tls};

use super::directory::{self, is_directory};
use super::fault;
use super::login;
use super::page::NoPages;
use super::route::Routes;
use super::terms::S3Terms;
use crate::http::Authorities;

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The largest object that Amazon copies in one request.
const COPY_BYTES_MAX: u64 = 5 << 30;

/// How long an answer may take to begin.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long a stream may stand still before it is given up.
const STALL_MIN: Duration = Duration::from_secs(5);
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
    /// Which of Amazon's own servers.
    pub endpoints: Endpoints,
    /// On which terms objects are read and written.
    pub terms: S3Terms,
    /// As whom to ask.
    pub credentials: Credentials,
    /// Authorities that are believed besides the machine's own.
    pub authorities: Authorities,
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
            endpoints: Endpoints::default(),
            terms: S3Terms::default(),
            authorities: Authorities::default(),
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

/// Which of Amazon's own servers to ask; what is not asked for here, the environment or the profile may
/// ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Those whose cryptography is certified (FIPS 140).
    pub fips: bool,
    /// Those that can be reached by IPv6 as well.
    pub dual_stack: bool,
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
    let http = http_client(&options.authorities);
    let metadata_service = metadata_service(&http);
    let region = region(options, &metadata_service).await;
    let (client, provider) =
        client_in(options, &http, metadata_service.clone(), region.clone()).await;
    // A directory bucket is where its name says, and an access point of many regions is in none.
    let is_placed = is_directory(&options.bucket) || is_of_many_regions(&options.bucket);
    if options.endpoint.is_some() || is_placed {
        return (client, provider);
    }
    match bucket_region(&client, &options.bucket).await {
        Some(own) if own != region => client_in(options, &http, metadata_service, own).await,
        Some(_) | None => (client, provider),
    }
}

pub(super) async fn client_in(
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
            StalledStreamProtectionConfig::enabled()
                .grace_period(options.patience.clamp(STALL_MIN, STALL_MAX))
                .build(),
        )
        // We send and keep our own.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    let provider = credentials(options, http, metadata_service, region);
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
    let Endpoints { fips, dual_stack } = options.endpoints;
    let loader = if fips { loader.use_fips(true) } else { loader };
    let loader = if dual_stack { loader.use_dual_stack(true) } else { loader };
    let shared = loader.load().await;
    let in_path = match options.addressing {
        Addressing::Auto => shared.endpoint_url().is_some(),
        Addressing::Virtual => false,
        Addressing::Path => true,
    };
    let config = aws_sdk_s3::config::Builder::from(&shared)
        .force_path_style(in_path)
        // The name of an access point says where it is.
        .use_arn_region(true)
        .interceptor(NoPages)
        .build();
    (Client::from_conf(config), provider)
}

/// As whom to ask, if not as no one.
fn credentials(
    options: &S3Options,
    http: &SharedHttpClient,
    metadata_service: imds::Client,
    region: Region,
) -> Option<SharedCredentialsProvider> {
    let http = http.clone();
    let anew = move |profile| {
        Some(SharedCredentialsProvider::new(Anew { http, metadata_service, region, profile }))
    };
    match &options.credentials {
        Credentials::Anonymous => None,
        Credentials::Default => anew(None),
        Credentials::Profile(name) => anew(Some(name.clone())),
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

/// Where the library looks for credentials, begun anew each time: it reads files once, and they may have
/// others by then.
#[derive(Debug)]
struct Anew {
    http: SharedHttpClient,
    metadata_service: imds::Client,
    region: Region,
    /// The profile to look in and nowhere else.
    profile: Option<String>,
}

impl Anew {
    async fn diagnosed(&self) -> Result<aws_sdk_s3::config::Credentials, CredentialsError> {
        match self.ask().await {
            Ok(credentials) => Ok(credentials),
            Err(error) => Err(login::diagnosed(error, self.profile.as_deref()).await),
        }
    }

    async fn ask(&self) -> Result<aws_sdk_s3::config::Credentials, CredentialsError> {
        let config = ProviderConfig::without_region()
            .with_http_client(self.http.clone())
            .with_region(Some(self.region.clone()));
        if let Some(name) = &self.profile {
            let profile = ProfileFileCredentialsProvider::builder().configure(&config);
            return profile.profile_name(name).build().provide_credentials().await;
        }
        let chain = DefaultCredentialsChain::builder()
            .configure(config)
            // Without it the chain would look for one itself, and wait for the machine's.
            .region(self.region.clone())
            .imds_client(self.metadata_service.clone());
        chain.build().await.provide_credentials().await
    }
}

impl ProvideCredentials for Anew {
    fn provide_credentials<'a>(&'a self) -> Providing<'a>
    where
        Self: 'a,
    {
        Providing::new(self.diagnosed())
    }
}

/// A client for what is of no bucket.
pub(super) async fn client_of_account(options: &S3Options) -> Client {
    let http = http_client(&options.authorities);
    let metadata_service = metadata_service(&http);
    let region = region(options, &metadata_service).await;
    client_in(options, &http, metadata_service, region).await.0
}

/// The region to begin with: asked for, configured, or the machine's own.
async fn region(options: &S3Options, metadata_service: &imds::Client) -> Region {
    if let Some(region) = &options.region {
        return Region::new(region.clone());
    }
    if let Some(region) = directory::region(&options.bucket) {
        return Region::from_static(region);
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

/// Whether it is the ARN of an access point of many regions, which names none.
fn is_of_many_regions(bucket: &str) -> bool {
    bucket.starts_with("arn:") && bucket.split(':').nth(3) == Some("")
}

/// The same client in another region.
pub(super) fn in_region(client: &Client, region: &str) -> Client {
    let region = Region::new(region.to_owned());
    Client::from_conf(client.config().to_builder().region(region).build())
}

/// Where the bucket says it is; it says so even to those whom it lets do nothing else.
async fn bucket_region(client: &Client, bucket: &str) -> Option<Region> {
    let region = match client.head_bucket().bucket(bucket).send().await {
        Ok(found) => found.bucket_region()?.to_owned(),
        Err(error) => error.raw_response()?.headers().get("x-amz-bucket-region")?.to_owned(),
    };
    fault::is_region(&region).then(|| Region::new(region))
}

pub(super) fn metadata_service(http: &SharedHttpClient) -> imds::Client {
    imds::Client::builder()
        .configure(&ProviderConfig::without_region().with_http_client(http.clone()))
        .max_attempts(1)
        .connect_timeout(METADATA_SERVICE_MAX)
        .read_timeout(METADATA_SERVICE_MAX)
        .build()
}

/// HTTP/1.1 over TLS, through the environment's proxy if it names one for the server; idle connections are
/// kept.
pub(super) fn http_client(authorities: &Authorities) -> SharedHttpClient {
    authorities.sdk_client(|| new_http_client(authorities))
}

fn new_http_client(authorities: &Authorities) -> SharedHttpClient {
    // The library asks the machine by itself, and trips over one that has none.
    let mut believed = tls::TrustStore::empty();
    for pem in authorities.pems() {
        believed.add_pem_certificate(pem);
    }
    let tls_context = tls::TlsContext::builder().with_trust_store(believed).build();
    let tls_context = tls_context.expect("it has nothing that could be wrong");
    let [proxied, straight] = [ProxyConfig::from_env(), ProxyConfig::disabled()]
        .map(|proxy| client_through(proxy, tls_context.clone()));
    SharedHttpClient::new(Routes { proxied, straight })
}

fn client_through(proxy: ProxyConfig, tls_context: tls::TlsContext) -> SharedHttpClient {
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder().proxy_config(proxy.clone());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        let ring = tls::rustls_provider::CryptoMode::Ring;
        let connector = connector.tls_provider(tls::Provider::Rustls(ring));
        connector.tls_context(tls_context.clone()).build()
    })
}

#[cfg(test)]
mod tests {
    use super::{Credentials, is_of_many_regions};

    #[test]
    fn an_access_point_of_many_regions_names_none() {
        assert!(is_of_many_regions("arn:aws:s3::1:accesspoint/m.mrap"));
        assert!(!is_of_many_regions("arn:aws:s3:eu-west-1:1:accesspoint/lab"));
        assert!(!is_of_many_regions("a-bucket"));
    }

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
