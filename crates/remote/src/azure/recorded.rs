//! What Azure is asked, word for word: the emulator knows less than the service.

use std::path::Path;
use std::sync::Arc;

use base::{ByteRange, Rng, SystemClock};
use futures::TryStreamExt as _;

use crate::http::recording::Recording;
use crate::{
    Azure, AzureCredentials, AzureOptions, Capability, Condition, Entra, ErrorKind, Has,
    Identified as _, Key, ListRequest, Metadata, Original, PartNumber, Proof, PutOptions, Remote,
    Secret, TokenFile, Trouble, Version,
};

const SAS: &str = "sv=2024-11-04&ss=b&sp=rwl&sig=hu%2Fsh";

#[tokio::test]
async fn a_page_for_people_is_no_success() {
    let page = "200 OK\r\ncontent-type: text/html; charset=utf-8\r\n\r\n<html>Please log in</html>";
    let server = Recording::start(&[page; 4]).await;
    let azure = azure(&server, AzureCredentials::Anonymous);
    let (key, options) =
        (Key::from("a"), PutOptions { condition: Condition::Always, metadata: Metadata::new() });
    let transient = ErrorKind::Transient { retry_after: None };
    // Of these only the status says that they are done.
    assert_eq!(azure.delete(&key).await.unwrap_err().kind, transient);
    assert_eq!(azure.put(&key, "bytes".into(), &options).await.unwrap_err().kind, transient);
    assert_eq!(azure.head(&key).await.unwrap_err().kind, transient);
    let error = azure.upload_create(&key, &options).await.unwrap_err();
    assert_eq!(error.kind, transient);
    assert!(error.to_string().contains("page"), "{error}");
}

#[tokio::test]
async fn a_shared_access_signature_goes_with_every_url_and_into_no_error() {
    let server = Recording::start(&[
        "201 OK\r\netag: \"0x1\"\r\n\r\n",
        "202 OK\r\nx-ms-copy-id: i\r\nx-ms-copy-status: success\r\netag: \"0x2\"\r\n\r\n",
        "403 No\r\nx-ms-error-code: AuthenticationFailed\r\n\r\n<Error><Code>AuthenticationFailed</Code><Message>No.\nsig=hu%2Fsh</Message></Error>",
    ])
    .await;
    let azure = azure(&server, AzureCredentials::Sas(Secret::new(SAS)));
    let (key, to) = (Key::from("a b"), Key::from("c"));
    let options = PutOptions { condition: Condition::Absent, metadata: Metadata::new() };
    let version = azure.put(&key, "123456789".into(), &options).await.unwrap();
    let original = Original { key: &key, version: &version, size: 9 };
    let copied = azure.copy(original, &to, &Condition::Is(Version::new("0x9"))).await;
    assert_eq!(copied.unwrap(), Version::new("0x2"));
    let error = azure.head(&key).await.unwrap_err();
    let shown = format!("{error} {error:?} {azure:?}");
    assert!(shown.contains("AuthenticationFailed") && !shown.contains("hu%2Fsh"), "{shown}");

    let asked = server.asked();
    assert_eq!(asked[0].line, format!("PUT /account/c/a%20b?{SAS}"));
    assert_eq!(asked[0].header("if-none-match"), "*");
    assert_eq!(asked[0].header("x-ms-content-crc64"), "iJh5CoYUi64=");
    assert_eq!(asked[0].header("authorization"), "");
    let source = format!("{}/account/c/a%20b?{SAS}", server.url());
    assert_eq!(asked[1].header("x-ms-copy-source"), source);
    assert_eq!(asked[1].header("x-ms-source-if-match"), "\"0x1\"");
    assert_eq!(asked[1].header("if-match"), "\"0x9\"");
}

#[tokio::test]
async fn a_key_that_is_refused_is_told_from_a_network_that_may_not_come_in() {
    for (words, want) in [
        ("Server failed to authenticate the request. Make sure", Trouble::BadCredentials),
        ("This request is not authorized to perform this operation.", Trouble::Denied),
    ] {
        let refused = format!(
            "403 No\r\n\r\n<Error><Code>AuthorizationFailure</Code><Message>{words}</Message></Error>"
        );
        let server = Recording::start(&[&refused]).await;
        let azure = azure(&server, AzureCredentials::Sas(Secret::new(SAS)));
        let range = ByteRange::new(0, 9).unwrap();
        let error = azure.get(&Key::from("a"), range, None).await.err().unwrap();
        assert_eq!((error.kind, error.trouble()), (ErrorKind::Denied, want));
    }
}

#[tokio::test]
async fn a_copy_is_waited_for_and_is_the_one_that_was_asked_for() {
    let status = |id: &str, status: &str, etag: &str| {
        format!(
            "200 OK\r\nx-ms-copy-id: {id}\r\nx-ms-copy-status: {status}\r\netag: {etag}\r\n\r\n"
        )
    };
    for (last, want) in [
        (status("i", "success", "\"0x3\""), Ok(Version::new("0x3"))),
        (status("other", "success", "\"0x3\""), Err(ErrorKind::Changed)),
        (status("i", "failed", "\"0x3\""), Err(ErrorKind::Transient { retry_after: None })),
    ] {
        let first = status("i", "pending", "\"0x2\"");
        let server = Recording::start(&[&first, &first, &last]).await;
        let azure = azure(&server, AzureCredentials::Anonymous);
        let (from, to) = (Key::from("a"), Key::from("b"));
        let original = Original { key: &from, version: &Version::new("0x1"), size: 1 };
        let copied = azure.copy(original, &to, &Condition::Always).await;
        assert_eq!(copied.map_err(|error| error.kind), want);
        assert_eq!(server.asked()[2].line, "HEAD /account/c/b");
    }
}

#[tokio::test]
async fn blocks_are_taken_up_again_only_over_the_blob_that_has_them() {
    let id = super::blocks::name(1, PartNumber(1));
    let list = format!(
        "200 OK\r\netag: \"0x1\"\r\n\r\n<BlockList><CommittedBlocks><Block><Name>{id}</Name><Size>9</Size></Block></CommittedBlocks></BlockList>"
    );
    let server = Recording::start(&[
        "400 No\r\nx-ms-error-code: Md5Mismatch\r\n\r\n",
        &list,
        "201 OK\r\netag: \"0x2\"\r\n\r\n",
        &list.replace("0x1", "0x3"),
        "200 OK\r\n\r\n<BlockList/>",
    ])
    .await;
    let azure = azure(&server, AzureCredentials::Anonymous);
    let (key, old) = (Key::from("a"), Version::new("0x1"));
    let options = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
    let upload = azure.upload_create(&key, &options).await.unwrap();
    let copy = async |version: &Version, end| {
        let original = Original { key: &key, version, size: 9 };
        let range = ByteRange::new(0, end).unwrap();
        let copied = azure.upload_part_copy(&key, &upload, PartNumber(1), original, range).await;
        copied.map_err(|error| error.kind)
    };
    let tag = copy(&old, 9).await.unwrap();
    // The list is known now.
    assert_eq!(copy(&old, 8).await, Err(ErrorKind::Unsupported));
    let parts = [(PartNumber(1), tag)];
    azure.upload_complete(&key, &upload, &parts, &Condition::Always).await.unwrap();
    assert_eq!(copy(&Version::new("0x2"), 9).await, Err(ErrorKind::Changed));
    assert_eq!(copy(&Version::new("0x4"), 9).await, Err(ErrorKind::NotFound));

    let asked = server.asked();
    assert_eq!(asked[1].line, "GET /account/c/a?comp=blocklist&blocklisttype=committed");
    assert_eq!(asked[2].header("if-match"), "\"0x1\"");
    assert!(asked[2].body.contains(&format!("<Committed>{id}</Committed>")), "{asked:?}");
}

#[tokio::test]
async fn a_listing_begins_where_it_is_asked_to_and_drops_what_comes_before() {
    let page = |names: &[&str], marker: &str| {
        let blob = |name: &&str| {
            format!(
                "<Blob><Name>{name}</Name><Properties><Etag>1</Etag><Content-Length>1</Content-Length>\
                 <Last-Modified>Sun, 06 Nov 1994 08:49:37 GMT</Last-Modified></Properties></Blob>"
            )
        };
        let blobs: Vec<String> = names.iter().map(blob).collect();
        format!(
            "200 OK\r\n\r\n<EnumerationResults><Blobs>{}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>",
            blobs.concat()
        )
    };
    // A service that does not begin where it is asked to.
    let answers = [page(&["p/a", "p/b"], "m1"), page(&["p/b", "p/c"], "m2"), page(&["p/d"], "")];
    let answers: Vec<&str> = answers.iter().map(|answer| &answer[..]).collect();
    let server = Recording::start(&answers).await;
    let azure = azure(&server, AzureCredentials::Anonymous);
    let mut request = ListRequest {
        prefix: Key::from("p/"),
        delimited: true,
        start_after: Some(Key::from("p/b")),
        continuation: None,
        entries_max: 2,
    };
    let mut names = Vec::new();
    loop {
        let page = azure.list(&request).await.unwrap();
        names.extend(page.entries.iter().map(|entry| entry.key().to_string()));
        request.start_after = None;
        match page.next {
            Some(next) => request.continuation = Some(next),
            None => break,
        }
    }
    assert_eq!(names, ["p/c", "p/d"]);
    let first = &server.asked()[0].line;
    for part in ["restype=container&comp=list&include=metadata&maxresults=2", "&startFrom=p%2Fb"] {
        assert!(first.contains(part), "{first}");
    }
    assert!(server.asked()[2].line.contains("&marker=m2&startFrom=p%2Fb"));
}

#[tokio::test]
async fn a_busy_service_is_asked_again_when_it_says() {
    let server =
        Recording::start(&["503 Busy\r\nretry-after: 3\r\nx-ms-error-code: ServerBusy\r\n\r\n"])
            .await;
    let azure = azure(&server, AzureCredentials::Anonymous);
    let error = azure.head(&Key::from("a")).await.unwrap_err();
    let retry_after = Some(std::time::Duration::from_secs(3));
    assert_eq!(error.kind, ErrorKind::Transient { retry_after });
}

fn azure(server: &Recording, credentials: AzureCredentials) -> Azure {
    let options = AzureOptions {
        endpoint: Some(format!("{}/account", server.url())),
        ..AzureOptions::new("account", "c", credentials)
    };
    let azure = Azure::connect(&options, Arc::new(SystemClock::new()), Arc::new(Rng::seeded(1)));
    let azure = azure.unwrap();
    // `recorded_paths` is about the others.
    azure.learned().learn(Capability::RealFolders, Has::No);
    azure
}

#[tokio::test]
async fn a_look_at_a_blob_tells_whether_it_is_archived() {
    for (tier, is_archived) in [("Hot", false), ("Archive", true)] {
        let server = Recording::start(&[&format!(
            "200 OK\r\netag: \"0x1\"\r\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
             x-ms-access-tier: {tier}\r\n\r\nbytes"
        )])
        .await;
        let azure = azure(&server, AzureCredentials::Anonymous);
        let meta = azure.head(&Key::from("a")).await.unwrap();
        assert_eq!(azure.learned().may_be_archived(&meta.version), is_archived, "{tier}");
    }
}

#[tokio::test]
async fn what_is_archived_is_said_to_be_at_once() {
    let archived = |code| format!("409 No\r\nx-ms-error-code: {code}\r\n\r\n");
    let (there, coming) = (archived("BlobArchived"), archived("BlobBeingRehydrated"));
    let server = Recording::start(&[&there, &coming, &there]).await;
    let azure = azure(&server, AzureCredentials::Anonymous);
    let (key, range) = (Key::from("a"), ByteRange::new(0, 5).unwrap());
    let first = azure.get(&key, range, None).await.err().unwrap();
    let second = azure.get_whole(&key, None, 9).await.unwrap_err();
    let original = Original { key: &key, version: &Version::new("0x1"), size: 1 };
    let copied = azure.copy(original, &Key::from("b"), &Condition::Always).await.unwrap_err();
    for error in [first, second, copied] {
        assert_eq!(error.kind, ErrorKind::Archived);
        assert!(error.to_string().contains("restored"), "{error}");
    }
}

#[expect(clippy::unnecessary_wraps, reason = "files may be missing")]
fn read(path: &Path) -> std::io::Result<String> {
    assert_eq!(path, Path::new("/run/token"));
    Ok("pod/token\n".to_owned())
}

#[tokio::test]
async fn machine_without_an_account_has_no_credentials() {
    let server = Recording::start(&["403 No\r\n\r\nforbidden"]).await;
    let machine = Entra::Machine { client_id: None, url: server.url().to_owned() };
    let azure = azure(&server, AzureCredentials::Entra(machine));
    let error = azure.head(&Key::from("a")).await.unwrap_err();
    assert_eq!((error.kind, error.trouble()), (ErrorKind::Denied, Trouble::NoCredentials));
}

#[tokio::test]
async fn an_application_and_a_machine_ask_for_tokens_as_documented() {
    let head = "200 OK\r\netag: \"0x1\"\r\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n\r\n";
    let granted = "200 OK\r\n\r\n{\"access_token\":\"hush\",\"expires_in\":\"3599\"}";
    let server = Recording::start(&[granted, head].repeat(4)).await;
    let application = |proof| Entra::Application {
        tenant: "our/tenant".to_owned(),
        client_id: "app id".to_owned(),
        authority: format!("{}/", server.url()),
        proof,
    };
    let start = "grant_type=client_credentials&client_id=app%20id\
                 &scope=https%3A%2F%2Fstorage.azure.com%2F.default";
    let resource = "resource=https%3A%2F%2Fstorage.azure.com%2F";
    let url = format!("{}/token", server.url());
    for (at, entra, line, body, header) in [
        (
            0,
            application(Proof::Secret(Secret::new("hu/sh"))),
            "POST /our%2Ftenant/oauth2/v2.0/token".to_owned(),
            format!("{start}&client_secret=hu%2Fsh"),
            ("content-type", "application/x-www-form-urlencoded"),
        ),
        (
            2,
            application(Proof::Federated(TokenFile::new("/run/token", read))),
            "POST /our%2Ftenant/oauth2/v2.0/token".to_owned(),
            format!(
                "{start}&client_assertion_type=\
                 urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer\
                 &client_assertion=pod%2Ftoken"
            ),
            ("content-type", "application/x-www-form-urlencoded"),
        ),
        (
            4,
            Entra::Machine { client_id: Some("id".to_owned()), url: server.url().to_owned() },
            format!(
                "GET /metadata/identity/oauth2/token?api-version=2018-02-01&{resource}&client_id=id"
            ),
            String::new(),
            ("metadata", "true"),
        ),
        (
            6,
            Entra::App { client_id: None, url, secret: Secret::new("hush") },
            format!("GET /token?api-version=2019-08-01&{resource}"),
            String::new(),
            ("x-identity-header", "hush"),
        ),
    ] {
        let azure = azure(&server, AzureCredentials::Entra(entra));
        azure.head(&Key::from("a")).await.unwrap();
        let asked = server.asked();
        assert_eq!((&asked[at].line, &asked[at].body), (&line, &body));
        assert_eq!(asked[at].header(header.0), header.1);
        assert_eq!(asked[at + 1].header("authorization"), "Bearer hush");
        let shown = format!("{azure:?} {:?}", azure.identity().await);
        assert!(!shown.contains("hu/sh") && !shown.contains("hush"), "{shown}");
    }
}

#[tokio::test]
async fn a_token_that_the_store_does_not_take_any_more_is_replaced() {
    let granted =
        |name| format!("200 OK\r\n\r\n{{\"access_token\":\"{name}\",\"expires_in\":3599}}");
    let machine = Recording::start(&[&granted("first"), &granted("second")]).await;
    let server = Recording::start(&["401 No\r\n\r\n", "200 OK\r\netag: \"0x1\"\r\n\r\n"]).await;
    let entra = Entra::Machine { client_id: None, url: machine.url().to_owned() };
    let azure = azure(&server, AzureCredentials::Entra(entra));
    azure
        .put(
            &Key::from("a"),
            "bytes".into(),
            &PutOptions { condition: Condition::Always, metadata: Metadata::new() },
        )
        .await
        .unwrap();
    let asked = server.asked();
    let used = asked.iter().map(|asked| (asked.header("authorization"), &asked.body[..]));
    assert_eq!(used.collect::<Vec<_>>(), [("Bearer first", "bytes"), ("Bearer second", "bytes")]);
}

const RANGED: &str = "206 OK\r\netag: \"0x1\"\r\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT\r\ncontent-range: bytes";

#[tokio::test]
async fn bytes_that_are_not_what_the_store_says_are_not_handed_out() {
    let [good, bad] = ["iJh5CoYUi64=", "iJh5CoYUi68="];
    // Of the whole blob, and of a part of one.
    let ranged =
        |size, sum| format!("{RANGED} 0-8/{size}\r\nx-ms-content-crc64: {sum}\r\n\r\n123456789");
    let answers = [ranged(9, good), ranged(9, bad), ranged(20, good), ranged(20, bad)];
    let answers: Vec<&str> = answers.iter().map(|answer| &answer[..]).collect();
    let server = Recording::start(&answers).await;
    let azure = azure(&server, AzureCredentials::Anonymous);
    let (key, range) = (Key::from("a"), ByteRange::new(0, 9).unwrap());
    for want in [None, Some(ErrorKind::Corrupt), None, Some(ErrorKind::Corrupt)] {
        let body = azure.get(&key, range, None).await.unwrap();
        let bytes: Result<Vec<_>, _> = body.try_collect().await;
        assert_eq!(bytes.err().map(|error| error.kind), want);
    }
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.header("x-ms-range-get-content-crc64") == "true"));
}

#[tokio::test]
async fn a_sum_that_a_writer_once_noted_makes_nothing_unreadable() {
    let stale = "JfnnlDI7RTiF9RgfG2JNDA==";
    let ranged = format!("{RANGED} 0-8/9\r\nx-ms-blob-content-md5: {stale}\r\n\r\n123456789");
    let whole = format!(
        "200 OK\r\netag: \"0x1\"\r\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT\r\ncontent-md5: {stale}\r\n\r\n123456789"
    );
    let server = Recording::start(&[&ranged, &whole]).await;
    let azure = azure(&server, AzureCredentials::Anonymous);
    let key = Key::from("a");
    let body = azure.get(&key, ByteRange::new(0, 9).unwrap(), None).await.unwrap();
    assert_eq!(body.try_collect::<Vec<_>>().await.unwrap().concat(), b"123456789");
    assert!(azure.get_whole(&key, None, 9).await.is_ok());
}

#[tokio::test]
async fn the_sum_of_a_range_is_asked_for_where_the_service_computes_it() {
    let server = Recording::start(&["404 No\r\n\r\n"; 2]).await;
    let azure = azure(&server, AzureCredentials::Anonymous);
    for (end, want) in [(4 << 20, "true"), ((4 << 20) + 1, "")] {
        let range = ByteRange::new(0, end).unwrap();
        assert!(azure.get(&Key::from("a"), range, None).await.is_err());
        let asked = server.asked();
        assert_eq!(asked.last().unwrap().header("x-ms-range-get-content-crc64"), want, "{end}");
    }
}
