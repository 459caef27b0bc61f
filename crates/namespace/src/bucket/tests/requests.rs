//! How often the bucket is asked.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock as _, Ino, Share};
use remote::fake::{Fake, Op};
use remote::{Key, Page, Remote as _};

use super::super::flight::Scope;
use super::{Bench, names};
use crate::{Bucket, BucketOptions, ErrorKind, Foresight, Namespace, Shows};

#[tokio::test]
async fn a_listing_of_two_pages_is_two_requests_and_answers_for_every_name() {
    let bench = Bench::new();
    for file in 0..1500 {
        bench.put(&format!("d/{file:04}"), "x");
    }
    let dir = bench.ino(Ino::ROOT, "d").await;
    let mut before = (0, 0);
    assert_eq!(bench.asked(&mut before), (1, 1), "one name: is it an object, is it a folder");

    let entries = bench.bucket.list(dir).await.unwrap();
    assert_eq!(entries.len(), 1500);
    assert_eq!(bench.asked(&mut before), (0, 2));
    for entry in &entries {
        assert_eq!(bench.bucket.lookup(dir, &entry.name).await.unwrap(), *entry);
        assert_eq!(bench.bucket.attr(entry.attr.ino).await.unwrap(), entry.attr);
    }
    assert_eq!(bench.lookup(dir, "nothing").await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(names(&bench.bucket.list(dir).await.unwrap()), names(&entries));
    assert_eq!(bench.asked(&mut before), (0, 0), "the listing is believed");

    bench.expire();
    bench.bucket.list(dir).await.unwrap();
    assert_eq!(bench.asked(&mut before), (0, 2), "but not for ever");
}

#[tokio::test]
async fn a_second_name_of_a_folder_costs_one_listing_and_the_others_nothing() {
    let bench = Bench::new();
    for file in 0..50 {
        bench.put(&format!("{file:02}"), "x");
    }
    let mut before = (0, 0);
    bench.ino(Ino::ROOT, "07").await;
    assert_eq!(bench.asked(&mut before), (1, 1));
    bench.ino(Ino::ROOT, "08").await;
    assert_eq!(bench.asked(&mut before), (0, 1));
    for file in 0..50 {
        bench.ino(Ino::ROOT, &format!("{file:02}")).await;
    }
    assert!(bench.lookup(Ino::ROOT, "50").await.is_err());
    assert_eq!(bench.asked(&mut before), (0, 0));
}

/// Until nobody is about a listing any more.
async fn listed(bench: &Bench) {
    loop {
        tokio::task::yield_now().await;
        if bench.bucket.shared.state().flights.is_empty() {
            return;
        }
    }
}

#[tokio::test]
async fn the_page_comes_with_the_first_name_while_second_names_are_wanted() {
    let options = BucketOptions { foresight: Foresight::Names, ..BucketOptions::default() };
    let bench = Bench::over(Fake::new(), options);
    for folder in 0..40 {
        for file in ["a", "b", "c"] {
            bench.put(&format!("d{folder:02}/{file}"), "x");
        }
    }
    let dirs = bench.bucket.list(Ino::ROOT).await.unwrap();
    let mut before = (0, 0);
    bench.asked(&mut before);
    for dir in &dirs[..20] {
        bench.ino(dir.attr.ino, "a").await;
        listed(&bench).await;
        assert_eq!(bench.asked(&mut before), (1, 2), "the name, and the page");
        bench.ino(dir.attr.ino, "b").await;
        bench.ino(dir.attr.ino, "c").await;
        assert_eq!(bench.asked(&mut before), (0, 0), "they were told ahead");
    }
    bench.put("d19/new", "x");
    bench.ino(dirs[19].attr.ino, "new").await;
    assert_eq!(bench.asked(&mut before), (0, 1), "what was not there is asked for");
    for dir in &dirs[20..] {
        bench.ino(dir.attr.ino, "a").await;
        listed(&bench).await;
    }
    let (heads, lists) = bench.asked(&mut before);
    assert_eq!(heads, 20);
    assert!(lists <= 20 + 8, "{lists} LISTs for names that nobody else was asked for");
}

#[tokio::test]
async fn how_a_file_looks_is_what_was_asked_of_it_and_not_what_the_page_lacks() {
    let options = BucketOptions { foresight: Foresight::Names, ..BucketOptions::default() };
    let bench = Bench::over(Fake::new(), options);
    let mode = [("mode".to_owned(), "33216".to_owned())].into();
    bench.fake.insert(&Key::from("dir/tool"), "x", mode);
    let dir = bench.ino(Ino::ROOT, "dir").await;
    let tool = bench.lookup(dir, "tool").await.unwrap().attr;
    assert_eq!(tool.mode, 0o700);
    listed(&bench).await;
    assert_eq!(bench.lookup(dir, "tool").await.unwrap().attr, tool);
    assert_eq!(bench.bucket.attr(tool.ino).await.unwrap(), tool);

    // Whichever comes first: the page is older than what is asked after it, before it is even sent.
    bench.bucket.shared.ask_ahead("lookup", dir);
    assert!(bench.bucket.shared.state().flights.contains_key(&(dir, Scope::Ahead)));
}

fn take_top(bench: &Bench, page: Page, began: Duration) -> impl Future<Output = ()> + use<> {
    let page = std::future::ready(Some(page));
    bench.bucket.take_page((Key::from(""), Shows::Folders), began, page)
}

#[tokio::test]
async fn folders_of_a_page_that_was_asked_for_before_are_believed_as_long_as_any_other() {
    let bench = Bench::new();
    bench.put("folder/file", "x");
    bench.put("file", "x");
    let began = bench.clock.monotonic();
    let page = bench.fake.list(&Bucket::first_page(&Key::from(""))).await.unwrap();
    bench.put("new/file", "x");
    let taking = take_top(&bench, page.clone(), began);
    // Newer than the page, although it is in it.
    let gone = super::name("folder");
    let kept = super::name("kept");
    let rename =
        bench.bucket.rename((Ino::ROOT, &gone), (Ino::ROOT, &kept), crate::RenameMode::Replace);
    rename.await.unwrap();
    taking.await;
    assert!(bench.lookup(Ino::ROOT, "folder").await.is_err());

    let bench = Bench::new();
    bench.put("folder/file", "x");
    take_top(&bench, page.clone(), began).await;
    let mut before = (0, 0);
    bench.asked(&mut before);
    bench.ino(Ino::ROOT, "folder").await;
    assert_eq!(bench.asked(&mut before), (0, 0));
    bench.put("file", "x");
    bench.ino(Ino::ROOT, "file").await;
    assert_eq!(bench.asked(&mut before).0, 1, "how a file looks no page tells");
    bench.put("new/file", "x");
    bench.ino(Ino::ROOT, "new").await;
    bench.expire();
    bench.ino(Ino::ROOT, "folder").await;
    assert_ne!(bench.asked(&mut before), (0, 0));

    let bench = Bench::new();
    bench.expire();
    take_top(&bench, page, began).await;
    assert!(bench.lookup(Ino::ROOT, "folder").await.is_err(), "it was too old");
}

#[tokio::test]
async fn names_of_a_large_folder_are_revalidated_a_page_at_a_time() {
    let bench = Bench::new();
    for file in 0..5000 {
        bench.put(&format!("{file:04}"), "x");
    }
    bench.bucket.list(Ino::ROOT).await.unwrap();
    bench.expire();
    let mut before = (0, 0);
    bench.asked(&mut before);
    for file in 0..5000 {
        bench.ino(Ino::ROOT, &format!("{file:04}")).await;
    }
    let (heads, lists) = bench.asked(&mut before);
    assert!(heads <= 6 && lists <= 12, "{heads} HEADs, {lists} LISTs");
}

#[tokio::test]
async fn what_is_created_costs_no_more_than_the_lookup_before_it() {
    let bench = Bench::new();
    let mut before = (0, 0);
    assert!(bench.lookup(Ino::ROOT, "new").await.is_err());
    assert_eq!(bench.asked(&mut before), (1, 1));
    let ino = bench.create(Ino::ROOT, "new").await;
    bench.expire();
    bench.ino(Ino::ROOT, "new").await;
    bench.bucket.attr(ino).await.unwrap();
    assert_eq!(bench.asked(&mut before), (0, 0), "nobody knows better than we");
}

#[tokio::test]
async fn concurrent_listings_of_a_folder_share_their_requests() {
    let bench = Bench::new();
    bench.put("a", "x");
    let gate = bench.fake.hold(Op::List);
    let both = async {
        let (one, other) = tokio::join!(bench.bucket.list(Ino::ROOT), bench.bucket.list(Ino::ROOT));
        (names(&one.unwrap()), names(&other.unwrap()))
    };
    let release = async {
        gate.arrived(1).await;
        gate.let_through(1);
    };
    let ((one, other), ()) = tokio::join!(both, release);
    assert_eq!((one, other), (vec!["a".to_owned()], vec!["a".to_owned()]));
    assert_eq!(bench.fake.calls(Op::List), 1);
}

#[tokio::test]
async fn a_shared_listing_that_fails_fails_for_all_and_the_next_one_is_a_new_one() {
    let bench = Bench::new();
    bench.fake.fail_next(Op::List, remote::ErrorKind::Denied);
    let gate = bench.fake.hold(Op::List);
    let both = async { tokio::join!(bench.bucket.list(Ino::ROOT), bench.bucket.list(Ino::ROOT)) };
    let release = async {
        gate.arrived(1).await;
        gate.let_through(1);
    };
    let ((one, other), ()) = tokio::join!(both, release);
    let denied = ErrorKind::Remote(remote::ErrorKind::Denied);
    assert_eq!((one.unwrap_err().kind, other.unwrap_err().kind), (denied, denied));
    drop(gate);
    assert!(bench.bucket.list(Ino::ROOT).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_listing_given_up_by_all_who_waited_stops_nobody_after_them() {
    let bench = Bench::new();
    bench.put("a", "x");
    let gate = bench.fake.hold(Op::List);
    {
        let mut listing = std::pin::pin!(bench.bucket.list(Ino::ROOT));
        tokio::select! {
            biased;
            _ = &mut listing => panic!("the gate is shut"),
            () = gate.arrived(1) => {}
        }
    }
    drop(gate);
    assert_eq!(bench.names(Ino::ROOT).await, ["a"]);
}

#[tokio::test]
async fn moving_what_is_not_uploaded_and_replacing_with_it_asks_for_nothing() {
    let bench = Bench::new();
    bench.write(Ino::ROOT, "file", "old").await;
    bench.bucket.list(Ino::ROOT).await.unwrap();
    bench.create(Ino::ROOT, "file.tmp").await;
    let before = bench.fake.calls_total();
    let (from, to) = (super::name("file.tmp"), super::name("file"));
    let rename =
        bench.bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), crate::RenameMode::Replace);
    rename.await.unwrap();
    assert_eq!(bench.fake.calls_total(), before);
}

#[tokio::test]
async fn nodes_that_nobody_holds_are_forgotten_and_come_back_with_their_numbers() {
    let options = BucketOptions { nodes: Share::whole(100), ..BucketOptions::default() };
    let bench = Bench::over(Fake::new(), options);
    for file in 0..1500 {
        bench.put(&format!("d{}/{file}", file % 3), "x");
    }
    let kept = bench.create(Ino::ROOT, "local").await;
    bench.bucket.forget(kept);
    let mut seen = Vec::new();
    for dir in ["d0", "d1", "d2"] {
        let dir = bench.ino(Ino::ROOT, dir).await;
        let entries = bench.bucket.list(dir).await.unwrap();
        assert_eq!(entries.len(), 500, "a listing is whole however little is remembered");
        seen.extend(entries.into_iter().map(|entry| (dir, entry)));
    }
    for (dir, entry) in seen.iter().step_by(97) {
        let found = bench.bucket.lookup(*dir, &entry.name).await.unwrap();
        assert_eq!(found.attr.ino, entry.attr.ino);
        bench.bucket.forget(found.attr.ino);
    }
    assert_eq!(bench.ino(Ino::ROOT, "local").await, kept, "unpublished bytes are not forgotten");
    let state = bench.bucket.shared.state();
    assert!(state.tree.len() < 120, "{} nodes", state.tree.len());
}

#[tokio::test]
async fn a_held_number_outlives_any_crowd() {
    let options = BucketOptions { nodes: Share::whole(10), ..BucketOptions::default() };
    let bench = Bench::over(Fake::new(), options);
    for file in 0..100 {
        bench.put(&format!("{file:02}"), "x");
    }
    let listed = bench.bucket.list(Ino::ROOT).await.unwrap();
    let held: Vec<Ino> =
        listed.iter().map(|entry| entry.attr.ino).filter(|&ino| bench.bucket.hold(ino)).collect();
    assert_eq!(held.len(), 10, "the rest did not fit");
    bench.expire();
    bench.bucket.list(Ino::ROOT).await.unwrap();
    for ino in held {
        bench.bucket.attr(ino).await.unwrap();
    }
}

#[tokio::test]
async fn the_store_learns_of_a_key_that_is_too_long_from_nobody() {
    let bench = Bench::new();
    let mut dir = Ino::ROOT;
    for _ in 0..4 {
        dir = bench.mkdir(dir, &"d".repeat(250)).await;
    }
    let before = bench.fake.calls_total();
    let long = bench.lookup(dir, &"f".repeat(30)).await;
    assert_eq!(long.unwrap_err().kind, ErrorKind::NameTooLong);
    assert_eq!(bench.fake.calls_total(), before);
}

#[tokio::test]
async fn an_object_without_conditional_writes_gets_its_marker_all_the_same() {
    let personality = remote::Personality {
        conditional_writes: false,
        ..remote::Remote::personality(&Fake::new())
    };
    let bench = Bench::over(Fake::with(personality), BucketOptions::default());
    bench.mkdir(Ino::ROOT, "d").await;
    assert_eq!(bench.fake.bytes(&Key::from("d/")).map(|bytes| bytes.len()), Some(0));
    let _: Arc<dyn Namespace> = Arc::new(bench.bucket);
}
