//! The bucket does not answer: who looks is told what is remembered, who changes something is not.

use std::sync::Arc;

use base::{Ino, ManualClock};
use remote::fake::{Fake, Op};
use remote::{ErrorKind as RemoteErrorKind, Key, Metadata, Remote};

use super::{TTL, name};
use crate::{Bucket, BucketOptions, Error, ErrorKind, Namespace, NoLedger};

struct Bench {
    fake: Arc<Fake>,
    clock: Arc<ManualClock>,
    bucket: Bucket,
}

impl Bench {
    /// A bucket with the object `a`, whose name is known and too old to be believed.
    async fn new() -> Bench {
        let fake = Arc::new(Fake::new());
        fake.insert(&Key::from("a"), "bytes", Metadata::new());
        let clock = Arc::new(ManualClock::default());
        let remote: Arc<dyn Remote> = Arc::clone(&fake) as _;
        let options = BucketOptions::default();
        let bucket = Bucket::new(remote, Arc::clone(&clock) as _, Arc::new(NoLedger), options);
        bucket.lookup(Ino::ROOT, &name("a")).await.unwrap();
        clock.advance(TTL);
        Bench { fake, clock, bucket }
    }

    /// So many questions about a name have no answer.
    fn silence(&self, questions: usize) {
        for _ in 0..questions {
            for op in [Op::Head, Op::List, Op::GetWhole] {
                self.fake.fail_next(op, RemoteErrorKind::Unavailable);
            }
        }
    }
}

const UNANSWERED: ErrorKind = ErrorKind::Remote(RemoteErrorKind::Unavailable);

fn kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

#[tokio::test]
async fn what_is_remembered_is_shown_and_nobody_waits_for_the_bucket_again() {
    let bench = Bench::new().await;
    let known = bench.bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.ino;
    bench.clock.advance(TTL);
    bench.silence(1);
    assert_eq!(bench.bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.ino, known);
    let calls = bench.fake.calls_total();
    for _ in 0..3 {
        assert_eq!(bench.bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.size, 5);
        assert_eq!(bench.bucket.attr(known).await.unwrap().size, 5);
        assert_eq!(bench.bucket.content(known).await.unwrap().size, 5);
    }
    assert_eq!(bench.fake.calls_total(), calls, "nobody asked");
}

#[tokio::test]
async fn what_is_not_remembered_and_what_is_to_be_changed_is_an_error() {
    let bench = Bench::new().await;
    bench.silence(1);
    assert_eq!(kind(bench.bucket.lookup(Ino::ROOT, &name("b")).await), Some(UNANSWERED));
    bench.silence(1);
    assert_eq!(kind(bench.bucket.unlink(Ino::ROOT, &name("a")).await), Some(UNANSWERED));
    assert!(bench.fake.bytes(&Key::from("a")).is_some());
}

#[tokio::test]
async fn somebody_tries_after_a_while_and_then_the_bucket_counts_again() {
    let bench = Bench::new().await;
    bench.silence(1);
    bench.bucket.lookup(Ino::ROOT, &name("a")).await.unwrap();
    bench.fake.insert(&Key::from("a"), "other bytes", Metadata::new());
    bench.clock.advance(TTL * 10);
    let calls = bench.fake.calls_total();
    let shown = bench.bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.size;
    assert_eq!(shown, 5, "who looks does not wait for who tries");
    // The one who tries is a task of its own.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(calls < bench.fake.calls_total());
    assert_eq!(bench.bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.size, 11);
}
