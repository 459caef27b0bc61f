//! Encryption by the store, over TLS with an authority of our own, against a real server.

use std::sync::Arc;

use base::{ByteRange, SystemClock};
use bytes::Bytes;
use futures::TryStreamExt as _;
use quayfs_remote::{
    Authorities, Condition, CustomerKey, Encryption, ErrorKind, Fresh, Key, Metadata, Original,
    PartNumber, PutOptions, Remote, S3, S3Options, S3Terms, Trouble,
};

use crate::minio::{KMS_KEY, Server};

/// What nobody may find on the server's disk.
const WORDS: &[u8] = b"words that are nowhere else on this disk";

async fn connect(server: &Server, encryption: Encryption) -> S3 {
    let terms = S3Terms { encryption, ..S3Terms::default() };
    let options = S3Options { terms, ..server.options("secret") };
    S3::connect(options, Arc::new(SystemClock::new())).await.unwrap()
}

fn customer(letter: u8) -> Encryption {
    Encryption::Customer(CustomerKey::from_file(&[letter; 32]).unwrap())
}

fn plainly() -> PutOptions {
    PutOptions { condition: Condition::Always, metadata: Metadata::new() }
}

async fn read(store: &S3, key: &Key, size: u64) -> quayfs_remote::Result<Vec<u8>> {
    let body = store.get(key, ByteRange::new(0, size).unwrap(), None).await?;
    Ok(body.try_collect::<Vec<Bytes>>().await?.concat())
}

/// Writes and reads in every way there is.
async fn check(store: &S3, name: &str) {
    let [small, copied, large] =
        ["small", "copied", "large"].map(|end| Key::from(&format!("{name}/{end}")[..]));
    let version = store.put(&small, Bytes::from_static(WORDS), &plainly()).await.unwrap();
    let size = WORDS.len() as u64;
    assert_eq!(store.head(&small).await.unwrap().size, size, "{name}");
    assert_eq!(read(store, &small, size).await.unwrap(), WORDS, "{name}");
    let Fresh::New(_, whole) = store.get_whole(&small, None, 99).await.unwrap() else { panic!() };
    assert_eq!(whole, WORDS);
    let original = Original { key: &small, version: &version, size };
    store.copy(original, &copied, &Condition::Absent).await.unwrap();
    assert_eq!(read(store, &copied, size).await.unwrap(), WORDS, "{name}");

    let part: Bytes = WORDS.iter().copied().cycle().take(5 << 20).collect();
    let upload = store.upload_create(&large, &plainly()).await.unwrap();
    let first = store.upload_part(&large, &upload, PartNumber(1), part.clone()).await.unwrap();
    let range = ByteRange::new(0, size).unwrap();
    let second = store.upload_part_copy(&large, &upload, PartNumber(2), original, range).await;
    let parts = [(PartNumber(1), first), (PartNumber(2), second.unwrap())];
    store.upload_complete(&large, &upload, &parts, &Condition::Absent).await.unwrap();
    let whole = read(store, &large, (5 << 20) + size).await.unwrap();
    assert!(whole[..5 << 20] == part[..] && whole[5 << 20..] == *WORDS, "{name}");
}

#[tokio::test]
async fn what_is_written_is_encrypted_as_the_terms_say() {
    let server = Server::start_with_tls();
    server.bucket("secret").await;
    let plain = connect(&server, Encryption::OfBucket).await;
    check(&plain, "plain").await;
    assert!(server.has_on_disk("secret/plain", WORDS), "the search finds it");

    for (name, encryption) in [
        ("store", Encryption::Store),
        ("kms", Encryption::Kms { key_id: Some(KMS_KEY.to_owned()) }),
        ("customer", customer(1)),
    ] {
        check(&connect(&server, encryption).await, name).await;
        assert!(!server.has_on_disk(&format!("secret/{name}"), WORDS), "{name}");
    }

    let small = Key::from("customer/small");
    for other in [Encryption::OfBucket, customer(2)] {
        let stranger = connect(&server, other.clone()).await;
        let refused = read(&stranger, &small, WORDS.len() as u64).await.unwrap_err();
        let is_refusal = matches!(refused.kind, ErrorKind::Unsupported | ErrorKind::Denied);
        assert!(is_refusal, "{other:?}: {refused}");
    }
    let unknown = connect(&server, Encryption::Kms { key_id: Some("nobodys".to_owned()) }).await;
    assert!(unknown.put(&small, Bytes::from_static(WORDS), &plainly()).await.is_err());
}

#[tokio::test]
async fn who_is_vouched_for_by_nobody_is_not_spoken_to() {
    let server = Server::start_with_tls();
    server.bucket("secret").await;
    let options = S3Options { authorities: Authorities::default(), ..server.options("secret") };
    let store = S3::connect(options, Arc::new(SystemClock::new())).await.unwrap();
    let straight = store.head(&Key::from("a")).await.unwrap_err();
    let through_library = store.delete(&Key::from("a")).await.unwrap_err();
    for error in [straight, through_library] {
        assert_eq!(error.trouble(), Trouble::Untrusted, "{error}");
        assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
    }
}
