//! The bucket does not answer: who looks is told what is remembered, who changes something is not.

use std::sync::Arc;

use base::{Ino, ManualClock};
use remote::fake::{Fake, Op};
use remote::{ErrorKind as RemoteErrorKind, Key, Metadata, Remote};

use super::{NODE, TTL, name, names};
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

    /// The same with the files `d/0` to `d/4`, listed two at a time, and the number of the folder `d`.
    async fn with_folder() -> (Bench, Ino) {
        let bench = Bench::new().await;
        bench.fake.short_pages(2);
        for file in 0..5 {
            bench.fake.insert(&Key::from(&format!("d/{file}")[..]), "bytes", Metadata::new());
        }
        let folder = bench.bucket.lookup(Ino::ROOT, &name("d")).await.unwrap().attr.ino;
        (bench, folder)
    }

    async fn listed(&self, folder: Ino) -> Vec<String> {
        names(&self.bucket.list(folder).await.unwrap())
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

const FILES: [&str; 5] = ["0", "1", "2", "3", "4"];

/// Lets everything that can go on go on.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
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
    settle().await;
    assert!(calls < bench.fake.calls_total());
    assert_eq!(bench.bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.size, 11);
}

#[tokio::test]
async fn a_folder_that_was_listed_is_shown_and_nobody_waits_for_the_bucket_again() {
    let (bench, folder) = Bench::with_folder().await;
    assert_eq!(bench.listed(folder).await, FILES);
    // What is asked about single names later does not make the listing forgotten.
    bench.clock.advance(TTL * 100);
    for file in ["0", "1", "2", "3", "4", "no 1", "no 2", "no 3", "no 4"] {
        let _ = bench.bucket.lookup(folder, &name(file)).await;
        bench.clock.advance(TTL * 100);
    }
    let calls = bench.fake.calls_total();
    bench.silence(1);
    assert_eq!(bench.listed(folder).await, FILES);
    assert_eq!(bench.fake.calls_total(), calls + 1, "one asked");
    for _ in 0..3 {
        assert_eq!(bench.listed(folder).await, FILES);
        bench.bucket.attr(folder).await.unwrap();
        bench.bucket.attr(Ino::ROOT).await.unwrap();
    }
    assert_eq!(bench.fake.calls_total(), calls + 1, "nobody asked again");
}

#[tokio::test]
async fn what_was_changed_here_shows_in_a_folder_that_is_remembered() {
    let (bench, folder) = Bench::with_folder().await;
    bench.listed(folder).await;
    bench.bucket.unlink(folder, &name("3")).await.unwrap();
    bench.bucket.create(folder, &name("new"), NODE).await.unwrap();
    bench.clock.advance(TTL);
    bench.silence(1);
    assert_eq!(bench.listed(folder).await, ["0", "1", "2", "4", "new"]);
}

#[tokio::test]
async fn a_folder_that_was_not_listed_is_an_error_after_one_question() {
    let (bench, folder) = Bench::with_folder().await;
    // Now it is one of several that are listed one after another.
    bench.listed(Ino::ROOT).await;
    for _ in 0..2 {
        let calls = bench.fake.calls_total();
        bench.silence(1);
        assert_eq!(kind(bench.bucket.list(folder).await), Some(UNANSWERED));
        assert_eq!(bench.fake.calls_total(), calls + 1);
        bench.fake.forget_faults();
    }
    assert_eq!(bench.listed(folder).await, FILES, "the bucket is asked each time");
}

#[tokio::test]
async fn a_folder_of_which_some_names_are_known_is_an_error() {
    let (bench, folder) = Bench::with_folder().await;
    for file in ["0", "1", "2"] {
        bench.bucket.lookup(folder, &name(file)).await.unwrap();
    }
    bench.silence(1);
    let listing = bench.bucket.listing(folder).await.unwrap();
    assert_eq!(kind(listing.all().await), Some(UNANSWERED));
}

#[tokio::test]
async fn a_listing_that_the_bucket_breaks_off_goes_on_with_what_is_remembered() {
    let (bench, folder) = Bench::with_folder().await;
    for is_known in [false, true] {
        if is_known {
            bench.listed(folder).await;
            bench.clock.advance(TTL);
            bench.fake.insert(&Key::from("d/00"), "bytes", Metadata::new());
            assert!(bench.fake.remove(&Key::from("d/4")));
        }
        let gate = bench.fake.hold(Op::List);
        let listing = bench.bucket.listing(folder).await.unwrap();
        gate.let_through(1);
        let first = listing.page(0, 1).await.unwrap();
        assert_eq!(first[0].name, name("0"));
        // What has come to the gate is answered.
        gate.arrived(2).await;
        bench.silence(8);
        drop(gate);
        let all = listing.all().await;
        bench.fake.forget_faults();
        if is_known {
            let mut found: Vec<_> =
                all.unwrap().iter().map(|listed| listed.name.to_string()).collect();
            found.sort();
            assert_eq!(
                found,
                ["0", "00", "1", "2", "3", "4"],
                "the beginning is news, the end is not"
            );
        } else {
            assert_eq!(kind(all), Some(UNANSWERED));
        }
    }
}

#[tokio::test]
async fn a_folder_is_listed_anew_when_the_bucket_answers_again() {
    let (bench, folder) = Bench::with_folder().await;
    bench.listed(folder).await;
    bench.clock.advance(TTL);
    bench.silence(1);
    assert_eq!(bench.listed(folder).await, FILES);
    bench.fake.forget_faults();
    bench.fake.insert(&Key::from("d/5"), "bytes", Metadata::new());
    assert_eq!(bench.listed(folder).await, FILES, "nobody has tried yet");
    bench.clock.advance(TTL * 10);
    assert_eq!(bench.listed(folder).await, FILES, "who lists does not wait for who tries");
    settle().await;
    assert_eq!(bench.listed(folder).await, ["0", "1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn who_tries_and_need_not_ask_leaves_it_to_the_next() {
    let bench = Bench::new().await;
    let here = bench.bucket.create(Ino::ROOT, &name("here"), NODE).await.unwrap().attr.ino;
    bench.silence(1);
    bench.bucket.lookup(Ino::ROOT, &name("a")).await.unwrap();
    bench.fake.forget_faults();
    bench.fake.insert(&Key::from("a"), "other bytes", Metadata::new());
    bench.clock.advance(TTL * 10);
    // It is only here: the bucket has nothing to say of it.
    assert_eq!(bench.bucket.lookup(Ino::ROOT, &name("here")).await.unwrap().attr.ino, here);
    settle().await;
    bench.bucket.lookup(Ino::ROOT, &name("a")).await.unwrap();
    settle().await;
    assert_eq!(bench.bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.size, 11);
}
