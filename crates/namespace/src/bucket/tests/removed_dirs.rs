//! Directories that are removed, renamed or made anew while something of them is still under way: nothing of
//! the old one is found later, and nothing of the new one is lost.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Ino, ManualClock, Timestamp};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use remote::fake::{Fake, Op};
use remote::{Key, Metadata, Remote};
use tokio::sync::watch;

use super::crash::Memory;
use super::late::Late;
use super::{Bench, TTL, name, names};
use crate::bucket::Returns;
use crate::bucket::attributes::schedule::PASSES_MAX;
use crate::bucket::turns::Want;
use crate::{Bucket, BucketOptions, Ledger, Namespace, NoLedger, RenameMode, SetAttr};

fn mode(bits: u16) -> SetAttr {
    SetAttr { mode: Some(bits), ..SetAttr::default() }
}

/// Clock that moves only in [`Steps::advance`]; a sleep ends when its time has come.
#[derive(Debug)]
struct Steps(watch::Sender<Duration>);

impl Steps {
    fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now += by);
    }
}

impl Clock for Steps {
    fn wall(&self) -> Timestamp {
        Timestamp { secs: 1_700_000_000, nanos: 0 }
    }

    fn monotonic(&self) -> Duration {
        *self.0.borrow()
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        let (due, mut now) = (self.monotonic() + delay, self.0.subscribe());
        Box::pin(async move {
            now.wait_for(|now| due <= *now).await.expect("the clock outlives its sleepers");
        })
    }
}

/// The keys of the directory `d`; the attribute object of the root may speak of it still.
fn keys_of_d(bench: &Bench) -> Vec<String> {
    bench.keys().into_iter().filter(|key| key.starts_with('d')).collect()
}

/// A bucket with these objects whose answers to HEAD and LIST a test delivers, and the directories at its top.
async fn late(keys: &[&str]) -> (Arc<Late>, Arc<ManualClock>, Bucket, Vec<Ino>) {
    let fake = Fake::new();
    for key in keys {
        fake.insert(&Key::from(*key), "x", Metadata::new());
    }
    let late = Arc::new(Late::new(fake));
    let remote: Arc<dyn Remote> = Arc::clone(&late) as _;
    let clock = Arc::new(ManualClock::default());
    let options = BucketOptions::default();
    let bucket = Bucket::new(remote, Arc::clone(&clock) as _, Arc::new(NoLedger), options);
    late.deliver(0..1);
    let tops = bucket.list(Ino::ROOT).await.unwrap();
    (late, clock, bucket, tops.iter().map(|entry| entry.attr.ino).collect())
}

#[tokio::test]
async fn rmdir_waits_for_attributes_being_written_and_removes_them() {
    let bench = Bench::new();
    let dir = bench.mkdir(Ino::ROOT, "d").await;
    let file = bench.write(dir, "f", "1").await;
    bench.bucket.set_attr(file, mode(0o600)).await.unwrap();
    let gate = bench.fake.hold(Op::Put);
    let written = bench.bucket.sync(Some(dir));
    let removed = async {
        gate.arrived(1).await;
        let gone = async {
            bench.bucket.unlink(dir, &name("f")).await.unwrap();
            bench.bucket.rmdir(Ino::ROOT, &name("d")).await.unwrap();
        };
        let opened = async {
            // The removal of the directory comes as far as it can.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            drop(gate);
        };
        tokio::join!(gone, opened);
    };
    let (written, ()) = tokio::join!(written, removed);
    written.unwrap();
    assert_eq!(keys_of_d(&bench), [""; 0]);
    bench.bucket.sync(None).await.unwrap();
    bench.expire();
    assert_eq!(keys_of_d(&bench), [""; 0]);
    assert_eq!(bench.names(Ino::ROOT).await, [""; 0]);
}

#[tokio::test]
async fn rmdir_removes_no_object_that_only_begins_like_attributes() {
    let bench = Bench::new();
    let dir = bench.mkdir(Ino::ROOT, "d").await;
    let others = ["d/.quayfs-attributesX", "d/.quayfs-attributes/x", "d/.quayfs-attributes.note"];
    for key in others {
        bench.put(key, "not ours");
    }
    let file = bench.write(dir, "f", "1").await;
    bench.bucket.set_attr(file, mode(0o600)).await.unwrap();
    bench.bucket.sync(Some(dir)).await.unwrap();
    assert!(keys_of_d(&bench).contains(&"d/.quayfs-attributes".to_owned()));
    bench.bucket.unlink(dir, &name("f")).await.unwrap();
    bench.bucket.rmdir(Ino::ROOT, &name("d")).await.unwrap();
    let mut left = others.map(str::to_owned);
    left.sort();
    assert_eq!(keys_of_d(&bench), left);
}

#[tokio::test]
async fn page_across_directories_tells_nothing_of_one_that_moved() {
    for remove in [true, false] {
        let keys = ["a/1", "m/old", "q/1", "q/2", "q/sub/3"];
        let keys = if remove { &keys[..] } else { &["a/1", "q/1", "q/2", "q/sub/3"][..] };
        let (late, clock, bucket, tops) = late(keys).await;
        let (a, q) = (tops[0], *tops.last().unwrap());
        let walk = bucket.list(a);
        let change = async {
            late.read(2).await;
            // The page across directories is read; what the changes ask for themselves comes at once.
            late.deliver(2..1000);
            if remove {
                bucket.unlink(tops[1], &name("old")).await.unwrap();
                bucket.rmdir(Ino::ROOT, &name("m")).await.unwrap();
            }
            let (from, to) = (name("q"), name("m"));
            let ends = ((Ino::ROOT, &from), (Ino::ROOT, &to));
            bucket.rename(ends.0, ends.1, RenameMode::NoReplace).await.unwrap();
            late.deliver(1..2);
        };
        let (listed, ()) = tokio::join!(walk, change);
        listed.unwrap();
        for _ in 0..2 {
            let sub = bucket.lookup(q, &name("sub")).await.unwrap().attr.ino;
            assert!(bucket.lookup(q, &name("1")).await.is_ok());
            assert!(bucket.lookup(q, &name("old")).await.is_err());
            assert_eq!(names(&bucket.list(q).await.unwrap()), ["1", "2", "sub"]);
            assert_eq!(names(&bucket.list(sub).await.unwrap()), ["3"]);
            assert_eq!(names(&bucket.list(Ino::ROOT).await.unwrap()), ["a", "m"]);
            clock.advance(TTL);
        }
    }
}

#[tokio::test]
async fn page_read_during_a_directorys_copies_hides_nothing() {
    for returns in [Returns::InBucket, Returns::Journaled] {
        let fake = Fake::new();
        for key in ["a/1", "q/1", "q/2", "q/sub/3"] {
            fake.insert(&Key::from(key), "x", Metadata::new());
        }
        let late = Arc::new(Late::new(fake.clone()));
        let remote: Arc<dyn Remote> = Arc::clone(&late) as _;
        let clock = Arc::new(ManualClock::default());
        let options = BucketOptions { returns, ..BucketOptions::default() };
        let bucket = Bucket::new(remote, Arc::clone(&clock) as _, Arc::new(NoLedger), options);
        late.deliver(0..1000);
        let tops = bucket.list(Ino::ROOT).await.unwrap();
        let (a, q) = (tops[0].attr.ino, tops[1].attr.ino);
        // What is known of names is known, and is too old.
        bucket.list(q).await.unwrap();
        clock.advance(TTL * 2);
        bucket.list(Ino::ROOT).await.unwrap();
        let gate = fake.hold(Op::Copy);
        let (from, to) = (name("q"), name("m"));
        let renamed = async {
            let ends = ((Ino::ROOT, &from), (Ino::ROOT, &to));
            bucket.rename(ends.0, ends.1, RenameMode::NoReplace).await.unwrap();
            bucket.sync(None).await.unwrap();
        };
        let walk = async {
            gate.arrived(3).await;
            gate.let_through(1);
            while !fake.keys().iter().any(|key| key.as_bytes().starts_with(b"m/")) {
                tokio::task::yield_now().await;
            }
            let walk = bucket.list(a);
            let held = late.hold_next();
            let landed = async {
                held.read().await;
                drop(gate);
                while fake.keys().iter().any(|key| key.as_bytes().starts_with(b"q/")) {
                    tokio::task::yield_now().await;
                }
                held.deliver();
            };
            let (listed, ()) = tokio::join!(walk, landed);
            listed.unwrap();
        };
        tokio::join!(renamed, walk);
        let sub = bucket.lookup(q, &name("sub")).await.unwrap().attr.ino;
        for file in ["1", "2"] {
            assert!(bucket.lookup(q, &name(file)).await.is_ok(), "{returns:?} {file}");
        }
        assert_eq!(names(&bucket.list(sub).await.unwrap()), ["3"]);
    }
}

#[tokio::test]
async fn attributes_of_a_directory_made_anew_outlive_the_removal_of_the_old_one() {
    let options = BucketOptions { returns: Returns::Journaled, ..BucketOptions::default() };
    let bench = Bench::over(Fake::new(), options.clone());
    let dir = bench.mkdir(Ino::ROOT, "d").await;
    let inner = bench.mkdir(dir, "inner").await;
    bench.bucket.set_attr(inner, mode(0o700)).await.unwrap();
    bench.bucket.sync(None).await.unwrap();
    let gate = bench.fake.hold(Op::Delete);
    bench.bucket.rmdir(dir, &name("inner")).await.unwrap();
    bench.bucket.rmdir(Ino::ROOT, &name("d")).await.unwrap();
    let dir = bench.mkdir(Ino::ROOT, "d").await;
    let inner = bench.mkdir(dir, "inner").await;
    bench.bucket.set_attr(inner, mode(0o711)).await.unwrap();
    drop(gate);
    bench.bucket.sync(None).await.unwrap();
    let again = Bench::over(bench.fake.clone(), options);
    let dir = again.ino(Ino::ROOT, "d").await;
    assert_eq!(again.lookup(dir, "inner").await.unwrap().attr.mode & 0o777, 0o711);
}

#[tokio::test]
async fn attributes_noted_by_an_earlier_mount_make_no_removed_directory() {
    let (fake, ledger) = (Fake::new(), Arc::new(Memory::default()));
    let options = BucketOptions::default;
    let bench = Bench::with(fake.clone(), options(), Arc::clone(&ledger) as Arc<dyn Ledger>);
    let dir = bench.mkdir(Ino::ROOT, "d").await;
    let file = bench.write(dir, "f", "1").await;
    bench.bucket.set_attr(file, mode(0o600)).await.unwrap();
    let left = ledger.all();
    assert!(!left.is_empty());
    // Another host removes the directory.
    bench.remove("d/f");
    bench.remove("d/");
    let next = Bench::with(fake.clone(), options(), Arc::clone(&ledger) as Arc<dyn Ledger>);
    assert!(next.bucket.replay_attributes(left).is_empty());
    next.bucket.sync(None).await.unwrap();
    assert_eq!(keys_of_d(&next), [""; 0]);
    assert!(ledger.all().is_empty());
}

#[tokio::test]
async fn due_attributes_are_written_between_endless_renames() {
    let (fake, steps) = (Fake::new(), Arc::new(Steps(watch::Sender::default())));
    let (below, clock) = (Arc::new(fake.clone()), Arc::clone(&steps) as Arc<dyn Clock>);
    let bucket = Bucket::new(below, clock, Arc::new(NoLedger), BucketOptions::default());
    let bench = Bench { fake, clock: Arc::default(), bucket };
    let dir = bench.mkdir(Ino::ROOT, "d").await;
    bench.bucket.sync(None).await.unwrap();
    let file = bench.write(dir, "f", "1").await;
    bench.bucket.set_attr(file, mode(0o600)).await.unwrap();
    let shared = &bench.bucket.shared;
    let rename = || shared.turns.take(vec![Want::Exclusive(b"d".to_vec())]);
    let renames = async {
        let mut held = rename().await.unwrap();
        for round in 0.. {
            assert!(round < 10 * PASSES_MAX, "the attributes of the directory never had a turn");
            // The next one is in the line before this one ends.
            let mut next = pin!(rename());
            assert!(next.as_mut().now_or_never().is_none());
            steps.advance(Duration::from_secs(1));
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            drop(held);
            held = next.await.unwrap();
            if shared.attributes_pending() == 0 {
                break;
            }
        }
    };
    tokio::select! {
        () = renames => {}
        () = shared.keep_attributes() => unreachable!("it never ends"),
    }
    assert!(bench.keys().contains(&"d/.quayfs-attributes".to_owned()));
}
