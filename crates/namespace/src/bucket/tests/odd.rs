//! Keys that make no ordinary names.

use std::collections::{BTreeMap, BTreeSet};

use base::{FileKind, Ino, Name};
use proptest::prelude::{Strategy, prop_oneof, proptest};
use proptest::test_runner::Config;
use remote::fake::{Fake, Op};
use remote::{Key, Metadata};

use super::{Bench, NODE, name, size};
use crate::{BucketOptions, Error, ErrorKind, Namespace, RenameMode};

fn kind<T>(result: Result<T, Error>) -> ErrorKind {
    result.err().expect("it was to be refused").kind
}

/// The key of every file below `dir`, by path.
async fn walk(bench: &Bench, dir: Ino) -> BTreeMap<Vec<Name>, Key> {
    let mut files = BTreeMap::new();
    let mut folders = vec![(dir, Vec::new())];
    while let Some((dir, path)) = folders.pop() {
        for entry in bench.bucket.list(dir).await.unwrap() {
            let path = [&path[..], std::slice::from_ref(&entry.name)].concat();
            let ino = bench.bucket.lookup(dir, &entry.name).await.unwrap().attr.ino;
            assert_eq!(ino, entry.attr.ino, "{path:?}");
            if entry.attr.kind == FileKind::Directory {
                folders.push((ino, path));
            } else {
                files.insert(path, bench.bucket.target(ino).unwrap().key);
            }
        }
    }
    files
}

async fn at(bench: &Bench, path: &[Name]) -> Ino {
    let mut ino = Ino::ROOT;
    for name in path {
        ino = bench.bucket.lookup(ino, name).await.unwrap().attr.ino;
    }
    ino
}

#[tokio::test]
async fn odd_keys_have_the_names_that_are_documented() {
    let bench = Bench::new();
    let long = "n".repeat(300);
    let chunk = format!("%%~{}", "n".repeat(252));
    let rest = "n".repeat(48);
    let cases = [
        ("d/", vec!["d", "%%:"]),
        ("d//x", vec!["d", "%%=%%:", "x"]),
        ("d/../y", vec!["d", "%%:..", "y"]),
        ("d/./z", vec!["d", "%%:.", "z"]),
        ("/lead", vec!["%%:", "lead"]),
        ("d/a\0b", vec!["d", "%%:a%00b"]),
        ("both", vec!["%%=both"]),
        ("both/x", vec!["both", "x"]),
        ("d/%%x", vec!["d", "%%:%25%25x"]),
        ("d/my%20file", vec!["d", "my%20file"]),
        ("d/%%@%25%25", vec!["d", "%%"]),
        ("d/%%@.quayfs-x/y", vec!["d", ".quayfs-x", "y"]),
        (&long, vec![&chunk, &rest]),
        ("e/%%!caf%E9", vec!["e", "%%!caf%E9"]),
    ];
    for (key, _) in &cases {
        bench.put(key, "x");
    }
    bench.put("d/.quayfs-attributes", "ours");
    bench.put(".quayfs-unlinked/x", "ours");
    let found: BTreeSet<(String, Vec<String>)> = walk(&bench, Ino::ROOT)
        .await
        .into_iter()
        .map(|(path, key)| (key.to_string(), path.iter().map(ToString::to_string).collect()))
        .collect();
    let want: BTreeSet<(String, Vec<String>)> = cases
        .into_iter()
        .map(|(key, path)| {
            // The file and the folder of the empty part: the folder has the name.
            let path: Vec<&str> = match key {
                "d/" => vec!["d", "%%=%%:"],
                "d//x" => vec!["d", "%%:", "x"],
                _ => path,
            };
            (key.to_owned(), path.into_iter().map(str::to_owned).collect())
        })
        .collect();
    assert_eq!(found, want);
}

/// `key` with its runs of one byte as their lengths.
fn short(key: &[u8]) -> String {
    let runs = key.chunk_by(|a, b| a == b);
    let runs = runs.map(|run| format!("{}*{}", run.len(), run[..1].escape_ascii()));
    runs.collect::<Vec<_>>().join(" ")
}

/// Keys of few and odd parts, so that many are folders of others.
fn keys() -> impl Strategy<Value = BTreeSet<Vec<u8>>> {
    let long = "é".repeat(130).into_bytes();
    let longer = [&long[..], b"%%tail"].concat();
    let part = prop_oneof![
        8 => proptest::sample::select(vec![
            &b"a"[..], b"a.b", b"", b".", b"..", b"%%", b"%%=a", b"%%!a%E9", b"%%@%25%25", b"a\0", b"\xff",
        ]).prop_map(<[u8]>::to_vec),
        3 => proptest::sample::select(vec![
            long, longer, vec![b'x'; 252], vec![b'x'; 254], vec![b'x'; 255], vec![b'x'; 256],
            vec![b'x'; 520], vec![0; 90],
        ]),
    ];
    let key = proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join(&b'/'));
    let key = key.prop_filter("a key", |key| (1..=1024).contains(&key.len()));
    proptest::collection::btree_set(key, 1..9)
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_key_is_found_under_one_path_by_listing_and_by_looking(keys in keys()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let fake = Fake::new();
            for key in &keys {
                fake.insert(&Key::from(&key[..]), "x", Metadata::new());
            }
            let listed = walk(&Bench::over(fake.clone(), BucketOptions::default()), Ino::ROOT).await;
            let found: Vec<&[u8]> = listed.values().map(Key::as_bytes).collect();
            let distinct: BTreeSet<&[u8]> = found.iter().copied().collect();
            let lost: Vec<String> =
                keys.iter().filter(|key| !distinct.contains(&key[..])).map(|key| short(key)).collect();
            assert!(lost.is_empty(), "{lost:?} of {:?}", keys.iter().map(|key| short(key)).collect::<Vec<_>>());
            assert_eq!((distinct.len(), found.len()), (keys.len(), keys.len()));
            for (path, key) in listed {
                let fresh = Bench::over(fake.clone(), BucketOptions::default());
                let ino = at(&fresh, &path).await;
                assert_eq!(fresh.bucket.target(ino).unwrap().key, key);
                // A chunk folder has no other names than those it lists.
                assert_eq!(fresh.bucket.attr(ino).await.unwrap().kind, FileKind::File);
            }
        });
    }
}

#[tokio::test]
async fn what_is_made_under_an_odd_name_gets_its_key() {
    let bench = Bench::new();
    let d = bench.mkdir(Ino::ROOT, "d").await;
    let empty = bench.mkdir(d, "%%:").await;
    bench.write(empty, "x", "1").await;
    bench.write(d, "%%:..", "2").await;
    bench.write(d, "%%:%25%25", "3").await;
    bench.write(d, "%%=%%:", "4").await;
    let raw = Name::new(b"caf\xe9").unwrap();
    let ino = bench.bucket.create(d, &raw, NODE).await.unwrap().attr.ino;
    bench.upload(ino, "5").await;
    assert_eq!(bench.keys(), ["d/", "d/%%", "d/%%!caf%E9", "d/..", "d//", "d//x"]);
    bench.expire();
    assert_eq!(bench.names(d).await, ["%%:", "%%:%25%25", "%%:..", "%%=%%:", "%%!caf%E9"]);
}

#[tokio::test]
async fn odd_names_are_renamed_and_removed_like_others() {
    let bench = Bench::new();
    for key in ["d//x", "d/..", "d/%%", "e/y"] {
        bench.put(key, "x");
    }
    let (d, e) = (bench.ino(Ino::ROOT, "d").await, bench.ino(Ino::ROOT, "e").await);
    let empty = bench.ino(d, "%%:").await;
    let rename = |from: (Ino, &str), to: (Ino, &str)| {
        let (from, to) = ((from.0, name(from.1)), (to.0, name(to.1)));
        let bucket = bench.bucket.clone();
        async move {
            bucket.rename((from.0, &from.1), (to.0, &to.1), RenameMode::Replace).await.unwrap();
        }
    };
    rename((empty, "x"), (e, "x")).await;
    rename((d, "%%:.."), (e, "plain")).await;
    rename((e, "y"), (d, "%%:.")).await;
    bench.bucket.unlink(d, &name("%%:%25%25")).await.unwrap();
    assert_eq!(bench.keys(), ["d/.", "d//", "e/plain", "e/x"]);
    bench.bucket.rmdir(d, &name("%%:")).await.unwrap();
    assert_eq!(bench.keys(), ["d/.", "e/plain", "e/x"]);
}

#[tokio::test]
async fn removing_the_file_without_a_name_leaves_its_folder() {
    let bench = Bench::new();
    bench.put("d/", "content");
    let d = bench.ino(Ino::ROOT, "d").await;
    assert_eq!(bench.names(d).await, ["%%:"]);
    assert_eq!(kind(bench.bucket.rmdir(Ino::ROOT, &name("d")).await), ErrorKind::NotEmpty);
    bench.bucket.unlink(d, &name("%%:")).await.unwrap();
    assert_eq!(bench.fake.bytes(&Key::from("d/")).unwrap().len(), 0);
    bench.expire();
    assert_eq!(bench.names(d).await, [""; 0]);
    bench.bucket.rmdir(Ino::ROOT, &name("d")).await.unwrap();
    assert_eq!(bench.keys(), [""; 0]);
}

#[tokio::test]
async fn a_file_beside_a_folder_has_its_own_name_back_when_the_folder_goes() {
    let bench = Bench::new();
    bench.put("a", "beside");
    let a = bench.ino(Ino::ROOT, "a").await;
    bench.put("a/b", "x");
    bench.expire();
    assert_eq!(bench.names(Ino::ROOT).await, ["%%=a", "a"]);
    assert_eq!(bench.ino(Ino::ROOT, "%%=a").await, a, "it is the same file");
    assert_eq!(bench.bucket.target(a).unwrap().key, Key::from("a"));

    let folder = bench.ino(Ino::ROOT, "a").await;
    bench.bucket.unlink(folder, &name("b")).await.unwrap();
    bench.bucket.rmdir(Ino::ROOT, &name("a")).await.unwrap();
    assert_eq!(bench.ino(Ino::ROOT, "a").await, a);
    assert_eq!(kind(bench.lookup(Ino::ROOT, "%%=a").await), ErrorKind::NotFound);

    bench.put("a/b", "x");
    bench.expire();
    assert_eq!(bench.names(Ino::ROOT).await, ["%%=a", "a"]);
    bench.remove("a/b");
    bench.expire();
    assert_eq!(bench.names(Ino::ROOT).await, ["a"]);
    assert_eq!(bench.ino(Ino::ROOT, "a").await, a);
}

#[tokio::test]
async fn a_file_being_written_steps_aside_for_a_folder_and_keeps_its_key() {
    let bench = Bench::new();
    bench.put("a", "old");
    let a = bench.ino(Ino::ROOT, "a").await;
    bench.bucket.set_attr(a, size(3)).await.unwrap();
    bench.put("a/b", "x");
    bench.expire();
    assert_eq!(bench.names(Ino::ROOT).await, ["%%=a", "a"]);
    bench.upload(a, "new").await;
    assert_eq!(bench.fake.bytes(&Key::from("a")).unwrap(), "new");
    bench.expire();
    assert_eq!(bench.ino(Ino::ROOT, "%%=a").await, a);
}

#[tokio::test]
async fn what_is_beside_a_folder_is_made_and_removed() {
    let bench = Bench::new();
    bench.put("a/b", "x");
    bench.write(Ino::ROOT, "%%=a", "beside").await;
    assert_eq!(bench.keys(), ["a", "a/b"]);
    bench.bucket.unlink(Ino::ROOT, &name("%%=a")).await.unwrap();
    assert!(bench.keys().contains(&"a/b".to_owned()) && !bench.keys().contains(&"a".to_owned()));
    for refused in ["%%=none", "%%=a.b"] {
        let made = bench.bucket.create(Ino::ROOT, &name(refused), NODE).await;
        assert_eq!(kind(made), ErrorKind::Invalid, "{refused}");
    }
    let made = bench.bucket.mkdir(Ino::ROOT, &name("%%=a"), NODE).await;
    assert_eq!(kind(made), ErrorKind::Invalid);
}

#[tokio::test]
async fn names_like_those_of_quayfs_are_made_and_removed() {
    let names = [
        "%%",
        "%%.",
        "%%..",
        "%%=",
        "%%a",
        "%%:a",
        "%%@a",
        "%%~%61",
        "%%=%%=a",
        ".quayfs-",
        ".quayfs-attributes",
        ".quayfs-unlinked",
        ".quayfs-moving",
    ];
    for top in [None, Some("d")] {
        let bench = Bench::new();
        let dir = match top {
            None => Ino::ROOT,
            Some(top) => bench.mkdir(Ino::ROOT, top).await,
        };
        let mut want = Vec::new();
        for text in names {
            bench.write(dir, text, "file").await;
            let folder = format!("in {text}");
            let inside = bench.mkdir(dir, &folder).await;
            bench.mkdir(inside, text).await;
            want.extend([text.to_owned(), folder]);
        }
        want.sort();
        let again = Bench::over(bench.fake.clone(), BucketOptions::default());
        let dir = match top {
            None => Ino::ROOT,
            Some(top) => again.ino(Ino::ROOT, top).await,
        };
        assert_eq!(again.names(dir).await, want);
        for text in names {
            let made = again.bucket.create(dir, &name(text), NODE).await;
            assert_eq!(kind(made), ErrorKind::Exists, "{text}");
            let (from, to) = (name(text), name("plain"));
            again.bucket.rename((dir, &from), (dir, &to), RenameMode::Replace).await.unwrap();
            again.bucket.rename((dir, &to), (dir, &from), RenameMode::Replace).await.unwrap();
            again.bucket.unlink(dir, &from).await.unwrap();
            let folder = name(&format!("in {text}"));
            let inside = again.bucket.lookup(dir, &folder).await.unwrap().attr.ino;
            assert_eq!(again.names(inside).await, [text]);
            again.bucket.rmdir(inside, &from).await.unwrap();
            again.bucket.rmdir(dir, &folder).await.unwrap();
        }
        assert_eq!(again.names(dir).await, [""; 0]);
    }
}

#[tokio::test]
async fn names_that_stand_for_nothing_are_not_there_and_not_made() {
    let bench = Bench::new();
    bench.put("d/x", "x");
    let d = bench.ino(Ino::ROOT, "d").await;
    let calls = bench.fake.calls_total();
    for (text, want) in [
        ("%%:.quayfs-attributes", ErrorKind::NotPermitted),
        ("%%~.quayfs-x", ErrorKind::NotPermitted),
    ] {
        assert_eq!(kind(bench.lookup(d, text).await), ErrorKind::NotFound, "{text}");
        assert_eq!(kind(bench.bucket.create(d, &name(text), NODE).await), want, "{text}");
        assert_eq!(kind(bench.bucket.mkdir(d, &name(text), NODE).await), want, "{text}");
        let x = name("x");
        let renamed = bench.bucket.rename((d, &x), (d, &name(text)), RenameMode::Replace).await;
        assert_eq!(kind(renamed), want, "{text}");
    }
    assert_eq!(bench.fake.calls_total(), calls, "the store need not be asked");
    let chunk = name(&format!("%%~{}", "n".repeat(252)));
    assert_eq!(kind(bench.bucket.mkdir(d, &chunk, NODE).await), ErrorKind::Invalid);
    assert_eq!(kind(bench.bucket.create(d, &chunk, NODE).await), ErrorKind::Invalid);
    let root = bench.bucket.create(Ino::ROOT, &name("%%:"), NODE).await;
    assert_eq!(kind(root), ErrorKind::Invalid, "the root has no key");
}

#[tokio::test]
async fn a_chunk_folder_is_there_while_a_key_is_shown_in_it() {
    let bench = Bench::new();
    let start = "n".repeat(252);
    let (long, short) = (format!("d/{start}tail"), format!("d/{start}12"));
    bench.put(&long, "x");
    bench.put(&short, "x");
    let d = bench.ino(Ino::ROOT, "d").await;
    let chunk = format!("%%~{start}");
    assert_eq!(bench.names(d).await, [chunk.clone(), format!("{start}12")]);
    let folder = bench.ino(d, &chunk).await;
    assert_eq!(bench.names(folder).await, ["tail"]);
    assert_eq!(kind(bench.lookup(folder, "12").await), ErrorKind::NotFound);
    let made = bench.bucket.create(folder, &name("ab"), NODE).await;
    assert_eq!(kind(made), ErrorKind::Invalid, "that one has a name above");
    bench.write(folder, "more", "x").await;
    bench.bucket.unlink(folder, &name("more")).await.unwrap();

    let rename =
        bench.bucket.rename((d, &name(&chunk)), (d, &name("e")), RenameMode::Replace).await;
    assert_eq!(kind(rename), ErrorKind::Invalid);
    let not_empty = bench.bucket.rmdir(d, &name(&chunk)).await;
    assert_eq!(kind(not_empty), ErrorKind::NotEmpty);
    bench.bucket.unlink(d, &name(&format!("{start}12"))).await.unwrap();
    bench.bucket.unlink(folder, &name("tail")).await.unwrap();
    assert_eq!(bench.keys(), ["d/"], "the folder around it stays");
    bench.bucket.rmdir(d, &name(&chunk)).await.unwrap();
    assert_eq!(bench.keys(), ["d/"]);
}

#[tokio::test]
async fn the_longest_key_is_a_file() {
    let bench = Bench::new();
    let key = format!("{0}/{0}/{0}/{1}/y", "n".repeat(255), "n".repeat(254));
    assert_eq!(key.len(), 1024);
    bench.put(&key, "x");
    let mut dir = Ino::ROOT;
    for part in key.rsplit_once('/').unwrap().0.split('/') {
        dir = bench.ino(dir, part).await;
    }
    assert_eq!(bench.names(dir).await, ["y"]);
    bench.expire();
    assert_eq!(bench.lookup(dir, "y").await.unwrap().attr.size, 1);
    let longer = bench.bucket.create(dir, &name("yy"), NODE).await;
    assert_eq!(kind(longer), ErrorKind::NameTooLong);
    let folder = bench.bucket.mkdir(dir, &name("z"), NODE).await;
    assert_eq!(kind(folder), ErrorKind::NameTooLong, "its marker");
}

#[tokio::test]
async fn a_folder_of_hidden_objects_is_not_found_and_costs_few_requests() {
    let bench = Bench::new();
    for n in 0..10 {
        bench.put(&format!("d/.quayfs-{n}"), "ours");
    }
    assert_eq!(kind(bench.lookup(Ino::ROOT, "d").await), ErrorKind::NotFound);
    assert_eq!(bench.fake.calls(Op::List), 2);
    bench.put("d/x", "x");
    bench.expire();
    let d = bench.ino(Ino::ROOT, "d").await;
    assert_eq!(bench.names(d).await, ["x"]);
}
