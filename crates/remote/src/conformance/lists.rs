//! Checks of listings.

use futures::FutureExt as _;

use super::bench::{Bench, Check};
use crate::{Entry, Key, ListRequest};

pub(super) const ALL: &[Check] = &[
    ("a_listing_is_in_byte_order", |bench| a_listing_is_in_byte_order(bench).boxed()),
    ("a_delimiter_folds_folders", |bench| a_delimiter_folds_folders(bench).boxed()),
    ("a_prefix_need_not_end_a_name", |bench| a_prefix_need_not_end_a_name(bench).boxed()),
    ("pages_of_any_size_are_the_whole", |bench| pages_of_any_size_are_the_whole(bench).boxed()),
    ("pages_of_one_are_the_whole", |bench| pages_of_one_are_the_whole(bench).boxed()),
    ("start_after_skips_exactly", |bench| start_after_skips_exactly(bench).boxed()),
    ("a_folder_counts_as_far_as_its_keys", |bench| {
        a_folder_counts_as_far_as_its_keys(bench).boxed()
    }),
    ("a_listing_knows_what_head_knows", |bench| a_listing_knows_what_head_knows(bench).boxed()),
    ("what_was_written_is_listed", |bench| what_was_written_is_listed(bench).boxed()),
];

/// In byte order. A folder's keys stand where its name with a `/` behind stands.
const KEYS: &[&str] = &[
    "a!", "a-/x", "a.txt", "a/", "a/b/c", "a/b/d", "a/bb", "a0", "b/1", "b/2", "b/20/3", "c",
    "ü/x", "水",
];

/// The same, folded at the first `/`.
const FOLDED: &[&str] = &["a!", "a-/", "a.txt", "a/", "a0", "b/", "c", "ü/", "水"];

/// Puts [`KEYS`], last first.
async fn put_keys(bench: &Bench<'_>) -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    for &name in KEYS.iter().rev() {
        let body: &[u8] = if name.ends_with('/') { b"" } else { b"1" };
        bench.put(&bench.key(name), body).await;
        taken.push(name.as_bytes().to_vec());
    }
    taken.reverse();
    taken
}

/// What is left of [`FOLDED`] if only `taken` are there.
fn folded(taken: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let of = |key: &Vec<u8>, name: &[u8]| {
        if name.ends_with(b"/") { key.starts_with(name) } else { key == name }
    };
    let some = |name: &&[u8]| taken.iter().any(|key| of(key, name));
    FOLDED.iter().map(|name| name.as_bytes()).filter(some).map(<[u8]>::to_vec).collect()
}

async fn a_listing_is_in_byte_order(bench: &Bench<'_>) {
    let taken = put_keys(bench).await;
    assert_eq!(bench.names(bench.request(false)).await, taken);
}

async fn a_delimiter_folds_folders(bench: &Bench<'_>) {
    let taken = put_keys(bench).await;
    assert_eq!(bench.names(bench.request(true)).await, folded(&taken));
    for entry in bench.list(bench.request(true)).await {
        let is_prefix = matches!(entry, Entry::Prefix(_));
        assert_eq!(is_prefix, entry.key().as_bytes().ends_with(b"/"), "{entry:?}");
    }
    // Below a folder its own marker is an object like any other.
    let within = ListRequest { prefix: bench.key("a/"), ..bench.request(true) };
    let entries = bench.list(within).await;
    assert_eq!(entries.first().map(Entry::key), Some(&bench.key("a/")));
    assert!(matches!(entries[0], Entry::Object(..)), "{:?}", entries[0]);
    assert_eq!(entries[1], Entry::Prefix(bench.key("a/b/")));
}

async fn a_prefix_need_not_end_a_name(bench: &Bench<'_>) {
    let taken = put_keys(bench).await;
    for prefix in ["", "a", "a/b", "a/b/", "a/b/c", "b/2", "b/20/", "c", "ü", "zz", "a/none/"] {
        let request = ListRequest { prefix: bench.key(prefix), ..bench.request(false) };
        let begins = |key: &&Vec<u8>| key.starts_with(prefix.as_bytes());
        let want: Vec<Vec<u8>> = taken.iter().filter(begins).cloned().collect();
        assert_eq!(bench.names(request).await, want, "prefix {prefix:?}");
    }
    let request = ListRequest { prefix: bench.key("a/b"), ..bench.request(true) };
    assert_eq!(bench.names(request).await, [&b"a/b/"[..], b"a/bb"]);
}

async fn pages_of_any_size_are_the_whole(bench: &Bench<'_>) {
    check_pages(bench, 2..=16).await;
}

async fn pages_of_one_are_the_whole(bench: &Bench<'_>) {
    check_pages(bench, 1..=1).await;
}

async fn check_pages(bench: &Bench<'_>, sizes: std::ops::RangeInclusive<u16>) {
    let taken = put_keys(bench).await;
    for entries_max in sizes {
        for (delimited, want) in [(false, taken.clone()), (true, folded(&taken))] {
            let request = ListRequest { entries_max, ..bench.request(delimited) };
            assert_eq!(bench.names(request).await, want, "pages of {entries_max}, {delimited}");
        }
    }
}

async fn start_after_skips_exactly(bench: &Bench<'_>) {
    let taken = put_keys(bench).await;
    let after = |name: &str| Some(bench.key(name));
    for name in ["", "a", "a!", "a.", "a/", "a/b", "a/b/", "a/b/c", "a/z", "b/2", "c", "zzz"] {
        for entries_max in [1, 2, 1000] {
            let request =
                ListRequest { start_after: after(name), entries_max, ..bench.request(false) };
            let behind = |key: &&Vec<u8>| name.as_bytes() < &key[..];
            let want: Vec<Vec<u8>> = taken.iter().filter(behind).cloned().collect();
            assert_eq!(bench.names(request).await, want, "after {name:?} by {entries_max}");
        }
    }
    // Before all of the listing and behind all of it.
    let request = ListRequest { start_after: Some(Key::from("!")), ..bench.request(false) };
    assert_eq!(bench.names(request).await, taken);
    check_first_after(bench, &[("a0", "b/"), ("a!", "a-/"), ("zzz", "ü/")]).await;
}

async fn a_folder_counts_as_far_as_its_keys(bench: &Bench<'_>) {
    put_keys(bench).await;
    check_first_after(bench, &[("a/b/c", "a/"), ("a-/", "a-/"), ("b/2", "b/")]).await;
}

/// Checks what a folded listing after each key begins with.
async fn check_first_after(bench: &Bench<'_>, cases: &[(&str, &str)]) {
    for (name, want) in cases {
        let start_after = Some(bench.key(name));
        let request = ListRequest { start_after, ..bench.request(true) };
        let names = bench.names(request).await;
        assert_eq!(names.first().map(Vec::as_slice), Some(want.as_bytes()), "after {name}");
    }
}

async fn a_listing_knows_what_head_knows(bench: &Bench<'_>) {
    put_keys(bench).await;
    for entry in bench.list(bench.request(false)).await {
        let Entry::Object(key, listed) = entry else { panic!("folded: {entry:?}") };
        let head = bench.ok(bench.remote.head(&key).await);
        assert_eq!((listed.size, &listed.version), (head.size, &head.version), "{key}");
        // Some headers carry whole seconds only.
        assert_eq!(listed.modified.secs, head.modified.secs, "{key}");
    }
}

async fn what_was_written_is_listed(bench: &Bench<'_>) {
    for round in 0..10 {
        bench.put(&bench.key(format!("f/{round}")), "1").await;
        let want: Vec<Vec<u8>> = (0..=round).map(|i| format!("f/{i}").into_bytes()).collect();
        assert_eq!(bench.names(bench.request(false)).await, want);
    }
    for round in 0..10 {
        bench.ok(bench.remote.delete(&bench.key(format!("f/{round}"))).await);
        assert_eq!(bench.names(bench.request(false)).await.len(), 9 - round);
    }
}
