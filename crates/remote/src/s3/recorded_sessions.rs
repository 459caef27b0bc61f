//! What directory buckets are asked, word for word. No emulator has any.

use std::sync::Arc;
use std::time::Duration;

use super::movable::Movable;
use crate::http::recording::{Asked, Recording};
use crate::{
    Capability, Condition, Credentials, Encryption, ErrorKind, Key, ListOrder, ListRequest,
    Metadata, Moves, Original, PartNumbers, PutOptions, Remote, S3, S3Options, S3Terms, Trouble,
    Version,
};

const BUCKET: &str = "lab--usw2-az1--x-s3";
const OBJECT: &str = "200 OK\r\netag: \"1\"\r\n\r\nbytes";
const PUT: &str = "200 OK\r\netag: \"1\"\r\n\r\n";
const NOTHING: &str = "204 Gone\r\n\r\n";
const GONE: &str = "404 No\r\n\r\n";
const LOST: &str = "500 No\r\n\r\n";
const ENDED: &str = "400 No\r\n\r\n<Error><Code>ExpiredToken</Code></Error>";

/// A session that ends so many minutes after 22:00; the clock begins at 22:13:20.
fn session(name: &str, minute: u32) -> String {
    format!(
        "200 OK\r\n\r\n<CreateSessionResult><Credentials><SessionToken>{name} token</SessionToken>\
         <SecretAccessKey>hush</SecretAccessKey><AccessKeyId>{name}</AccessKeyId>\
         <Expiration>2023-11-14T22:{minute}:20Z</Expiration></Credentials></CreateSessionResult>"
    )
}

fn options(server: &Recording, terms: S3Terms) -> S3Options {
    S3Options {
        endpoint: Some(server.url().to_owned()),
        credentials: Credentials::Static {
            access_key_id: "account".to_owned(),
            secret_access_key: "hush".to_owned(),
            session_token: Some("account token".to_owned()),
        },
        terms,
        ..S3Options::new(BUCKET)
    }
}

async fn s3(server: &Recording, clock: &Arc<Movable>) -> S3 {
    let clock = Arc::clone(clock) as _;
    S3::connect(options(server, S3Terms::default()), clock).await.unwrap()
}

fn put() -> PutOptions {
    PutOptions { condition: Condition::Always, metadata: Metadata::new() }
}

/// Whether a request is signed for directory buckets, as `who`.
fn check(asked: &Asked, line: &str, who: &str) {
    assert_eq!(asked.line, line);
    let authorization = asked.header("authorization");
    let scope = format!("Credential={who}/");
    assert!(authorization.contains(&scope), "{line}: {authorization}");
    assert!(authorization.contains("/us-west-2/s3express/aws4_request"), "{line}: {authorization}");
    let (ours, other) = match who {
        "account" => ("x-amz-security-token", "x-amz-s3session-token"),
        _ => ("x-amz-s3session-token", "x-amz-security-token"),
    };
    let token = format!("{who} token");
    assert_eq!((asked.header(ours), asked.header(other)), (&token[..], ""), "{line}");
    assert!(authorization.contains(ours), "{line}: {authorization}");
}

#[tokio::test]
async fn both_ways_of_asking_share_a_session_and_copies_are_the_accounts() {
    let copied = "200 OK\r\n\r\n<CopyObjectResult><ETag>\"1\"</ETag></CopyObjectResult>";
    let server = Recording::start(&[&session("one", 18), OBJECT, PUT, NOTHING, copied]).await;
    let s3 = s3(&server, &Movable::new()).await;
    let (key, to) = (Key::from("a b"), Key::from("c"));
    let version = s3.head(&key).await.unwrap().version;
    s3.put(&key, "bytes".into(), &put()).await.unwrap();
    s3.delete(&key).await.unwrap();
    let original = Original { key: &key, version: &version, size: 5 };
    s3.copy(original, &to, &Condition::Always).await.unwrap();
    let asked = server.asked();
    let at = |rest: &str| format!("/{BUCKET}/{rest}");
    check(&asked[0], &format!("GET {}", at("?session")), "account");
    check(&asked[1], &format!("HEAD {}", at("a%20b")), "one");
    check(&asked[2], &format!("PUT {}", at("a%20b")), "one");
    check(&asked[3], &format!("DELETE {}", at("a%20b?x-id=DeleteObject")), "one");
    check(&asked[4], &format!("PUT {}", at("c?x-id=CopyObject")), "account");
    assert_eq!(asked.len(), 5);
}

#[tokio::test]
async fn a_session_is_followed_by_another_before_it_ends() {
    let server =
        Recording::start(&[&session("one", 18), OBJECT, OBJECT, &session("two", 22), OBJECT]).await;
    let clock = Movable::new();
    let s3 = s3(&server, &clock).await;
    let key = Key::from("a");
    for minutes in [0, 3, 2] {
        clock.advance(Duration::from_mins(minutes));
        s3.head(&key).await.unwrap();
    }
    let asked = server.asked();
    assert_eq!(asked[2].header("x-amz-s3session-token"), "one token");
    assert!(asked[3].line.ends_with("?session"));
    assert_eq!(asked[4].header("x-amz-s3session-token"), "two token");
}

#[tokio::test]
async fn a_session_that_is_refused_is_followed_by_another_whichever_way_it_was_used() {
    let sessions = [session("one", 18), session("two", 18), session("three", 18)];
    let server = Recording::start(&[
        &sessions[0],
        OBJECT,
        ENDED,
        &sessions[1],
        OBJECT,
        ENDED,
        &sessions[2],
        NOTHING,
    ])
    .await;
    let clock = Movable::new();
    let s3 = s3(&server, &clock).await;
    let key = Key::from("a");
    s3.head(&key).await.unwrap();
    clock.advance(Duration::from_secs(11));
    let refused = s3.put(&key, "bytes".into(), &put()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Transient { retry_after: None }, "{refused}");
    s3.head(&key).await.unwrap();
    clock.advance(Duration::from_secs(11));
    let refused = s3.delete(&key).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Transient { retry_after: None }, "{refused}");
    s3.delete(&key).await.unwrap();
    assert_eq!(server.asked()[7].header("x-amz-s3session-token"), "three token");
}

#[tokio::test]
async fn who_gets_no_session_hears_why() {
    let error = |status: &str, code: &str| {
        format!("{status} No\r\n\r\n<Error><Code>{code}</Code><Message>why</Message></Error>")
    };
    let transient = ErrorKind::Transient { retry_after: None };
    for (answer, kind, trouble) in [
        (error("403", "AccessDenied"), ErrorKind::Denied, Trouble::Denied),
        (error("404", "NoSuchBucket"), ErrorKind::NotFound, Trouble::NoBucket),
        (error("403", "InvalidAccessKeyId"), ErrorKind::Denied, Trouble::UnknownKey),
        (error("503", "SlowDown"), transient, Trouble::Busy),
        (session("one", 18).replace("hush", ""), transient, Trouble::Other),
    ] {
        let server = Recording::start(&[&answer, &answer]).await;
        let s3 = s3(&server, &Movable::new()).await;
        let (straight, by_library) =
            (s3.head(&Key::from("a")).await.unwrap_err(), s3.delete(&Key::from("a")).await);
        for error in [straight, by_library.unwrap_err()] {
            assert_eq!((error.kind, error.trouble()), (kind, trouble), "{error}");
        }
    }
}

#[tokio::test]
async fn how_objects_are_encrypted_is_said_when_the_session_begins() {
    let server = Recording::start(&[&session("one", 18), PUT]).await;
    let encryption = Encryption::Kms { key_id: Some("arn:key".to_owned()) };
    let terms = S3Terms { encryption, ..S3Terms::default() };
    let s3 = S3::connect(options(&server, terms), Movable::new()).await.unwrap();
    s3.put(&Key::from("a"), "bytes".into(), &put()).await.unwrap();
    let asked = server.asked();
    let said = |asked: &Asked| {
        ["x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id"]
            .map(|name| asked.header(name).to_owned())
    };
    assert_eq!(said(&asked[0]), ["aws:kms", "arn:key"]);
    assert_eq!(said(&asked[1]), ["", ""]);
}

#[tokio::test]
async fn what_directory_buckets_lack_is_said_and_what_they_do_not_take_is_refused() {
    let server = Recording::start(&[]).await;
    let s3 = s3(&server, &Movable::new()).await;
    let personality = s3.personality();
    assert_eq!(personality.part_numbers, PartNumbers::Consecutive);
    assert_eq!(personality.naming.order, ListOrder::Unsorted);
    assert_eq!(personality.naming.moves, Moves::Atomic);
    assert!(s3.learned().lacks(Capability::SortedLists));
    let terms = S3Terms { acl: Some("private".to_owned()), ..S3Terms::default() };
    let refused = S3::connect(options(&server, terms), Movable::new()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unsupported);
    assert!(refused.to_string().contains("leave out --acl"), "{refused}");
}

#[tokio::test]
async fn a_folder_is_listed_and_what_begins_otherwise_is_left_out() {
    let page = "200 OK\r\n\r\n<ListBucketResult><IsTruncated>true</IsTruncated>\
        <NextContinuationToken>t</NextContinuationToken>\
        <Contents><Key>d/ab</Key><Size>1</Size><ETag>\"1\"</ETag></Contents>\
        <Contents><Key>d/x</Key><Size>1</Size><ETag>\"1\"</ETag></Contents>\
        <Contents><Key>d/a</Key><Size>1</Size><ETag>\"1\"</ETag></Contents>\
        <CommonPrefixes><Prefix>d/a0/</Prefix></CommonPrefixes></ListBucketResult>";
    let server = Recording::start(&[&session("one", 18), page]).await;
    let s3 = s3(&server, &Movable::new()).await;
    let request = ListRequest {
        prefix: Key::from("d/a"),
        delimited: true,
        start_after: None,
        continuation: None,
        entries_max: 10,
    };
    let listed = s3.list(&request).await.unwrap();
    let keys: Vec<String> = listed.entries.iter().map(|entry| entry.key().to_string()).collect();
    assert_eq!(
        (&keys[..], listed.next.as_deref()),
        (&["d/a", "d/a0/", "d/ab"].map(str::to_owned)[..], Some("t"))
    );
    let line = &server.asked()[1].line;
    assert!(line.contains("prefix=d%2F&"), "{line}");
    let middle = ListRequest { start_after: Some(Key::from("d/b")), ..request };
    assert_eq!(s3.list(&middle).await.unwrap_err().kind, ErrorKind::Unsupported);
}

const NO_PARTS: &str = "200 OK\r\n\r\n<ListPartsResult></ListPartsResult>";

#[tokio::test]
async fn unfinished_uploads_are_looked_for_in_the_folder_in_no_order() {
    let page = |key: &str, more: &str| {
        format!(
            "200 OK\r\n\r\n<ListMultipartUploadsResult><Upload><Key>{key}</Key><UploadId>u{key}</UploadId>\
             <Initiated>2023-11-14T22:13:20Z</Initiated></Upload>{more}</ListMultipartUploadsResult>"
        )
    };
    let more = "<IsTruncated>true</IsTruncated><NextKeyMarker>m%2Fk</NextKeyMarker>";
    let server =
        Recording::start(&[&session("one", 18), &page("d/z", more), &page("d/a", ""), NO_PARTS])
            .await;
    let s3 = s3(&server, &Movable::new()).await;
    let found = s3.uploads(&Key::from("d/a")).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].upload.0[..], found[0].has_parts), ("ud/a", false));
    let asked = server.asked();
    assert!(asked[3].line.contains("/d/a?"), "{}", asked[3].line);
    assert!(asked[3].line.contains("uploadId=ud%2Fa"), "{}", asked[3].line);
    assert!(
        asked[1].line.contains("prefix=d%2F&") || asked[1].line.ends_with("prefix=d%2F"),
        "{}",
        asked[1].line
    );
    assert!(asked[2].line.contains("key-marker=m%2Fk"), "{}", asked[2].line);
    assert!(!asked[2].line.contains("upload-id-marker"), "{}", asked[2].line);
}

#[tokio::test]
async fn an_object_is_renamed_in_one_step() {
    let server = Recording::start(&[&session("one", 18), PUT, OBJECT]).await;
    let s3 = s3(&server, &Movable::new()).await;
    let (from, to, version) = (Key::from("d/a b+ü"), Key::from("e/c d"), Version::new("\"0\""));
    let original = Original { key: &from, version: &version, size: 5 };
    let over = Condition::Is(Version::new("\"9\""));
    assert_eq!(s3.rename(original, &to, &over).await.unwrap(), Version::new("\"1\""));
    let asked = server.asked();
    check(&asked[1], &format!("PUT /{BUCKET}/e/c%20d?renameObject"), "one");
    for (header, value) in [
        ("x-amz-rename-source", "d/a%20b%2B%C3%BC"),
        ("x-amz-rename-source-if-match", "\"0\""),
        ("if-match", "\"9\""),
        ("if-none-match", ""),
        ("content-length", "0"),
    ] {
        assert_eq!(asked[1].header(header), value, "{header}");
    }
    assert_eq!(asked[1].header("x-amz-client-token").len(), 32);
    assert_eq!(asked[2].line, format!("HEAD /{BUCKET}/e/c%20d"));
}

#[tokio::test]
async fn a_rename_whose_answer_is_lost_is_asked_for_again_under_its_token() {
    let answers = [&session("one", 18), LOST, PUT, GONE, OBJECT, PUT, OBJECT];
    let server = Recording::start(&answers).await;
    let s3 = s3(&server, &Movable::new()).await;
    let (from, to, version) = (Key::from("a"), Key::from("b"), Version::new("\"1\""));
    let original = Original { key: &from, version: &version, size: 5 };
    let lost = s3.rename(original, &to, &Condition::Absent).await.unwrap_err();
    assert_eq!(lost.kind, ErrorKind::Transient { retry_after: None });
    s3.rename(original, &to, &Condition::Absent).await.unwrap();
    // It has come back meanwhile, and goes once more: that is another rename.
    s3.rename(original, &to, &Condition::Absent).await.unwrap();
    let asked = server.asked();
    let tokens: Vec<&str> =
        [1, 2, 5].map(|at: usize| asked[at].header("x-amz-client-token")).to_vec();
    assert_eq!(tokens[0], tokens[1]);
    assert_ne!(tokens[1], tokens[2]);
    assert_eq!(asked[1].header("if-none-match"), "*");
    assert_eq!(asked[3].line, format!("HEAD /{BUCKET}/a"), "whether it is gone");
}

#[tokio::test]
async fn a_token_that_the_store_knows_of_an_earlier_rename_is_not_believed() {
    let answers = [&session("one", 18), LOST, PUT, OBJECT, PUT, OBJECT];
    let server = Recording::start(&answers).await;
    let s3 = s3(&server, &Movable::new()).await;
    let (from, to, version) = (Key::from("a"), Key::from("b"), Version::new("\"1\""));
    let original = Original { key: &from, version: &version, size: 5 };
    for _ in 0..2 {
        let unclear = s3.rename(original, &to, &Condition::Always).await.unwrap_err();
        assert_eq!(unclear.kind, ErrorKind::Transient { retry_after: None });
    }
    s3.rename(original, &to, &Condition::Always).await.unwrap();
    let asked = server.asked();
    let token = |at: usize| asked[at].header("x-amz-client-token");
    assert!(token(1) == token(2) && token(2) != token(4));
}

#[tokio::test]
async fn a_rename_that_is_refused_says_what_to_do_next() {
    let refused = "412 No\r\n\r\n<Error><Code>PreconditionFailed</Code></Error>";
    let missing = "404 No\r\n\r\n<Error><Code>NoSuchKey</Code></Error>";
    let unknown = "501 No\r\n\r\n<Error><Code>NotImplemented</Code></Error>";
    let server = Recording::start(&[&session("one", 18), refused, missing, unknown]).await;
    let s3 = s3(&server, &Movable::new()).await;
    let (from, to, version) = (Key::from("a"), Key::from("b"), Version::new("\"1\""));
    let original = Original { key: &from, version: &version, size: 5 };
    for kind in [ErrorKind::Changed, ErrorKind::NotFound, ErrorKind::Unsupported] {
        let error = s3.rename(original, &to, &Condition::Absent).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
    assert_eq!(s3.personality().naming.moves, Moves::Copied, "it is not asked again");
    let marker = s3.rename(original, &Key::from("d/"), &Condition::Absent).await.unwrap_err();
    assert_eq!((marker.kind, server.asked().len()), (ErrorKind::Unsupported, 4));
}
