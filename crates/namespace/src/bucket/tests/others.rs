//! What others do to the bucket while it is mounted.

use base::{FileKind, Ino, Share, Timestamp};
use remote::fake::Fake;
use remote::{Condition, Key, Metadata};

use super::{Bench, NODE, name, size};
use crate::{Abandoned, BucketOptions, Error, ErrorKind, Namespace, RenameMode, SetAttr};

fn kind<T: std::fmt::Debug>(outcome: Result<T, Error>) -> ErrorKind {
    outcome.unwrap_err().kind
}

#[tokio::test]
async fn what_others_write_is_seen_after_the_time_to_live() {
    let bench = Bench::new();
    assert!(bench.names(Ino::ROOT).await.is_empty());
    bench.put("a", "one");
    assert_eq!(kind(bench.lookup(Ino::ROOT, "a").await), ErrorKind::NotFound);
    bench.expire();
    let first = bench.lookup(Ino::ROOT, "a").await.unwrap().attr;
    assert_eq!((first.size, first.mode), (3, 0o644));
    bench.put("a", "three");
    assert_eq!(bench.lookup(Ino::ROOT, "a").await.unwrap().attr, first);
    bench.expire();
    assert_eq!(bench.lookup(Ino::ROOT, "a").await.unwrap().attr.size, 5);
    bench.remove("a");
    bench.expire();
    assert_eq!(kind(bench.lookup(Ino::ROOT, "a").await), ErrorKind::NotFound);
}

#[tokio::test]
async fn an_object_replaced_by_others_is_a_new_node_while_the_old_one_is_held() {
    let bench = Bench::new();
    bench.put("a", "one");
    let old = bench.ino(Ino::ROOT, "a").await;
    bench.put("a", "three");
    bench.expire();
    let new = bench.ino(Ino::ROOT, "a").await;
    assert_ne!(old, new);
    let attr = bench.bucket.attr(old).await.unwrap();
    assert_eq!((attr.nlink, attr.size), (0, 3));
    assert_eq!(kind(bench.bucket.content(old).await), ErrorKind::Stale);
    assert_eq!(kind(bench.bucket.target(old)), ErrorKind::Stale);
    assert_eq!(bench.bucket.content(new).await.unwrap().size, 5);

    bench.bucket.forget(old);
    bench.bucket.forget(new);
    bench.put("a", "four");
    bench.expire();
    assert_eq!(
        bench.ino(Ino::ROOT, "a").await,
        new,
        "nobody held it: the number goes with the name"
    );
    assert_eq!(bench.bucket.content(new).await.unwrap().size, 4);
}

#[tokio::test]
async fn where_nothing_is_but_attributes_a_folder_can_be_made() {
    let bench = Bench::new();
    bench.put("d/.quayfs-attributes", "of what was there");
    assert_eq!(bench.names(Ino::ROOT).await, ["d"], "a listing does not tell what is below");
    let dir = bench.mkdir(Ino::ROOT, "d").await;
    assert_eq!(bench.ino(Ino::ROOT, "d").await, dir);
    bench.write(dir, "a", "1").await;
    bench.expire();
    assert_eq!(bench.ino(Ino::ROOT, "d").await, dir);
    assert_eq!(bench.names(dir).await, ["a"]);
    // What others put there counts.
    bench.put("e/b", "2");
    bench.expire();
    assert_eq!(bench.names(Ino::ROOT).await, ["d", "e"]);
    let again = bench.bucket.mkdir(Ino::ROOT, &name("e"), NODE).await;
    assert_eq!(kind(again), ErrorKind::Exists);
}

#[tokio::test]
async fn an_open_by_number_of_a_replaced_file_is_stale() {
    let bench = Bench::new();
    bench.put("a", "one");
    let ino = bench.ino(Ino::ROOT, "a").await;
    bench.put("a", "three");
    bench.expire();
    assert_eq!(kind(bench.bucket.content(ino).await), ErrorKind::Stale);
}

#[tokio::test]
async fn bytes_being_changed_here_keep_their_file_whatever_others_do() {
    let bench = Bench::new();
    let ino = bench.write(Ino::ROOT, "a", "one").await;
    let condition = bench.bucket.target(ino).unwrap().condition;
    bench.bucket.set_attr(ino, size(100)).await.unwrap();
    bench.put("a", "theirs");
    bench.expire();
    assert_eq!(bench.ino(Ino::ROOT, "a").await, ino);
    bench.bucket.list(Ino::ROOT).await.unwrap();
    assert_eq!(bench.bucket.attr(ino).await.unwrap().size, 100);
    assert_eq!(
        bench.bucket.target(ino).unwrap().condition,
        condition,
        "the upload will be refused"
    );
    bench.remove("a");
    bench.expire();
    assert_eq!(bench.ino(Ino::ROOT, "a").await, ino);

    bench.put("a", "theirs");
    bench.bucket.abandon(ino, Abandoned::Lost);
    let theirs = bench.lookup(Ino::ROOT, "a").await.unwrap().attr;
    assert_ne!(theirs.ino, ino);
    assert_eq!(theirs.size, 6);
}

#[tokio::test]
async fn a_file_is_renamed_over_a_link_where_there_is_room_for_one_of_them() {
    let options = BucketOptions { nodes: Share::whole(1), ..BucketOptions::default() };
    let bench = Bench::over(Fake::new(), options);
    let file = bench.write(Ino::ROOT, "file", "bytes").await;
    bench.bucket.forget(file);
    let (old, new) = (name("file"), name("link"));
    let link = bench.bucket.symlink(Ino::ROOT, &new, b"file", NODE.owner).await.unwrap();
    bench.bucket.forget(link.attr.ino);
    bench.bucket.rename((Ino::ROOT, &old), (Ino::ROOT, &new), RenameMode::Replace).await.unwrap();
    let renamed = bench.lookup(Ino::ROOT, "link").await.unwrap().attr;
    assert_eq!((renamed.kind, renamed.size), (FileKind::File, 5));
}

#[tokio::test]
async fn an_unpublished_file_keeps_its_folder_whatever_others_do() {
    let bench = Bench::new();
    bench.put("d/e/other", "x");
    let d = bench.ino(Ino::ROOT, "d").await;
    let e = bench.ino(d, "e").await;
    let file = bench.create(e, "mine").await;
    bench.remove("d/e/other");
    bench.put("d", "a file now");
    bench.expire();
    assert_eq!(bench.names(Ino::ROOT).await, ["d"]);
    assert_eq!(bench.ino(Ino::ROOT, "d").await, d);
    assert_eq!(bench.ino(d, "e").await, e);
    assert_eq!(bench.names(e).await, ["mine"]);
    bench.upload(file, "bytes").await;
    assert_eq!(bench.keys(), ["d", "d/e/mine"]);
    assert_eq!(bench.bucket.attr(d).await.unwrap().kind, FileKind::Directory);
}

#[tokio::test]
async fn a_folder_that_others_emptied_is_gone_with_all_below_it() {
    let bench = Bench::new();
    bench.put("d/e/f", "x");
    let d = bench.ino(Ino::ROOT, "d").await;
    let e = bench.ino(d, "e").await;
    let f = bench.ino(e, "f").await;
    bench.remove("d/e/f");
    bench.expire();
    assert_eq!(kind(bench.lookup(Ino::ROOT, "d").await), ErrorKind::NotFound);
    for ino in [d, e, f] {
        assert_eq!(bench.bucket.attr(ino).await.unwrap().nlink, 0);
        bench.bucket.forget(ino);
    }
    let state = bench.bucket.shared.state();
    assert_eq!(state.tree.len(), 1, "the root");
}

#[tokio::test]
async fn files_become_folders_and_back() {
    let bench = Bench::new();
    bench.put("x", "a file");
    bench.put("y/z", "in a folder");
    let (x, y) = (bench.ino(Ino::ROOT, "x").await, bench.ino(Ino::ROOT, "y").await);
    bench.remove("x");
    bench.put("x/z", "in a folder");
    bench.remove("y/z");
    bench.put("y", "a file");
    bench.expire();
    let (new_x, new_y) = (
        bench.lookup(Ino::ROOT, "x").await.unwrap().attr,
        bench.lookup(Ino::ROOT, "y").await.unwrap().attr,
    );
    assert_eq!((new_x.kind, new_y.kind), (FileKind::Directory, FileKind::File));
    assert!(new_x.ino != x && new_y.ino != y);
}

#[tokio::test]
async fn removing_the_last_entry_leaves_the_folder_in_the_bucket_too() {
    let bench = Bench::new();
    bench.put("implicit/f", "x");
    let implicit = bench.ino(Ino::ROOT, "implicit").await;
    bench.bucket.unlink(implicit, &name("f")).await.unwrap();
    assert_eq!(bench.keys(), ["implicit/"]);
    bench.expire();
    assert_eq!(bench.ino(Ino::ROOT, "implicit").await, implicit);
    assert!(bench.names(implicit).await.is_empty());

    let made = bench.mkdir(implicit, "made").await;
    bench.write(made, "f", "x").await;
    bench.bucket.unlink(made, &name("f")).await.unwrap();
    bench.bucket.rmdir(implicit, &name("made")).await.unwrap();
    assert_eq!(bench.keys(), ["implicit/"]);
    bench.bucket.rmdir(Ino::ROOT, &name("implicit")).await.unwrap();
    assert!(bench.keys().is_empty());
}

#[tokio::test]
async fn a_folder_keeps_itself_when_its_last_entry_is_moved_away_or_was_a_folder() {
    let bench = Bench::new();
    bench.put("a/f", "x");
    bench.put("b/sub/", "");
    let (a, b) = (bench.ino(Ino::ROOT, "a").await, bench.ino(Ino::ROOT, "b").await);
    let (from, to) = (name("f"), name("g"));
    bench.bucket.rename((a, &from), (Ino::ROOT, &to), RenameMode::Replace).await.unwrap();
    bench.bucket.rmdir(b, &name("sub")).await.unwrap();
    assert_eq!(bench.keys(), ["a/", "b/", "g"]);
}

#[tokio::test]
async fn a_rename_takes_the_newest_bytes_of_others_but_never_loses_ours() {
    let bench = Bench::new();
    let ours = bench.write(Ino::ROOT, "a", "ours").await;
    bench.put("a", "theirs");
    let (a, b) = (name("a"), name("b"));
    let rename = || bench.bucket.rename((Ino::ROOT, &a), (Ino::ROOT, &b), RenameMode::Replace);
    rename().await.unwrap();
    assert_eq!(bench.fake.bytes(&Key::from("b")).unwrap(), "theirs");
    assert_eq!(bench.keys(), ["b"]);
    assert_eq!(bench.bucket.attr(ours).await.unwrap().nlink, 0);

    let edited = bench.write(Ino::ROOT, "a", "ours").await;
    bench.bucket.set_attr(edited, size(9)).await.unwrap();
    bench.put("a", "theirs again");
    assert_eq!(kind(rename().await), ErrorKind::Remote(remote::ErrorKind::Changed));
    assert_eq!(bench.ino(Ino::ROOT, "a").await, edited);
    assert_eq!(bench.keys(), ["a", "b"]);
}

#[tokio::test]
async fn an_edited_file_moves_with_its_base() {
    let bench = Bench::new();
    let ino = bench.write(Ino::ROOT, "a", "base").await;
    bench.bucket.set_attr(ino, size(9)).await.unwrap();
    let (a, b) = (name("a"), name("b"));
    bench.bucket.rename((Ino::ROOT, &a), (Ino::ROOT, &b), RenameMode::Replace).await.unwrap();
    assert_eq!(bench.keys(), ["b"]);
    let version = bench.fake.meta(&Key::from("b")).unwrap().version;
    let target = bench.bucket.target(ino).unwrap();
    assert_eq!((target.key, target.condition), (Key::from("b"), Condition::Is(version)));
    assert_eq!(bench.bucket.attr(ino).await.unwrap().size, 9);
    assert_eq!(bench.bucket.content(ino).await.unwrap().size, 4);
}

#[tokio::test]
async fn times_of_files_written_here_never_jump() {
    let bench = Bench::new();
    let ino = bench.create(Ino::ROOT, "a").await;
    let mtime = Timestamp { secs: 1_600_000_000, nanos: 5 };
    let times = SetAttr { mtime: Some(mtime), mode: Some(0o600), ..SetAttr::default() };
    bench.bucket.set_attr(ino, times).await.unwrap();
    bench.upload(ino, "bytes").await;
    let attr = bench.bucket.attr(ino).await.unwrap();
    assert_eq!(attr.mtime, mtime);
    for _ in 0..3 {
        bench.expire();
        bench.bucket.list(Ino::ROOT).await.unwrap();
        assert_eq!(bench.lookup(Ino::ROOT, "a").await.unwrap().attr, attr);
    }
    let metadata = bench.fake.meta(&Key::from("a")).unwrap().metadata;
    assert_eq!(metadata["mtime"], "1600000000.000000005");
    assert_eq!(metadata["mode"], "33152");

    let other = Bench::over(bench.fake.clone(), crate::BucketOptions::default());
    let seen = other.lookup(Ino::ROOT, "a").await.unwrap().attr;
    assert_eq!((seen.mtime, seen.mode, seen.uid), (mtime, 0o600, 1000), "a HEAD tells others too");
    assert_eq!(seen.ino, ino, "every mount gives the same number");
}

#[tokio::test]
async fn attributes_of_other_tools_are_read_where_a_head_was_made() {
    let bench = Bench::new();
    let metadata = Metadata::from([("mode".to_owned(), "33261".to_owned())]);
    bench.fake.insert(&Key::from("script"), "#!", metadata);
    assert_eq!(bench.lookup(Ino::ROOT, "script").await.unwrap().attr.mode, 0o755);
    bench.expire();
    bench.bucket.list(Ino::ROOT).await.unwrap();
    assert_eq!(bench.lookup(Ino::ROOT, "script").await.unwrap().attr.mode, 0o755, "and kept");
}

#[tokio::test]
async fn a_failed_removal_leaves_the_file() {
    let bench = Bench::new();
    let ino = bench.write(Ino::ROOT, "a", "bytes").await;
    bench.fake.fail_next(remote::fake::Op::Delete, remote::ErrorKind::Denied);
    let unlinked = bench.bucket.unlink(Ino::ROOT, &name("a")).await;
    assert_eq!(kind(unlinked), ErrorKind::Remote(remote::ErrorKind::Denied));
    assert_eq!(bench.ino(Ino::ROOT, "a").await, ino);
    bench.fake.fail_next(remote::fake::Op::Put, remote::ErrorKind::Denied);
    let made = bench.bucket.mkdir(Ino::ROOT, &name("d"), super::NODE).await;
    assert_eq!(kind(made), ErrorKind::Remote(remote::ErrorKind::Denied));
    assert!(bench.lookup(Ino::ROOT, "d").await.is_err());
}

#[tokio::test]
async fn a_rename_that_fails_half_way_loses_nothing() {
    use remote::fake::Op;
    for op in [Op::Copy, Op::Head, Op::Delete] {
        let bench = Bench::new();
        bench.write(Ino::ROOT, "a", "bytes").await;
        bench.bucket.list(Ino::ROOT).await.unwrap();
        bench.fake.fail_next(op, remote::ErrorKind::Unavailable);
        let (a, b) = (name("a"), name("b"));
        let rename = || bench.bucket.rename((Ino::ROOT, &a), (Ino::ROOT, &b), RenameMode::Replace);
        assert_eq!(kind(rename().await), ErrorKind::Remote(remote::ErrorKind::Unavailable));
        bench.expire();
        let unavailable = ErrorKind::Remote(remote::ErrorKind::Unavailable);
        let mut again = rename().await;
        for _ in 0..1000 {
            // What was left to do is being done.
            if again.as_ref().is_err_and(|error| error.kind == unavailable) {
                tokio::task::yield_now().await;
                again = rename().await;
            }
        }
        if op == Op::Delete {
            assert_eq!(kind(again), ErrorKind::NotFound, "it has its new name");
        } else {
            assert_eq!(again.unwrap(), None);
        }
        assert_eq!(bench.names(Ino::ROOT).await, ["b"], "{op:?}");
        assert_eq!(bench.keys(), ["b"]);
    }
}
