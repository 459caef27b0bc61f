//! Folders that were used last, and their names before anybody asks for them.

use std::time::Duration;

use base::{Clock as _, FileKind, Ino};
use remote::fake::Fake;
use remote::{Key, Page, Remote as _};

use super::{Bench, name};
use crate::{Attributes, Bucket, BucketOptions, Namespace as _, RenameMode, SetAttr, Shows};

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
    let folders = bench.bucket.folders_used_last().unwrap();
    assert_eq!(
        folders,
        keys(&["a/", "a/b/", "", "c/"]),
        "the last one in front, with what is above it"
    );
    let c = bench.ino(Ino::ROOT, "c").await;
    bench.bucket.list(c).await.unwrap();
    let folders = bench.bucket.folders_used_last().unwrap();
    assert_eq!(folders, keys(&["c/", "", "a/", "a/b/"]));
}

#[tokio::test]
async fn who_goes_on_in_them_waits_for_nothing_and_what_is_not_there_is_asked_for() {
    let old = used().await;
    let mut folders = old.bucket.folders_used_last().unwrap();
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
async fn pages_of_folders_that_are_not_known_and_old_ones_are_not_taken_in() {
    let bench = used_by_others();
    let asked = ask(&bench, &keys(&["gone/", "c/"])).await;
    // Of the folder above nothing is known.
    take_in(&bench, asked).await;
    let c = bench.ino(Ino::ROOT, "c").await;
    let mut before = (0, 0);
    bench.asked(&mut before);
    bench.ino(c, "three").await;
    assert_ne!(bench.asked(&mut before), (0, 0));

    let bench = used_by_others();
    let asked = ask(&bench, &keys(&["", "c/"])).await;
    bench.expire();
    take_in(&bench, asked).await;
    assert!(bench.bucket.shared.state().tree.child(Ino::ROOT, &name("c")).is_none());
}

#[tokio::test]
async fn a_folder_that_took_the_place_of_another_here_has_none_of_its_names() {
    let bench = used_by_others();
    let asked = ask(&bench, &keys(&["", "c/"])).await;
    let taking = take_in(&bench, asked);
    let (from, to) = (name("c"), name("moved"));
    let moved = bench.bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), RenameMode::Replace);
    moved.await.unwrap();
    let c = bench.mkdir(Ino::ROOT, "c").await;
    taking.await;
    assert!(bench.lookup(c, "three").await.is_err());
}

#[tokio::test]
async fn a_page_is_no_word_on_a_name_of_which_the_next_one_may_say_more() {
    let bench = Bench::new();
    bench.put("d/a", "x");
    for number in 1..1000 {
        bench.put(&format!("d/a.{number:03}"), "x");
    }
    bench.put("d/a/file", "x");
    let asked = ask(&bench, &keys(&["", "d/"])).await;
    take_in(&bench, asked).await;
    let d = bench.ino(Ino::ROOT, "d").await;
    let a = bench.lookup(d, "a").await.unwrap();
    assert_eq!(a.attr.kind, FileKind::Directory);
}

#[tokio::test]
async fn those_above_a_folder_are_remembered_with_it_or_it_is_not() {
    let bench = Bench::new();
    for leaf in 0..20 {
        bench.put(&format!("top/leaf{leaf:02}/file"), "x");
    }
    for leaf in 0..20 {
        walk(&bench, &format!("top/leaf{leaf:02}")).await;
    }
    let top = bench.ino(Ino::ROOT, "top").await;
    for leaf in 0..20 {
        let leaf = bench.ino(top, &format!("leaf{leaf:02}")).await;
        bench.bucket.list(leaf).await.unwrap();
    }
    let folders = bench.bucket.folders_used_last().unwrap();
    assert_eq!(folders.len(), 8);
    assert!(folders.contains(&Key::from("top/")), "{folders:?}");
    assert!(used_by_others().bucket.folders_used_last().is_none());
}

#[tokio::test]
async fn times_that_only_an_object_tells_are_asked_of_it() {
    let bench = used_by_others();
    let mtime = [("mtime".to_owned(), "1600000000".to_owned())].into();
    bench.fake.insert(&Key::from("d/old"), "x", mtime);
    walk(&bench, "d/old").await;
    let folders = bench.bucket.folders_used_last().unwrap();
    assert_eq!(folders, keys(&[""]));
}

#[tokio::test]
async fn without_attribute_objects_what_was_made_here_is_asked_how_it_looks() {
    for (attributes, want) in [(Attributes::Off, vec![]), (Attributes::Kept, keys(&["d/"]))] {
        let options = BucketOptions { attributes, ..BucketOptions::default() };
        let bench = Bench::over(Fake::new(), options);
        let d = bench.mkdir(Ino::ROOT, "d").await;
        let tool = bench.write(d, "tool", "x").await;
        let change = SetAttr { mode: Some(0o755), ..SetAttr::default() };
        bench.bucket.set_attr(tool, change).await.unwrap();
        bench.ino(d, "tool").await;
        let folders = bench.bucket.folders_used_last().unwrap();
        let folders: Vec<Key> =
            folders.into_iter().filter(|folder| !folder.as_bytes().is_empty()).collect();
        assert_eq!(folders, want, "{attributes:?}");
    }
}

#[tokio::test]
async fn a_folder_whose_objects_say_what_a_page_does_not_is_looked_at_object_by_object() {
    let bench = used_by_others();
    let mode = [("mode".to_owned(), "33261".to_owned())].into();
    bench.fake.insert(&Key::from("d/tool"), "x", mode);
    let tool = walk(&bench, "d/tool").await;
    assert_eq!(bench.bucket.attr(tool).await.unwrap().mode, 0o755);
    walk(&bench, "c/three").await;
    assert_eq!(bench.bucket.folders_used_last().unwrap(), keys(&["c/", ""]));
}
