//! What each decorator adds, over a store that fails, waits and forgets on schedule.

use std::sync::Arc;
use std::time::Duration;

use base::{ByteRange, Clock as _, Counter, ManualClock, Metrics, Rng, Timing};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use quayfs_remote::fake::Op;
use quayfs_remote::{
    Condition, ErrorKind, Fake, Hedge, Key, Limit, ListRequest, Metadata, Meter, Original,
    PartNumber, PutOptions, Remote, Retry, RetryOptions, Trouble, UPLOAD_ID, prefixed,
};

const TRANSIENT: ErrorKind = ErrorKind::Transient { retry_after: None };

#[tokio::test]
async fn a_passing_fault_is_not_seen() {
    let bed = Bed::new();
    bed.fake.insert(&key("a"), "12345", Metadata::new());
    for op in [Op::Head, Op::Get, Op::Put, Op::Delete, Op::List] {
        bed.fake.fail_next(op, TRANSIENT);
        bed.fake.fail_next(op, TRANSIENT);
    }
    assert_eq!(bed.retry.head(&key("a")).await.unwrap().size, 5);
    assert_eq!(bed.read(None).await.unwrap(), "12345");
    bed.retry.put(&key("b"), "1".into(), &plainly()).await.unwrap();
    bed.retry.list(&everything()).await.unwrap();
    bed.retry.delete(&key("b")).await.unwrap();
    assert_eq!(bed.metrics.value(Counter::RemoteRetries), 10);
}

#[tokio::test]
async fn a_lasting_fault_ends_at_the_deadline_with_the_stores_words() {
    let bed = Bed::new();
    for _ in 0..10_000 {
        bed.fake.fail_next(Op::Head, TRANSIENT);
    }
    let error = bed.retry.head(&key("a")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.to_string().contains("on schedule"), "{error}");
    let waited = bed.clock.monotonic();
    assert!(waited <= DEADLINE && DEADLINE / 2 < waited, "waited {waited:?}");
}

#[tokio::test]
async fn what_the_store_refuses_for_good_is_asked_once() {
    let bed = Bed::new();
    for kind in [
        ErrorKind::Denied,
        ErrorKind::Archived,
        ErrorKind::Full,
        ErrorKind::NotFound,
        ErrorKind::Corrupt,
    ] {
        bed.fake.fail_next(Op::Head, kind);
        assert_eq!(bed.retry.head(&key("a")).await.unwrap_err().kind, kind);
    }
    assert_eq!(bed.fake.calls(Op::Head), 5);
}

#[tokio::test]
async fn the_stores_wish_to_wait_is_heeded() {
    let bed = Bed::new();
    bed.fake.insert(&key("a"), "1", Metadata::new());
    let asked = Duration::from_secs(7);
    bed.fake.fail_next(Op::Head, ErrorKind::Transient { retry_after: Some(asked) });
    bed.retry.head(&key("a")).await.unwrap();
    assert!(asked <= bed.clock.monotonic());
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_is_our_own() {
    let bed = Bed::new();
    bed.fake.lose_next_answer(Op::Put);
    let version = bed.retry.put(&key("a"), "mine".into(), &create("id-1")).await.unwrap();
    assert_eq!(bed.fake.meta(&key("a")).unwrap().version, version);
    assert_eq!(bed.fake.calls(Op::Put), 2);
}

#[tokio::test]
async fn a_create_that_lost_against_another_is_not() {
    let bed = Bed::new();
    let theirs = Metadata::from([(UPLOAD_ID.to_owned(), "id-2".to_owned())]);
    bed.fake.insert(&key("a"), "theirs", theirs);
    bed.fake.fail_next(Op::Put, TRANSIENT);
    let error = bed.retry.put(&key("a"), "mine".into(), &create("id-1")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Changed);
    assert_eq!(bed.fake.bytes(&key("a")).unwrap(), "theirs");
}

#[tokio::test]
async fn a_completion_whose_answer_was_lost_is_our_own() {
    for condition in [Condition::Always, Condition::Absent] {
        let bed = Bed::new();
        let upload = bed.retry.upload_create(&key("a"), &create("id-1")).await.unwrap();
        let part = PartNumber(1);
        let tag = bed.retry.upload_part(&key("a"), &upload, part, "mine".into()).await.unwrap();
        bed.fake.lose_next_answer(Op::UploadComplete);
        let parts = [(part, tag)];
        let complete = bed.retry.upload_complete(&key("a"), &upload, &parts, &condition).await;
        assert_eq!(bed.fake.meta(&key("a")).unwrap().version, complete.unwrap());
    }
}

#[tokio::test]
async fn an_upload_that_was_begun_twice_leaves_nothing_of_the_first() {
    let part = PartNumber(1);
    for is_completed in [true, false] {
        let bed = Bed::new();
        let other = bed.retry.upload_create(&key("a"), &create("id-1")).await.unwrap();
        bed.fake.lose_next_answer(Op::UploadCreate);
        let upload = bed.retry.upload_create(&key("a"), &create("id-2")).await.unwrap();
        // Another host has begun one at that time, too, and has nothing to send yet.
        let theirs = bed.fake.upload_create(&key("a"), &create("id-3")).await.unwrap();
        let tag = bed.retry.upload_part(&key("a"), &upload, part, "mine".into()).await.unwrap();
        assert_eq!(bed.fake.uploads_open(), 4);
        bed.fake.upload_part(&key("a"), &theirs, part, "theirs".into()).await.unwrap();
        if is_completed {
            let (parts, always) = ([(part, tag)], Condition::Always);
            bed.retry.upload_complete(&key("a"), &upload, &parts, &always).await.unwrap();
        } else {
            bed.retry.upload_abort(&key("a"), &upload).await.unwrap();
        }
        let left = bed.fake.uploads(&key("a")).await.unwrap();
        let left: Vec<_> = left.into_iter().map(|unfinished| unfinished.upload).collect();
        assert_eq!(left, [other, theirs], "only what nobody knows goes");
    }
}

#[tokio::test]
async fn an_upload_of_what_another_one_brought_meanwhile_leaves_nothing() {
    let bed = Bed::new();
    let mut uploads = Vec::new();
    // Of the same bytes: who began the first died, and its last request arrives late.
    for _ in 0..2 {
        let upload = bed.retry.upload_create(&key("a"), &create("id-1")).await.unwrap();
        let part = PartNumber(1);
        let tag = bed.retry.upload_part(&key("a"), &upload, part, "mine".into()).await.unwrap();
        uploads.push((upload, [(part, tag)]));
    }
    let mut versions = Vec::new();
    for (upload, parts) in &uploads {
        let absent = &Condition::Absent;
        versions.push(bed.retry.upload_complete(&key("a"), upload, parts, absent).await.unwrap());
    }
    assert_eq!(versions[0], versions[1]);
    assert_eq!(bed.fake.uploads_open(), 0);
}

#[tokio::test]
async fn a_copy_whose_answer_was_lost_is_our_own() {
    let bed = Bed::new();
    let version = bed.retry.put(&key("a"), "mine".into(), &create("id-1")).await.unwrap();
    bed.fake.lose_next_answer(Op::Copy);
    let a = key("a");
    let original = Original { key: &a, version: &version, size: 4 };
    let copied = bed.retry.copy(original, &key("b"), &Condition::Absent).await;
    assert_eq!(bed.fake.meta(&key("b")).unwrap().version, copied.unwrap());
}

#[tokio::test]
async fn a_rename_whose_answer_was_lost_is_our_own() {
    let bed = Bed::over(Fake::with_folders());
    let (a, b) = (key("a"), key("b"));
    let version = bed.fake.insert(&a, "mine", Metadata::new());
    bed.fake.lose_next_answer(Op::Rename);
    let original = Original { key: &a, version: &version, size: 4 };
    let renamed = bed.retry.rename(original, &b, &Condition::Absent).await.unwrap();
    assert_eq!(bed.fake.meta(&b).unwrap().version, renamed);
    assert_eq!(bed.fake.meta(&a), None);

    bed.fake.insert(&key("d/f"), "1", Metadata::new());
    bed.fake.lose_next_answer(Op::RenameFolder);
    bed.retry.rename_folder(&key("d/"), &key("e/")).await.unwrap();
    assert_eq!(bed.fake.bytes(&key("e/f")).unwrap(), "1");
}

#[tokio::test]
async fn what_others_put_where_a_rename_was_to_go_is_not_taken_for_ours() {
    let bed = Bed::over(Fake::with_folders());
    let (a, b) = (key("a"), key("b"));
    let version = bed.fake.insert(&a, "mine", Metadata::new());
    bed.fake.insert(&b, "others", Metadata::new());
    let original = Original { key: &a, version: &version, size: 4 };
    for is_gone in [false, true] {
        if is_gone {
            bed.fake.remove(&a);
        }
        bed.fake.fail_next(Op::Rename, TRANSIENT);
        let refused = bed.retry.rename(original, &b, &Condition::Absent).await.unwrap_err();
        let want = if is_gone { ErrorKind::NotFound } else { ErrorKind::Changed };
        assert_eq!(refused.kind, want, "theirs has another size");
    }
    bed.fake.insert(&key("d/f"), "1", Metadata::new());
    bed.fake.insert(&key("e/f"), "2", Metadata::new());
    bed.fake.fail_next(Op::RenameFolder, TRANSIENT);
    let refused = bed.retry.rename_folder(&key("d/"), &key("e/")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Changed);
}

#[tokio::test]
async fn a_broken_body_goes_on_where_it_broke() {
    let bed = Bed::new();
    let bytes: Bytes = (0..300_000_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let version = bed.fake.insert(&key("a"), bytes.clone(), Metadata::new());
    for broken_after in [0, 1, 70_000] {
        bed.fake.break_next_body(broken_after);
        bed.fake.break_next_body(10);
        assert!(bed.read(Some(version.clone())).await.unwrap() == bytes);
    }
    assert_eq!(bed.fake.calls(Op::Get), 9);
}

#[tokio::test]
async fn a_body_of_no_named_version_is_not_pieced_together() {
    let bed = Bed::new();
    bed.fake.insert(&key("a"), "12345", Metadata::new());
    bed.fake.break_next_body(0);
    assert_eq!(bed.read(None).await.unwrap(), "12345");
    bed.fake.break_next_body(2);
    assert_eq!(bed.read(None).await.unwrap_err(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_body_whose_object_changes_ends_in_changed() {
    let bed = Bed::new();
    let version = bed.fake.insert(&key("a"), "12345", Metadata::new());
    bed.fake.break_next_body(2);
    let range = ByteRange::new(0, 5).unwrap();
    let mut body = bed.retry.get(&key("a"), range, Some(&version)).await.unwrap();
    assert_eq!(body.next().await.unwrap().unwrap(), "12");
    bed.fake.insert(&key("a"), "abcde", Metadata::new());
    assert_eq!(body.next().await.unwrap().unwrap_err().kind, ErrorKind::Changed);
    assert!(body.next().await.is_none());
}

#[tokio::test]
async fn no_more_requests_than_allowed_are_under_way() {
    let fake = Fake::new();
    let limit = Arc::new(Limit::new(Arc::new(fake.clone()), 2, Arc::new(Metrics::new())));
    let gate = fake.hold(Op::Head);
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let limit = Arc::clone(&limit);
            tokio::spawn(async move { limit.head(&key("a")).await.map_err(|error| error.kind) })
        })
        .collect();
    gate.arrived(2).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fake.calls(Op::Head), 2);
    gate.let_through(1);
    gate.arrived(3).await;
    drop(gate);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_store_that_asks_for_fewer_requests_gets_fewer_at_a_time() {
    let (fake, metrics) = (Fake::new(), Arc::new(Metrics::new()));
    let limit = Arc::new(Limit::new(Arc::new(fake.clone()), 8, Arc::clone(&metrics)));
    let busy = ErrorKind::Transient { retry_after: Some(Duration::from_secs(1)) };
    for want in [4, 2] {
        fake.fail_next(Op::Head, busy);
        limit.head(&key("a")).await.unwrap_err();
        assert_eq!(limit.requests(), want);
    }
    assert_eq!(metrics.value(Counter::RemoteThrottled), 2);
    let gate = fake.hold(Op::Head);
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let limit = Arc::clone(&limit);
            tokio::spawn(async move { limit.head(&key("a")).await.map_err(|error| error.kind) })
        })
        .collect();
    gate.arrived(2).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fake.calls(Op::Head), 4, "two that failed, and two at a time");
    drop(gate);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err(), ErrorKind::NotFound);
    }
    assert_eq!(limit.requests(), 4, "2, 2 and 1 went well");
}

#[tokio::test]
async fn a_body_keeps_its_turn_until_it_is_let_go() {
    let fake = Fake::new();
    fake.insert(&key("a"), "12345", Metadata::new());
    let limit = Limit::new(Arc::new(fake), 1, Arc::new(Metrics::new()));
    let body = limit.get(&key("a"), ByteRange::new(0, 5).unwrap(), None).await.unwrap();
    let name = key("a");
    let mut next = limit.head(&name);
    assert!(futures::poll!(&mut next).is_pending());
    drop(body);
    next.await.unwrap();
}

#[tokio::test]
async fn what_is_late_is_asked_for_again_and_the_first_answer_taken() {
    let (fake, metrics) = (Fake::new(), Arc::new(Metrics::new()));
    fake.insert(&key("a"), "12345", Metadata::new());
    let clock = Arc::new(ManualClock::default());
    let hedge = Hedge::new(Arc::new(fake.clone()), clock, Arc::clone(&metrics));
    let (name, range) = (key("a"), ByteRange::new(1, 4).unwrap());
    let read = async || {
        let body = hedge.get(&name, range, None).await?;
        Ok::<_, quayfs_remote::Error>(body.try_collect::<Vec<Bytes>>().await?.concat())
    };
    // Before anything is known of the usual, the first is waited for.
    let gate = fake.hold(Op::Get);
    let mut first = Box::pin(read());
    assert!(futures::poll!(&mut first).is_pending());
    assert_eq!(fake.calls(Op::Get), 1);
    gate.let_through(1);
    assert_eq!(first.await.unwrap(), b"234");
    drop(gate);
    for _ in 0..200 {
        read().await.unwrap();
    }
    assert_eq!(metrics.value(Counter::RemoteHedges), 0);

    // The clock is at once as late as somebody sleeps.
    let gate = fake.hold(Op::Get);
    let mut late = Box::pin(read());
    assert!(futures::poll!(&mut late).is_pending());
    assert_eq!(fake.calls(Op::Get), 203);
    gate.let_through(1);
    assert_eq!(late.await.unwrap(), b"234");
    drop(gate);

    // One that fails leaves it to the other.
    let gate = fake.hold(Op::Get);
    fake.fail_next(Op::Get, TRANSIENT);
    let mut late = Box::pin(read());
    assert!(futures::poll!(&mut late).is_pending());
    gate.let_through(2);
    assert_eq!(late.await.unwrap(), b"234");
    drop(gate);
    assert_eq!(metrics.value(Counter::RemoteHedges), 2);
}

#[tokio::test]
async fn calls_bytes_and_failures_are_counted() {
    let (fake, metrics) = (Fake::new(), Arc::new(Metrics::new()));
    let clock = Arc::new(ManualClock::default());
    let meter = Meter::new(Arc::new(fake.clone()), Arc::clone(&metrics), Arc::clone(&clock) as _);
    meter.put(&key("a"), "12345".into(), &plainly()).await.unwrap();
    let range = ByteRange::new(1, 4).unwrap();
    let body = meter.get(&key("a"), range, None).await.unwrap();
    body.try_collect::<Vec<Bytes>>().await.unwrap();
    meter.get_whole(&key("a"), None, 10).await.unwrap();
    meter.head(&key("missing")).await.unwrap_err();
    for (kind, trouble, errors) in [
        (ErrorKind::Denied, Trouble::Denied, 0),
        (TRANSIENT, Trouble::Other, 1),
        (ErrorKind::Denied, Trouble::BadCredentials, 2),
    ] {
        fake.refuse_next(Op::Head, kind, trouble);
        meter.head(&key("a")).await.unwrap_err();
        assert_eq!(metrics.value(Counter::RemoteErrors), errors, "a refusal is an answer");
    }
    for (counter, want) in [
        (Counter::RemotePuts, 1),
        (Counter::RemotePutBytes, 5),
        (Counter::RemoteGets, 1),
        (Counter::RemoteSmallGets, 1),
        (Counter::RemoteGetBytes, 3),
        (Counter::RemoteHeads, 4),
    ] {
        assert_eq!(metrics.value(counter), want, "{}", counter.name());
    }
    for (timing, want) in [
        (Timing::StorePut, 1),
        (Timing::StoreGet, 1),
        (Timing::StoreHead, 4),
        (Timing::StoreList, 0),
    ] {
        assert_eq!(metrics.times(timing).count(), want, "{}", timing.name());
    }
}

#[tokio::test]
async fn a_bucket_for_which_there_never_were_credentials_has_not_failed() {
    let (fake, metrics) = (Fake::new(), Arc::new(Metrics::new()));
    let clock = Arc::new(ManualClock::default());
    let meter = Meter::new(Arc::new(fake.clone()), Arc::clone(&metrics), clock);
    let refusals = [Trouble::NoCredentials, Trouble::BadCredentials];
    for trouble in refusals {
        fake.refuse_next(Op::List, ErrorKind::Denied, trouble);
        meter.list(&everything()).await.unwrap_err();
    }
    assert_eq!(metrics.value(Counter::RemoteErrors), 0);
    meter.list(&everything()).await.unwrap();
    for trouble in refusals {
        fake.refuse_next(Op::List, ErrorKind::Denied, trouble);
        meter.list(&everything()).await.unwrap_err();
    }
    assert_eq!(metrics.value(Counter::RemoteErrors), 2, "they were taken before");
}

#[tokio::test]
async fn a_get_takes_until_its_last_byte_is_here_or_nobody_wants_it() {
    let (fake, metrics) = (Fake::new(), Arc::new(Metrics::new()));
    fake.insert(&key("a"), "12345", Metadata::new());
    let clock = Arc::new(ManualClock::default());
    let meter = Meter::new(Arc::new(fake), Arc::clone(&metrics), Arc::clone(&clock) as _);
    let body = meter.get(&key("a"), ByteRange::new(0, 5).unwrap(), None).await.unwrap();
    assert_eq!(metrics.times(Timing::StoreGet).count(), 0);
    clock.advance(Duration::from_millis(70));
    drop(body);
    let times = metrics.times(Timing::StoreGet);
    assert_eq!((times.count(), times.max()), (1, Duration::from_millis(70)));
}

#[tokio::test]
async fn a_prefix_is_a_border() {
    let fake = Fake::new();
    for name in ["a", "p", "p/", "p/x", "p/../q", "pq/x", "q"] {
        fake.insert(&key(name), name.to_owned(), Metadata::new());
    }
    let below = prefixed(Arc::new(fake.clone()), key("p/"));
    let page = below.list(&everything()).await.unwrap();
    let names: Vec<String> = page.entries.iter().map(|entry| entry.key().to_string()).collect();
    assert_eq!(names, ["", "../q", "x"]);
    below.put(&key("../escape"), "1".into(), &plainly()).await.unwrap();
    assert!(fake.bytes(&key("p/../escape")).is_some());
    below.delete(&key("../q")).await.unwrap();
    assert!(fake.bytes(&key("q")).is_some());
}

#[test]
fn below_a_prefix_a_key_may_be_shorter_by_that() {
    let bytes_max =
        |prefix: &str| prefixed(Arc::new(Fake::new()), key(prefix)).personality().key_bytes_max;
    assert_eq!((bytes_max(""), bytes_max("lab/team/")), (1024, 1015));
    assert_eq!((bytes_max(&"p".repeat(1024)), bytes_max(&"p".repeat(1100))), (0, 0));
}

const DEADLINE: Duration = Duration::from_secs(30);

/// A store with faults, and a retry over it whose time is ours.
struct Bed {
    fake: Fake,
    clock: Arc<ManualClock>,
    metrics: Arc<Metrics>,
    retry: Retry,
}

impl Bed {
    fn new() -> Bed {
        Bed::over(Fake::new())
    }

    fn over(fake: Fake) -> Bed {
        let clock = Arc::new(ManualClock::default());
        let metrics = Arc::new(Metrics::new());
        let options = RetryOptions {
            deadline: DEADLINE,
            delay_min: Duration::from_millis(100),
            delay_max: Duration::from_secs(5),
        };
        let (inner, time) = (Arc::new(fake.clone()), Arc::clone(&clock));
        let retry = Retry::new(inner, options, time, Rng::seeded(7), Arc::clone(&metrics));
        Bed { fake, clock, metrics, retry }
    }

    /// The whole of `a`.
    async fn read(&self, version: Option<quayfs_remote::Version>) -> Result<Bytes, ErrorKind> {
        let size = self.fake.meta(&key("a")).unwrap().size;
        let range = ByteRange::new(0, size).unwrap();
        let body = self.retry.get(&key("a"), range, version.as_ref()).await;
        let pieces = body.map_err(|error| error.kind)?.try_collect::<Vec<Bytes>>().await;
        Ok(pieces.map_err(|error| error.kind)?.concat().into())
    }
}

fn key(name: &str) -> Key {
    Key::from(name)
}

fn plainly() -> PutOptions {
    PutOptions { condition: Condition::Always, metadata: Metadata::new() }
}

fn create(id: &str) -> PutOptions {
    let metadata = Metadata::from([(UPLOAD_ID.to_owned(), id.to_owned())]);
    PutOptions { condition: Condition::Absent, metadata }
}

fn everything() -> ListRequest {
    ListRequest {
        prefix: Key::from(""),
        delimited: false,
        start_after: None,
        continuation: None,
        entries_max: 1000,
    }
}
