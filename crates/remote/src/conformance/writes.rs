//! Checks of put, copy, delete, and of keys and metadata.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::join_all;

use super::bench::{Bench, Check, metadata, plainly, when};
use crate::{Condition, ErrorKind, Key, Original, PutOptions, Version};

pub(super) const ALL: &[Check] = &[
    ("an_overwrite_is_another_version", |bench| an_overwrite_is_another_version(bench).boxed()),
    ("absent_creates_only_once", |bench| absent_creates_only_once(bench).boxed()),
    ("of_many_creators_one_wins", |bench| of_many_creators_one_wins(bench).boxed()),
    ("is_replaces_only_that_version", |bench| is_replaces_only_that_version(bench).boxed()),
    ("of_many_editors_one_wins", |bench| of_many_editors_one_wins(bench).boxed()),
    ("metadata_comes_back", |bench| metadata_comes_back(bench).boxed()),
    ("odd_metadata_is_kept_or_refused", |bench| odd_metadata_is_kept_or_refused(bench).boxed()),
    ("a_copy_is_the_same", |bench| a_copy_is_the_same(bench).boxed()),
    ("a_copy_names_its_source_version", |bench| a_copy_names_its_source_version(bench).boxed()),
    ("what_is_deleted_is_gone", |bench| what_is_deleted_is_gone(bench).boxed()),
    ("odd_keys_are_kept_or_refused", |bench| odd_keys_are_kept_or_refused(bench).boxed()),
    ("a_key_may_also_be_a_folder", |bench| a_key_may_also_be_a_folder(bench).boxed()),
    ("a_marker_is_an_object", |bench| a_marker_is_an_object(bench).boxed()),
];

/// How many clients race.
const RACERS: usize = 8;

async fn an_overwrite_is_another_version(bench: &Bench<'_>) {
    let key = bench.key("a");
    let mut seen: Vec<Version> = Vec::new();
    for round in 0..20 {
        let version = bench.put(&key, format!("{round:04}")).await;
        assert!(!seen.contains(&version), "round {round}: {version:?} again");
        seen.push(version);
    }
    assert_eq!(bench.whole(&key).await, "0019");
}

async fn absent_creates_only_once(bench: &Bench<'_>) {
    if !bench.conditional() {
        return;
    }
    let key = bench.key("a");
    let absent = when(Condition::Absent);
    bench.ok(bench.remote.put(&key, "1".into(), &absent).await);
    bench.fails(bench.remote.put(&key, "2".into(), &absent).await, ErrorKind::Changed);
    assert_eq!(bench.whole(&key).await, "1");
    bench.ok(bench.remote.delete(&key).await);
    bench.ok(bench.remote.put(&key, "3".into(), &absent).await);
    assert_eq!(bench.whole(&key).await, "3");
}

async fn of_many_creators_one_wins(bench: &Bench<'_>) {
    if !bench.conditional() {
        return;
    }
    let key = bench.key("sub/a");
    race(bench, &key, when(Condition::Absent)).await;
}

async fn of_many_editors_one_wins(bench: &Bench<'_>) {
    if !bench.conditional() {
        return;
    }
    let key = bench.key("a");
    let first = bench.put(&key, "first").await;
    race(bench, &key, when(Condition::Is(first))).await;
}

async fn race(bench: &Bench<'_>, key: &Key, options: PutOptions) {
    let write = |racer: usize| {
        let options = &options;
        async move {
            // A store may ask racers to come again; who comes again has lost or won by then.
            loop {
                let put = bench.remote.put(key, format!("racer {racer}").into(), options).await;
                match put {
                    Err(error) if matches!(error.kind, ErrorKind::Transient { .. }) => {}
                    other => return other,
                }
            }
        }
    };
    let results = join_all((0..RACERS).map(write)).await;
    let winners: Vec<usize> = (0..RACERS).filter(|&racer| results[racer].is_ok()).collect();
    assert_eq!(winners.len(), 1, "winners {winners:?} of {results:?}");
    for result in results.into_iter().filter(Result::is_err) {
        bench.fails(result, ErrorKind::Changed);
    }
    assert_eq!(bench.whole(key).await, format!("racer {}", winners[0]));
}

async fn is_replaces_only_that_version(bench: &Bench<'_>) {
    if !bench.conditional() {
        return;
    }
    let key = bench.key("a");
    let first = bench.put(&key, "first").await;
    let is_first = when(Condition::Is(first));
    let second = bench.ok(bench.remote.put(&key, "second".into(), &is_first).await);
    bench.fails(bench.remote.put(&key, "third".into(), &is_first).await, ErrorKind::Changed);
    assert_eq!(bench.whole(&key).await, "second");
    bench.ok(bench.remote.delete(&key).await);
    let is_second = when(Condition::Is(second));
    bench.fails(bench.remote.put(&key, "fourth".into(), &is_second).await, ErrorKind::Changed);
}

async fn metadata_comes_back(bench: &Bench<'_>) {
    let pairs = [("mode", "33188"), ("quayfs-upload", "0a1b"), ("x-y.z", "two words = 2; %25")];
    let wanted = metadata(&pairs);
    let key = bench.key("a");
    let options = PutOptions { metadata: wanted.clone(), ..plainly() };
    bench.ok(bench.remote.put(&key, "1".into(), &options).await);
    assert_eq!(bench.ok(bench.remote.head(&key).await).metadata, wanted);
    // It belongs to the version, not to the key.
    bench.put(&key, "2").await;
    assert!(bench.ok(bench.remote.head(&key).await).metadata.is_empty());
}

async fn odd_metadata_is_kept_or_refused(bench: &Bench<'_>) {
    for (name, value) in
        [("a", "grün 水"), ("a", " edges "), ("a", "two\nlines"), ("a", ""), ("Upper", "x")]
    {
        let key = bench.key("a");
        let wanted = metadata(&[(name, value)]);
        let options = PutOptions { metadata: wanted.clone(), ..plainly() };
        match bench.remote.put(&key, "1".into(), &options).await {
            Err(error) => assert_eq!(error.kind, ErrorKind::Unsupported, "{name}={value:?}"),
            Ok(_) => assert_eq!(bench.ok(bench.remote.head(&key).await).metadata, wanted),
        }
    }
}

fn original<'a>(key: &'a Key, version: &'a Version, size: u64) -> Original<'a> {
    Original { key, version, size }
}

async fn a_copy_is_the_same(bench: &Bench<'_>) {
    let (from, to) = (bench.key("from a+b%"), bench.key("deep/er/to"));
    let options = PutOptions { metadata: metadata(&[("mode", "33188")]), ..plainly() };
    let version = bench.ok(bench.remote.put(&from, "bytes".into(), &options).await);
    let copied =
        bench.ok(bench.remote.copy(original(&from, &version, 5), &to, &Condition::Always).await);
    let meta = bench.ok(bench.remote.head(&to).await);
    assert_eq!((meta.size, meta.version, meta.metadata), (5, copied, options.metadata));
    assert_eq!(bench.whole(&to).await, "bytes");
    assert_eq!(bench.whole(&from).await, "bytes");
}

async fn a_copy_names_its_source_version(bench: &Bench<'_>) {
    let (from, to) = (bench.key("from"), bench.key("to"));
    let old = bench.put(&from, "old").await;
    let new = bench.put(&from, "new!").await;
    let always = Condition::Always;
    bench
        .fails(bench.remote.copy(original(&from, &old, 3), &to, &always).await, ErrorKind::Changed);
    bench.fails(bench.remote.head(&to).await, ErrorKind::NotFound);
    let missing = bench.key("missing");
    bench.fails(
        bench.remote.copy(original(&missing, &new, 4), &to, &always).await,
        ErrorKind::NotFound,
    );
}

async fn what_is_deleted_is_gone(bench: &Bench<'_>) {
    let key = bench.key("x/y/a");
    bench.put(&key, "1").await;
    bench.ok(bench.remote.delete(&key).await);
    bench.fails(bench.remote.head(&key).await, ErrorKind::NotFound);
    bench.ok(bench.remote.delete(&key).await);
    bench.ok(bench.remote.delete(&bench.key("never/was")).await);
    assert!(bench.names(bench.request(false)).await.is_empty());
    assert!(bench.names(bench.request(true)).await.is_empty());
}

/// Keys that are no tidy path, or that a careless client changes on the way.
const ODD: &[&[u8]] = &[
    b"a//b",
    b"//",
    b"/lead",
    b"./x",
    b"../z",
    b"a/./b",
    b"a/../b",
    b".",
    b"..",
    b"trail/.",
    b" ",
    b" lead",
    b"trail ",
    b"a b",
    b"plus+plus",
    b"per%cent",
    b"%2F",
    b"a?b#c",
    b"a&b=c;d",
    b"back\\slash",
    b"quo\"te'",
    b"star*",
    b"tab\t",
    b"new\nline",
    b"\x01\x7f",
    b"<xml>&amp;",
    b"tilde~",
    b"equals=",
    b"at@colon:",
    b"\xc3\xbc\xe6\xb0\xb4",
    b"e\xcc\x81",
    b"\xc3\xa9",
    b"\xf0\x9f\x98\x80",
    b"\xff\xfe",
    b"nul\0",
    b".quayfs/keys/x",
    b"CASE",
    b"case",
];

async fn odd_keys_are_kept_or_refused(bench: &Bench<'_>) {
    let mut taken = Vec::new();
    for &odd in ODD {
        let key = bench.key(odd);
        let content = Bytes::from([b"content of ", odd].concat());
        match bench.remote.put(&key, content.clone(), &plainly()).await {
            Err(error) => {
                let refused = error.kind == ErrorKind::Unsupported;
                assert!(refused, "{}: {error}", odd.escape_ascii());
            }
            Ok(version) => {
                let meta = bench.ok(bench.remote.head(&key).await);
                assert_eq!(meta.version, version, "{}", odd.escape_ascii());
                taken.push(odd.to_vec());
            }
        }
    }
    taken.sort_unstable();
    let listed = bench.names(bench.request(false)).await;
    assert_eq!(listed, taken, "the listing is not of the keys that were put");
    for odd in taken {
        let key = bench.key(&odd);
        let content = [b"content of ", &odd[..]].concat();
        assert_eq!(bench.whole(&key).await, content, "{}", odd.escape_ascii());
        bench.ok(bench.remote.delete(&key).await);
        bench.fails(bench.remote.head(&key).await, ErrorKind::NotFound);
    }
    assert!(bench.names(bench.request(false)).await.is_empty());
}

async fn a_key_may_also_be_a_folder(bench: &Bench<'_>) {
    let orders: [[&[u8]; 3]; 2] = [[b"x", b"x/y", b"x/y/z"], [b"x/y/z", b"x/y", b"x"]];
    for order in orders {
        let mut taken: Vec<Vec<u8>> = Vec::new();
        for name in order {
            if bench.try_put(&bench.key(name), b"1").await.is_some() {
                taken.push(name.to_vec());
            }
        }
        taken.sort_unstable();
        assert_eq!(bench.names(bench.request(false)).await, taken);
        for name in taken {
            assert_eq!(bench.whole(&bench.key(&name)).await, "1");
            bench.ok(bench.remote.delete(&bench.key(&name)).await);
        }
        assert!(bench.names(bench.request(false)).await.is_empty());
    }
}

async fn a_marker_is_an_object(bench: &Bench<'_>) {
    let marker = bench.key("dir/");
    let options = PutOptions { metadata: metadata(&[("mode", "16877")]), ..plainly() };
    let version = bench.ok(bench.remote.put(&marker, Bytes::new(), &options).await);
    let meta = bench.ok(bench.remote.head(&marker).await);
    assert_eq!((meta.size, meta.version, meta.metadata), (0, version, options.metadata));
    assert_eq!(bench.names(bench.request(false)).await, [b"dir/"]);

    // It outlives what is below it.
    let below = bench.key("dir/a");
    bench.put(&below, "1").await;
    assert_eq!(bench.names(bench.request(false)).await, [&b"dir/"[..], b"dir/a"]);
    bench.ok(bench.remote.delete(&below).await);
    assert_eq!(bench.names(bench.request(false)).await, [b"dir/"]);
    bench.fails(bench.remote.head(&bench.key("dir")).await, ErrorKind::NotFound);

    // And is gone without what is below it.
    bench.put(&below, "1").await;
    bench.ok(bench.remote.delete(&marker).await);
    assert_eq!(bench.names(bench.request(false)).await, [b"dir/a"]);
    bench.fails(bench.remote.head(&marker).await, ErrorKind::NotFound);

    if bench.try_put(&bench.key("full/"), b"bytes").await.is_some() {
        assert_eq!(bench.whole(&bench.key("full/")).await, "bytes");
    }
}
