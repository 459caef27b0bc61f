//! Where the library sends requests, and how it signs them: learnt from one that it makes ready, and that
//! is never sent. So endpoints, regions, profiles and the environment count here as they do there.

use std::sync::{Arc, OnceLock};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Credentials, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;

use super::fault;
use crate::{Error, ErrorKind, Key, Result};

/// A key that is the same however it is spelt.
const KEY: &str = "k";

const OP: &str = "connect";

/// Where a bucket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// What the URL of an object has before its key, with the slash between them.
    pub(super) url: String,
    /// The region that requests are signed for; `None` if they are not signed.
    pub(super) region: Option<String>,
}

impl Place {
    /// The place of `bucket`.
    pub(super) async fn of(client: &Client, bucket: &str) -> Result<Place> {
        let Ready { url, authorization } = Ready::of(client, bucket).await?;
        let key = Key::from(bucket);
        let refuse =
            |words: &str| Error::new(ErrorKind::Unsupported, OP, &key).because(words.to_owned());
        let path = url.split('?').next().unwrap_or_default();
        let url = path.strip_suffix(KEY).filter(|url| url.ends_with('/'));
        let url = url.ok_or_else(|| refuse("no URL for keys of this bucket"))?.to_owned();
        let region = match authorization {
            None => None,
            Some(authorization) => {
                let region = region_of(&authorization);
                Some(region.ok_or_else(|| refuse("requests of this bucket are signed otherwise"))?)
            }
        };
        Ok(Place { url, region })
    }
}

/// Whether TLS keeps others out of what is sent for `bucket`; that shows without credentials.
pub(super) async fn is_private(client: &Client, bucket: &str) -> Result<bool> {
    let nobody = Credentials::new("nobody", "", None, None, "place");
    let config = client.config().to_builder().credentials_provider(nobody);
    // A session would be asked for.
    let config = config.disable_s3_express_session_auth(true).build();
    let Ready { url, .. } = Ready::of(&Client::from_conf(config), bucket).await?;
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    Ok(scheme.eq_ignore_ascii_case("https"))
}

/// The region of `AWS4-HMAC-SHA256 Credential=name/date/region/s3/aws4_request, …`.
fn region_of(authorization: &str) -> Option<String> {
    let rest = authorization.strip_prefix("AWS4-HMAC-SHA256 Credential=")?;
    let scope = rest.split(',').next()?;
    // From behind: the name may have slashes.
    let mut words = scope.rsplit('/');
    match (words.next()?, words.next()?, words.next()?) {
        ("aws4_request", "s3", region) => Some(region.to_owned()),
        _ => None,
    }
}

/// A request that could be sent.
#[derive(Clone, Debug)]
struct Ready {
    url: String,
    authorization: Option<String>,
}

impl Ready {
    async fn of(client: &Client, bucket: &str) -> Result<Ready> {
        let heard = Heard::default();
        let request = client.head_object().bucket(bucket).key(KEY);
        let sent = request.customize().interceptor(heard.clone()).send().await;
        if let Some(ready) = heard.0.get() {
            return Ok(ready.clone());
        }
        let error = sent.expect_err("it is never sent");
        Err(fault::of_call(OP, &Key::from(bucket), &error))
    }
}

/// Listens for it, and holds it back.
#[derive(Clone, Debug, Default)]
struct Heard(Arc<OnceLock<Ready>>);

impl Intercept for Heard {
    fn name(&self) -> &'static str {
        "place"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> std::result::Result<(), BoxError> {
        let request = context.request();
        let authorization = request.headers().get("authorization").map(str::to_owned);
        self.0.get_or_init(|| Ready { url: request.uri().to_owned(), authorization });
        Err("it was only to be looked at".into())
    }
}

#[cfg(test)]
mod tests {
    use aws_config::Region;

    use super::{Place, region_of};
    use crate::s3::connect;
    use crate::{Addressing, Credentials, Endpoints, S3Options};

    #[test]
    fn the_region_is_the_one_of_the_signature() {
        let scope = |text: &str| format!("AWS4-HMAC-SHA256 Credential={text}, SignedHeaders=host");
        let s3 = scope("name/20261122/eu-west-3/s3/aws4_request");
        assert_eq!(region_of(&s3).as_deref(), Some("eu-west-3"));
        assert_eq!(region_of(&scope("name/20261122/eu-west-3/s3express/aws4_request")), None);
        assert_eq!(
            region_of("AWS4-ECDSA-P256-SHA256 Credential=name/20261122/s3/aws4_request"),
            None
        );
    }

    #[tokio::test]
    async fn a_bucket_is_where_options_say() {
        let here = |addressing, credentials| S3Options {
            endpoint: Some("http://127.0.0.1:1".to_owned()),
            region: Some("eu-west-3".to_owned()),
            addressing,
            credentials,
            ..S3Options::new("bucket")
        };
        let keys = || Credentials::Static {
            access_key_id: "name".to_owned(),
            secret_access_key: "hush".to_owned(),
            session_token: None,
        };
        for (options, url, region) in [
            (here(Addressing::Path, keys()), "http://127.0.0.1:1/bucket/", Some("eu-west-3")),
            (here(Addressing::Path, Credentials::Anonymous), "http://127.0.0.1:1/bucket/", None),
        ] {
            let (client, _) = connect::client(&options).await;
            let place = Place::of(&client, &options.bucket).await.unwrap();
            assert_eq!((&place.url[..], place.region.as_deref()), (url, region));
        }
    }

    #[tokio::test]
    async fn amazon_has_servers_of_several_kinds() {
        let endpoints = |fips, dual_stack| Endpoints { fips, dual_stack };
        let access_point = "arn:aws:s3:eu-west-3:123456789012:accesspoint/lab";
        for (bucket, endpoints, url) in [
            ("bucket", endpoints(false, false), "https://bucket.s3.us-east-1.amazonaws.com/"),
            ("bucket", endpoints(true, false), "https://bucket.s3-fips.us-east-1.amazonaws.com/"),
            (
                "bucket",
                endpoints(false, true),
                "https://bucket.s3.dualstack.us-east-1.amazonaws.com/",
            ),
            (
                "bucket",
                endpoints(true, true),
                "https://bucket.s3-fips.dualstack.us-east-1.amazonaws.com/",
            ),
            (
                access_point,
                endpoints(false, false),
                "https://lab-123456789012.s3-accesspoint.eu-west-3.amazonaws.com/",
            ),
        ] {
            let credentials = Credentials::Static {
                access_key_id: "name".to_owned(),
                secret_access_key: "hush".to_owned(),
                session_token: None,
            };
            let options = S3Options { endpoints, credentials, ..S3Options::new(bucket) };
            let http = connect::http_client(&crate::Authorities::default());
            let machine = connect::metadata_service(&http);
            let region = Region::new("us-east-1");
            let (client, _) = connect::client_in(&options, &http, machine, region).await;
            let place = Place::of(&client, bucket).await.unwrap();
            assert_eq!(place.url, url);
            let region = if bucket == access_point { "eu-west-3" } else { "us-east-1" };
            assert_eq!(place.region.as_deref(), Some(region), "{url}");
        }
    }
}
