//! What is put right after a refusal, whichever way the store was asked: the region, and the keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_credential_types::Credentials as Keys;
use aws_credential_types::provider::future::ProvideCredentials as Providing;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};

use super::connect;
use super::movable::Movable;
use crate::http::recording::{Asked, Recording};
use crate::{Credentials, ErrorKind, Key, Remote, S3, S3Options, Trouble};

const OBJECT: &str = "200 OK\r\netag: \"1\"\r\n\r\nbytes";
const DELETED: &str = "204 Gone\r\n\r\n";
const TRANSIENT: ErrorKind = ErrorKind::Transient { retry_after: None };

/// In a header, as S3 tells who asks without a body.
fn header(region: &str) -> String {
    format!("400 No\r\nx-amz-bucket-region: {region}\r\n\r\n")
}

/// As S3, and servers that are like it, tell others.
fn text(region: &str) -> String {
    format!(
        "400 No\r\n\r\n<Error><Code>AuthorizationHeaderMalformed</Code><Region>{region}</Region></Error>"
    )
}

fn options(server: &Recording) -> S3Options {
    S3Options {
        endpoint: Some(server.url().to_owned()),
        credentials: Credentials::Static {
            access_key_id: "name".to_owned(),
            secret_access_key: "hush".to_owned(),
            session_token: None,
        },
        region: Some("us-east-1".to_owned()),
        ..S3Options::new("bucket")
    }
}

async fn s3(server: &Recording) -> S3 {
    S3::connect(options(server), Movable::new()).await.unwrap()
}

fn regions(asked: &[Asked]) -> Vec<&'static str> {
    let region = |asked: &Asked| {
        ["us-east-1", "us-west-1"]
            .into_iter()
            .find(|region| asked.header("authorization").contains(&format!("/{region}/s3/")))
            .unwrap_or("none")
    };
    asked.iter().map(region).collect()
}

#[tokio::test]
async fn the_region_is_the_one_that_the_store_says_whichever_way_it_says_it() {
    let key = Key::from("a");
    for answer in [header("us-west-1"), text("us-west-1")] {
        let server = Recording::start(&[&answer, OBJECT, DELETED]).await;
        let s3 = s3(&server).await;
        let refused = s3.get_whole(&key, None, 9).await.unwrap_err();
        assert_eq!(refused.kind, TRANSIENT, "{answer}");
        s3.head(&key).await.unwrap();
        s3.delete(&key).await.unwrap();
        assert_eq!(regions(&server.asked()), ["us-east-1", "us-west-1", "us-west-1"], "{answer}");

        let server = Recording::start(&[&answer, DELETED, OBJECT]).await;
        let s3 = self::s3(&server).await;
        assert_eq!(s3.delete(&key).await.unwrap_err().kind, TRANSIENT, "{answer}");
        s3.delete(&key).await.unwrap();
        s3.head(&key).await.unwrap();
        assert_eq!(regions(&server.asked()), ["us-east-1", "us-west-1", "us-west-1"], "{answer}");
    }
}

#[tokio::test]
async fn a_store_that_names_one_region_after_the_other_is_not_followed() {
    let (first, second) = (text("us-west-1"), text("us-east-1"));
    let server = Recording::start(&[&first, &second, &second]).await;
    let s3 = s3(&server).await;
    let key = Key::from("a");
    assert_eq!(s3.get_whole(&key, None, 9).await.unwrap_err().kind, TRANSIENT);
    for _ in 0..2 {
        let refused = s3.get_whole(&key, None, 9).await.unwrap_err();
        assert_eq!((refused.kind, refused.trouble()), (ErrorKind::Denied, Trouble::WrongRegion));
    }
}

#[tokio::test]
async fn a_store_that_refuses_the_region_that_it_names_itself_has_refused() {
    let server = Recording::start(&[&text("us-east-1")]).await;
    let s3 = s3(&server).await;
    let refused = s3.get_whole(&Key::from("a"), None, 9).await.unwrap_err();
    assert_eq!((refused.kind, refused.trouble()), (ErrorKind::Denied, Trouble::WrongRegion));
}

/// Gives out other keys each time, their number as their name.
#[derive(Clone, Debug, Default)]
struct Giver(Arc<AtomicU64>);

impl ProvideCredentials for Giver {
    fn provide_credentials<'a>(&'a self) -> Providing<'a>
    where
        Self: 'a,
    {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Providing::ready(Ok(Keys::new(format!("key{number}"), "hush", None, None, "test")))
    }
}

#[tokio::test]
async fn keys_that_are_replaced_are_taken_up_at_once_by_all_calls() {
    let unknown = "403 No\r\n\r\n<Error><Code>InvalidAccessKeyId</Code></Error>";
    let server = Recording::start(&[OBJECT, DELETED, unknown, DELETED, OBJECT]).await;
    let options = options(&server);
    let (client, _) = connect::client(&options).await;
    let provider = Some(SharedCredentialsProvider::new(Giver::default()));
    let clock = Movable::new();
    let s3 = S3::over(client, provider, options, Arc::clone(&clock) as _).await.unwrap();
    let key = Key::from("a");
    s3.head(&key).await.unwrap();
    s3.delete(&key).await.unwrap();
    clock.advance(Duration::from_secs(11));
    let refused = s3.delete(&key).await.unwrap_err();
    assert_eq!((refused.kind, refused.trouble()), (TRANSIENT, Trouble::UnknownKey));
    s3.delete(&key).await.unwrap();
    s3.head(&key).await.unwrap();
    let asked = server.asked();
    let names = asked.iter().map(|asked| {
        let authorization = asked.header("authorization");
        let name = authorization.split_once("Credential=").map_or("", |(_, rest)| rest);
        name.split('/').next().unwrap_or_default()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["key1", "key1", "key1", "key2", "key2"]);
}
