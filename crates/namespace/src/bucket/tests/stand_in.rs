//! Copies in the places of links.

use base::{FileKind, Ino};
use remote::Key;
use remote::fake::{Fake, Op};

use super::{Bench, name};
use crate::bucket::Returns;
use crate::{BucketOptions, ErrorKind, Namespace, Owner, SetAttr, check_attributes};

/// A file of others, and a link to it that the bucket may not have yet.
async fn bench() -> (Bench, Ino, Ino) {
    let options = BucketOptions { returns: Returns::Journaled, ..BucketOptions::default() };
    let bench = Bench::over(Fake::new(), options);
    bench.put("file", "bytes");
    let file = bench.ino(Ino::ROOT, "file").await;
    let owner = Owner { uid: 7, gid: 8 };
    let link = bench.bucket.symlink(Ino::ROOT, &name("link"), b"file", owner).await;
    let link = link.unwrap().attr.ino;
    (bench, link, file)
}

#[tokio::test]
async fn a_link_gives_way_to_a_copy_that_the_store_makes() {
    let (bench, link, file) = bench().await;
    bench.bucket.copy_over_link(link, file).await.unwrap();
    assert_eq!(bench.fake.bytes(&Key::from("link")).unwrap(), "bytes");
    assert_eq!((bench.fake.calls(Op::Copy), bench.fake.calls(Op::Get)), (1, 0));
    let found = bench.lookup(Ino::ROOT, "link").await.unwrap().attr;
    assert_eq!((found.kind, found.size), (FileKind::File, 5));
    assert_ne!(found.ino, link, "a number is of one kind for ever");
    bench.bucket.sync(None).await.unwrap();
    let other = Bench::over(bench.fake.clone(), BucketOptions::default());
    assert_eq!(other.lookup(Ino::ROOT, "link").await.unwrap().attr.kind, FileKind::File);
    let listed = other.bucket.list(Ino::ROOT).await.unwrap();
    assert!(listed.iter().all(|entry| entry.attr.kind == FileKind::File), "{listed:?}");
}

#[tokio::test]
async fn nothing_is_said_of_a_link_any_more_that_gave_way_and_what_is_said_of_the_file_is_said_of_its_copy()
 {
    for is_written in [false, true] {
        let (bench, link, file) = bench().await;
        if is_written {
            bench.bucket.sync(None).await.unwrap();
        }
        let change = SetAttr { mode: Some(0o700), ..SetAttr::default() };
        bench.bucket.set_attr(file, change).await.unwrap();
        bench.bucket.copy_over_link(link, file).await.unwrap();
        bench.bucket.sync(None).await.unwrap();
        let checked = check_attributes(&bench.fake).await.unwrap();
        assert_eq!((checked.objects, checked.flaws), (2, Vec::new()), "{is_written}");
        let other = Bench::over(bench.fake.clone(), BucketOptions::default());
        let before = bench.fake.calls(Op::Head);
        let listed = other.bucket.list(Ino::ROOT).await.unwrap();
        let modes: Vec<u16> = listed.iter().map(|entry| entry.attr.mode).collect();
        assert_eq!(modes, [0o700, 0o700]);
        assert_eq!(bench.fake.calls(Op::Head), before, "no object is asked what it is");
    }
}

#[tokio::test]
async fn what_others_put_in_the_place_of_a_link_stays() {
    let (bench, link, file) = bench().await;
    bench.bucket.sync(None).await.unwrap();
    bench.put("link", "theirs");
    let refused = bench.bucket.copy_over_link(link, file).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Remote(remote::ErrorKind::Changed));
    assert_eq!(bench.fake.bytes(&Key::from("link")).unwrap(), "theirs");
}

#[tokio::test]
async fn a_copy_whose_answer_was_lost_is_there_for_who_asks_again() {
    let (bench, link, file) = bench().await;
    bench.fake.lose_next_answer(Op::Copy);
    bench.bucket.copy_over_link(link, file).await.unwrap_err();
    bench.bucket.copy_over_link(link, file).await.unwrap();
    assert_eq!(bench.lookup(Ino::ROOT, "link").await.unwrap().attr.kind, FileKind::File);
}

#[tokio::test]
async fn only_a_link_gives_way_and_only_to_a_file() {
    let (bench, link, file) = bench().await;
    for (link, file) in [(file, file), (link, link)] {
        let refused = bench.bucket.copy_over_link(link, file).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
    }
    assert_eq!(bench.fake.calls(Op::Copy), 0);
}
