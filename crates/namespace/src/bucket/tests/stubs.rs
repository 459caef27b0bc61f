//! Folders that are there without a key below them: empty objects of other tools, and folders of their own.

use base::{FileKind, Ino};
use remote::fake::{Fake, Op};
use remote::{Folders, Key, Metadata, Naming, Personality, Remote as _};

use super::{Bench, name};
use crate::{BucketOptions, ErrorKind, Namespace, RenameMode};

/// A bucket in which other tools say with empty objects what is a folder.
fn bench() -> Bench {
    let plain = Fake::new().personality();
    let naming = Naming { folders: Folders::Stubs, ..Naming::OF_KEYS };
    let bench = Bench::over(Fake::with(Personality { naming, ..plain }), BucketOptions::default());
    bench.fake.tell_metadata();
    stub(&bench, "d");
    bench
}

fn stub(bench: &Bench, key: &str) {
    let metadata: Metadata = [("hdi_isfolder".to_owned(), "true".to_owned())].into();
    bench.fake.insert(&Key::from(key), "", metadata);
}

#[tokio::test]
async fn an_empty_object_that_says_so_is_a_folder_also_without_anything_in_it() {
    let bench = bench();
    let d = bench.lookup(Ino::ROOT, "d").await.unwrap().attr;
    assert_eq!(d.kind, FileKind::Directory);
    assert_eq!(bench.names(d.ino).await, [""; 0]);
    bench.put("d/f", "1");
    bench.expire();
    assert_eq!(bench.names(d.ino).await, ["f"]);
    assert_eq!(bench.ino(Ino::ROOT, "d").await, d.ino, "it is the same folder");
    let made = bench.bucket.mkdir(Ino::ROOT, &name("d"), super::NODE).await;
    assert_eq!(made.unwrap_err().kind, ErrorKind::Exists);
}

#[tokio::test]
async fn a_folder_that_an_empty_object_stands_for_is_removed_with_it() {
    let bench = bench();
    bench.put("d/f", "1");
    let rmdir = async || bench.bucket.rmdir(Ino::ROOT, &name("d")).await;
    assert_eq!(rmdir().await.unwrap_err().kind, ErrorKind::NotEmpty);
    bench.remove("d/f");
    bench.expire();
    rmdir().await.unwrap();
    assert_eq!(bench.keys(), [""; 0]);
    assert_eq!(bench.lookup(Ino::ROOT, "d").await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_folder_that_an_empty_object_stands_for_is_renamed_without_it() {
    for (inside, want) in [(&["d/f", "d/g/h"][..], &["e/f", "e/g/h"][..]), (&[], &["e/"])] {
        let bench = bench();
        for key in inside {
            bench.put(key, "1");
        }
        let (from, to) = (name("d"), name("e"));
        let renamed =
            bench.bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), RenameMode::Replace);
        renamed.await.unwrap();
        assert_eq!(bench.keys(), want);
        bench.expire();
        assert_eq!(bench.lookup(Ino::ROOT, "d").await.unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(bench.lookup(Ino::ROOT, "e").await.unwrap().attr.kind, FileKind::Directory);
    }
}

#[tokio::test]
async fn empty_objects_below_a_renamed_folder_go_along() {
    let bench = bench();
    stub(&bench, "d/sub");
    let (from, to) = (name("d"), name("e"));
    let renamed = bench.bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), RenameMode::Replace);
    renamed.await.unwrap();
    assert_eq!(bench.keys(), ["e/sub"]);
    let e = bench.ino(Ino::ROOT, "e").await;
    assert_eq!(bench.lookup(e, "sub").await.unwrap().attr.kind, FileKind::Directory);
}

#[tokio::test]
async fn a_folder_of_its_own_stays_without_a_marker_when_it_is_empty() {
    let bench = Bench::over(Fake::with_folders(), BucketOptions::default());
    let d = bench.mkdir(Ino::ROOT, "d").await;
    let e = bench.mkdir(d, "e").await;
    bench.write(e, "f", "1").await;
    let puts = bench.fake.calls(Op::Put);
    bench.bucket.unlink(e, &name("f")).await.unwrap();
    assert_eq!(bench.fake.calls(Op::Put), puts, "nothing has to say that it is there");
    bench.expire();
    assert_eq!(bench.names(d).await, ["e"]);
    let full = bench.bucket.rmdir(Ino::ROOT, &name("d")).await;
    assert_eq!(full.unwrap_err().kind, ErrorKind::NotEmpty);
    bench.bucket.rmdir(d, &name("e")).await.unwrap();
    bench.bucket.rmdir(Ino::ROOT, &name("d")).await.unwrap();
    assert_eq!(bench.keys(), [""; 0]);
}
