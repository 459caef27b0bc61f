//! What is Azure's own, against a real server.

use bytes::Bytes;
use quayfs_remote::{
    Azure, AzureCredentials, AzureOptions, Condition, ErrorKind, Key, ListRequest, Metadata,
    PartNumber, PutOptions, Remote, Secret, Trouble, Version,
};

use crate::azurite::{Server, connect};

#[tokio::test]
async fn a_block_list_heeds_its_condition() {
    let server = Server::start();
    let azure = server.container("lists").await;
    let key = Key::from("a");
    let first = complete(&azure, &key, "first", &Condition::Absent).await.unwrap();
    let again = complete(&azure, &key, "again", &Condition::Absent).await.unwrap_err();
    assert_eq!(again.kind, ErrorKind::Changed, "{again}");
    let second = complete(&azure, &key, "second", &Condition::Is(first.clone())).await.unwrap();
    let late = complete(&azure, &key, "late", &Condition::Is(first)).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Changed, "{late}");
    assert_eq!(azure.head(&key).await.unwrap().version, second);
}

#[tokio::test]
async fn a_write_check_leaves_nothing() {
    let server = Server::start();
    let azure = server.container("untouched").await;
    let key = Key::from(".quayfs-write-check");
    let upload = azure.upload_create(&key, &plainly()).await.unwrap();
    azure.upload_abort(&key, &upload).await.unwrap();
    assert_eq!(azure.head(&key).await.unwrap_err().kind, ErrorKind::NotFound);
    assert!(azure.list(&everything()).await.unwrap().entries.is_empty());
}

#[tokio::test]
async fn listings_carry_metadata() {
    let server = Server::start();
    let azure = server.container("metadata").await;
    let metadata = [("mode", "33188"), ("quayfs-upload", "0a")];
    let metadata: Metadata =
        metadata.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = PutOptions { metadata, ..plainly() };
    let key = Key::from("a b");
    azure.put(&key, "1".into(), &options).await.unwrap();
    let page = azure.list(&everything()).await.unwrap();
    let head = azure.head(&key).await.unwrap();
    assert_eq!(head.metadata, options.metadata);
    assert_eq!(page.entries, [quayfs_remote::Entry::Object(key, head)]);
}

#[tokio::test]
async fn a_person_is_told_what_is_wrong() {
    let server = Server::start();
    server.container("there").await;
    let there = server.options("there");
    let with = |credentials| AzureOptions { credentials, ..there.clone() };
    let wrong_key = AzureCredentials::SharedKey(Secret::new("d3JvbmctaHVzaA=="));
    let wrong_sas = AzureCredentials::Sas(Secret::new(
        "sv=2024-11-04&ss=b&srt=sco&sp=rwl&se=2099-01-01T00:00:00Z&sig=aHVzaA%3D%3D",
    ));
    let nowhere = Some("http://127.0.0.1:1/devstoreaccount1".to_owned());
    for (options, want) in [
        (server.options("not-there"), Trouble::NoBucket),
        (with(wrong_key), Trouble::BadCredentials),
        (with(wrong_sas), Trouble::BadCredentials),
        (AzureOptions { endpoint: nowhere, ..there.clone() }, Trouble::Unreachable),
    ] {
        let azure = connect(&options);
        let error = azure.list(&everything()).await.unwrap_err();
        assert_eq!(error.trouble(), want, "{error}");
        assert!(error.provider_error().is_some_and(|said| !said.message.is_empty()), "{error}");
        for shown in [format!("{options:?} {azure:?}"), format!("{error} {error:?}")] {
            assert!(!shown.contains("hush") && !shown.contains("aHVzaA"), "{shown}");
        }
    }
    let denied = connect(&with(AzureCredentials::Anonymous)).list(&everything()).await;
    let error = denied.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Denied | ErrorKind::NotFound), "{error}");
}

#[tokio::test]
async fn a_bad_account_key_is_refused_before_anything_is_sent() {
    let credentials = AzureCredentials::SharedKey(Secret::new("not base64!"));
    let options = AzureOptions::new("a", "c", credentials);
    let clock = std::sync::Arc::new(base::SystemClock::new());
    let error = Azure::connect(&options, clock, std::sync::Arc::new(base::Rng::seeded(1)));
    let error = error.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(!format!("{error} {error:?}").contains("not base64!"), "{error}");
}

async fn complete(
    azure: &Azure,
    key: &Key,
    bytes: &'static str,
    condition: &Condition,
) -> quayfs_remote::Result<Version> {
    let upload = azure.upload_create(key, &plainly()).await?;
    let part = PartNumber(1);
    let tag = azure.upload_part(key, &upload, part, Bytes::from_static(bytes.as_bytes())).await?;
    azure.upload_complete(key, &upload, &[(part, tag)], condition).await
}

fn plainly() -> PutOptions {
    PutOptions { condition: Condition::Always, metadata: Metadata::new() }
}

fn everything() -> ListRequest {
    ListRequest {
        prefix: Key::from(""),
        delimited: false,
        start_after: None,
        continuation: None,
        entries_max: 1000,
    }
}
