//! Answers that were read before a change on this mount and come in after it.

use std::sync::Arc;

use base::{Ino, ManualClock};
use remote::fake::{Fake, Op};
use remote::{Condition, Key, Metadata, PutOptions, Remote};

use super::late::Late;
use super::{NODE, TTL, name, names, size};
use crate::{Bucket, BucketOptions, Namespace, Published, RenameMode};

struct Bench {
    late: Arc<Late>,
    clock: Arc<ManualClock>,
    bucket: Bucket,
}

impl Bench {
    /// A bucket with these objects, all of whose names are known and too old to be believed; of the
    /// next answers none is delivered.
    async fn new(keys: &[&str]) -> Bench {
        let fake = Fake::new();
        for key in keys {
            fake.insert(&Key::from(*key), "bytes", Metadata::new());
        }
        let late = Arc::new(Late::new(fake));
        let clock = Arc::new(ManualClock::default());
        let remote: Arc<dyn Remote> = Arc::clone(&late) as _;
        let bucket = Bucket::new(
            remote,
            Arc::clone(&clock) as _,
            Arc::new(crate::NoLedger),
            BucketOptions::default(),
        );
        late.deliver(0..1);
        bucket.list(Ino::ROOT).await.unwrap();
        Bench { late, clock, bucket }
    }

    /// Starts a listing of the root, does `change` once it is read, and returns what is listed.
    async fn list_around(&self, change: impl Future<Output = ()>) -> Vec<String> {
        let number = self.late.count();
        self.clock.advance(TTL);
        let list = self.bucket.list(Ino::ROOT);
        let change = async {
            self.late.read(number + 1).await;
            // What the change itself asks for comes at once.
            self.late.deliver(number + 1..1000);
            change.await;
            self.late.deliver(number..number + 1);
        };
        let (listed, ()) = tokio::join!(list, change);
        names(&listed.unwrap())
    }

    async fn publish(&self, ino: Ino, bytes: &'static str) {
        let target = self.bucket.target(ino).unwrap();
        let options = PutOptions { condition: target.condition, metadata: target.metadata };
        let version = self.late.fake.put(&target.key, bytes.into(), &options).await.unwrap();
        let size = bytes.len() as u64;
        self.bucket.publish(ino, Published { key: target.key, version, size });
    }

    /// The number under a name that is known.
    fn ino(&self, text: &str) -> Ino {
        self.bucket.shared.state().tree.child(Ino::ROOT, &name(text)).unwrap()
    }
}

#[tokio::test]
async fn a_listing_does_not_undo_a_publish() {
    let bench = Bench::new(&["a", "b"]).await;
    let ino = bench.ino("a");
    let listed = bench
        .list_around(async {
            bench.bucket.set_attr(ino, size(11)).await.unwrap();
            bench.publish(ino, "newer bytes").await;
        })
        .await;
    assert_eq!(listed, ["a", "b"]);
    let attr = bench.bucket.attr(ino).await.unwrap();
    assert_eq!((attr.nlink, attr.size), (1, 11));
}

#[tokio::test]
async fn a_listing_does_not_bring_back_what_was_removed() {
    let bench = Bench::new(&["a", "b"]).await;
    let listed = bench
        .list_around(async {
            bench.bucket.unlink(Ino::ROOT, &name("a")).await.unwrap();
        })
        .await;
    assert_eq!(listed, ["b"]);
    assert!(bench.bucket.lookup(Ino::ROOT, &name("a")).await.is_err());
}

#[tokio::test]
async fn a_listing_does_not_hide_what_was_made() {
    let bench = Bench::new(&["b"]).await;
    let listed = bench
        .list_around(async {
            let made = bench.bucket.create(Ino::ROOT, &name("a"), NODE).await.unwrap();
            bench.publish(made.attr.ino, "bytes").await;
            bench.bucket.mkdir(Ino::ROOT, &name("c"), NODE).await.unwrap();
        })
        .await;
    assert_eq!(listed, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_listing_does_not_undo_a_rename() {
    let bench = Bench::new(&["a", "b", "c"]).await;
    let ino = bench.ino("a");
    let listed = bench
        .list_around(async {
            let (a, b) = (name("a"), name("b"));
            let rename = bench.bucket.rename((Ino::ROOT, &a), (Ino::ROOT, &b), RenameMode::Replace);
            rename.await.unwrap();
        })
        .await;
    assert_eq!(listed, ["b", "c"]);
    assert_eq!(bench.ino("b"), ino);
}

#[tokio::test]
async fn a_lookup_does_not_bring_back_what_was_removed() {
    let bench = Bench::new(&["a"]).await;
    bench.clock.advance(TTL);
    let name = name("a");
    let lookup = bench.bucket.lookup(Ino::ROOT, &name);
    let unlink = async {
        bench.late.read(3).await;
        bench.late.deliver(3..1000);
        bench.bucket.unlink(Ino::ROOT, &name).await.unwrap();
        bench.late.deliver(1..3);
    };
    let (found, ()) = tokio::join!(lookup, unlink);
    assert!(found.is_err());
    assert!(bench.bucket.list(Ino::ROOT).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_older_answer_does_not_undo_a_younger_one() {
    let bench = Bench::new(&["a"]).await;
    bench.clock.advance(TTL);
    let (a, b) = (name("a"), name("b"));
    let old =
        async { tokio::join!(bench.bucket.lookup(Ino::ROOT, &a), bench.bucket.list(Ino::ROOT)) };
    let new = async {
        bench.late.read(4).await;
        bench.late.deliver(4..1000);
        bench.late.fake.insert(&Key::from("a"), "newest bytes", Metadata::new());
        bench.late.fake.insert(&Key::from("b"), "bytes", Metadata::new());
        bench.clock.advance(TTL);
        assert_eq!(names(&bench.bucket.list(Ino::ROOT).await.unwrap()), ["a", "b"]);
        bench.late.deliver(1..4);
    };
    let ((found, listed), ()) = tokio::join!(old, new);
    assert_eq!(found.unwrap().attr.size, 12);
    assert_eq!(names(&listed.unwrap()), ["a", "b"]);
    assert_eq!(bench.bucket.lookup(Ino::ROOT, &a).await.unwrap().attr.size, 12);
    bench.bucket.lookup(Ino::ROOT, &b).await.unwrap();
}

#[tokio::test]
async fn a_create_that_lost_the_race_here_finds_the_name_taken() {
    let bench = Bench::new(&[]).await;
    bench.clock.advance(TTL);
    bench.late.deliver(0..1000);
    let gate = bench.late.fake.hold(Op::Head);
    let name = name("a");
    let both = async {
        tokio::join!(
            bench.bucket.create(Ino::ROOT, &name, NODE),
            bench.bucket.create(Ino::ROOT, &name, NODE)
        )
    };
    let release = async {
        gate.arrived(2).await;
        gate.let_through(2);
    };
    let ((one, other), ()) = tokio::join!(both, release);
    assert_eq!(usize::from(one.is_ok()) + usize::from(other.is_ok()), 1);
}

#[tokio::test]
async fn an_object_written_over_during_a_rename_is_not_deleted() {
    let bench = Bench::new(&["a"]).await;
    bench.late.deliver(0..1000);
    let gate = bench.late.fake.hold(Op::Head);
    let (a, b) = (name("a"), name("b"));
    bench.clock.advance(TTL);
    bench.bucket.list(Ino::ROOT).await.unwrap();
    let rename = bench.bucket.rename((Ino::ROOT, &a), (Ino::ROOT, &b), RenameMode::Replace);
    let other = async {
        gate.arrived(1).await;
        let fake = &bench.late.fake;
        let options = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
        fake.put(&Key::from("a"), "theirs".into(), &options).await.unwrap();
        drop(gate);
    };
    let (renamed, ()) = tokio::join!(rename, other);
    renamed.unwrap();
    assert_eq!(
        bench.late.fake.bytes(&Key::from("b")).unwrap(),
        "theirs",
        "moved at the second try"
    );
    assert_eq!(bench.late.fake.bytes(&Key::from("a")), None);
}

#[tokio::test]
async fn a_name_that_others_took_during_a_change_that_failed_is_not_taken_for_absent() {
    let bench = super::Bench::new();
    let gate = bench.fake.hold(Op::Put);
    let d = name("d");
    let mkdir = bench.bucket.mkdir(Ino::ROOT, &d, NODE);
    let others = async {
        gate.arrived(1).await;
        bench.put("d/", "");
        bench.expire();
        assert!(bench.names(Ino::ROOT).await.is_empty(), "whose folder it is, is open");
        drop(gate);
    };
    let (made, ()) = tokio::join!(mkdir, others);
    assert_eq!(made.unwrap_err().kind, crate::ErrorKind::Exists);
    bench.ino(Ino::ROOT, "d").await;
}
