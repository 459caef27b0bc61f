//! Checks of head and get.

use base::ByteRange;
use bytes::Bytes;
use futures::FutureExt as _;

use super::bench::{Bench, Check, collect, pattern};
use crate::{ErrorKind, Fresh, Version};

pub(super) const ALL: &[Check] = &[
    ("what_is_not_there_is_not_found", |bench| what_is_not_there_is_not_found(bench).boxed()),
    ("head_knows_what_was_put", |bench| head_knows_what_was_put(bench).boxed()),
    ("every_range_within_is_exact", |bench| every_range_within_is_exact(bench).boxed()),
    ("a_range_past_the_end_is_refused", |bench| a_range_past_the_end_is_refused(bench).boxed()),
    ("another_version_is_not_read", |bench| another_version_is_not_read(bench).boxed()),
    ("an_empty_object_is_an_object", |bench| an_empty_object_is_an_object(bench).boxed()),
    ("a_small_object_is_read_whole_and_only_when_it_is_new", |bench| {
        a_small_object_is_read_whole_and_only_when_it_is_new(bench).boxed()
    }),
];

async fn a_small_object_is_read_whole_and_only_when_it_is_new(bench: &Bench<'_>) {
    let key = bench.key("a");
    bench.fails(bench.remote.get_whole(&key, None, 100).await, ErrorKind::NotFound);
    let first = bench.put(&key, "one").await;
    bench.fails(bench.remote.get_whole(&key, None, 2).await, ErrorKind::Unsupported);
    match bench.ok(bench.remote.get_whole(&key, None, 3).await) {
        Fresh::New(meta, bytes) => {
            assert_eq!((meta.version, meta.size, &bytes[..]), (first.clone(), 3, &b"one"[..]));
        }
        Fresh::Same => panic!("{}: no version was named", "get_whole"),
    }
    assert_eq!(bench.ok(bench.remote.get_whole(&key, Some(&first), 100).await), Fresh::Same);
    let second = bench.put(&key, Bytes::new()).await;
    match bench.ok(bench.remote.get_whole(&key, Some(&first), 100).await) {
        Fresh::New(meta, bytes) => assert_eq!((meta.version, bytes.len()), (second, 0)),
        Fresh::Same => panic!("the object was replaced"),
    }
}

async fn what_is_not_there_is_not_found(bench: &Bench<'_>) {
    let key = bench.key("nothing");
    bench.fails(bench.remote.head(&key).await, ErrorKind::NotFound);
    bench.fails(bench.get(&key, 0, 1).await, ErrorKind::NotFound);
    bench.fails(bench.remote.head(&bench.key("no/where/")).await, ErrorKind::NotFound);
}

async fn head_knows_what_was_put(bench: &Bench<'_>) {
    let key = bench.key("a");
    let version = bench.put(&key, "12345").await;
    let meta = bench.ok(bench.remote.head(&key).await);
    assert_eq!((meta.size, &meta.version), (5, &version));
    assert!(0 < meta.modified.secs, "{meta:?}");
    assert!(meta.metadata.is_empty(), "{meta:?}");
}

async fn every_range_within_is_exact(bench: &Bench<'_>) {
    let key = bench.key("a");
    let len = 1_500_007_usize;
    let bytes = pattern(len);
    let version = bench.put(&key, bytes.clone()).await;
    for (start, end) in
        [(0, len), (0, 1), (len - 1, len), (1, len - 1), (524_288, 524_289), (65_535, 1_048_577)]
    {
        let range = ByteRange::new(start as u64, end as u64).expect("not empty");
        for named in [None, Some(&version)] {
            let body = bench.ok(bench.remote.get(&key, range, named).await);
            let got = bench.ok(collect(body).await);
            assert!(got == bytes.slice(start..end), "{start}..{end}: {} bytes", got.len());
        }
    }
}

async fn a_range_past_the_end_is_refused(bench: &Bench<'_>) {
    let key = bench.key("a");
    bench.put(&key, "12345").await;
    for (start, end) in [(0, 6), (4, 6), (5, 6), (6, 7), (1000, 2000)] {
        bench.fails(bench.get(&key, start, end).await, ErrorKind::Unsupported);
    }
}

async fn another_version_is_not_read(bench: &Bench<'_>) {
    let key = bench.key("a");
    let old = bench.put(&key, "old").await;
    let new = bench.put(&key, "new!").await;
    let range = ByteRange::new(0, 3).expect("not empty");
    bench.fails(bench.remote.get(&key, range, Some(&old)).await, ErrorKind::Changed);
    let never = Version::new("\"0123456789abcdef0123456789abcdef\"");
    bench.fails(bench.remote.get(&key, range, Some(&never)).await, ErrorKind::Changed);
    let body = bench.ok(bench.remote.get(&key, range, Some(&new)).await);
    assert_eq!(bench.ok(collect(body).await), "new");
}

async fn an_empty_object_is_an_object(bench: &Bench<'_>) {
    let key = bench.key("empty");
    let version = bench.put(&key, Bytes::new()).await;
    let meta = bench.ok(bench.remote.head(&key).await);
    assert_eq!((meta.size, meta.version), (0, version));
    bench.fails(bench.get(&key, 0, 1).await, ErrorKind::Unsupported);
    assert_eq!(bench.names(bench.request(false)).await, [b"empty"]);
}
