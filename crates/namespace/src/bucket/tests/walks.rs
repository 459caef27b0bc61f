//! One folder listed after another, as `find` and `du` do.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{FileKind, Ino, ManualClock};
use remote::fake::{Fake, Op};
use remote::{Key, Metadata, Remote};

use super::late::Late;
use super::{Bench, TTL, name};
use crate::{Bucket, BucketOptions, Listed, Namespace, NoLedger};

/// The path of everything below `dir`, found as `find` finds it.
async fn find(bucket: &Bucket, dir: Ino) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![(String::new(), dir)];
    while let Some((path, dir)) = open.pop() {
        let listed = bucket.listing(dir).await.unwrap().all().await.unwrap();
        for Listed { name, ino, kind } in listed.into_iter().rev() {
            let path = format!("{path}{name}");
            bucket.attr(ino).await.unwrap();
            if kind == FileKind::Directory {
                open.push((format!("{path}/"), ino));
            }
            found.insert(path);
        }
    }
    found
}

/// The keys of `bench`, and the folders that they are in.
fn paths(bench: &Bench) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for key in bench.keys() {
        let slashes = key.match_indices('/').map(|(at, _)| key[..at].to_owned());
        paths.extend(slashes);
        if !key.ends_with('/') {
            paths.insert(key);
        }
    }
    paths
}

#[tokio::test]
async fn walking_over_a_thousand_small_folders_costs_a_request_for_every_thousand_files() {
    let bench = Bench::new();
    for folder in 0..1000 {
        for file in 0..10 {
            bench.put(&format!("f{folder:03}/{file}"), "x");
        }
    }
    let found = find(&bench.bucket, Ino::ROOT).await;
    assert_eq!(found.len(), 11_000);
    assert_eq!(found, paths(&bench));
    let (heads, lists) = (bench.fake.calls(Op::Head), bench.fake.calls(Op::List));
    assert!(heads == 0 && lists <= 15, "{heads} HEADs, {lists} LISTs");
    bench.fake.forget_faults();
    find(&bench.bucket, Ino::ROOT).await;
    assert_eq!(bench.fake.calls(Op::List), lists, "all of it is believed");
}

#[tokio::test]
async fn walking_over_a_deep_tree_with_markers_and_odd_keys_finds_everything() {
    let bench = Bench::new();
    for number in 0..3000_u32 {
        let (a, b, c) = (number % 3, number % 17, number % 5);
        bench.put(&format!("a{a}/b-{b}/c.{c}/{number}"), "x");
        bench.put(&format!("a{a}/b-{b}.txt"), "x");
    }
    bench.put("a1/empty/", "");
    bench.put("a1/b-3/empty/", "");
    let found = find(&bench.bucket, Ino::ROOT).await;
    assert_eq!(found, paths(&bench));
    let lists = bench.fake.calls(Op::List);
    assert!(lists <= 20, "{lists} LISTs for 308 folders");
}

#[tokio::test]
async fn a_folder_too_large_for_a_page_costs_one_request_more_and_soon_none() {
    let bench = Bench::new();
    for folder in 0..100 {
        for file in 0..1200 {
            bench.put(&format!("f{folder:02}/{file:04}"), "x");
        }
    }
    let before = bench.fake.calls(Op::List);
    let small = bench.names(Ino::ROOT).await;
    assert_eq!(bench.fake.calls(Op::List) - before, 1);
    let first = bench.ino(Ino::ROOT, &small[0]).await;
    assert_eq!(bench.names(first).await.len(), 1200);
    assert_eq!(bench.fake.calls(Op::List) - before, 4, "one more than its two pages");
    assert_eq!(find(&bench.bucket, Ino::ROOT).await.len(), 120_100);
    let lists = bench.fake.calls(Op::List) - before;
    assert!(lists <= 210, "{lists} LISTs for 200 pages");
}

#[tokio::test]
async fn what_a_page_across_folders_tells_does_not_undo_what_was_done_here() {
    let fake = Fake::new();
    for key in ["a/1", "b/1", "b/2", "c/1"] {
        fake.insert(&Key::from(key), "x", Metadata::new());
    }
    let late = Arc::new(Late::new(fake));
    let remote: Arc<dyn Remote> = Arc::clone(&late) as _;
    let clock = Arc::new(ManualClock::default());
    let bucket =
        Bucket::new(remote, Arc::clone(&clock) as _, Arc::new(NoLedger), BucketOptions::default());
    late.deliver(0..1);
    let folders = bucket.list(Ino::ROOT).await.unwrap();
    let (a, b) = (folders[0].attr.ino, folders[1].attr.ino);
    let walk = bucket.list(a);
    let change = async {
        late.read(2).await;
        // The page across folders is read; what the changes ask for themselves comes at once.
        late.deliver(2..1000);
        bucket.unlink(b, &name("1")).await.unwrap();
        bucket.create(b, &name("new"), super::NODE).await.unwrap();
        bucket.rmdir(Ino::ROOT, &name("c")).await.unwrap_err();
        late.deliver(1..2);
    };
    let (listed, ()) = tokio::join!(walk, change);
    assert_eq!(listed.unwrap().len(), 1);
    let of_b: Vec<String> =
        bucket.list(b).await.unwrap().iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(of_b, ["2", "new"]);
    clock.advance(TTL);
    assert_eq!(bucket.list(b).await.unwrap().len(), 2);
}

#[tokio::test]
async fn where_nothing_is_believed_no_page_goes_across_folders() {
    let options =
        BucketOptions { metadata_ttl: std::time::Duration::ZERO, ..BucketOptions::default() };
    let bench = Bench::over(Fake::new(), options);
    bench.put("a/1", "x");
    bench.put("b/1", "x");
    assert_eq!(find(&bench.bucket, Ino::ROOT).await, paths(&bench));
    assert!(bench.fake.calls(Op::List) <= 3 + 4, "three folders, four names");
}
