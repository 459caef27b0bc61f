//! Folders that were used last, and their names before anybody asks for them.

use std::time::Duration;

use base::{Clock as _, Ino};
use remote::{Key, Page, Remote as _};

use super::{Bench, name};
use crate::{Bucket, Namespace as _, Shows};

/// What a mount does when it begins: asks for the first pages of `folders`, those above others first.
async fn ask(bench: &Bench, folders: &[Key]) -> (Vec<(Key, Page)>, Duration) {
    let began = bench.clock.monotonic();
    let mut pages = Vec::new();
    for folder in folders {
        let page = bench.fake.list(&Bucket::first_page(folder)).await.unwrap();
        pages.push((folder.clone(), page));
    }
    (pages, began)
}

fn take_in(
    bench: &Bench,
    (pages, began): (Vec<(Key, Page)>, Duration),
) -> impl Future<Output = ()> + use<> {
    let taking = pages.into_iter().map(|(folder, page)| {
        let page = std::future::ready(Some(page));
        bench.bucket.take_page((folder, Shows::All), began, page)
    });
    let taking: Vec<_> = taking.collect();
    async move {
        for page in taking {
            page.await;
        }
    }
}

/// Looks for each part of `path` in turn.
async fn walk(bench: &Bench, path: &str) -> Ino {
    let mut ino = Ino::ROOT;
    for part in path.split('/') {
        ino = bench.ino(ino, part).await;
    }
    ino
}

fn keys(folders: &[&str]) -> Vec<Key> {
    folders.iter().map(|&folder| Key::from(folder)).collect()
}

/// The bucket of all tests, which a mount has used already.
async fn used() -> Bench {
    let bench = Bench::new();
    for file in ["a/b/one", "a/b/two", "c/three", "four"] {
        bench.put(file, "x");
    }
    for file in ["c/three", "a/b/one", "a/b/two"] {
        walk(&bench, file).await;
    }
    bench
}

#[tokio::test]
async fn the_folders_that_were_used_last_are_told_with_those_above_them() {
    let bench = used().await;
    assert_eq!(bench.bucket.folders_used_last(), keys(&["a/b/", "a/", "", "c/"]));
    let c = bench.ino(Ino::ROOT, "c").await;
    bench.bucket.list(c).await.unwrap();
    assert_eq!(bench.bucket.folders_used_last(), keys(&["c/", "", "a/b/", "a/"]));
}

#[tokio::test]
async fn who_goes_on_in_them_waits_for_nothing_and_what_is_not_there_is_asked_for() {
    let old = used().await;
    let mut folders = old.bucket.folders_used_last();
    folders.sort();
    let bench = used_by_others();
    let asked = ask(&bench, &folders).await;
    let mut before = (0, 0);
    bench.asked(&mut before);
    take_in(&bench, asked).await;
    for file in ["a/b/one", "a/b/two", "c/three", "four"] {
        walk(&bench, file).await;
    }
    assert_eq!(bench.asked(&mut before), (0, 0));
    let b = walk(&bench, "a/b").await;
    bench.put("a/b/new", "x");
    bench.ino(b, "new").await;
    assert_eq!(bench.asked(&mut before), (1, 1), "what is not mentioned may have come meanwhile");
    bench.expire();
    bench.ino(b, "one").await;
    assert_ne!(bench.asked(&mut before), (0, 0), "it is believed as long as anything");
}

/// The same bucket, of which a mount knows nothing yet.
fn used_by_others() -> Bench {
    let bench = Bench::new();
    for file in ["a/b/one", "a/b/two", "c/three", "four"] {
        bench.put(file, "x");
    }
    bench
}

#[tokio::test]
async fn what_is_changed_here_after_the_mount_is_newer_than_its_pages() {
    let bench = used_by_others();
    let asked = ask(&bench, &keys(&["", "c/"])).await;
    let taking = take_in(&bench, asked);
    let c = bench.ino(Ino::ROOT, "c").await;
    bench.bucket.unlink(c, &name("three")).await.unwrap();
    taking.await;
    assert!(bench.lookup(c, "three").await.is_err());
}

#[tokio::test]
async fn pages_of_folders_that_are_gone_and_old_ones_are_not_taken_in() {
    let bench = used_by_others();
    let asked = ask(&bench, &keys(&["gone/", "a/", "c/"])).await;
    // Of the folder above nothing is known.
    take_in(&bench, asked).await;
    let mut before = (0, 0);
    bench.asked(&mut before);
    let c = bench.ino(Ino::ROOT, "c").await;
    bench.ino(c, "three").await;
    assert_ne!(bench.asked(&mut before), (0, 0));

    let bench = used_by_others();
    let asked = ask(&bench, &keys(&["", "c/"])).await;
    bench.expire();
    bench.remove("c/three");
    take_in(&bench, asked).await;
    assert!(bench.lookup(Ino::ROOT, "c").await.is_err());
}

#[tokio::test]
async fn a_folder_whose_objects_say_what_a_page_does_not_is_looked_at_object_by_object() {
    let bench = used_by_others();
    let mode = [("mode".to_owned(), "33261".to_owned())].into();
    bench.fake.insert(&Key::from("d/tool"), "x", mode);
    let tool = walk(&bench, "d/tool").await;
    assert_eq!(bench.bucket.attr(tool).await.unwrap().mode, 0o755);
    walk(&bench, "c/three").await;
    assert_eq!(bench.bucket.folders_used_last(), keys(&["c/", ""]));
}
