//! What Google is asked, word for word: emulators heed half of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aws_smithy_types::base64;
use base::{ByteRange, Clock, Rng, SystemClock, Timestamp};
use bytes::Bytes;
use futures::TryStreamExt as _;
use futures::future::BoxFuture;

use crate::http::recording::Recording;
use crate::{
    Capability, Condition, ErrorKind, Gcs, GcsCredentials, GcsOptions, Has, Key, ListRequest,
    Metadata, Original, PartNumber, PartTag, PutOptions, Remote, Secret, Trouble, Version,
};

const KEY: &str = include_str!("test-key.pem");

const OBJECT: &str = r#"{"name":"a","generation":"7","size":"1","updated":"1994-11-06T08:49:37Z"}"#;

#[tokio::test]
async fn a_page_for_people_is_no_success() {
    let page = "200 OK\r\ncontent-type: text/html; charset=utf-8\r\n\r\n<html>Please log in</html>";
    let server = Recording::start(&[page; 4]).await;
    let gcs = gcs(&server, GcsCredentials::Anonymous);
    let (key, options) =
        (Key::from("a"), PutOptions { condition: Condition::Always, metadata: Metadata::new() });
    let transient = ErrorKind::Transient { retry_after: None };
    // Of these only the status says that they are done.
    assert_eq!(gcs.delete(&key).await.unwrap_err().kind, transient);
    assert_eq!(gcs.put(&key, "bytes".into(), &options).await.unwrap_err().kind, transient);
    assert_eq!(gcs.head(&key).await.unwrap_err().kind, transient);
    let error = gcs.upload_create(&key, &options).await.unwrap_err();
    assert_eq!(error.kind, transient);
    assert!(error.to_string().contains("page"), "{error}");
}

#[tokio::test]
async fn a_copy_names_both_generations_and_goes_on_until_it_is_done() {
    let server = Recording::start(&[
        "200 OK\r\n\r\n{\"done\":false,\"rewriteToken\":\"to/ken\"}",
        "200 OK\r\n\r\n{\"done\":true,\"resource\":{\"generation\":\"9\"}}",
        "412 No\r\n\r\n{}",
    ])
    .await;
    let gcs = gcs(&server, GcsCredentials::Anonymous);
    let (from, to, seven) = (Key::from("a/b"), Key::from("c d"), Version::new("7"));
    let original = Original { key: &from, version: &seven, size: 1 };
    assert_eq!(gcs.copy(original, &to, &Condition::Absent).await.unwrap(), Version::new("9"));
    let late = gcs.copy(original, &to, &Condition::Is(Version::new("8"))).await;
    assert_eq!(late.unwrap_err().kind, ErrorKind::Changed);
    let path = "POST /storage/v1/b/b/o/a%2Fb/rewriteTo/b/b/o/c%20d";
    let fields = "fields=done%2CrewriteToken%2Cresource%28generation%29";
    let first = format!("{path}?ifSourceGenerationMatch=7&ifGenerationMatch=0&{fields}");
    let asked: Vec<String> = server.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(asked[0], first);
    assert_eq!(asked[1], format!("{first}&rewriteToken=to%2Fken"));
    assert_eq!(asked[2], first.replace("ifGenerationMatch=0", "ifGenerationMatch=8"));
}

#[tokio::test]
async fn a_finished_upload_names_the_generations_of_its_parts_and_what_it_replaces() {
    let server = Recording::start(&[
        "200 OK\r\n\r\n{\"generation\":\"1\"}",
        "200 OK\r\n\r\n{\"generation\":\"12\"}",
        "412 No\r\n\r\n{}",
    ])
    .await;
    let gcs = gcs(&server, GcsCredentials::Anonymous);
    let key = Key::from("a");
    let metadata: Metadata = [("mode".to_owned(), "33188".to_owned())].into();
    let options = PutOptions { metadata, condition: Condition::Always };
    let upload = gcs.upload_create(&key, &options).await.unwrap();
    let part = PartNumber(3);
    let tag = gcs.upload_part(&key, &upload, part, "bytes".into()).await.unwrap();
    assert_eq!(tag, PartTag("12".to_owned()));
    let is = Condition::Is(Version::new("5"));
    let done = gcs.upload_complete(&key, &upload, &[(part, tag)], &is).await;
    assert_eq!(done.unwrap_err().kind, ErrorKind::Changed);

    let asked = server.asked();
    assert!(asked[1].body.contains("\"crc32c\""), "{asked:?}");
    assert_eq!(asked[2].line, "POST /storage/v1/b/b/o/a/compose?ifGenerationMatch=5");
    let said: serde_json::Value = serde_json::from_str(&asked[2].body).unwrap();
    let source = &said["sourceObjects"][0];
    assert_eq!(
        (&source["generation"], said["sourceObjects"].as_array().unwrap().len()),
        (&"12".into(), 1)
    );
    let name = source["name"].as_str().unwrap();
    assert!(name.starts_with(".quayfs-parts/") && name.ends_with("/part-00000003"), "{name}");
    assert_eq!(said["destination"]["metadata"]["mode"], "33188");
}

#[tokio::test]
async fn who_may_write_a_folder_only_has_the_parts_of_uploads_there() {
    let written = "200 OK\r\n\r\n{\"generation\":\"1\"}";
    let server =
        Recording::start(&["403 No\r\n\r\n{}", "403 No\r\n\r\n{}", written, written, written])
            .await;
    let client = gcs(&server, GcsCredentials::Anonymous);
    let options = PutOptions { metadata: Metadata::new(), condition: Condition::Always };
    let begin = async |key: &str| client.upload_create(&Key::from(key), &options).await;
    for refused in ["check", "data/check"] {
        assert_eq!(begin(refused).await.unwrap_err().kind, ErrorKind::Denied, "{refused}");
    }
    begin("team/check").await.unwrap();
    let upload = begin("team/runs/file").await.unwrap();
    // As after a crash.
    let another = gcs(&server, GcsCredentials::Anonymous);
    let key = Key::from("team/runs/file");
    another.upload_part(&key, &upload, PartNumber(3), "bytes".into()).await.unwrap();

    let asked = server.asked();
    let name = |body: &str| {
        let (_, rest) = body.split_once("\"name\":\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let names: Vec<_> = asked.iter().map(|asked| name(&asked.body)).collect();
    let folder = |name: &String| name.split_once(".quayfs-parts/").unwrap().0.to_owned();
    let folders: Vec<_> = names.iter().map(folder).collect();
    assert_eq!(folders, ["", "data/", "team/", "team/", "team/"], "{names:?}");
}

#[tokio::test]
async fn an_appended_object_is_composed_of_the_generation_that_was_copied() {
    let server = Recording::start(&[
        "200 OK\r\n\r\n{\"generation\":\"1\"}",
        &format!("200 OK\r\n\r\n{OBJECT}"),
        &format!("200 OK\r\n\r\n{OBJECT}"),
        "404 No\r\n\r\n{}",
        &format!("200 OK\r\n\r\n{}", OBJECT.replace("\"7\"", "\"8\"")),
    ])
    .await;
    let gcs = gcs(&server, GcsCredentials::Anonymous);
    let (key, seven) = (Key::from("a"), Version::new("7"));
    let options = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
    let upload = gcs.upload_create(&key, &options).await.unwrap();
    let copy = async |version: &Version| {
        let original = Original { key: &key, version, size: 1 };
        let range = ByteRange::new(0, 1).unwrap();
        gcs.upload_part_copy(&key, &upload, PartNumber(1), original, range).await
    };
    let parts = [(PartNumber(1), copy(&seven).await.unwrap())];
    let stale = copy(&Version::new("6")).await;
    assert_eq!(stale.unwrap_err().kind, ErrorKind::Changed);
    // It is replaced before the end of the upload.
    let done = gcs.upload_complete(&key, &upload, &parts, &Condition::Always).await;
    assert_eq!(done.unwrap_err().kind, ErrorKind::Changed);
    let said: serde_json::Value = serde_json::from_str(&server.asked()[3].body).unwrap();
    assert_eq!(said["sourceObjects"], serde_json::json!([{"name": "a", "generation": "7"}]));
}

#[tokio::test]
async fn a_read_names_the_generation_and_checks_the_bytes() {
    let good = "206 P\r\nx-goog-generation: 7\r\nx-goog-hash: crc32c=4waSgw==,md5=x\r\ncontent-range: bytes 0-8/9\r\n\r\n123456789";
    let server = Recording::start(&[
        good,
        &good.replace("456", "465"),
        "412 No\r\n\r\n",
        "304 Same\r\n\r\n",
    ])
    .await;
    let gcs = gcs(&server, GcsCredentials::Anonymous);
    let (key, range, seven) = (Key::from("a"), ByteRange::new(0, 9).unwrap(), Version::new("7"));
    let read = || async {
        let body = gcs.get(&key, range, Some(&seven)).await?;
        body.try_collect::<Vec<Bytes>>().await
    };
    assert_eq!(read().await.unwrap().concat(), b"123456789");
    assert_eq!(read().await.unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!(read().await.unwrap_err().kind, ErrorKind::Changed);
    let asked = &server.asked()[0];
    assert_eq!(asked.line, "GET /storage/v1/b/b/o/a?alt=media&ifGenerationMatch=7");
    assert_eq!((asked.header("range"), asked.header("accept-encoding")), ("bytes=0-8", "gzip"));
}

#[tokio::test]
async fn a_listing_begins_where_it_is_asked_to() {
    let server =
        Recording::start(&["200 OK\r\n\r\n{\"kind\":\"storage#objects\",\"items\":[]}"]).await;
    let gcs = gcs(&server, GcsCredentials::Anonymous);
    let request = ListRequest {
        prefix: Key::from("p/"),
        delimited: true,
        start_after: Some(Key::from("p/ü")),
        continuation: None,
        entries_max: 7,
    };
    gcs.list(&request).await.unwrap();
    let line = &server.asked()[0].line;
    for part in ["/o?prefix=p%2F&maxResults=7&", "&delimiter=%2F", "&startOffset=p%2F%C3%BC"] {
        assert!(line.contains(part), "{line}");
    }
}

#[tokio::test]
async fn a_service_account_signs_for_a_token_that_is_used_until_it_ends() {
    let tokens = Recording::start(&[
        "200 OK\r\n\r\n{\"access_token\":\"first\",\"expires_in\":3600,\"token_type\":\"Bearer\"}",
        "200 OK\r\n\r\n{\"access_token\":\"second\",\"expires_in\":3600}",
    ])
    .await;
    let file = serde_json::json!({
        "type": "service_account",
        "client_email": "me@project",
        "private_key_id": "k",
        "private_key": KEY,
        "token_uri": format!("{}/token", tokens.url()),
    });
    let object = format!("200 OK\r\n\r\n{OBJECT}");
    let server = Recording::start(&[&object, &object, &object]).await;
    let clock = Arc::new(Shifted { real: SystemClock::new(), by_secs: AtomicI64::new(0) });
    let credentials = GcsCredentials::from_file(&file.to_string(), read).unwrap();
    let gcs = with_clock(&server, credentials, Arc::<Shifted>::clone(&clock));
    for seconds in [0, 3000, 500] {
        clock.by_secs.fetch_add(seconds, Ordering::Relaxed);
        gcs.head(&Key::from("a")).await.unwrap();
    }
    let used: Vec<String> =
        server.asked().iter().map(|asked| asked.header("authorization").to_owned()).collect();
    assert_eq!(used, ["Bearer first", "Bearer first", "Bearer second"]);

    let form = &tokens.asked()[0].body;
    assert!(form.starts_with(
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
    ));
    let assertion = form.rsplit_once('=').unwrap().1;
    check_assertion(assertion, &format!("{}/token", tokens.url()));
}

/// An assertion is signed by the test's key and says who asks for what.
fn check_assertion(assertion: &str, audience: &str) {
    use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    let decode = |text: &str| {
        let text = text.replace('-', "+").replace('_', "/");
        base64::decode(format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4))).unwrap()
    };
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let inside: String = KEY.lines().filter(|line| !line.starts_with('-')).collect();
    let key = ring::rsa::KeyPair::from_pkcs8(&base64::decode(inside).unwrap()).unwrap();
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
    key.verify(signed.as_bytes(), &decode(signature)).unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let json = |text: &str| serde_json::from_slice::<serde_json::Value>(&decode(text)).unwrap();
    assert_eq!(json(header), serde_json::json!({"alg": "RS256", "typ": "JWT", "kid": "k"}));
    let claims = json(claims);
    assert_eq!((&claims["iss"], &claims["aud"]), (&"me@project".into(), &audience.into()));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3600);
}

#[tokio::test]
async fn a_token_that_the_store_does_not_take_any_more_is_replaced() {
    let machine = Recording::start(&[
        "200 OK\r\n\r\n{\"access_token\":\"first\",\"expires_in\":3600}",
        "200 OK\r\n\r\n{\"access_token\":\"second\",\"expires_in\":3600}",
    ])
    .await;
    let server = Recording::start(&["401 No\r\n\r\n{}", &format!("200 OK\r\n\r\n{OBJECT}")]).await;
    let gcs = gcs(&server, GcsCredentials::Machine(machine.url().to_owned()));
    gcs.head(&Key::from("a")).await.unwrap();
    let used: Vec<String> =
        server.asked().iter().map(|asked| asked.header("authorization").to_owned()).collect();
    assert_eq!(used, ["Bearer first", "Bearer second"]);
    let asked = &machine.asked()[0];
    let path = "GET /computeMetadata/v1/instance/service-accounts/default/token";
    assert_eq!((&asked.line[..], asked.header("metadata-flavor")), (path, "Google"));
}

#[tokio::test]
async fn many_calls_at_once_ask_for_one_token() {
    let tokens =
        Recording::start(&["200 OK\r\n\r\n{\"access_token\":\"one\",\"expires_in\":3600}"]).await;
    let object = format!("200 OK\r\n\r\n{OBJECT}");
    let server = Recording::start(&[&object[..]; 8]).await;
    let gcs = gcs(&server, user(&tokens));
    let key = Key::from("a");
    let heads = (0..8).map(|_| gcs.head(&key));
    futures::future::try_join_all(heads).await.unwrap();
    let form = &tokens.asked()[0].body;
    assert_eq!(
        form,
        "grant_type=refresh_token&client_id=id&client_secret=hu%2Fsh&refresh_token=hu%2Fsh"
    );
}

#[tokio::test]
async fn a_login_that_has_ended_is_told_without_its_secrets() {
    let tokens = Recording::start(&[
        "400 No\r\n\r\n{\"error\":\"invalid_grant\",\"error_description\":\"Token has been expired or revoked.\"}",
        "503 No\r\n\r\n",
    ])
    .await;
    let server = Recording::start(&[]).await;
    let gcs = gcs(&server, user(&tokens));
    let error = gcs.head(&Key::from("a")).await.unwrap_err();
    assert_eq!((error.kind, error.trouble()), (ErrorKind::Denied, Trouble::BadCredentials));
    let shown = format!("{error} {error:?} {gcs:?}");
    assert!(shown.contains("expired or revoked") && !shown.contains("hu/sh"), "{shown}");
    // Who hands out tokens may be down for a moment.
    let error = gcs.head(&Key::from("a")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient { retry_after: None });
}

#[tokio::test]
async fn a_fixed_token_is_sent_and_not_shown() {
    let server = Recording::start(&["401 No\r\n\r\n{\"error\":{\"message\":\"Invalid\"}}"]).await;
    let gcs = gcs(&server, GcsCredentials::Token(Secret::new("hush")));
    let error = gcs.head(&Key::from("a")).await.unwrap_err();
    assert_eq!((error.kind, error.trouble()), (ErrorKind::Denied, Trouble::BadCredentials));
    assert_eq!(server.asked()[0].header("authorization"), "Bearer hush");
    let shown = format!("{error} {error:?} {gcs:?}");
    assert!(!shown.contains("hush"), "{shown}");
}

/// What a pod has in its file, which somebody renews.
#[expect(clippy::unnecessary_wraps, reason = "files may be missing")]
fn read(path: &Path) -> std::io::Result<String> {
    static TIMES: AtomicI64 = AtomicI64::new(0);
    assert_eq!(path, Path::new("/run/token"));
    Ok(format!("pod/{}\n", TIMES.fetch_add(1, Ordering::Relaxed)))
}

#[tokio::test]
async fn a_pod_is_vouched_for_by_its_cluster_and_acts_for_an_account() {
    let exchange = Recording::start(
        &["200 OK\r\n\r\n{\"access_token\":\"federated\",\"expires_in\":3600}"; 2],
    )
    .await;
    let ends = "2100-01-01T00:00:00Z";
    let given = |name: &str, ends: &str| {
        format!("200 OK\r\n\r\n{{\"accessToken\":\"{name}\",\"expireTime\":\"{ends}\"}}")
    };
    let account =
        Recording::start(&[&given("first", "2001-01-01T00:00:00Z"), &given("second", ends)]).await;
    let file = serde_json::json!({
        "type": "external_account",
        "audience": "//iam.googleapis.com/pool",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": format!("{}/v1/token", exchange.url()),
        "credential_source": {"file": "/run/token"},
        "service_account_impersonation_url":
            format!("{}/v1/projects/-/serviceAccounts/lab@p:generateAccessToken", account.url()),
    });
    let object = format!("200 OK\r\n\r\n{OBJECT}");
    let server = Recording::start(&[&object[..]; 3]).await;
    let gcs = gcs(&server, GcsCredentials::from_file(&file.to_string(), read).unwrap());
    for _ in 0..3 {
        gcs.head(&Key::from("a")).await.unwrap();
    }
    let used: Vec<String> =
        server.asked().iter().map(|asked| asked.header("authorization").to_owned()).collect();
    assert_eq!(used, ["Bearer first", "Bearer second", "Bearer second"], "the first has ended");
    let asked = exchange.asked();
    let want = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange\
        &audience=%2F%2Fiam.googleapis.com%2Fpool\
        &scope=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform\
        &requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token\
        &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt&subject_token=pod%2F";
    assert_eq!(
        (&asked[0].line[..], &asked[0].body[..]),
        ("POST /v1/token", &format!("{want}0")[..])
    );
    assert_eq!(asked[1].body, format!("{want}1"), "the file is read again");
    let asked = &account.asked()[0];
    assert_eq!(asked.line, "POST /v1/projects/-/serviceAccounts/lab@p:generateAccessToken");
    assert_eq!(asked.header("authorization"), "Bearer federated");
    assert!(asked.body.contains("devstorage.read_write"), "{}", asked.body);
}

#[tokio::test]
async fn who_vouches_may_be_asked_at_a_url_and_answer_in_an_object() {
    let other = Recording::start(&["200 OK\r\n\r\n{\"id\":\"theirs\"}", "200 OK\r\n\r\n{}"]).await;
    let exchange =
        Recording::start(&["200 OK\r\n\r\n{\"access_token\":\"ours\",\"expires_in\":1}"]).await;
    let file = serde_json::json!({
        "type": "external_account",
        "audience": "a",
        "subject_token_type": "t",
        "token_url": exchange.url(),
        "credential_source": {
            "url": format!("{}/token", other.url()),
            "headers": {"Metadata": "True"},
            "format": {"type": "json", "subject_token_field_name": "id"},
        },
    });
    let server = Recording::start(&[&format!("200 OK\r\n\r\n{OBJECT}")]).await;
    let gcs = gcs(&server, GcsCredentials::from_file(&file.to_string(), read).unwrap());
    gcs.head(&Key::from("a")).await.unwrap();
    assert_eq!(other.asked()[0].header("metadata"), "True");
    assert!(exchange.asked()[0].body.ends_with("&subject_token=theirs"));
    let error = gcs.head(&Key::from("a")).await.unwrap_err();
    assert_eq!((error.kind, error.trouble()), (ErrorKind::Denied, Trouble::BadCredentials));
}

#[tokio::test]
async fn an_error_that_comes_as_a_success_is_asked_about_again() {
    let error =
        "200 OK\r\ncontent-type: application/xml\r\n\r\n<Error><Code>InternalError</Code></Error>";
    let server = Recording::start(&[error; 2]).await;
    let gcs = gcs(&server, GcsCredentials::Anonymous);
    let (key, options) =
        (Key::from("a"), PutOptions { condition: Condition::Always, metadata: Metadata::new() });
    let transient = ErrorKind::Transient { retry_after: None };
    assert_eq!(gcs.put(&key, "bytes".into(), &options).await.unwrap_err().kind, transient);
    assert_eq!(gcs.head(&key).await.unwrap_err().kind, transient);
}

#[tokio::test]
async fn all_buckets_of_a_project_are_told_page_by_page() {
    let server = Recording::start(&[
        "200 OK\r\n\r\n{\"items\":[{\"name\":\"one\"}],\"nextPageToken\":\"to/ken\"}",
        "200 OK\r\n\r\n{\"items\":[{\"name\":\"two\"}]}",
        "200 OK\r\n\r\n<html>",
    ])
    .await;
    let credentials = GcsCredentials::Token(Secret::new("hush"));
    let options =
        GcsOptions { endpoint: Some(server.url().to_owned()), ..GcsOptions::new("", credentials) };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let buckets = Gcs::buckets(&options, "our project", Arc::clone(&clock)).await;
    assert_eq!(buckets.unwrap(), ["one", "two"]);
    let asked = server.asked();
    let start = "GET /storage/v1/b?project=our%20project&maxResults=1000";
    assert!(asked[0].line.starts_with(start), "{}", asked[0].line);
    assert!(asked[1].line.ends_with("&pageToken=to%2Fken"), "{}", asked[1].line);
    assert_eq!(asked[0].header("authorization"), "Bearer hush");
    let garbled = Gcs::buckets(&options, "p", clock).await.unwrap_err();
    assert_eq!(garbled.kind, ErrorKind::Corrupt);
}

fn user(tokens: &Recording) -> GcsCredentials {
    let file = serde_json::json!({
        "type": "authorized_user",
        "client_id": "id",
        "client_secret": "hu/sh",
        "refresh_token": "hu/sh",
        "token_uri": tokens.url(),
    });
    GcsCredentials::from_file(&file.to_string(), read).unwrap()
}

fn gcs(server: &Recording, credentials: GcsCredentials) -> Gcs {
    with_clock(server, credentials, Arc::new(SystemClock::new()))
}

/// A clock whose time of day is ahead.
#[derive(Debug)]
struct Shifted {
    real: SystemClock,
    by_secs: AtomicI64,
}

impl Clock for Shifted {
    fn wall(&self) -> Timestamp {
        let real = self.real.wall();
        Timestamp { secs: real.secs + self.by_secs.load(Ordering::Relaxed), ..real }
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic()
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        self.real.sleep(delay)
    }
}

fn with_clock(server: &Recording, credentials: GcsCredentials, clock: Arc<dyn Clock>) -> Gcs {
    let options =
        GcsOptions { endpoint: Some(server.url().to_owned()), ..GcsOptions::new("b", credentials) };
    let gcs = Gcs::connect(&options, clock, Arc::new(Rng::seeded(1))).unwrap();
    // `recorded_folders` is about the others.
    gcs.learned().learn(Capability::RealFolders, Has::No);
    gcs
}
