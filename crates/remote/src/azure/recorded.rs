//! What Azure is asked, word for word: the emulator knows less than the service.

use std::sync::Arc;

use base::{ByteRange, Rng, SystemClock};

use crate::http::recording::Recording;
use crate::{
    Azure, AzureCredentials, AzureOptions, Condition, ErrorKind, Key, ListRequest, Metadata,
    Original, PartNumber, PutOptions, Remote, Secret, Version,
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
    Azure::connect(&options, Arc::new(SystemClock::new()), Arc::new(Rng::seeded(1))).unwrap()
}
