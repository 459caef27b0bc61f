//! What S3 is asked directly, word for word, and what its answers are taken for.

use std::sync::Arc;
use std::time::Duration;

use base::{ByteRange, Clock, SystemClock, Timestamp};
use futures::TryStreamExt as _;
use futures::future::BoxFuture;

use crate::http::recording::Recording;
use crate::{
    Addressing, Condition, Credentials, ErrorKind, Key, Metadata, PartNumber, PutOptions, Remote,
    S3, S3Options, UploadId, Version,
};

/// A clock that goes, but from one time of day.
#[derive(Debug)]
struct Standing(SystemClock);

impl Clock for Standing {
    fn wall(&self) -> Timestamp {
        Timestamp { secs: 1_700_000_000, nanos: 0 }
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(delay)
    }
}

async fn s3(server: &Recording, credentials: Credentials) -> S3 {
    let options = S3Options {
        endpoint: Some(server.url().to_owned()),
        region: Some("eu-west-3".to_owned()),
        addressing: Addressing::Path,
        credentials,
        ..S3Options::new("bucket")
    };
    S3::connect(options, Arc::new(Standing(SystemClock::new()))).await.unwrap()
}

fn keys() -> Credentials {
    Credentials::Static {
        access_key_id: "name".to_owned(),
        secret_access_key: "hush".to_owned(),
        session_token: Some("token".to_owned()),
    }
}

#[tokio::test]
async fn bytes_are_sent_and_asked_for_with_all_that_goes_with_them() {
    let server = Recording::start(&[
        "200 OK\r\netag: \"1\"\r\n\r\n",
        "206 OK\r\netag: \"1\"\r\ncontent-range: bytes 2-4/9\r\n\r\n345",
        "200 OK\r\netag: \"2\"\r\n\r\n",
        "304 Same\r\n\r\n",
    ])
    .await;
    let s3 = s3(&server, keys()).await;
    let key = Key::from("a//../b c+%ü");
    let metadata = Metadata::from([("mode".to_owned(), "33188".to_owned())]);
    let options = PutOptions { condition: Condition::Absent, metadata };
    let version = s3.put(&key, "123456789".into(), &options).await.unwrap();
    assert_eq!(version, Version::new("\"1\""));
    let range = ByteRange::new(2, 5).unwrap();
    let body: Vec<_> =
        s3.get(&key, range, Some(&version)).await.unwrap().try_collect().await.unwrap();
    assert_eq!(body.concat(), b"345");
    let upload = UploadId("u/=".to_owned());
    s3.upload_part(&key, &upload, PartNumber(7), "part".into()).await.unwrap();
    assert_eq!(s3.get_whole(&key, Some(&version), 9).await.unwrap(), crate::Fresh::Same);

    let asked = server.asked();
    assert_eq!(asked[0].line, "PUT /bucket/a//../b%20c%2B%25%C3%BC");
    let sum = "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225";
    for (header, value) in [
        ("if-none-match", "*"),
        ("x-amz-checksum-crc32c", "4waSgw=="),
        ("x-amz-meta-mode", "33188"),
        ("content-type", "application/octet-stream"),
        ("x-amz-content-sha256", sum),
        ("x-amz-security-token", "token"),
        ("x-amz-date", "20231114T221320Z"),
    ] {
        assert_eq!(asked[0].header(header), value, "{header}");
    }
    let authorization = asked[0].header("authorization");
    let scope = "AWS4-HMAC-SHA256 Credential=name/20231114/eu-west-3/s3/aws4_request, ";
    assert!(authorization.starts_with(scope), "{authorization}");
    for signed in ["host", "if-none-match", "x-amz-meta-mode", "x-amz-security-token"] {
        assert!(authorization.contains(signed), "{signed}: {authorization}");
    }
    assert_eq!((asked[1].header("range"), asked[1].header("if-match")), ("bytes=2-4", "\"1\""));
    let part = "PUT /bucket/a//../b%20c%2B%25%C3%BC?partNumber=7&uploadId=u%2F%3D";
    assert_eq!(asked[2].line, part);
    assert_eq!(asked[3].header("if-none-match"), "\"1\"");
}

#[tokio::test]
async fn nobodys_requests_are_not_signed_and_metadata_need_not_be_ascii() {
    let server = Recording::start(&[
        "200 OK\r\netag: \"1\"\r\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT\r\nx-amz-meta-target: grün\r\n\r\nbytes",
    ])
    .await;
    let s3 = s3(&server, Credentials::Anonymous).await;
    let meta = s3.head(&Key::from("a")).await.unwrap();
    assert_eq!((meta.size, meta.modified.secs), (5, 1_700_000_000));
    assert_eq!(meta.metadata["target"], "grün");
    assert_eq!(server.asked()[0].header("authorization"), "");
}

#[tokio::test]
async fn an_answer_that_is_no_success_says_what_to_do_next() {
    let transient =
        |secs: Option<u64>| ErrorKind::Transient { retry_after: secs.map(Duration::from_secs) };
    for (answer, kind, words) in [
        ("404 No\r\n\r\n", ErrorKind::NotFound, "404"),
        (
            "404 No\r\n\r\n<Error><Code>NoSuchKey</Code><Message>Gone.</Message></Error>",
            ErrorKind::Changed,
            "Gone.",
        ),
        ("412 No\r\n\r\n", ErrorKind::Changed, "412"),
        ("503 Slow\r\nretry-after: 7\r\n\r\n", transient(Some(7)), "503"),
        (
            "301 Else\r\nx-amz-bucket-region: us-west-1\r\n\r\n<Error><Code>PermanentRedirect</Code></Error>",
            ErrorKind::Denied,
            "us-west-1",
        ),
        ("403 No\r\n\r\n<html>no XML", ErrorKind::Denied, "403"),
        ("200 OK\r\ncontent-type: text/html\r\n\r\n<html>Log in", transient(None), "page"),
    ] {
        let server = Recording::start(&[answer]).await;
        let s3 = s3(&server, keys()).await;
        let condition = Condition::Is(Version::new("1"));
        let options = PutOptions { condition, metadata: Metadata::new() };
        let error = s3.put(&Key::from("a"), "bytes".into(), &options).await.unwrap_err();
        assert_eq!(error.kind, kind, "{answer}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_put_right_by_the_servers() {
    let date = "date: Tue, 14 Nov 2023 23:13:20 GMT\r\n";
    let server = Recording::start(&[
        &format!("403 No\r\n{date}\r\n<Error><Code>RequestTimeTooSkewed</Code></Error>"),
        &format!("200 OK\r\n{date}etag: \"1\"\r\n\r\n"),
        &format!("403 No\r\n{date}\r\n<Error><Code>AccessDenied</Code></Error>"),
    ])
    .await;
    let s3 = s3(&server, keys()).await;
    let key = Key::from("a");
    let error = s3.head(&key).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient { retry_after: None });
    s3.head(&key).await.unwrap();
    assert_eq!(s3.head(&key).await.unwrap_err().kind, ErrorKind::Denied, "the clock is right");
    let dates = server
        .asked()
        .iter()
        .map(|asked| asked.header("x-amz-date").to_owned())
        .collect::<Vec<_>>();
    assert_eq!(dates, ["20231114T221320Z", "20231114T231320Z", "20231114T231320Z"]);
}
