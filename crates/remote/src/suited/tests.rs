//! What is done at stores that lack something, request by request.

use std::sync::Arc;

use base::{ByteRange, SystemClock};

use super::Suited;
use crate::capabilities::{Capability, Has, Learned};
use crate::http::recording::Recording;
use crate::{
    Addressing, Condition, Credentials, ErrorKind, Key, Metadata, Original, PartCopies, PartNumber,
    PartTag, PutOptions, Remote as _, S3, S3Options, UploadId, Version, probe,
};

const NOT_IMPLEMENTED: &str =
    "501 No\r\n\r\n<Error><Code>NotImplemented</Code><Message>a header</Message></Error>";
const REFUSED: &str = "412 No\r\n\r\n<Error><Code>PreconditionFailed</Code></Error>";
const WRITTEN: &str = "200 OK\r\netag: \"1\"\r\n\r\n";
const DONE: &str = "200 OK\r\n\r\n<CompleteMultipartUploadResult><ETag>\"1\"</ETag></CompleteMultipartUploadResult>";
const THERE: &str = "200 OK\r\netag: \"1\"\r\n\r\n";
const MISSING: &str = "404 No\r\n\r\n";
const REMOVED: &str = "204 OK\r\n\r\n";

async fn s3(server: &Recording) -> S3 {
    let options = S3Options {
        endpoint: Some(server.url().to_owned()),
        region: Some("eu-west-3".to_owned()),
        addressing: Addressing::Path,
        credentials: Credentials::Anonymous,
        ..S3Options::new("bucket")
    };
    S3::connect(options, Arc::new(SystemClock::new())).await.unwrap()
}

async fn suited(server: &Recording) -> (Suited, Arc<Learned>) {
    let s3 = s3(server).await;
    let learned = Arc::clone(s3.learned());
    (Suited::new(Arc::new(s3), Arc::clone(&learned)), learned)
}

fn put(condition: Condition) -> PutOptions {
    PutOptions { condition, metadata: Metadata::new() }
}

/// The methods and conditions of what was asked.
fn asked(server: &Recording) -> Vec<String> {
    let shown = server.asked().into_iter().map(|asked| {
        let method = asked.line.split(' ').next().unwrap_or_default().to_owned();
        let [absent, version] = ["if-none-match", "if-match"].map(|name| asked.header(name));
        format!("{method} {absent}{version}").trim().to_owned()
    });
    shown.collect()
}

#[tokio::test]
async fn a_condition_that_the_store_does_not_know_is_looked_after_here_from_then_on() {
    // With a checksum, and without: which of the two it does not know only a second try tells.
    let answers = [NOT_IMPLEMENTED, NOT_IMPLEMENTED, MISSING, WRITTEN, THERE];
    let server = Recording::start(&answers).await;
    let (store, learned) = suited(&server).await;
    let key = Key::from("a");
    store.put(&key, "bytes".into(), &put(Condition::Absent)).await.unwrap();
    let taken = store.put(&key, "bytes".into(), &put(Condition::Absent)).await.unwrap_err();
    assert_eq!(taken.kind, ErrorKind::Changed);
    assert!(learned.lacks(Capability::PutIfAbsent));
    assert_eq!(asked(&server), ["PUT *", "PUT *", "HEAD", "PUT", "HEAD"]);
}

#[tokio::test]
async fn what_is_not_there_is_told_from_what_may_not_be_seen_where_a_listing_tells() {
    const HIDDEN: &str =
        "403 No\r\n\r\n<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
    const HIDDEN_HEAD: &str = "403 No\r\n\r\n";
    const EMPTY: &str =
        "200 OK\r\n\r\n<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    const LISTED: &str = "200 OK\r\n\r\n<ListBucketResult><IsTruncated>false</IsTruncated><Contents>\
        <Key>team/a</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"1\"</ETag>\
        <Size>1</Size></Contents></ListBucketResult>";
    let key = Key::from("team/a");
    for (listed, want) in
        [(EMPTY, ErrorKind::NotFound), (LISTED, ErrorKind::Denied), (HIDDEN, ErrorKind::Denied)]
    {
        let server = Recording::start(&[HIDDEN_HEAD, listed, HIDDEN, listed]).await;
        let (store, _) = suited(&server).await;
        assert_eq!(store.head(&key).await.unwrap_err().kind, want);
        assert_eq!(store.get_whole(&key, None, 9).await.unwrap_err().kind, want);
        assert_eq!(asked(&server), ["HEAD", "GET", "GET", "GET"]);
    }
}

#[tokio::test]
async fn an_upload_in_parts_is_ended_under_a_condition_that_is_looked_after_here() {
    let server = Recording::start(&[NOT_IMPLEMENTED, THERE, DONE, THERE]).await;
    let (store, learned) = suited(&server).await;
    let (key, upload) = (Key::from("a"), UploadId("u".to_owned()));
    let parts = [(PartNumber(1), PartTag("\"1\"".to_owned()))];
    let is = |version| Condition::Is(Version::new(version));
    store.upload_complete(&key, &upload, &parts, &is("\"1\"")).await.unwrap();
    let other = store.upload_complete(&key, &upload, &parts, &is("\"2\"")).await.unwrap_err();
    assert_eq!(other.kind, ErrorKind::Changed);
    assert!(learned.lacks(Capability::CompleteIfMatch));
    assert!(!learned.lacks(Capability::PutIfMatch), "that is another request");
    assert_eq!(asked(&server), ["POST \"1\"", "HEAD", "POST", "HEAD"]);
}

#[tokio::test]
async fn a_store_that_refuses_keeps_to_conditions_and_is_left_to_it() {
    let server = Recording::start(&[REFUSED, WRITTEN]).await;
    let (store, learned) = suited(&server).await;
    let key = Key::from("a");
    let taken = store.put(&key, "1".into(), &put(Condition::Absent)).await.unwrap_err();
    assert_eq!(taken.kind, ErrorKind::Changed);
    assert_eq!(learned.known(), [(Capability::PutIfAbsent, Has::Yes)]);
    store.put(&key, "1".into(), &put(Condition::Absent)).await.unwrap();
    assert_eq!(asked(&server), ["PUT *", "PUT *"]);
}

#[tokio::test]
async fn parts_that_the_store_does_not_copy_are_not_asked_for_again() {
    // Some stores say it by the status alone.
    for answer in [NOT_IMPLEMENTED, "501 No\r\n\r\n"] {
        let server = Recording::start(&[answer]).await;
        let (store, learned) = suited(&server).await;
        assert_ne!(store.personality().part_copies, PartCopies::None);
        let (key, version) = (Key::from("a"), Version::new("\"1\""));
        let upload = UploadId("u".to_owned());
        let original = Original { key: &key, version: &version, size: 9 };
        let range = ByteRange::new(0, 9).unwrap();
        let copied = store.upload_part_copy(&key, &upload, PartNumber(1), original, range).await;
        assert_eq!(copied.unwrap_err().kind, ErrorKind::Unsupported);
        assert!(learned.lacks(Capability::PartCopy), "{answer}");
        assert_eq!(store.personality().part_copies, PartCopies::None);
    }
}

#[tokio::test]
async fn checksums_that_the_store_does_not_take_are_not_sent_again() {
    let server = Recording::start(&[NOT_IMPLEMENTED, WRITTEN, WRITTEN]).await;
    let (store, learned) = suited(&server).await;
    for _ in 0..2 {
        store.put(&Key::from("a"), "1".into(), &put(Condition::Absent)).await.unwrap();
    }
    assert_eq!(learned.known(), [(Capability::UploadChecksum, Has::No)]);
    let sums: Vec<bool> = server
        .asked()
        .iter()
        .map(|asked| !asked.header("x-amz-checksum-crc32c").is_empty())
        .collect();
    assert_eq!(sums, [true, false, false]);
}

#[tokio::test]
async fn checksums_that_come_are_known_to_come() {
    let written = "200 OK\r\netag: \"1\"\r\nx-amz-checksum-crc32c: 4waSgw==\r\n\r\n";
    let read = "206 OK\r\netag: \"1\"\r\ncontent-range: bytes 0-8/9\r\nx-amz-checksum-crc64nvme: rosUhgp5mIg=\r\n\r\n123456789";
    let server = Recording::start(&[written, read]).await;
    let (store, learned) = suited(&server).await;
    let key = Key::from("a");
    store.put(&key, "123456789".into(), &put(Condition::Always)).await.unwrap();
    assert!(store.get(&key, ByteRange::new(0, 9).unwrap(), None).await.is_ok());
    let want = [(Capability::UploadChecksum, Has::Yes), (Capability::Crc64NvmeGiven, Has::Yes)];
    assert_eq!(learned.known(), want);
}

#[tokio::test]
async fn a_copy_under_a_condition_that_the_store_does_not_know_is_looked_after_here() {
    let copied = "200 OK\r\n\r\n<CopyObjectResult><ETag>\"2\"</ETag></CopyObjectResult>";
    let server =
        Recording::start(&[NOT_IMPLEMENTED, MISSING, copied, NOT_IMPLEMENTED, THERE]).await;
    let (store, _) = suited(&server).await;
    let (from, to, version) = (Key::from("a"), Key::from("b"), Version::new("\"1\""));
    let original = Original { key: &from, version: &version, size: 9 };
    store.copy(original, &to, &Condition::Absent).await.unwrap();
    let taken = store.copy(original, &to, &Condition::Absent).await.unwrap_err();
    assert_eq!(taken.kind, ErrorKind::Changed);
    assert_eq!(asked(&server), ["PUT *", "HEAD", "PUT", "PUT *", "HEAD"]);
}

/// Probes a store that gives these answers.
async fn probed(answers: &[&str]) -> (Vec<String>, Vec<(Capability, Has)>) {
    let server = Recording::start(answers).await;
    let s3 = s3(&server).await;
    probe(&s3, &Key::from("check"), &UploadId("u".to_owned()), s3.learned()).await;
    (asked(&server), s3.learned().known())
}

#[tokio::test]
async fn a_store_that_keeps_to_conditions_is_left_as_it_was() {
    let (asked, known) = probed(&[REFUSED, WRITTEN, REFUSED]).await;
    let none = "\"00000000000000000000000000000000\"";
    assert_eq!(asked, [format!("PUT {none}"), "PUT".to_owned(), format!("POST {none}")]);
    let want = [(Capability::PutIfMatch, Has::Yes), (Capability::CompleteIfMatch, Has::Yes)];
    assert_eq!(known, want);
}

#[tokio::test]
async fn a_store_that_ignores_conditions_is_found_out_and_cleaned() {
    let answers = [WRITTEN, WRITTEN, REMOVED, WRITTEN, DONE, REMOVED];
    let (asked, known) = probed(&answers).await;
    let methods: Vec<&str> = asked.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(methods, ["PUT", "PUT", "DELETE", "PUT", "POST", "DELETE"]);
    let lacks = [Capability::PutIfAbsent, Capability::PutIfMatch, Capability::CompleteIfMatch];
    assert_eq!(known, lacks.map(|capability| (capability, Has::No)));
}

#[tokio::test]
async fn who_may_not_write_finds_nothing_out() {
    let denied = "403 No\r\n\r\n<Error><Code>AccessDenied</Code></Error>";
    let (asked, known) = probed(&[denied, denied]).await;
    assert_eq!((asked.len(), known.len()), (2, 0));
}
