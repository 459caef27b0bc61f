//! What is Google's own, against a server that speaks as it does.

use bytes::Bytes;
use futures::future::try_join_all;
use quayfs_remote::{
    Condition, Entry, ErrorKind, GcsOptions, Key, ListRequest, Metadata, PartNumber, PutOptions,
    Remote, Trouble,
};

use crate::fake_gcs::{Server, connect};

#[tokio::test]
async fn many_parts_are_composed_in_levels_and_leave_nothing() {
    let server = Server::start();
    let gcs = server.bucket("levels").await;
    let key = Key::from("a");
    let metadata: Metadata = [("mode".to_owned(), "33188".to_owned())].into();
    let options = PutOptions { metadata, condition: Condition::Absent };
    let upload = gcs.upload_create(&key, &options).await.unwrap();
    let sending = (1..=70_u32).map(|number| {
        let (gcs, key, upload) = (&gcs, &key, &upload);
        async move {
            let (part, bytes) = (PartNumber(number), Bytes::from(format!("{number:03};")));
            let tag = gcs.upload_part(key, upload, part, bytes).await?;
            Ok::<_, quayfs_remote::Error>((part, tag))
        }
    });
    let parts = try_join_all(sending).await.unwrap();
    let done = gcs.upload_complete(&key, &upload, &parts, &Condition::Absent).await.unwrap();
    let head = gcs.head(&key).await.unwrap();
    assert_eq!((head.size, &head.version, head.metadata), (280, &done, options.metadata));
    let range = base::ByteRange::new(0, 280).unwrap();
    let body = gcs.get(&key, range, Some(&done)).await.unwrap();
    let pieces: Vec<Bytes> = futures::TryStreamExt::try_collect(body).await.unwrap();
    let want: Vec<String> = (1..=70).map(|number| format!("{number:03};")).collect();
    assert_eq!(pieces.concat(), want.concat().as_bytes());
    assert_eq!(all_names(&server, "levels").await, ["a"]);
}

#[tokio::test]
async fn parts_are_out_of_sight_and_an_abort_removes_them() {
    let server = Server::start();
    let gcs = server.bucket("parts").await;
    let key = Key::from("a");
    let upload = gcs.upload_create(&key, &plainly()).await.unwrap();
    gcs.upload_part(&key, &upload, PartNumber(1), "1".into()).await.unwrap();
    for delimited in [false, true] {
        let page = gcs.list(&ListRequest { delimited, ..everything() }).await.unwrap();
        assert!(page.entries.is_empty(), "{page:?}");
    }
    assert_eq!(all_names(&server, "parts").await.len(), 2);
    gcs.upload_abort(&key, &upload).await.unwrap();
    assert!(all_names(&server, "parts").await.is_empty());
}

#[tokio::test]
async fn listings_carry_metadata() {
    let server = Server::start();
    let gcs = server.bucket("metadata").await;
    let metadata = [("mode", "33188"), ("quayfs-upload", "0a")];
    let metadata: Metadata =
        metadata.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = PutOptions { metadata, ..plainly() };
    let key = Key::from("a b");
    gcs.put(&key, "1".into(), &options).await.unwrap();
    let page = gcs.list(&everything()).await.unwrap();
    let head = gcs.head(&key).await.unwrap();
    assert_eq!(head.metadata, options.metadata);
    assert_eq!(page.entries, [Entry::Object(key, head)]);
}

#[tokio::test]
async fn a_person_is_told_what_is_wrong() {
    let server = Server::start();
    let nowhere = Some("http://127.0.0.1:1".to_owned());
    for (options, want) in [
        (server.options("not-there"), Trouble::NoBucket),
        (GcsOptions { endpoint: nowhere, ..server.options("bucket") }, Trouble::Unreachable),
    ] {
        let error = connect(&options).list(&everything()).await.unwrap_err();
        assert_eq!(error.trouble(), want, "{error}");
        assert!(error.provider_error().is_some_and(|said| !said.message.is_empty()), "{error}");
    }
    let gcs = server.bucket("bucket").await;
    let line_break = gcs.put(&Key::from("a\nb"), "1".into(), &plainly()).await.unwrap_err();
    assert_eq!(line_break.kind, ErrorKind::Unsupported);
}

/// Every name in the bucket, also of what the provider keeps out of sight.
async fn all_names(server: &Server, bucket: &str) -> Vec<String> {
    let options = GcsOptions { parts: Key::from("elsewhere/"), ..server.options(bucket) };
    let page = connect(&options).list(&everything()).await.unwrap();
    page.entries.iter().map(|entry| entry.key().to_string()).collect()
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
