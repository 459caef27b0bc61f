//! What S3's failures look like from here, against a real server.

use std::sync::Arc;

use base::{ByteRange, SystemClock};
use bytes::Bytes;
use futures::TryStreamExt as _;
use futures::future::try_join_all;
use quayfs_remote::{
    Condition, Credentials, ErrorKind, Key, ListRequest, Metadata, Original, PutOptions, Remote,
    S3, S3Options, S3Terms, Tags, Trouble,
};

use crate::minio::{Server, USER};

#[tokio::test]
async fn a_person_is_told_what_is_wrong() {
    let server = Server::start();
    server.bucket("there").await;
    let wrong_key = Credentials::Static {
        access_key_id: "nobody".to_owned(),
        secret_access_key: "nothing".to_owned(),
        session_token: None,
    };
    let wrong_secret = Credentials::Static {
        access_key_id: USER.to_owned(),
        secret_access_key: "wrong-secret".to_owned(),
        session_token: None,
    };
    let profile = Credentials::Profile("quayfs-no-such-profile".to_owned());
    let there = server.options("there");
    let with = |credentials| S3Options { credentials, ..there.clone() };
    let nowhere = S3Options { endpoint: Some("http://127.0.0.1:1".to_owned()), ..there.clone() };
    for (options, want) in [
        (server.options("not-there"), Trouble::NoBucket),
        (with(wrong_key), Trouble::UnknownKey),
        (with(wrong_secret), Trouble::WrongSecret),
        (with(Credentials::Anonymous), Trouble::Denied),
        (with(profile), Trouble::NoCredentials),
        (nowhere, Trouble::Unreachable),
    ] {
        let store = S3::connect(options.clone(), Arc::new(SystemClock::new())).await.unwrap();
        let error = store.list(&everything()).await.unwrap_err();
        assert_eq!(error.trouble(), want, "{options:?}: {error}");
        assert!(error.provider_error().is_some_and(|said| !said.message.is_empty()), "{error}");
    }
}

#[tokio::test]
async fn an_error_carries_the_providers_words() {
    let server = Server::start();
    let store = server.bucket("words").await;
    let range = ByteRange::new(0, 1).unwrap();
    let error = store.get(&Key::from("missing"), range, None).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::NotFound);
    let said = error.provider_error().unwrap();
    assert_eq!(said.code, "NoSuchKey");
    assert!(said.request_id.is_some(), "{said}");
    assert!(error.to_string().contains("NoSuchKey"), "{error}");
}

#[tokio::test]
async fn a_store_that_is_not_there_is_transient() {
    let server = Server::start();
    let options = server.options("gone");
    drop(server);
    let store = S3::connect(options, Arc::new(SystemClock::new())).await.unwrap();
    let error = store.head(&Key::from("a")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient { retry_after: None });
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ranges_at_once_are_each_their_own() {
    let server = Server::start();
    let store = server.bucket("ranges").await;
    let bytes: Bytes = (0..32_u32 << 20).map(|i| u8::try_from(i % 253).unwrap()).collect();
    let options = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
    let key = Key::from("large");
    let version = store.put(&key, bytes.clone(), &options).await.unwrap();
    let whole = ByteRange::new(0, bytes.len() as u64).unwrap();
    let pieces = whole.pieces(512 << 10).map(|piece| {
        let (store, key, version) = (&store, &key, &version);
        async move {
            let body = store.get(key, piece, Some(version)).await?;
            Ok::<_, quayfs_remote::Error>(body.try_collect::<Vec<Bytes>>().await?.concat())
        }
    });
    assert!(try_join_all(pieces).await.unwrap().concat() == bytes);
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

#[tokio::test]
async fn an_object_too_large_for_one_request_is_copied_in_parts() {
    let server = Server::start();
    server.bucket("large").await;
    let options = S3Options { copy_bytes_max: 5 << 20, ..server.options("large") };
    let store = S3::connect(options, Arc::new(SystemClock::new())).await.unwrap();
    let bytes: Vec<u8> = (0..12_000_000_u32).flat_map(u32::to_le_bytes).take(12_000_000).collect();
    let metadata = Metadata::from([("mode".to_owned(), "33188".to_owned())]);
    let put = PutOptions { condition: Condition::Always, metadata: metadata.clone() };
    let (from, to) = (Key::from("from a+b"), Key::from("to"));
    let old = store.put(&from, bytes.clone().into(), &put).await.unwrap();
    let original = |version| Original { key: &from, version, size: 12_000_000 };
    let copied = store.copy(original(&old), &to, &Condition::Always).await.unwrap();
    let meta = store.head(&to).await.unwrap();
    assert_eq!((meta.size, meta.version, meta.metadata), (12_000_000, copied, metadata));
    let range = ByteRange::new(0, 12_000_000).unwrap();
    let body = store.get(&to, range, None).await.unwrap();
    let pieces: Vec<Bytes> = body.try_collect().await.unwrap();
    assert!(pieces.concat() == bytes);

    let taken = store.copy(original(&old), &to, &Condition::Absent).await;
    assert_eq!(taken.unwrap_err().kind, ErrorKind::Changed);
    store.put(&from, Bytes::from_static(b"another"), &put).await.unwrap();
    let stale = store.copy(original(&old), &to, &Condition::Always).await;
    assert_eq!(stale.unwrap_err().kind, ErrorKind::Changed);
    let gone = Original { key: &Key::from("missing"), ..original(&old) };
    let missing = store.copy(gone, &to, &Condition::Always).await;
    assert_eq!(missing.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_copy_in_parts_has_the_tags_that_a_copy_in_one_request_has() {
    let server = Server::start();
    server.bucket("tags").await;
    let connect = async |rules: &str, copy_bytes_max| {
        let terms = S3Terms { tags: Tags::parse(rules).unwrap(), ..S3Terms::default() };
        let options = S3Options { copy_bytes_max, terms, ..server.options("tags") };
        S3::connect(options, Arc::new(SystemClock::new())).await.unwrap()
    };
    let put = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
    let from = Key::from("from");
    let theirs = connect("owner=a lab", 5 << 30).await;
    let version = theirs.put(&from, vec![7; 12_000_000].into(), &put).await.unwrap();
    let original = Original { key: &from, version: &version, size: 12_000_000 };
    for (name, copy_bytes_max) in [("one", 5 << 30), ("parts", 5 << 20)] {
        let ours = connect("*.bam=kind=alignment", copy_bytes_max).await;
        for (key, has, lacks) in [("kept", "a lab", "alignment"), ("a.bam", "alignment", "a lab")] {
            let key = format!("{name}-{key}");
            ours.copy(original, &Key::from(&key[..]), &Condition::Always).await.unwrap();
            let tags = server.tags(&format!("tags/{key}"));
            assert!(tags.contains(has) && !tags.contains(lacks), "{key}: {tags}");
        }
    }
}
