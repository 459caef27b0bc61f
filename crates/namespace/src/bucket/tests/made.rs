//! Links and the like that are made here, and get into the bucket later.

use std::sync::Arc;

use base::{FileKind, Ino, ManualClock, Timestamp};
use remote::fake::{Fake, Op};
use remote::{ErrorKind as RemoteErrorKind, Key, Remote};

use super::crash::{End, Memory, Mortal, until_death};
use super::{Bench, NODE, name};
use crate::bucket::Returns;
use crate::{
    Bucket, BucketOptions, ErrorKind, Ledger, Namespace, Owner, RenameMode, SetAttr, Special,
};

const OWNER: Owner = Owner { uid: 7, gid: 8 };

fn options() -> BucketOptions {
    BucketOptions { returns: Returns::Journaled, ..BucketOptions::default() }
}

fn bench() -> Bench {
    Bench::over(Fake::new(), options())
}

fn late_bucket(remote: Arc<dyn Remote>, ledger: &Arc<Memory>) -> Bucket {
    let ledger = Arc::clone(ledger) as Arc<dyn Ledger>;
    Bucket::new(remote, Arc::new(ManualClock::default()), ledger, options())
}

impl Bench {
    async fn link(&self, text: &str, target: &[u8]) -> Ino {
        let made = self.bucket.symlink(Ino::ROOT, &name(text), target, OWNER).await;
        made.unwrap().attr.ino
    }

    async fn sent(&self) {
        self.bucket.sync(None).await.unwrap();
    }

    /// The objects that are not hidden.
    fn shown(&self) -> Vec<String> {
        self.keys().into_iter().filter(|key| !key.starts_with(".quayfs")).collect()
    }
}

/// What another mount finds: what `text` is, and where it points.
async fn told(fake: &Fake, text: &str) -> (FileKind, u16, Vec<u8>) {
    let bucket = Bench::over(fake.clone(), BucketOptions::default()).bucket;
    let attr = bucket.lookup(Ino::ROOT, &name(text)).await.unwrap().attr;
    let is_link = attr.kind == FileKind::Symlink;
    let target = if is_link { bucket.readlink(attr.ino).await.unwrap() } else { Vec::new() };
    (attr.kind, attr.mode, target)
}

#[tokio::test]
async fn a_link_is_there_and_readable_before_the_bucket_has_it() {
    let bench = bench();
    let gate = bench.fake.hold(Op::Put);
    let link = bench.link("l", b"../t").await;
    let special = Special { kind: FileKind::Fifo, rdev: 0 };
    bench.bucket.mknod(Ino::ROOT, &name("p"), special, NODE).await.unwrap();
    for _ in 0..2 {
        assert_eq!(bench.bucket.readlink(link).await.unwrap(), b"../t");
        assert_eq!(bench.ino(Ino::ROOT, "l").await, link);
        assert_eq!(bench.names(Ino::ROOT).await, ["l", "p"]);
        let again = bench.bucket.symlink(Ino::ROOT, &name("l"), b"x", OWNER).await.unwrap_err();
        assert_eq!(again.kind, ErrorKind::Exists);
        assert_eq!((bench.keys().len(), bench.bucket.unsent().changes), (0, 2));
        bench.expire();
    }
    drop(gate);
    bench.sent().await;
    assert_eq!(bench.shown(), ["l", "p"]);
    assert_eq!(told(&bench.fake, "l").await, (FileKind::Symlink, 0o777, b"../t".to_vec()));
    assert_eq!(told(&bench.fake, "p").await.0, FileKind::Fifo);
    bench.expire();
    assert_eq!(bench.ino(Ino::ROOT, "l").await, link);
    assert_eq!(bench.bucket.readlink(link).await.unwrap(), b"../t");
}

#[tokio::test]
async fn a_link_that_is_removed_at_once_is_never_sent() {
    let bench = bench();
    bench.link("l", b"t").await;
    bench.unlink("l").await;
    bench.link("l", b"u").await;
    bench.sent().await;
    assert_eq!(bench.fake.calls(Op::Delete), 0);
    assert_eq!(told(&bench.fake, "l").await.2, b"u");
}

#[tokio::test]
async fn a_link_that_is_just_being_sent_is_removed_when_it_is_there() {
    let bench = bench();
    bench.link("l", b"t").await;
    let gate = bench.fake.hold(Op::Put);
    let sync = bench.bucket.clone();
    let syncing = tokio::spawn(async move { sync.sync(None).await });
    gate.arrived(1).await;
    let removing = bench.unlink("l");
    let others = async {
        tokio::task::yield_now().await;
        drop(gate);
    };
    tokio::join!(removing, others);
    syncing.await.unwrap().unwrap();
    bench.sent().await;
    assert_eq!(bench.shown(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_said_of_a_link_before_it_is_sent_goes_with_it() {
    let bench = bench();
    let link = bench.link("l", b"t").await;
    let (mtime, owner) = (Timestamp { secs: 5, nanos: 6 }, Owner { uid: 9, gid: 9 });
    let change = SetAttr { mtime: Some(mtime), uid: Some(owner.uid), ..SetAttr::default() };
    bench.bucket.set_attr(link, change).await.unwrap();
    bench.sent().await;
    let other = Bench::over(bench.fake.clone(), BucketOptions::default());
    let attr = other.lookup(Ino::ROOT, "l").await.unwrap().attr;
    assert_eq!((attr.mtime, attr.uid, attr.gid), (mtime, 9, OWNER.gid));
}

#[tokio::test]
async fn a_link_that_others_were_faster_with_is_given_up_and_told() {
    let bench = bench();
    let link = bench.link("l", b"t").await;
    bench.put("l", "theirs");
    bench.sent().await;
    assert_ne!(bench.ino(Ino::ROOT, "l").await, link);
    assert_eq!(bench.fake.bytes(&Key::from("l")).unwrap(), "theirs");
    assert_eq!(bench.bucket.unsent().failures.len(), 1);
}

#[tokio::test]
async fn a_link_whose_making_failed_is_made_later() {
    let bench = bench();
    bench.fake.fail_next(Op::Put, RemoteErrorKind::Unavailable);
    bench.fake.lose_next_answer(Op::Put);
    bench.link("l", b"t").await;
    while 0 < bench.bucket.unsent().changes {
        let _ = bench.bucket.sync(None).await;
    }
    assert_eq!(bench.bucket.unsent().failures, Vec::<String>::new());
    assert_eq!(told(&bench.fake, "l").await.2, b"t");
}

/// What is done, and what was told to be done by then.
async fn change(bucket: &Bucket, made: &mut Vec<&'static str>) {
    let link = bucket.symlink(Ino::ROOT, &name("l"), b"t", OWNER).await.unwrap().attr.ino;
    made.push("l");
    bucket.symlink(Ino::ROOT, &name("gone"), b"t", OWNER).await.unwrap();
    bucket.unlink(Ino::ROOT, &name("gone")).await.unwrap();
    made.push("gone");
    let mtime = Some(Timestamp { secs: 77, nanos: 0 });
    bucket.set_attr(link, SetAttr { mtime, ..SetAttr::default() }).await.unwrap();
    made.push("time");
    let special = Special { kind: FileKind::Fifo, rdev: 0 };
    bucket.mknod(Ino::ROOT, &name("p"), special, NODE).await.unwrap();
    made.push("p");
    bucket.sync(None).await.unwrap();
    bucket.unlink(Ino::ROOT, &name("p")).await.unwrap();
    made.push("no p");
    bucket.symlink(Ino::ROOT, &name("tmp"), b"new", OWNER).await.unwrap();
    let (tmp, l) = (name("tmp"), name("l"));
    bucket.rename((Ino::ROOT, &tmp), (Ino::ROOT, &l), RenameMode::Replace).await.unwrap();
    made.push("new");
    bucket.sync(None).await.unwrap();
}

#[tokio::test]
async fn what_was_made_is_there_although_the_process_dies_at_any_request() {
    for requests in 0.. {
        let (fake, ledger) = (Fake::new(), Arc::new(Memory::default()));
        let mortal = Mortal::new(&fake, requests, End::Death);
        let dying = late_bucket(Arc::clone(&mortal) as _, &ledger);
        let mut made = Vec::new();
        let lived = until_death(&mortal, change(&dying, &mut made)).await.is_some();
        drop(dying);
        let next = late_bucket(Arc::new(fake.clone()), &ledger);
        assert_eq!(next.replay_attributes(ledger.all()).len(), ledger.left().len());
        assert_eq!(next.replay(ledger.left()).await.waiting, 0);
        next.sync(None).await.unwrap();
        assert_eq!(ledger.all(), [], "killed after {requests} requests");
        let other = Bench::over(fake.clone(), BucketOptions::default());
        let names = other.names(Ino::ROOT).await;
        let has = |text: &str| names.iter().any(|name| name == text);
        let what = format!("killed after {requests} requests, {made:?}: {names:?}");
        assert!(!has("gone") || !made.contains(&"gone"), "{what}");
        assert!(has("l") || !made.contains(&"l"), "{what}");
        assert!(has("p") || !made.contains(&"p") || made.contains(&"no p"), "{what}");
        assert!(!has("p") || !made.contains(&"no p"), "{what}");
        if has("l") {
            let attr = other.lookup(Ino::ROOT, "l").await.unwrap().attr;
            assert_eq!(attr.kind, FileKind::Symlink, "{what}");
            let target = other.bucket.readlink(attr.ino).await.unwrap();
            assert!(target == b"new" || !made.contains(&"new"), "{what}: {target:?}");
            let is_told = target == b"new" || attr.mtime.secs == 77;
            assert!(is_told || !made.contains(&"time"), "{what}: {attr:?}");
        }
        if lived {
            assert_eq!(names, ["l"]);
            assert!(8 < requests, "it took too few requests");
            return;
        }
    }
}

#[tokio::test]
async fn a_replay_does_not_make_a_link_over_what_others_made() {
    let (fake, ledger) = (Fake::new(), Arc::new(Memory::default()));
    let dying = late_bucket(Arc::new(fake.clone()), &ledger);
    dying.symlink(Ino::ROOT, &name("l"), b"t", OWNER).await.unwrap();
    drop(dying);
    fake.insert(&Key::from("l"), "theirs", remote::Metadata::new());
    let next = late_bucket(Arc::new(fake.clone()), &ledger);
    assert_eq!(next.replay(ledger.left()).await.waiting, 0);
    assert_eq!(fake.bytes(&Key::from("l")).unwrap(), "theirs");
    assert_eq!(ledger.left(), []);
}

#[tokio::test]
async fn who_fills_a_new_folder_does_not_ask_what_is_said_in_it() {
    for returns in [Returns::InBucket, Returns::Journaled] {
        let options = BucketOptions { returns, ..BucketOptions::default() };
        let bench = Bench::over(Fake::new(), options);
        let dir = bench.mkdir(Ino::ROOT, "d").await;
        let file = bench.bucket.create(dir, &name("f"), NODE).await.unwrap().attr.ino;
        let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        let asked = bench.fake.calls(Op::GetWhole);
        assert_eq!(bench.bucket.set_attr(file, mode).await.unwrap().mode, 0o600);
        assert_eq!(bench.fake.calls(Op::GetWhole), asked, "{returns:?}");
    }
}
