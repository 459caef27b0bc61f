//! What S3 is asked directly, word for word, and what its answers are taken for.

use std::sync::Arc;
use std::time::Duration;

use base::{ByteRange, Clock, SystemClock, Timestamp};
use futures::TryStreamExt as _;
use futures::future::BoxFuture;

use crate::http::recording::Recording;
use crate::{
    Addressing, Condition, Credentials, ErrorKind, Fresh, Key, ListRequest, Metadata, Original,
    PartNumber, PartTag, PutOptions, Remote, S3, S3Options, Trouble, UploadId, Version, prefixed,
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

const TRANSIENT: ErrorKind = ErrorKind::Transient { retry_after: None };

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
            "503 Slow\r\ndate: Tue, 14 Nov 2023 23:13:20 GMT\r\nretry-after: Tue, 14 Nov 2023 23:13:29 GMT\r\n\r\n",
            transient(Some(9)),
            "503",
        ),
        (
            "301 Else\r\n\r\n<Error><Code>PermanentRedirect</Code></Error>",
            ErrorKind::Denied,
            "PermanentRedirect",
        ),
        (
            "301 Else\r\nx-amz-bucket-region: us-west-1\r\n\r\n<Error><Code>PermanentRedirect</Code></Error>",
            transient(None),
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

#[tokio::test]
async fn a_clock_that_is_wrong_is_put_right_whichever_way_the_store_is_asked() {
    // The library has the machine's own clock.
    let soon = SystemClock::new().wall().secs + 3600;
    let date = format!("date: {}\r\n", crate::http::http_date(Timestamp { secs: soon, nanos: 0 }));
    let skewed = format!("403 No\r\n{date}\r\n<Error><Code>RequestTimeTooSkewed</Code></Error>");
    let deleted = format!("204 No\r\n{date}\r\n");
    let found = format!("200 OK\r\n{date}etag: \"1\"\r\n\r\n");
    let denied = format!("403 No\r\n{date}\r\n<Error><Code>AccessDenied</Code></Error>");
    let server = Recording::start(&[&skewed, &deleted, &found, &denied]).await;
    let options = S3Options {
        endpoint: Some(server.url().to_owned()),
        region: Some("eu-west-3".to_owned()),
        credentials: keys(),
        ..S3Options::new("bucket")
    };
    let s3 = S3::connect(options, Arc::new(SystemClock::new())).await.unwrap();
    let key = Key::from("a");
    let refused = s3.delete(&key).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Transient { retry_after: None }, "{refused}");
    assert_eq!(refused.trouble(), Trouble::WrongClock);
    s3.delete(&key).await.unwrap();
    s3.head(&key).await.unwrap();
    let denied = s3.delete(&key).await.unwrap_err();
    assert_eq!((denied.kind, denied.trouble()), (ErrorKind::Denied, Trouble::Denied));
    // Whoever asks first, all that comes after it is signed at the time there.
    let asked = server.asked();
    let hour = |asked: &crate::http::recording::Asked| asked.header("x-amz-date")[..11].to_owned();
    let hours: Vec<String> = asked.iter().map(hour).collect();
    assert!(hours[0] < hours[1] && hours[0] < hours[2], "{hours:?}");
}

#[tokio::test]
async fn a_store_that_is_silent_is_given_up_also_where_it_may_have_to_work() {
    // Nobody accepts, but the kernel does.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = S3Options {
        endpoint: Some(format!("http://{}", silent.local_addr().unwrap())),
        region: Some("eu-west-3".to_owned()),
        credentials: keys(),
        patience: Duration::from_millis(100),
        ..S3Options::new("bucket")
    };
    let clock = SystemClock::new();
    let s3 = S3::connect(options, Arc::new(clock)).await.unwrap();
    let (key, to, upload) = (Key::from("a"), Key::from("b"), UploadId("u".to_owned()));
    let version = Version::new("\"1\"");
    let original = Original { key: &key, version: &version, size: 5 };
    let all = ByteRange::new(0, 5).unwrap();
    let parts = [(PartNumber(1), PartTag("\"1\"".to_owned()))];
    let begun = clock.monotonic();
    let copied = s3.copy(original, &to, &Condition::Always).await.unwrap_err();
    let part = s3.upload_part_copy(&to, &upload, PartNumber(1), original, all).await.unwrap_err();
    let done = s3.upload_complete(&to, &upload, &parts, &Condition::Always).await.unwrap_err();
    for error in [copied, part, done] {
        assert_eq!(error.kind, ErrorKind::Transient { retry_after: None });
        assert_eq!(error.trouble(), Trouble::Unreachable, "{error}");
    }
    let took = clock.monotonic().saturating_sub(begun);
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test]
async fn a_look_at_an_object_tells_whether_it_is_archived() {
    let version = Version::new("\"1\"");
    for (headers, is_archived) in [
        ("x-amz-storage-class: GLACIER\r\n", true),
        ("x-amz-storage-class: DEEP_ARCHIVE\r\nx-amz-restore: ongoing-request=\"true\"\r\n", true),
        ("x-amz-storage-class: GLACIER\r\nx-amz-restore: ongoing-request=\"false\"\r\n", false),
        (
            "x-amz-storage-class: INTELLIGENT_TIERING\r\nx-amz-archive-status: ARCHIVE_ACCESS\r\n",
            true,
        ),
        ("x-amz-storage-class: GLACIER_IR\r\n", false),
    ] {
        let server = Recording::start(&[&format!(
            "200 OK\r\netag: \"1\"\r\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n{headers}\r\nbytes"
        )])
        .await;
        let s3 = s3(&server, keys()).await;
        s3.head(&Key::from("a")).await.unwrap();
        assert_eq!(s3.learned().may_be_archived(&version), is_archived, "{headers}");
    }
}

#[tokio::test]
async fn what_is_archived_is_said_to_be_at_once() {
    let archived = "403 No\r\n\r\n<Error><Code>InvalidObjectState</Code><Message>The operation is not valid for the object's storage class</Message></Error>";
    let server = Recording::start(&[archived; 3]).await;
    let s3 = s3(&server, keys()).await;
    let (key, to) = (Key::from("a"), Key::from("b"));
    let (range, version) = (ByteRange::new(0, 5).unwrap(), Version::new("\"1\""));
    let read = s3.get(&key, range, Some(&version)).await.err().unwrap();
    let whole = s3.get_whole(&key, None, 9).await.unwrap_err();
    let original = Original { key: &key, version: &version, size: 5 };
    let copied = s3.copy(original, &to, &Condition::Always).await.unwrap_err();
    for error in [read, whole, copied] {
        assert_eq!((error.kind, error.trouble()), (ErrorKind::Archived, Trouble::Archived));
        assert!(error.to_string().contains("restored"), "{error}");
    }
}

#[tokio::test]
async fn bytes_that_are_not_what_the_store_says_are_not_handed_out() {
    let answer = |status: &str, sum: &str| {
        format!(
            "{status} OK\r\netag: \"1\"\r\ncontent-range: bytes 0-8/9\r\n{sum}\r\n\r\n123456789"
        )
    };
    let crc64 = "x-amz-checksum-crc64nvme: rosUhgp5mIg=";
    let wrong = "x-amz-checksum-crc64nvme: rosUhgp5mIk=";
    let wrong_crc32c = "x-amz-checksum-crc32c: 4waSgg==";
    let of_parts = "x-amz-checksum-crc32c: 4waSgg==-2\r\nx-amz-checksum-type: COMPOSITE";
    let answers = [crc64, of_parts, wrong, wrong_crc32c].map(|sum| answer("206", sum));
    let whole = answer("200", wrong);
    let server =
        Recording::start(&[&answers[0], &answers[1], &answers[2], &answers[3], &whole]).await;
    let s3 = s3(&server, keys()).await;
    let (key, range) = (Key::from("a"), ByteRange::new(0, 9).unwrap());
    let mut read = Vec::new();
    for _ in 0..4 {
        let body = s3.get(&key, range, None).await.unwrap();
        let bytes: Result<Vec<_>, _> = body.try_collect().await;
        read.push(bytes.map(|bytes| bytes.concat()).map_err(|error| error.kind));
    }
    let good = || Ok(b"123456789".to_vec());
    assert_eq!(read, [good(), good(), Err(ErrorKind::Corrupt), Err(ErrorKind::Corrupt)]);
    assert_eq!(s3.get_whole(&key, None, 9).await.unwrap_err().kind, ErrorKind::Corrupt);
    assert!(server.asked().iter().all(|asked| asked.header("x-amz-checksum-mode") == "ENABLED"));
}

#[tokio::test]
async fn what_something_else_says_under_a_good_status_is_no_object() {
    let xml = "<Error><Code>InternalError</Code></Error>";
    let (key, version) = (Key::from("a"), Version::new("\"1\""));
    let range = ByteRange::new(0, xml.len() as u64).unwrap();
    for head in [
        "200 OK\r\ncontent-type: application/xml",
        "200 OK\r\ncontent-type: text/html",
        "200 OK\r\ncontent-type: text/plain",
        "200 OK\r\nserver: x",
        "206 OK\r\ncontent-range: bytes 0-40/41",
        "302 Else\r\ncontent-type: text/html\r\nlocation: http://login/",
    ] {
        let server = Recording::start(&[&format!("{head}\r\n\r\n{xml}")[..]; 4]).await;
        let s3 = s3(&server, keys()).await;
        for version in [Some(&version), None] {
            let error = s3.get(&key, range, version).await.err().unwrap();
            assert_eq!(error.kind, TRANSIENT, "{head}: {error}");
        }
        assert!(s3.get_whole(&key, None, 99).await.is_err(), "{head}");
        assert!(s3.head(&key).await.is_err(), "{head}");
    }
}

#[tokio::test]
async fn a_server_that_lists_something_else_is_not_believed() {
    let object = |key: &str, size: &str| {
        format!("<Contents><Key>{key}</Key><Size>{size}</Size><ETag>1</ETag></Contents>")
    };
    let folder = |key: &str| format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>");
    let huge = u64::MAX.to_string();
    for (line, is_good) in [
        (object("p/d/..", "1"), true),
        (folder("p/d/../"), true),
        (object("p/e", "1"), false),
        (object("../p/d/a", "1"), false),
        (object("p/d/a", &huge), false),
        (folder("q/"), false),
    ] {
        let page = format!(
            "200 OK\r\n\r\n<ListBucketResult><IsTruncated>false</IsTruncated>{line}</ListBucketResult>"
        );
        let server = Recording::start(&[&page[..]; 2]).await;
        let s3: Arc<dyn Remote> = Arc::new(s3(&server, keys()).await);
        for (prefix, below) in [("p/", "d/"), ("", "p/d/")] {
            let request = ListRequest {
                prefix: Key::from(below),
                delimited: true,
                start_after: None,
                continuation: None,
                entries_max: 9,
            };
            let listed = prefixed(Arc::clone(&s3), Key::from(prefix)).list(&request).await;
            assert_eq!(listed.is_ok(), is_good, "{line} below {prefix}");
        }
    }
}

#[tokio::test]
async fn that_nothing_has_changed_is_no_answer_to_a_write() {
    let same = "304 Same\r\netag: \"1\"\r\n\r\n";
    let server = Recording::start(&[same; 4]).await;
    let s3 = s3(&server, keys()).await;
    let (key, one) = (Key::from("a"), Version::new("\"1\""));
    for condition in [Condition::Always, Condition::Absent] {
        let options = PutOptions { condition, metadata: Metadata::new() };
        assert!(s3.put(&key, "bytes".into(), &options).await.is_err());
    }
    assert!(s3.head(&key).await.is_err());
    assert_eq!(s3.get_whole(&key, Some(&one), 9).await.unwrap(), Fresh::Same);
}

#[tokio::test]
async fn unfinished_uploads_are_told_with_whether_anybody_has_sent_a_part() {
    let upload = |id: &str| {
        format!(
            "<Upload><Key>a</Key><UploadId>{id}</UploadId>\
             <Initiated>2023-11-14T22:13:20Z</Initiated></Upload>"
        )
    };
    let uploads: Vec<String> = ["one", "two", "three", "four"].map(upload).into();
    let page = format!(
        "200 OK\r\n\r\n<ListMultipartUploadsResult>{}</ListMultipartUploadsResult>",
        uploads.concat()
    );
    let part =
        "200 OK\r\n\r\n<ListPartsResult><Part><PartNumber>1</PartNumber></Part></ListPartsResult>";
    let none = "200 OK\r\n\r\n<ListPartsResult></ListPartsResult>";
    let (denied, gone) = (
        "403 No\r\n\r\n<Error><Code>AccessDenied</Code></Error>",
        "404 No\r\n\r\n<Error><Code>NoSuchUpload</Code></Error>",
    );
    let server =
        Recording::start(&[&page, gone, denied, none, part, &page, "503 No\r\n\r\n"]).await;
    let s3 = s3(&server, keys()).await;
    let told = s3.uploads(&Key::from("a")).await.unwrap();
    let told: Vec<(&str, bool)> =
        told.iter().map(|unfinished| (&unfinished.upload.0[..], unfinished.has_parts)).collect();
    assert_eq!(told, [("one", true), ("two", false), ("three", true), ("four", true)]);
    assert_eq!(s3.uploads(&Key::from("a")).await.unwrap_err().kind, TRANSIENT);
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_not_kept_in_memory() {
    let spaces = " ".repeat(17 << 20);
    let page = |spaces: &str| {
        format!("200 OK\r\n\r\n<ListMultipartUploadsResult>{spaces}</ListMultipartUploadsResult>")
    };
    let server = Recording::start(&[&page(""), &page(&spaces)]).await;
    let s3 = s3(&server, keys()).await;
    let key = Key::from("a");
    assert_eq!(s3.uploads(&key).await.unwrap(), []);
    assert!(s3.uploads(&key).await.is_err());
}

#[tokio::test]
async fn all_buckets_of_an_account_are_told_page_by_page() {
    let page = |name: &str, rest: &str| {
        format!(
            "200 OK\r\n\r\n<ListAllMyBucketsResult><Buckets><Bucket><Name>{name}</Name></Bucket></Buckets>{rest}</ListAllMyBucketsResult>"
        )
    };
    let first = page("one", "<ContinuationToken>to/ken</ContinuationToken>");
    let server = Recording::start(&[&first, &page("two", "")]).await;
    let options = S3Options {
        endpoint: Some(server.url().to_owned()),
        region: Some("eu-west-3".to_owned()),
        credentials: keys(),
        ..S3Options::new("")
    };
    assert_eq!(S3::buckets(&options).await.unwrap(), ["one", "two"]);
    let asked = server.asked();
    assert!(asked[0].line.contains("max-buckets=1000"), "{}", asked[0].line);
    assert!(asked[1].line.contains("continuation-token=to%2Fken"), "{}", asked[1].line);
}

#[tokio::test]
async fn the_buckets_of_an_account_are_told_by_a_store_that_has_another_region() {
    let elsewhere = "400 No\r\n\r\n<Error><Code>AuthorizationHeaderMalformed</Code><Region>here</Region></Error>";
    let page = "200 OK\r\n\r\n<ListAllMyBucketsResult><Buckets><Bucket><Name>one</Name></Bucket></Buckets></ListAllMyBucketsResult>";
    let server = Recording::start(&[elsewhere, page]).await;
    let options = S3Options {
        endpoint: Some(server.url().to_owned()),
        credentials: keys(),
        ..S3Options::new("")
    };
    assert_eq!(S3::buckets(&options).await.unwrap(), ["one"]);
    assert!(server.asked()[1].header("authorization").contains("/here/s3/aws4_request"));
}
