//! Where the library sends requests, and how it signs them: learnt from one that it makes ready, and that
//! is never sent. So endpoints, regions, profiles and the environment count here as they do there.

use std::sync::{Arc, OnceLock};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;

use super::fault;
use crate::{Error, ErrorKind, Key, Result};

/// A key that is the same however it is spelt.
const KEY: &str = "k";

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
        let heard = Heard::default();
        let request = client.head_object().bucket(bucket).key(KEY);
        let ready = request.customize().interceptor(heard.clone()).send().await;
        let (op, key) = ("connect", Key::from(bucket));
        let Some(Ready { url, authorization }) = heard.0.get() else {
            let error = ready.expect_err("it is never sent");
            return Err(fault::of_call(op, &key, &error));
        };
        let refuse =
            |words: &str| Error::new(ErrorKind::Unsupported, op, &key).because(words.to_owned());
        let path = url.split('?').next().unwrap_or_default();
        let url = path.strip_suffix(KEY).filter(|url| url.ends_with('/'));
        let url = url.ok_or_else(|| refuse("no URL for keys of this bucket"))?.to_owned();
        let region = match authorization {
            None => None,
            Some(authorization) => {
                let region = region_of(authorization);
                Some(region.ok_or_else(|| refuse("requests of this bucket are signed otherwise"))?)
            }
        };
        Ok(Place { url, region })
    }
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
#[derive(Debug)]
struct Ready {
    url: String,
    authorization: Option<String>,
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
    use super::{Place, region_of};
    use crate::s3::connect;
    use crate::{Addressing, Credentials, S3Options};

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
}
