//! That both ways of asking S3 say the same of the terms, word for word.

use std::sync::Arc;

use base::{ByteRange, SystemClock};

use super::terms::Header;
use crate::http::recording::{Asked, Recording};
use crate::{
    Addressing, Condition, Credentials, CustomerKey, Encryption, ErrorKind, Key, ListRequest,
    Metadata, Original, PartNumber, PartTag, Payer, PutOptions, Remote, Result, S3, S3Options,
    S3Terms, Tags, UploadId, Version,
};

const OBJECT: &str = "200 OK\r\netag: \"1\"\r\n\r\n";
const BEGUN: &str = "200 OK\r\n\r\n<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
const PART: &str = "200 OK\r\n\r\n<CopyPartResult><ETag>\"1\"</ETag></CopyPartResult>";
const DONE: &str = "200 OK\r\n\r\n<CompleteMultipartUploadResult><ETag>\"1\"</ETag></CompleteMultipartUploadResult>";

async fn s3(server: &Recording, terms: S3Terms) -> S3 {
    let options = S3Options {
        endpoint: Some(server.url().to_owned()),
        region: Some("eu-west-3".to_owned()),
        addressing: Addressing::Path,
        credentials: Credentials::Static {
            access_key_id: "name".to_owned(),
            secret_access_key: "hush".to_owned(),
            session_token: None,
        },
        terms,
        copy_bytes_max: 10,
        ..S3Options::new("bucket")
    };
    S3::connect(options, Arc::new(SystemClock::new())).await.unwrap()
}

fn put() -> PutOptions {
    PutOptions { condition: Condition::Always, metadata: Metadata::new() }
}

fn terms() -> S3Terms {
    S3Terms {
        encryption: Encryption::Kms { key_id: Some("alias/lab".to_owned()) },
        storage_class: Some("STANDARD_IA".to_owned()),
        acl: Some("bucket-owner-full-control".to_owned()),
        tags: Tags::parse("project=a b;*.bam=kind=alignment").unwrap(),
        payer: Payer::Requester,
        bucket_owner: Some("123456789012".to_owned()),
    }
}

/// What [`terms`] say with every request.
fn each() -> [Header; 2] {
    [
        ("x-amz-request-payer", "requester".to_owned()),
        ("x-amz-expected-bucket-owner", "123456789012".to_owned()),
    ]
}

/// And of every new object.
fn new() -> [Header; 4] {
    [
        ("x-amz-server-side-encryption", "aws:kms".to_owned()),
        ("x-amz-server-side-encryption-aws-kms-key-id", "alias/lab".to_owned()),
        ("x-amz-storage-class", "STANDARD_IA".to_owned()),
        ("x-amz-acl", "bucket-owner-full-control".to_owned()),
    ]
}

/// And of one whose name ends in `.bam`.
fn tags() -> [Header; 1] {
    [("x-amz-tagging", "project=a%20b&kind=alignment".to_owned())]
}

/// Whether a request has these headers, all of them signed, and no other of the terms.
fn check(asked: &Asked, want: &[Header]) {
    let line = &asked.line;
    let signed = asked.header("authorization");
    for (name, value) in want {
        assert_eq!(asked.header(name), value, "{line}: {name}");
        assert!(signed.contains(name), "{line}: {name}: {signed}");
    }
    for name in [
        "x-amz-request-payer",
        "x-amz-expected-bucket-owner",
        "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-aws-kms-key-id",
        "x-amz-server-side-encryption-customer-key",
        "x-amz-storage-class",
        "x-amz-acl",
        "x-amz-tagging",
        "x-amz-tagging-directive",
    ] {
        let is_wanted = want.iter().any(|(wanted, _)| *wanted == name);
        assert!(is_wanted || asked.header(name).is_empty(), "{line}: {name}");
    }
}

/// Makes each request that there is, of an object that the rules for tags speak of and of another.
async fn ask_everything(s3: &S3) {
    let (bam, other) = (Key::from("d/a.bam"), Key::from("a"));
    let (upload, version) = (UploadId("u".to_owned()), Version::new("\"1\""));
    let original = |key| Original { key, version: &version, size: 4 };
    let all = ByteRange::new(0, 4).unwrap();
    let parts = [(PartNumber(1), PartTag("\"1\"".to_owned()))];
    let page = ListRequest {
        prefix: Key::from(""),
        delimited: true,
        start_after: None,
        continuation: None,
        entries_max: 1,
    };
    s3.head(&bam).await.unwrap();
    s3.put(&bam, "bytes".into(), &put()).await.unwrap();
    s3.upload_create(&bam, &put()).await.unwrap();
    s3.upload_part(&bam, &upload, PartNumber(1), "part".into()).await.unwrap();
    s3.upload_part_copy(&bam, &upload, PartNumber(2), original(&other), all).await.unwrap();
    s3.upload_complete(&bam, &upload, &parts, &Condition::Always).await.unwrap();
    s3.copy(original(&other), &bam, &Condition::Always).await.unwrap();
    s3.copy(original(&bam), &other, &Condition::Always).await.unwrap();
    s3.upload_abort(&bam, &upload).await.unwrap();
    s3.delete(&bam).await.unwrap();
    s3.list(&page).await.unwrap();
    s3.uploads(&bam).await.unwrap();
}

#[tokio::test]
async fn every_request_says_what_the_terms_are() {
    let copied = "200 OK\r\n\r\n<CopyObjectResult><ETag>\"1\"</ETag></CopyObjectResult>";
    let nothing = "204 Gone\r\n\r\n";
    let listed =
        "200 OK\r\n\r\n<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    let unfinished = "200 OK\r\n\r\n<ListMultipartUploadsResult></ListMultipartUploadsResult>";
    let server = Recording::start(&[
        OBJECT, OBJECT, BEGUN, OBJECT, PART, DONE, copied, copied, nothing, nothing, listed,
        unfinished,
    ])
    .await;
    let s3 = s3(&server, terms()).await;
    ask_everything(&s3).await;

    let (each, new, tags) = (each(), new(), tags());
    let source = [("x-amz-source-expected-bucket-owner", "123456789012".to_owned())];
    let anew = [("x-amz-tagging-directive", "REPLACE".to_owned())];
    let other_tags = [("x-amz-tagging", "project=a%20b".to_owned())];
    let asked = server.asked();
    let whole = [&each[..], &new, &tags].concat();
    for (asked, want) in asked.iter().zip([
        &each[..],
        &whole,
        &whole,
        &each,
        &[&each[..], &source].concat(),
        &each,
        &[&each[..], &new, &source, &anew, &tags].concat(),
        &[&each[..], &new, &source, &anew, &other_tags].concat(),
        &each,
        &each,
        &each,
        &each,
    ]) {
        check(asked, want);
    }
    assert_eq!(asked.len(), 12);
}

#[tokio::test]
async fn a_customers_key_is_sent_over_tls_only() {
    let server = Recording::start(&[]).await;
    let key = CustomerKey::from_file(b"0123456789abcdefghijklmnopqrstuv").unwrap();
    let options = |endpoint| S3Options {
        endpoint: Some(endpoint),
        credentials: Credentials::Anonymous,
        terms: S3Terms { encryption: Encryption::Customer(key.clone()), ..S3Terms::default() },
        ..S3Options::new("bucket")
    };
    let clock = Arc::new(SystemClock::new());
    let in_capitals = server.url().replace("http://", "HTTP://");
    let given = S3::connect(options(server.url().to_owned()), clock.clone()).await;
    let shouted = S3::connect(options(in_capitals), clock).await;
    let configured = configured(options(server.url().to_owned())).await;
    for connected in [given, shouted, configured] {
        let error = connected.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.to_string().contains("TLS"), "{error}");
    }
    assert!(server.asked().is_empty());
}

/// As if `options` named no endpoint, and a profile or the environment did.
async fn configured(options: S3Options) -> Result<S3> {
    let (client, provider) = super::connect::client(&options).await;
    let options = S3Options { endpoint: None, ..options };
    S3::over(client, provider, options, Arc::new(SystemClock::new())).await
}

#[tokio::test]
async fn bodies_are_signed_wherever_there_is_no_tls() {
    let server = Recording::start(&[OBJECT, OBJECT]).await;
    let clock = Arc::new(SystemClock::new());
    let keys = Credentials::Static {
        access_key_id: "name".to_owned(),
        secret_access_key: "hush".to_owned(),
        session_token: None,
    };
    let options = |endpoint| S3Options {
        endpoint: Some(endpoint),
        region: Some("eu-west-3".to_owned()),
        credentials: keys.clone(),
        ..S3Options::new("bucket")
    };
    let in_capitals = server.url().replace("http://", "HTTP://");
    let shouted = S3::connect(options(in_capitals), clock).await.unwrap();
    let configured = configured(options(server.url().to_owned())).await.unwrap();
    for s3 in [shouted, configured] {
        s3.put(&Key::from("a"), "bytes".into(), &put()).await.unwrap();
    }
    let sum = "277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9";
    for asked in server.asked() {
        assert_eq!(asked.header("x-amz-content-sha256"), sum);
    }
}

#[tokio::test]
async fn a_copy_in_parts_is_made_on_the_same_terms() {
    let server = Recording::start(&[OBJECT, BEGUN, PART, PART, DONE]).await;
    let s3 = s3(&server, terms()).await;
    let (from, to) = (Key::from("a"), Key::from("b.bam"));
    let version = Version::new("\"1\"");
    let original = Original { key: &from, version: &version, size: 20 };
    s3.copy(original, &to, &Condition::Always).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 5);
    check(&asked[1], &[&each()[..], &new(), &tags()].concat());
    assert!(asked.iter().all(|asked| asked.header("x-amz-request-payer") == "requester"));
}

#[tokio::test]
async fn a_copy_in_parts_keeps_the_tags_of_its_source() {
    let tags = |set: &str| format!("200 OK\r\n\r\n<Tagging><TagSet>{set}</TagSet></Tagging>");
    let theirs =
        tags("<Tag><Key>owner</Key><Value>a lab</Value></Tag><Tag><Key>n</Key><Value/></Tag>");
    let unknown = "501 No\r\n\r\n<Error><Code>NotImplemented</Code></Error>".to_owned();
    let denied = "403 No\r\n\r\n<Error><Code>AccessDenied</Code></Error>".to_owned();
    for (answer, want) in
        [(theirs, "owner=a%20lab&n="), (tags(""), ""), (unknown, ""), (denied, "")]
    {
        let server = Recording::start(&[OBJECT, &answer, BEGUN, PART, PART, DONE]).await;
        let s3 = s3(&server, S3Terms::default()).await;
        let (from, to) = (Key::from("a"), Key::from("b"));
        let version = Version::new("\"1\"");
        let original = Original { key: &from, version: &version, size: 20 };
        s3.copy(original, &to, &Condition::Always).await.unwrap();
        let asked = server.asked();
        assert!(asked[1].line.contains("tagging"), "{}", asked[1].line);
        assert_eq!(asked[2].header("x-amz-tagging"), want, "{answer}");
    }
}
