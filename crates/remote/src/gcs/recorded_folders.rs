//! What a bucket with a hierarchical namespace is asked, word for word: the emulator has none.

use std::sync::Arc;

use base::{Rng, SystemClock};

use crate::http::recording::Recording;
use crate::{
    Capability, Condition, Entry, ErrorKind, Folders, Gcs, GcsCredentials, GcsOptions, Has, Key,
    ListRequest, Metadata, Moves, Original, PutOptions, Remote, Version,
};

const LAYOUT: &str = "200 OK\r\n\r\n{\"hierarchicalNamespace\":{\"enabled\":true}}";

const FOLDER: &str = "200 OK\r\n\r\n{\"kind\":\"storage#folder\",\"name\":\"d/\",\"metageneration\":\"3\",\
    \"updateTime\":\"1994-11-06T08:49:37Z\"}";

const GONE: &str =
    "404 No\r\n\r\n{\"error\":{\"message\":\"not found\",\"errors\":[{\"reason\":\"notFound\"}]}}";

const TAKEN: &str =
    "409 No\r\n\r\n{\"error\":{\"message\":\"there\",\"errors\":[{\"reason\":\"conflict\"}]}}";

const DENIED: &str =
    "403 No\r\n\r\n{\"error\":{\"message\":\"no\",\"errors\":[{\"reason\":\"forbidden\"}]}}";

const EMPTY: &str = "200 OK\r\n\r\n{\"kind\":\"storage#objects\"}";

const FLAT: &str = "200 OK\r\n\r\n{}";

fn gcs(server: &Recording, prefix: &str) -> Gcs {
    let options = GcsOptions {
        endpoint: Some(server.url().to_owned()),
        ..GcsOptions::new("b", GcsCredentials::Anonymous)
    };
    let (clock, rng) = (Arc::new(SystemClock::new()), Arc::new(Rng::seeded(1)));
    Gcs::connect(&options.below(&Key::from(prefix)), clock, rng).unwrap()
}

/// A client that knows what the bucket is.
fn with_folders(server: &Recording) -> Gcs {
    let gcs = gcs(server, "");
    gcs.learned().learn(Capability::RealFolders, Has::Yes);
    gcs
}

fn lines(server: &Recording) -> Vec<String> {
    server.asked().into_iter().map(|asked| asked.line).collect()
}

fn request(prefix: &str) -> ListRequest {
    ListRequest {
        prefix: Key::from(prefix),
        delimited: true,
        start_after: None,
        continuation: None,
        entries_max: 10,
    }
}

fn put(condition: Condition) -> PutOptions {
    PutOptions { condition, metadata: Metadata::new() }
}

#[tokio::test]
async fn whether_there_are_folders_is_asked_once() {
    for (answer, has) in [(LAYOUT, Has::Yes), (FLAT, Has::No), (DENIED, Has::No), (GONE, Has::No)] {
        let server = Recording::start(&[answer, EMPTY, EMPTY]).await;
        let gcs = gcs(&server, "p/");
        for _ in 0..2 {
            gcs.list(&request("")).await.unwrap();
        }
        assert_eq!(gcs.learned().has(Capability::RealFolders), Some(has), "{answer}");
        let asked = lines(&server);
        let layout = "GET /storage/v1/b/b/storageLayout?fields=hierarchicalNamespace&prefix=p%2F";
        assert_eq!(asked[0], layout);
        let shows_folders = asked[1].contains("includeFoldersAsPrefixes=true");
        assert_eq!(shows_folders, has == Has::Yes, "{}", asked[1]);
        let naming = gcs.personality().naming;
        let real = (naming.folders == Folders::Real, naming.moves == Moves::Atomic);
        assert_eq!(real, (has == Has::Yes, has == Has::Yes));
    }
}

#[tokio::test]
async fn an_object_is_moved_in_one_step_under_conditions() {
    let server = Recording::start(&[
        "200 OK\r\n\r\n{\"generation\":\"9\"}",
        "412 No\r\n\r\n{}",
        GONE,
        "400 No\r\n\r\n{}",
    ])
    .await;
    let gcs = with_folders(&server);
    let (from, to, seven) = (Key::from("a/b"), Key::from("c d"), Version::new("7"));
    let original = Original { key: &from, version: &seven, size: 1 };
    assert_eq!(gcs.rename(original, &to, &Condition::Absent).await.unwrap(), Version::new("9"));
    let is = Condition::Is(Version::new("8"));
    for want in [ErrorKind::Changed, ErrorKind::NotFound, ErrorKind::Unsupported] {
        assert_eq!(gcs.rename(original, &to, &is).await.unwrap_err().kind, want);
    }
    let asked = lines(&server);
    let path = "POST /storage/v1/b/b/o/a%2Fb/moveTo/o/c%20d?ifSourceGenerationMatch=7";
    assert_eq!(asked[0], format!("{path}&ifGenerationMatch=0&fields=generation"));
    assert_eq!(asked[1], format!("{path}&ifGenerationMatch=8&fields=generation"));
}

#[tokio::test]
async fn a_folder_is_renamed_by_an_operation_that_is_waited_for() {
    let under_way =
        "200 OK\r\n\r\n{\"name\":\"projects/_/buckets/b/operations/o p\",\"done\":false}";
    let done = "200 OK\r\n\r\n{\"name\":\"projects/_/buckets/b/operations/o p\",\"done\":true}";
    let failed = "200 OK\r\n\r\n{\"done\":true,\"error\":{\"code\":9,\"message\":\"busy\"}}";
    for (answers, want) in [
        (&[under_way, under_way, done][..], Ok(())),
        (&[under_way, failed], Err(ErrorKind::Changed)),
        (&[TAKEN], Err(ErrorKind::Changed)),
        (&[GONE, GONE], Err(ErrorKind::NotFound)),
        // There was no folder for it to go to.
        (&[GONE, FOLDER, FOLDER, done], Ok(())),
        // Who may not rename folders copies, unless one is being renamed.
        (&[DENIED], Err(ErrorKind::Unsupported)),
        (&[under_way, DENIED, FOLDER, DENIED, GONE], Ok(())),
    ] {
        let server = Recording::start(answers).await;
        let renamed =
            with_folders(&server).rename_folder(&Key::from("a/"), &Key::from("c/d e/")).await;
        assert_eq!(renamed.map_err(|error| error.kind), want, "{answers:?}");
        let asked = lines(&server);
        assert_eq!(asked.len(), answers.len(), "{asked:?}");
        let begin = "POST /storage/v1/b/b/folders/a%2F/renameTo/folders/c%2Fd%20e%2F";
        assert_eq!(asked[0], begin);
        if answers[0] == under_way {
            assert_eq!(asked[1], "GET /storage/v1/b/b/operations/o%20p");
        }
        if answers.len() == 4 {
            assert_eq!(asked[2], "POST /storage/v1/b/b/folders?recursive=true");
            assert_eq!(server.asked()[2].body, "{\"name\":\"c/\"}");
            assert_eq!(asked[3], begin);
        }
    }
}

#[tokio::test]
async fn a_rename_that_is_under_way_is_waited_for_again_and_not_begun_anew() {
    let under_way = "200 OK\r\n\r\n{\"name\":\"operations/o\",\"done\":false}";
    let done = "200 OK\r\n\r\n{\"done\":true}";
    let (away, odd) = ("503 No\r\n\r\n", "400 No\r\n\r\n{}");
    // Five times in a row nothing is told.
    let unclear = [under_way, away, odd, away, odd, away];
    let transient = Err(ErrorKind::Transient { retry_after: None });
    for (then, want) in [
        (&[under_way, done, GONE][..], Ok(())),
        // Another one of that name has come.
        (&[done, FOLDER], transient),
        // It has moved nothing, and is forgotten.
        (&[GONE, FOLDER], transient),
        (&[GONE, GONE, GONE], Ok(())),
    ] {
        let answers: Vec<&str> = unclear.iter().chain(then).chain(&[done]).copied().collect();
        let server = Recording::start(&answers).await;
        let (gcs, from, to) = (with_folders(&server), Key::from("a/"), Key::from("b/"));
        let rename = async || gcs.rename_folder(&from, &to).await.map_err(|error| error.kind);
        assert_eq!(rename().await, transient);
        assert_eq!(rename().await, want, "{then:?}");
        // What is settled is begun anew.
        assert_eq!(rename().await, Ok(()), "{then:?}");
        let asked = lines(&server);
        assert_eq!(asked.len(), answers.len());
        assert!(asked[unclear.len()].starts_with("GET"), "{asked:?}");
        assert_eq!(asked.last(), asked.first());
    }
}

#[tokio::test]
async fn a_folder_is_a_resource_and_no_object() {
    let server = Recording::start(&[
        FOLDER,
        TAKEN,
        TAKEN,
        FOLDER,
        GONE,
        FOLDER,
        GONE,
        TAKEN,
        DENIED,
        "200 OK\r\n\r\n{\"generation\":\"9\"}",
    ])
    .await;
    let gcs = with_folders(&server);
    let key = Key::from("d/");
    let made = gcs.put(&key, "".into(), &put(Condition::Absent)).await.unwrap();
    assert_eq!(made, Version::new("folder-3"));
    let again = gcs.put(&key, "".into(), &put(Condition::Absent)).await.unwrap_err();
    assert_eq!(again.kind, ErrorKind::Changed);
    gcs.put(&key, "".into(), &put(Condition::Always)).await.unwrap();
    let meta = gcs.head(&key).await.unwrap();
    assert_eq!((meta.size, meta.modified.secs), (0, 784_111_777));
    // Something is in it.
    gcs.delete(&key).await.unwrap();
    // Who may make no folders makes an object.
    let object = gcs.put(&key, "".into(), &put(Condition::Absent)).await.unwrap();
    assert_eq!(object, Version::new("9"));
    let asked = lines(&server);
    assert_eq!(asked[0], "POST /storage/v1/b/b/folders?recursive=true");
    assert_eq!(asked[5], "GET /storage/v1/b/b/folders/d%2F");
    assert_eq!(asked[6], "DELETE /storage/v1/b/b/o/d%2F");
    assert_eq!(asked[7], "DELETE /storage/v1/b/b/folders/d%2F");
}

#[tokio::test]
async fn an_empty_folder_is_told_of_where_it_is_listed() {
    let server = Recording::start(&[EMPTY, FOLDER, EMPTY, GONE, EMPTY]).await;
    let gcs = with_folders(&server);
    let page = gcs.list(&request("d/")).await.unwrap();
    let keys: Vec<&Key> = page.entries.iter().map(Entry::key).collect();
    assert_eq!(keys, [&Key::from("d/")]);
    assert!(gcs.list(&request("d/")).await.unwrap().entries.is_empty());
    assert!(gcs.list(&request("")).await.unwrap().entries.is_empty());
    assert_eq!(lines(&server).len(), 5);
}

#[tokio::test]
async fn an_upload_leaves_no_folders_where_its_parts_were() {
    let written = "200 OK\r\n\r\n{\"generation\":\"1\"}";
    let done = "204 No Content\r\n\r\n";
    let server = Recording::start(&[written, EMPTY, done, done, done, DENIED]).await;
    let gcs = with_folders(&server);
    let key = Key::from("team/check");
    let options = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
    let upload = gcs.upload_create(&key, &options).await.unwrap();
    gcs.upload_abort(&key, &upload).await.unwrap();
    let lines = lines(&server);
    let of_folders: Vec<_> = lines.iter().filter(|line| line.contains("/folders/")).collect();
    let [parts, marks, all] = of_folders[..] else { panic!("{lines:?}") };
    assert!(parts.starts_with("DELETE /storage/v1/b/b/folders/team%2F.quayfs-parts%2F"), "{parts}");
    assert!(marks.contains("team%2F.quayfs-parts%2Fof-") && marks.ends_with("%2F"), "{marks}");
    assert!(all.ends_with("/folders/team%2F.quayfs-parts%2F"), "{all}");
}
