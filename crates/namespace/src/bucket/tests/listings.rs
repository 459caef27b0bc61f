//! Listings that grow while they are read.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{Ino, Name, Share};
use proptest::prelude::{any, prop, proptest};
use proptest::test_runner::Config;
use remote::Key;
use remote::fake::{Fake, Op};

use super::{Bench, name};
use crate::{BucketOptions, ErrorKind, Listing, Namespace};

/// A bucket of `count` files whose pages have ten lines.
fn paged(count: usize) -> Bench {
    let bench = Bench::new();
    bench.fake.short_pages(10);
    for file in 0..count {
        bench.put(&format!("n{file:03}"), "x");
    }
    bench
}

async fn names(listing: &Listing) -> Vec<String> {
    listing.all().await.unwrap().iter().map(|listed| listed.name.to_string()).collect()
}

/// Lets everything that can go on go on.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_first_entries_come_with_the_first_page() {
    let bench = paged(100);
    let gate = bench.fake.hold(Op::List);
    let listing = bench.bucket.listing(Ino::ROOT).await.unwrap();
    gate.arrived(1).await;
    gate.let_through(1);
    let first = listing.page(0, 1000).await.unwrap();
    assert_eq!(first.len(), 9, "of the tenth the next page may have more to say");
    drop(gate);
    let want: Vec<String> = (0..100).map(|file| format!("n{file:03}")).collect();
    assert_eq!(names(&listing).await, want);
    assert_eq!(listing.page(3, 2).await.unwrap(), first[3..5], "an entry keeps its place");
}

#[tokio::test]
async fn a_folder_whose_keys_come_in_no_order_is_shown_whole() {
    let bench = Bench::over(super::without_order(), BucketOptions::default());
    let mut want: Vec<String> = (0..100).map(|file| format!("n{file:03}")).collect();
    for name in &want {
        bench.put(name, "x");
    }
    bench.put("n050x/1", "x");
    bench.put("n050x/2", "x");
    want.insert(51, "n050x".to_owned());
    let listing = bench.bucket.listing(Ino::ROOT).await.unwrap();
    assert_eq!(names(&listing).await, want);
    bench.expire();
    for name in want.iter().rev().step_by(7) {
        bench.lookup(Ino::ROOT, name).await.unwrap();
    }
    let absent = bench.lookup(Ino::ROOT, "n0505").await.unwrap_err();
    assert_eq!(absent.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn what_took_long_to_be_told_is_believed_for_longer() {
    let bench = paged(100);
    let gate = bench.fake.hold(Op::List);
    let listing = bench.bucket.listing(Ino::ROOT).await.unwrap();
    gate.arrived(1).await;
    bench.clock.advance(Duration::from_secs(10));
    drop(gate);
    assert_eq!(names(&listing).await.len(), 100);
    let requests = bench.fake.calls_total();
    bench.clock.advance(Duration::from_secs(15));
    for file in 0..100 {
        let found =
            bench.bucket.lookup(Ino::ROOT, &name(&format!("n{:03}", file * 37 % 100))).await;
        assert_eq!(found.unwrap().attr.size, 1);
    }
    assert_eq!(bench.fake.calls_total(), requests, "a listing told of all of them");
    bench.put("n050", "longer");
    bench.put("n100", "new");
    let ino = bench.bucket.lookup(Ino::ROOT, &name("n050")).await.unwrap().attr.ino;
    bench.bucket.content(ino).await.unwrap_err();
    assert!(requests < bench.fake.calls_total(), "who opens it asks, and it is another now");
    bench.bucket.lookup(Ino::ROOT, &name("n100")).await.unwrap();
    bench.clock.advance(Duration::from_secs(5));
    let found = bench.bucket.lookup(Ino::ROOT, &name("n050")).await;
    assert_eq!(found.unwrap().attr.size, 6);
}

#[tokio::test]
async fn a_listing_that_fails_in_the_middle_is_never_short() {
    let bench = paged(100);
    let gate = bench.fake.hold(Op::List);
    let listing = bench.bucket.listing(Ino::ROOT).await.unwrap();
    gate.arrived(1).await;
    bench.fake.fail_next(Op::List, remote::ErrorKind::Denied);
    drop(gate);
    let first = listing.page(0, 1000).await.unwrap();
    let denied = ErrorKind::Remote(remote::ErrorKind::Denied);
    assert_eq!(listing.page(first.len(), 1000).await.unwrap_err().kind, denied);
    assert_eq!(listing.all().await.unwrap_err().kind, denied);
    assert_eq!(listing.page(0, 5).await.unwrap(), first[..5], "what came stays");
    assert_eq!(bench.names(Ino::ROOT).await.len(), 100, "the next listing is a new one");
}

#[tokio::test]
async fn who_lists_after_a_change_here_sees_it_though_a_listing_is_under_way() {
    let bench = paged(100);
    let gate = bench.fake.hold(Op::List);
    let before = bench.bucket.listing(Ino::ROOT).await.unwrap();
    gate.arrived(1).await;
    gate.let_through(1);
    before.page(0, 1).await.unwrap();
    drop(gate);
    bench.create(Ino::ROOT, "a").await;
    bench.bucket.unlink(Ino::ROOT, &name("n003")).await.unwrap();
    let after = bench.bucket.listing(Ino::ROOT).await.unwrap();
    let after = names(&after).await;
    assert!(after.contains(&"a".to_owned()) && !after.contains(&"n003".to_owned()));
    assert_eq!(after.len(), 100);
    assert!(99 <= names(&before).await.len());
}

#[tokio::test]
async fn pages_that_are_all_of_one_state_do_not_undo_what_was_done_between_them() {
    let bench = paged(30);
    bench.fake.pages_of_one_state();
    bench.ino(Ino::ROOT, "n025").await;
    let gate = bench.fake.hold(Op::List);
    let listing = bench.bucket.listing(Ino::ROOT).await.unwrap();
    gate.let_through(1);
    gate.arrived(2).await;
    bench.bucket.unlink(Ino::ROOT, &name("n025")).await.unwrap();
    drop(gate);
    assert_eq!(listing.all().await.unwrap().len(), 29);
    assert_eq!(bench.names(Ino::ROOT).await.len(), 29);
    assert!(bench.lookup(Ino::ROOT, "n025").await.is_err());
}

#[tokio::test]
async fn a_listing_that_nobody_reads_any_more_asks_for_nothing_more() {
    let bench = paged(900);
    let gate = bench.fake.hold(Op::List);
    let listing = bench.bucket.listing(Ino::ROOT).await.unwrap();
    gate.let_through(3);
    gate.arrived(4).await;
    listing.page(0, 1).await.unwrap();
    let asked = bench.fake.calls(Op::List);
    drop(listing);
    settle().await;
    drop(gate);
    settle().await;
    assert_eq!(bench.fake.calls(Op::List), asked);
    assert_eq!(bench.names(Ino::ROOT).await.len(), 900);
}

#[tokio::test]
async fn what_lies_ready_for_a_slow_reader_is_bounded_and_nothing_is_left_out() {
    let bench = Bench::over(
        Fake::new(),
        BucketOptions { nodes: Share::whole(1000), ..BucketOptions::default() },
    );
    for file in 0..100_000 {
        bench.put(&format!("{file:06}"), "x");
    }
    let listing = bench.bucket.listing(Ino::ROOT).await.unwrap();
    listing.page(0, 1).await.unwrap();
    settle().await;
    let asked = bench.fake.calls(Op::List);
    assert!(asked < 100, "{asked}");
    settle().await;
    assert_eq!(bench.fake.calls(Op::List), asked);
    assert!(bench.bucket.shared.state().streams.is_empty(), "nobody is to join it");
    let all = names(&listing).await;
    assert_eq!(all.len(), 100_000);
    assert!(all.is_sorted());
    assert!(bench.fake.calls(Op::List) <= 170);
    let nodes = bench.bucket.shared.state().tree.len();
    assert!(nodes <= 1100, "{nodes} nodes");
}

#[tokio::test]
async fn a_folder_that_moves_while_it_is_listed_is_listed_to_its_end() {
    let bench = paged(0);
    let keys: Vec<String> = (0..95).map(|file| format!("{file:02}")).collect();
    for key in &keys {
        bench.put(&format!("old/{key}"), "x");
    }
    let dir = bench.ino(Ino::ROOT, "old").await;
    let gate = bench.fake.hold(Op::List);
    let listing = bench.bucket.listing(dir).await.unwrap();
    gate.arrived(1).await;
    gate.let_through(1);
    let first = listing.page(0, 1000).await.unwrap();
    for key in &keys {
        bench.put(&format!("new/{key}"), "x");
        bench.remove(&format!("old/{key}"));
    }
    bench.bucket.shared.state().tree.rename(dir, (Ino::ROOT, &name("new")));
    drop(gate);
    let mut all = names(&listing).await;
    assert_eq!(all[0], first[0].name.to_string());
    all.sort();
    assert_eq!(all, keys);
}

#[tokio::test]
async fn a_folder_that_moves_while_a_page_across_folders_is_asked_for_is_listed_to_its_end() {
    let bench = Bench::new();
    let keys: Vec<String> = (0..9).map(|file| format!("{file:02}")).collect();
    bench.put("before/x", "x");
    for key in &keys {
        bench.put(&format!("old/{key}"), "x");
    }
    bench.names(bench.ino(Ino::ROOT, "before").await).await;
    let dir = bench.ino(Ino::ROOT, "old").await;
    let gate = bench.fake.hold(Op::List);
    let listing = bench.bucket.listing(dir).await.unwrap();
    gate.arrived(1).await;
    for key in &keys {
        bench.put(&format!("new/{key}"), "x");
    }
    bench.bucket.shared.state().tree.rename(dir, (Ino::ROOT, &name("new")));
    drop(gate);
    let mut all = names(&listing).await;
    all.sort();
    assert_eq!(all, keys);
}

#[tokio::test]
async fn a_folder_that_is_removed_while_it_is_listed_ends() {
    let bench = paged(0);
    bench.put("d/", "");
    let dir = bench.ino(Ino::ROOT, "d").await;
    let gate = bench.fake.hold(Op::List);
    let listing = bench.bucket.listing(dir).await.unwrap();
    gate.arrived(1).await;
    bench.bucket.shared.state().tree.detach(dir, &super::super::nodes::Place::Unlinked);
    drop(gate);
    assert!(listing.all().await.unwrap().is_empty());
}

/// What is done here between two pages.
type Change = (u8, String);

async fn change(bench: &Bench, (what, text): &Change) {
    let (from, to) = (name(text), name(&format!("{text}.new")));
    // What is not there, or is a folder, is left alone.
    let _ = match what % 4 {
        0 => bench.bucket.create(Ino::ROOT, &from, super::NODE).await.map(|_| ()),
        1 => bench.bucket.unlink(Ino::ROOT, &from).await.map(|_| ()),
        2 => bench.bucket.mkdir(Ino::ROOT, &from, super::NODE).await.map(|_| ()),
        _ => {
            let mode = crate::RenameMode::Replace;
            bench.bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), mode).await.map(|_| ())
        }
    };
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(150) })]

    #[test]
    fn a_listing_has_every_name_once_whatever_is_changed_meanwhile(
        keys in prop::collection::btree_set("[ab01%.-]{1,4}(/[xy]?)?|%%[:=~!@]?[a%]{0,3}/?", 0..60),
        changes in prop::collection::vec((any::<u8>(), "[ab01.-]{1,3}[a0]"), 0..12),
        page_entries in 1..6_u16,
        one_state in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            if one_state {
                bench.fake.pages_of_one_state();
            }
            for key in &keys {
                bench.put(key, "x");
            }
            let truth: BTreeSet<Name> = listed(&bench).await;
            bench.expire();
            bench.fake.short_pages(page_entries);
            let listing = bench.bucket.listing(Ino::ROOT).await.unwrap();
            let mut touched = BTreeSet::new();
            let mut read = Vec::new();
            for done in &changes {
                change(&bench, done).await;
                touched.extend([name(&done.1), name(&format!("{}.new", done.1))]);
                read.extend(listing.page(read.len(), 3).await.unwrap());
            }
            read.extend(listing.all().await.unwrap().split_off(read.len()));
            let names: Vec<Name> = read.into_iter().map(|listed| listed.name).collect();
            let once: BTreeSet<Name> = names.iter().cloned().collect();
            assert_eq!(once.len(), names.len(), "a name twice in {names:?}");
            let untouched = |names: &BTreeSet<Name>| -> Vec<Name> {
                names.iter().filter(|name| !touched.contains(*name)).cloned().collect()
            };
            if changes.is_empty() {
                assert_eq!(once, truth);
            }
            // A file that got a folder beside it, or lost it, has another name.
            let beside = |name: &Name| name.as_bytes().starts_with(b"%%=");
            let (mut got, mut want) = (untouched(&once), untouched(&truth));
            got.retain(|name| !beside(name));
            want.retain(|name| !beside(name));
            assert_eq!(got, want);

            // What is remembered is what a listing on one page finds.
            let now = listed(&bench).await;
            bench.expire();
            bench.fake.short_pages(1000);
            assert_eq!(now, listed(&bench).await);
        });
    }
}

#[test]
fn a_remembered_file_has_no_room_for_what_only_folders_have() {
    use crate::bucket::nodes::{File, Folder, Node};
    assert!(size_of::<Folder>() <= size_of::<File>());
    assert!(size_of::<Node>() <= 256, "{} bytes", size_of::<Node>());
}

async fn listed(bench: &Bench) -> BTreeSet<Name> {
    let all = bench.bucket.listing(Ino::ROOT).await.unwrap().all().await.unwrap();
    all.into_iter().map(|listed| listed.name).collect()
}

#[tokio::test]
async fn names_on_both_sides_of_a_cut_are_told_whole() {
    // Cuts fall between `m` and `m/`, and between `m.5` and `m.5/`.
    let bench = paged(0);
    let mut want = BTreeSet::new();
    for number in 0..300 {
        bench.put(&format!("m.{number:03}"), "x");
        want.insert(format!("m.{number:03}"));
    }
    for folder in ["m", "m.1", "m.2", "m.05"] {
        bench.put(&format!("{folder}/x"), "x");
        want.insert(folder.to_owned());
    }
    assert_eq!(bench.names(Ino::ROOT).await, want.into_iter().collect::<Vec<_>>());
    assert_eq!(bench.fake.bytes(&Key::from("m")), None);
}
