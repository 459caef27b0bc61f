//! Changes of names that return when they are made here, and get into the bucket later.

use std::sync::Arc;

use base::{Ino, Share};
use futures::FutureExt;
use remote::ErrorKind as RemoteErrorKind;
use remote::fake::{Fake, Op};

use super::crash::{End, Memory, Mortal, objects, owned, until_death};
use super::{Bench, NODE, TTL, name};
use crate::bucket::Returns;
use crate::{Attributes, Bucket, BucketOptions, ErrorKind, Ledger, Namespace, RenameMode, Unsent};

fn options() -> BucketOptions {
    BucketOptions {
        returns: Returns::Journaled,
        attributes: Attributes::Off,
        ..BucketOptions::default()
    }
}

fn bench() -> Bench {
    Bench::over(Fake::new(), options())
}

impl Bench {
    pub(super) async fn unlink(&self, text: &str) -> Ino {
        self.bucket.unlink(Ino::ROOT, &name(text)).await.unwrap()
    }

    async fn is_there(&self, text: &str) -> bool {
        match self.lookup(Ino::ROOT, text).await {
            Ok(_) => true,
            Err(error) if error.kind == ErrorKind::NotFound => false,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_removed_file_is_gone_here_before_the_bucket_loses_it() {
    let bench = bench();
    bench.put("a", "1");
    bench.put("b", "2");
    assert_eq!(bench.names(Ino::ROOT).await, ["a", "b"]);
    let gate = bench.fake.hold(Op::Delete);
    bench.unlink("a").await;
    gate.arrived(1).await;
    for _ in 0..2 {
        assert!(!bench.is_there("a").await);
        assert_eq!(bench.names(Ino::ROOT).await, ["b"]);
        bench.expire();
    }
    assert_eq!(bench.keys(), ["a", "b"]);
    assert_eq!(bench.bucket.unsent(), Unsent { changes: 1, ..Unsent::default() });
    drop(gate);
    bench.bucket.sync(None).await.unwrap();
    assert_eq!(bench.keys(), ["b"]);
    assert_eq!(bench.bucket.unsent(), Unsent::default());
    bench.put("a", "anew");
    bench.expire();
    assert!(bench.is_there("a").await);
}

#[tokio::test]
async fn a_new_folder_is_there_and_usable_before_the_bucket_has_it() {
    let bench = bench();
    let gate = bench.fake.hold(Op::Put);
    let folder = bench.mkdir(Ino::ROOT, "d").await;
    gate.arrived(1).await;
    let mut asked = (0, 0);
    bench.asked(&mut asked);
    let inner = bench.mkdir(folder, "inner").await;
    bench.create(inner, "file").await;
    assert_eq!(bench.asked(&mut asked), (0, 0), "nothing is in a folder that was not there");
    bench.expire();
    assert_eq!(bench.ino(Ino::ROOT, "d").await, folder);
    assert_eq!(bench.names(Ino::ROOT).await, ["d"]);
    assert_eq!(bench.keys(), Vec::<String>::new());
    drop(gate);
    bench.bucket.sync(None).await.unwrap();
    assert_eq!(bench.keys(), ["d/", "d/inner/"]);
}

#[tokio::test]
async fn changes_of_one_name_keep_their_order_and_others_go_on() {
    let bench = bench();
    bench.put("a", "1");
    bench.put("b", "2");
    let gate = bench.fake.hold(Op::Delete);
    bench.unlink("a").await;
    let anew = bench.create(Ino::ROOT, "a").await;
    let mut publishing = Box::pin(bench.bucket.settle(anew));
    assert!(publishing.as_mut().now_or_never().is_none(), "it would be removed");
    let b = bench.ino(Ino::ROOT, "b").await;
    drop(bench.bucket.settle(b).await.unwrap());
    drop(gate);
    drop(publishing.await.unwrap());
    bench.upload(anew, "new").await;
    bench.bucket.sync(None).await.unwrap();
    assert_eq!(objects(&bench.fake), owned(&[("a", "new"), ("b", "2")]));
}

#[tokio::test]
async fn a_file_that_gets_the_number_of_a_removed_one_is_not_taken_for_it() {
    for is_forgotten_late in [false, true] {
        let bench = bench();
        bench.put("a", "1");
        let gate = bench.fake.hold(Op::Delete);
        let removed = bench.unlink("a").await;
        if !is_forgotten_late {
            bench.bucket.forget(removed);
        }
        gate.arrived(1).await;
        if is_forgotten_late {
            bench.bucket.forget(removed);
        }
        let anew = bench.create(Ino::ROOT, "a").await;
        assert_eq!(anew, removed, "a number is what its path says");
        assert_eq!(bench.bucket.content_now(anew).unwrap().size, 0);
        drop(gate);
        bench.bucket.sync(None).await.unwrap();
        assert_eq!(bench.bucket.content_now(anew).unwrap().size, 0);
    }
}

#[tokio::test]
async fn many_removals_are_under_way_at_a_time() {
    let bench = bench();
    for number in 0..40 {
        bench.put(&format!("file{number}"), "x");
    }
    bench.put("stays", "x");
    let gate = bench.fake.hold(Op::Delete);
    for number in 0..40 {
        bench.unlink(&format!("file{number}")).await;
    }
    gate.arrived(40).await;
    drop(gate);
    bench.bucket.sync(Some(Ino::ROOT)).await.unwrap();
    assert_eq!(bench.keys(), ["stays"]);
}

#[tokio::test]
async fn a_tree_is_removed_while_the_bucket_still_has_all_of_it() {
    let bench = bench();
    bench.put("d/e/f", "1");
    bench.put("d/e/g", "2");
    bench.put("d/h", "3");
    let gate = bench.fake.hold(Op::Delete);
    let d = bench.ino(Ino::ROOT, "d").await;
    let e = bench.ino(d, "e").await;
    let full = bench.bucket.rmdir(d, &name("e")).await.unwrap_err();
    assert_eq!(full.kind, ErrorKind::NotEmpty);
    for file in ["f", "g"] {
        bench.bucket.unlink(e, &name(file)).await.unwrap();
    }
    bench.bucket.rmdir(d, &name("e")).await.unwrap();
    bench.bucket.unlink(d, &name("h")).await.unwrap();
    bench.bucket.rmdir(Ino::ROOT, &name("d")).await.unwrap();
    assert_eq!(bench.names(Ino::ROOT).await, Vec::<String>::new());
    drop(gate);
    bench.bucket.sync(None).await.unwrap();
    assert_eq!(bench.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn a_removal_that_comes_late_leaves_what_others_put_there_meanwhile() {
    let bench = bench();
    bench.put("a", "1");
    bench.put("b", "1");
    // The removal of `b` waits for what was there before it.
    let b = bench.ino(Ino::ROOT, "b").await;
    bench.unlink("a").await;
    bench.bucket.sync(None).await.unwrap();
    let gate = bench.fake.hold(Op::Delete);
    bench.fake.fail_next(Op::Delete, RemoteErrorKind::Unavailable);
    bench.unlink("b").await;
    gate.arrived(1).await;
    bench.put("b", "theirs");
    bench.clock.advance(TTL);
    drop(gate);
    let _ = bench.bucket.sync(None).await;
    bench.bucket.sync(None).await.unwrap();
    assert_eq!(objects(&bench.fake), owned(&[("b", "theirs")]));
    assert_ne!(bench.ino(Ino::ROOT, "b").await, b);
}

impl Bench {
    /// What is told who waits for `top` of what was given up, who hears it.
    fn hears(&self, top: Ino) -> Vec<String> {
        let told = self.bucket.given_up(top);
        let hear = |(number, reason)| {
            self.bucket.heard(number);
            reason
        };
        told.into_iter().map(hear).collect()
    }
}

#[tokio::test]
async fn a_change_that_the_bucket_refuses_is_taken_back_and_told() {
    let bench = bench();
    bench.put("a", "1");
    assert!(bench.is_there("a").await);
    bench.fake.fail_next(Op::Delete, RemoteErrorKind::Denied);
    bench.unlink("a").await;
    bench.bucket.sync(None).await.unwrap();
    bench.expire();
    assert!(bench.is_there("a").await);
    let Unsent { changes, failures, .. } = bench.bucket.unsent();
    assert_eq!((changes, failures.len()), (0, 1));
    assert!(failures[0].contains('a'), "{failures:?}");
    assert_eq!(bench.hears(Ino::ROOT), failures);
    assert_eq!(bench.hears(Ino::ROOT), Vec::<String>::new(), "it was told");
    assert_eq!(bench.bucket.unsent().failures, failures, "who looks sees it again");
}

#[tokio::test]
async fn who_waits_for_a_folder_hears_of_what_was_given_up_below_it_and_of_nothing_else() {
    let bench = bench();
    bench.put("d/e/a", "1");
    bench.put("other/x", "1");
    let (d, other) = (bench.ino(Ino::ROOT, "d").await, bench.ino(Ino::ROOT, "other").await);
    let (e, x) = (bench.ino(d, "e").await, bench.ino(other, "x").await);
    let a = bench.ino(e, "a").await;
    bench.fake.fail_next(Op::Delete, RemoteErrorKind::Denied);
    bench.bucket.unlink(e, &name("a")).await.unwrap();
    bench.bucket.sync_below(d).await.unwrap();
    for elsewhere in [other, x] {
        assert!(!bench.bucket.has_given_up(elsewhere));
        assert_eq!(bench.hears(elsewhere), Vec::<String>::new());
    }
    bench.bucket.forget(a);
    assert!(bench.bucket.has_given_up(d) && bench.bucket.has_given_up(e));
    assert_eq!(bench.hears(d).len(), 1);
    assert!(!bench.bucket.has_given_up(e) && !bench.bucket.has_given_up(Ino::ROOT));
}

#[tokio::test]
async fn of_what_was_given_up_in_a_folder_that_was_removed_who_waits_above_it_hears() {
    let bench = bench();
    bench.put("p/d/a", "1");
    bench.put("other/x", "1");
    let (p, other) = (bench.ino(Ino::ROOT, "p").await, bench.ino(Ino::ROOT, "other").await);
    let d = bench.ino(p, "d").await;
    let gate = bench.fake.hold(Op::Delete);
    bench.fake.fail_next(Op::Delete, RemoteErrorKind::Denied);
    bench.bucket.unlink(d, &name("a")).await.unwrap();
    bench.bucket.rmdir(p, &name("d")).await.unwrap();
    drop(gate);
    bench.bucket.sync_below(p).await.unwrap();
    assert!(bench.bucket.has_given_up(p) && !bench.bucket.has_given_up(other));
    assert_eq!(bench.hears(p).len(), 1);
    assert!(!bench.bucket.has_given_up(Ino::ROOT));
}

#[tokio::test]
async fn of_what_was_given_up_in_a_folder_that_was_forgotten_who_waits_for_it_hears() {
    let bench = Bench::over(Fake::new(), BucketOptions { nodes: Share::whole(1), ..options() });
    bench.put("d/a", "1");
    bench.put("x", "1");
    bench.put("y", "1");
    let d = bench.ino(Ino::ROOT, "d").await;
    let gate = bench.fake.hold(Op::Delete);
    bench.fake.fail_next(Op::Delete, RemoteErrorKind::Denied);
    let a = bench.bucket.unlink(d, &name("a")).await.unwrap();
    for ino in [a, d] {
        bench.bucket.forget(ino);
    }
    for other in ["x", "y"] {
        bench.bucket.forget(bench.ino(Ino::ROOT, other).await);
    }
    assert!(bench.bucket.path(d).is_none(), "nothing is known of it");
    drop(gate);
    bench.bucket.sync(None).await.unwrap();
    let d = bench.ino(Ino::ROOT, "d").await;
    assert_eq!(bench.hears(d).len(), 1);
}

/// What is done, and the objects before and after it.
const BEFORE: [(&str, &str); 3] = [("a/f", "1"), ("b", "2"), ("e/", "")];

async fn change(bucket: &Bucket, made: &mut Vec<&'static str>) {
    let a = bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.ino;
    bucket.mkdir(Ino::ROOT, &name("n"), NODE).await.unwrap();
    made.push("n");
    bucket.unlink(a, &name("f")).await.unwrap();
    made.push("f");
    bucket.rmdir(Ino::ROOT, &name("e")).await.unwrap();
    made.push("e");
    bucket.unlink(Ino::ROOT, &name("b")).await.unwrap();
    made.push("b");
    bucket.sync(None).await.unwrap();
    made.push("all");
}

fn late_bucket(remote: Arc<dyn remote::Remote>, ledger: &Arc<Memory>) -> Bucket {
    let clock = Arc::new(base::ManualClock::default());

    Bucket::new(remote, clock, Arc::clone(ledger) as Arc<dyn Ledger>, options())
}

#[tokio::test]
async fn what_was_told_to_be_done_is_done_although_the_process_dies_at_any_request() {
    for requests in 0.. {
        let fake = Fake::new();
        for (key, bytes) in BEFORE {
            fake.insert(&remote::Key::from(key), bytes, remote::Metadata::new());
        }
        let ledger = Arc::new(Memory::default());
        let mortal = Mortal::new(&fake, requests, End::Death);
        let dying = late_bucket(Arc::clone(&mortal) as _, &ledger);
        let mut made = Vec::new();
        let lived = until_death(&mortal, change(&dying, &mut made)).await.is_some();
        drop(dying);
        let next = late_bucket(Arc::new(fake.clone()), &ledger);
        assert_eq!(next.replay(ledger.left()).await.waiting, 0);
        assert_eq!(ledger.left(), []);
        let keys: Vec<String> = fake.keys().iter().map(ToString::to_string).collect();
        let has = |key: &str| keys.iter().any(|one| one == key);
        for (what, is_done) in
            [("n", has("n/")), ("f", !has("a/f") && has("a/")), ("e", !has("e/")), ("b", !has("b"))]
        {
            assert!(is_done || !made.contains(&what), "{what} after {requests} requests: {keys:?}");
        }
        if lived {
            assert_eq!(keys, ["a/", "n/"]);
            assert!(8 < requests, "it took too few requests");
            return;
        }
    }
}

#[tokio::test]
async fn a_replay_does_not_remove_what_is_newer() {
    let fake = Fake::new();
    fake.insert(&remote::Key::from("b"), "old", remote::Metadata::new());
    let ledger = Arc::new(Memory::default());
    let gate = fake.hold(Op::Delete);
    let dying = late_bucket(Arc::new(fake.clone()), &ledger);
    dying.unlink(Ino::ROOT, &name("b")).await.unwrap();
    gate.arrived(1).await;
    assert_eq!(ledger.left().len(), 1);
    fake.insert(&remote::Key::from("b"), "newer", remote::Metadata::new());
    let next = late_bucket(Arc::new(fake.clone()), &ledger);
    assert_eq!(next.replay(ledger.left()).await.moves, 1);
    assert_eq!(objects(&fake), owned(&[("b", "newer")]));
    assert_eq!(ledger.left(), []);
}

/// An object as an upload of this id makes it.
fn arrives(fake: &Fake, key: &str, bytes: &'static str, upload: &str) {
    let metadata = [(remote::UPLOAD_ID.to_owned(), upload.to_owned())].into();
    fake.insert(&remote::Key::from(key), bytes, metadata);
}

#[tokio::test]
async fn a_file_is_removed_at_once_although_its_upload_is_under_way_and_what_arrives_goes() {
    for was_there in [false, true] {
        let bench = bench();
        if was_there {
            bench.put("a", "1");
            assert!(bench.is_there("a").await);
        }
        let a = if was_there {
            bench.ino(Ino::ROOT, "a").await
        } else {
            bench.create(Ino::ROOT, "a").await
        };
        let settled = bench.bucket.settle(a).await.unwrap();
        bench.bucket.uploads(a, "7f", &settled).unwrap();
        bench.unlink("a").await;
        assert!(!bench.is_there("a").await);
        assert_eq!(bench.bucket.uploads(a, "80", &settled).unwrap_err().kind, ErrorKind::NotFound);
        let anew = bench.create(Ino::ROOT, "a").await;
        let mut publishing = Box::pin(bench.bucket.settle(anew));
        arrives(&bench.fake, "a", "late", "7f");
        bench.clock.advance(TTL);
        assert!(publishing.as_mut().now_or_never().is_none(), "it would be removed");
        assert_eq!(bench.keys(), ["a"]);
        drop(settled);
        drop(publishing.await.unwrap());
        assert_eq!(bench.keys(), Vec::<String>::new());
        bench.upload(anew, "new").await;
        bench.bucket.sync(None).await.unwrap();
        assert_eq!(objects(&bench.fake), owned(&[("a", "new")]));
    }
}

#[tokio::test]
async fn nobody_changes_a_name_past_a_commit_before_that_tells_what_it_uploads() {
    let bench = bench();
    bench.put("a", "1");
    let a = bench.ino(Ino::ROOT, "a").await;
    let settled = bench.bucket.settle(a).await.unwrap();
    let (from, to) = (name("a"), name("b"));
    let renaming = bench.bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), RenameMode::Replace);
    let mut renaming = Box::pin(renaming);
    assert!(renaming.as_mut().now_or_never().is_none(), "the bytes would go to another name");
    assert!(bench.is_there("a").await);
    drop(settled);
    renaming.await.unwrap();
    assert!(bench.is_there("b").await);
}

#[tokio::test]
async fn what_an_upload_made_of_a_removed_file_goes_with_the_replay_and_what_others_made_stays() {
    for (upload, is_ours) in [("7f", true), ("80", false)] {
        let (fake, ledger) = (Fake::new(), Arc::new(Memory::default()));
        let dying = late_bucket(Arc::new(fake.clone()), &ledger);
        let a = dying.create(Ino::ROOT, &name("a"), NODE).await.unwrap().attr.ino;
        let settled = dying.settle(a).await.unwrap();
        dying.uploads(a, "7f", &settled).unwrap();
        dying.unlink(Ino::ROOT, &name("a")).await.unwrap();
        arrives(&fake, "a", "late", upload);
        let next = late_bucket(Arc::new(fake.clone()), &ledger);
        assert_eq!(next.replay(ledger.left()).await.waiting, 0);
        assert_eq!(fake.keys().is_empty(), is_ours);
        assert_eq!(ledger.left(), []);
        drop((settled, dying));
    }
}

#[tokio::test]
async fn what_may_have_arrived_of_a_failed_upload_goes_with_its_file() {
    let bench = bench();
    let a = bench.create(Ino::ROOT, "a").await;
    let settled = bench.bucket.settle(a).await.unwrap();
    bench.bucket.uploads(a, "7f", &settled).unwrap();
    arrives(&bench.fake, "a", "its answer was lost", "7f");
    drop(settled);
    bench.unlink("a").await;
    bench.bucket.sync(None).await.unwrap();
    assert_eq!(bench.keys(), Vec::<String>::new());
}
