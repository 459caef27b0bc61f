//! Where the library sends requests, and how it signs them: learnt from one that it makes ready, and that
//! is never sent. So endpoints, regions, profiles and the environment count here as they do there.

use std::sync::{Arc, OnceLock};

use aws_config::Region;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Credentials, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;

use super::fault;
use super::sign::Scope;
use crate::{Error, ErrorKind, Key, Result};

/// A key that is the same however it is spelt.
const KEY: &str = "k";

const OP: &str = "connect";

/// Where a bucket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// What the URL of an object has before its key, with the slash between them.
    pub(super) url: String,
    /// Where signatures of requests are good.
    pub(super) scope: Scope,
}

impl Place {
    /// The place of `bucket`; it takes no credentials to find.
    pub(super) async fn of(client: &Client, bucket: &str) -> Result<Place> {
        let nobody = Credentials::new("nobody", "", None, None, "place");
        let config = client.config().to_builder().credentials_provider(nobody);
        // A session would be asked for.
        let config = config.disable_s3_express_session_auth(true).build();
        let Ready { url, authorization } = Ready::of(&Client::from_conf(config), bucket).await?;
        let key = Key::from(bucket);
        let refuse =
            |words: &str| Error::new(ErrorKind::Unsupported, OP, &key).because(words.to_owned());
        let path = url.split('?').next().unwrap_or_default();
        let url = path.strip_suffix(KEY).filter(|url| url.ends_with('/'));
        let url = url.ok_or_else(|| refuse("no URL for keys of this bucket"))?.to_owned();
        let scope = match authorization {
            Some(authorization) => scope_of(&authorization).ok_or_else(|| {
                refuse("requests of this bucket are signed in a way of their own")
            })?,
            // Nothing is to be signed.
            None => Scope::Region(client.config().region().map_or_else(String::new, region_name)),
        };
        Ok(Place { url, scope })
    }

    /// Whether TLS keeps others out of what is sent there.
    pub(super) fn is_private(&self) -> bool {
        let scheme = self.url.split_once("://").map_or("", |(scheme, _)| scheme);
        scheme.eq_ignore_ascii_case("https")
    }
}

fn region_name(region: &Region) -> String {
    region.as_ref().to_owned()
}

/// What `AWS4-HMAC-SHA256 Credential=name/date/region/s3/aws4_request, …` is good for.
fn scope_of(authorization: &str) -> Option<Scope> {
    #[cfg(feature = "multi-region")]
    if authorization.starts_with("AWS4-ECDSA-P256-SHA256 ") {
        return Some(Scope::Everywhere);
    }
    let rest = authorization.strip_prefix("AWS4-HMAC-SHA256 Credential=")?;
    let scope = rest.split(',').next()?;
    // From behind: the name may have slashes.
    let mut words = scope.rsplit('/');
    match (words.next()?, words.next()?, words.next()?) {
        ("aws4_request", "s3", region) => Some(Scope::Region(region.to_owned())),
        ("aws4_request", "s3express", region) => Some(Scope::Express(region.to_owned())),
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

    use super::{Place, scope_of};
    use crate::s3::connect;
    use crate::s3::sign::Scope;
    use crate::{Addressing, Credentials, Endpoints, S3Options};

    fn keys() -> Credentials {
        Credentials::Static {
            access_key_id: "name".to_owned(),
            secret_access_key: "hush".to_owned(),
            session_token: None,
        }
    }

    #[test]
    fn the_scope_is_the_one_of_the_signature() {
        let scope = |text: &str| {
            scope_of(&format!("AWS4-HMAC-SHA256 Credential={text}, SignedHeaders=host"))
        };
        let region = || "eu-west-3".to_owned();
        let s3 = scope("name/20261122/eu-west-3/s3/aws4_request");
        assert_eq!(s3, Some(Scope::Region(region())));
        let express = scope("name/20261122/eu-west-3/s3express/aws4_request");
        assert_eq!(express, Some(Scope::Express(region())));
        assert_eq!(scope("name/20261122/eu-west-3/sts/aws4_request"), None);
    }

    #[tokio::test]
    async fn a_bucket_is_where_options_say() {
        let directory = "lab--euw3-az1--x-s3";
        for (bucket, credentials, url) in [
            ("bucket", keys(), "http://127.0.0.1:1/bucket/"),
            ("bucket", Credentials::Anonymous, "http://127.0.0.1:1/bucket/"),
            (directory, keys(), "http://127.0.0.1:1/lab--euw3-az1--x-s3/"),
        ] {
            let options = S3Options {
                endpoint: Some("http://127.0.0.1:1".to_owned()),
                region: Some("eu-west-3".to_owned()),
                addressing: Addressing::Auto,
                credentials,
                ..S3Options::new(bucket)
            };
            let (client, _) = connect::client(&options).await;
            let place = Place::of(&client, bucket).await.unwrap();
            let region = "eu-west-3".to_owned();
            let scope =
                if bucket == directory { Scope::Express(region) } else { Scope::Region(region) };
            assert_eq!((&place.url[..], &place.scope), (url, &scope));
            assert!(!place.is_private());
        }
    }

    #[cfg(feature = "multi-region")]
    #[tokio::test]
    async fn an_access_point_of_many_regions_is_in_none_of_them() {
        let bucket = "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap";
        let options = S3Options { credentials: keys(), ..S3Options::new(bucket) };
        let (client, _) = connect::client(&options).await;
        let place = Place::of(&client, bucket).await.unwrap();
        assert_eq!(place.url, "https://mfzwi23gnjvgw.mrap.accesspoint.s3-global.amazonaws.com/");
        assert_eq!(place.scope, Scope::Everywhere);
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
            (
                "lab--use1-az4--x-s3",
                endpoints(false, false),
                "https://lab--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com/",
            ),
        ] {
            let options = S3Options { endpoints, credentials: keys(), ..S3Options::new(bucket) };
            let http = connect::http_client(&crate::Authorities::default());
            let machine = connect::metadata_service(&http);
            let region = Region::new("us-east-1");
            let (client, _) = connect::client_in(&options, &http, machine, region).await;
            let place = Place::of(&client, bucket).await.unwrap();
            assert_eq!(place.url, url);
            let region = if bucket == access_point { "eu-west-3" } else { "us-east-1" };
            let region = region.to_owned();
            let scope = if bucket.ends_with("--x-s3") {
                Scope::Express(region)
            } else {
                Scope::Region(region)
            };
            assert_eq!(place.scope, scope, "{url}");
            assert!(place.is_private());
        }
    }
}
