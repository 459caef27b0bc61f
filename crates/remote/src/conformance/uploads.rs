//! Checks of uploads in parts.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::try_join_all;

use super::bench::{Bench, Check, metadata, pattern, plainly};
use crate::{Condition, ErrorKind, Key, PartNumber, PartTag, PutOptions, UploadId};

pub(super) const ALL: &[Check] = &[
    ("parts_become_one_object", |bench| parts_become_one_object(bench).boxed()),
    ("a_part_may_be_sent_again", |bench| a_part_may_be_sent_again(bench).boxed()),
    ("one_part_is_enough", |bench| one_part_is_enough(bench).boxed()),
    ("nothing_is_seen_before_the_end", |bench| nothing_is_seen_before_the_end(bench).boxed()),
    ("complete_heeds_its_condition", |bench| complete_heeds_its_condition(bench).boxed()),
    ("an_aborted_upload_is_gone", |bench| an_aborted_upload_is_gone(bench).boxed()),
];

/// A part as small as the store takes.
pub(super) fn part_len(bench: &Bench<'_>) -> usize {
    let min = bench.remote.personality().part_bytes_min.max(1000);
    usize::try_from(min).expect("a part fits into memory")
}

pub(super) async fn begin(bench: &Bench<'_>, key: &Key) -> UploadId {
    bench.ok(bench.remote.upload_create(key, &plainly()).await)
}

pub(super) async fn send(
    bench: &Bench<'_>,
    key: &Key,
    upload: &UploadId,
    number: u32,
    bytes: Bytes,
) -> (PartNumber, PartTag) {
    let part = PartNumber(number);
    (part, bench.ok(bench.remote.upload_part(key, upload, part, bytes).await))
}

async fn parts_become_one_object(bench: &Bench<'_>) {
    let key = bench.key("deep/a");
    let len = part_len(bench);
    let whole = pattern(2 * len + 77);
    let options = PutOptions { metadata: metadata(&[("mode", "33188")]), ..plainly() };
    let upload = bench.ok(bench.remote.upload_create(&key, &options).await);
    // Numbers with holes, sent backwards and at the same time.
    let pieces = [(9, 2 * len, whole.len()), (5, len, 2 * len), (2, 0, len)];
    let sent = pieces.map(|(number, start, end)| {
        let bytes = whole.slice(start..end);
        let (key, upload) = (&key, &upload);
        async move {
            let part = PartNumber(number);
            bench.remote.upload_part(key, upload, part, bytes).await.map(|tag| (part, tag))
        }
    });
    let mut parts = bench.ok(try_join_all(sent).await);
    parts.reverse();
    let complete = bench.remote.upload_complete(&key, &upload, &parts, &Condition::Always).await;
    let version = bench.ok(complete);
    let meta = bench.ok(bench.remote.head(&key).await);
    assert_eq!((meta.size, meta.version), (whole.len() as u64, version));
    assert_eq!(meta.metadata, options.metadata);
    assert!(bench.whole(&key).await == whole);
}

async fn a_part_may_be_sent_again(bench: &Bench<'_>) {
    let key = bench.key("a");
    let upload = begin(bench, &key).await;
    let first = pattern(part_len(bench));
    send(bench, &key, &upload, 1, Bytes::from(vec![0; first.len()])).await;
    let one = send(bench, &key, &upload, 1, first.clone()).await;
    let two = send(bench, &key, &upload, 2, "end".into()).await;
    // Sent, but not wanted in the end.
    send(bench, &key, &upload, 3, "left out".into()).await;
    let parts = [one, two];
    bench.ok(bench.remote.upload_complete(&key, &upload, &parts, &Condition::Always).await);
    assert!(bench.whole(&key).await == [&first[..], b"end"].concat());
}

async fn one_part_is_enough(bench: &Bench<'_>) {
    let key = bench.key("a");
    bench.put(&key, "old").await;
    let upload = begin(bench, &key).await;
    let parts = [send(bench, &key, &upload, 1, "small".into()).await];
    bench.ok(bench.remote.upload_complete(&key, &upload, &parts, &Condition::Always).await);
    assert_eq!(bench.whole(&key).await, "small");
}

async fn nothing_is_seen_before_the_end(bench: &Bench<'_>) {
    let key = bench.key("a");
    let upload = begin(bench, &key).await;
    send(bench, &key, &upload, 1, "1".into()).await;
    bench.fails(bench.remote.head(&key).await, ErrorKind::NotFound);
    assert!(bench.names(bench.request(false)).await.is_empty());
    bench.ok(bench.remote.upload_abort(&key, &upload).await);
}

async fn complete_heeds_its_condition(bench: &Bench<'_>) {
    if !bench.conditional() {
        return;
    }
    let key = bench.key("a");
    let upload = begin(bench, &key).await;
    let parts = [send(bench, &key, &upload, 1, "mine".into()).await];
    let theirs = bench.put(&key, "theirs").await;
    let complete = bench.remote.upload_complete(&key, &upload, &parts, &Condition::Absent).await;
    bench.fails(complete, ErrorKind::Changed);
    assert_eq!(bench.whole(&key).await, "theirs");
    // The upload is still there, and goes through where its condition holds.
    let is = Condition::Is(theirs.clone());
    bench.ok(bench.remote.upload_complete(&key, &upload, &parts, &is).await);
    assert_eq!(bench.whole(&key).await, "mine");

    let upload = begin(bench, &key).await;
    let parts = [send(bench, &key, &upload, 1, "late".into()).await];
    let complete =
        bench.remote.upload_complete(&key, &upload, &parts, &Condition::Is(theirs)).await;
    bench.fails(complete, ErrorKind::Changed);
    bench.ok(bench.remote.upload_abort(&key, &upload).await);
}

async fn an_aborted_upload_is_gone(bench: &Bench<'_>) {
    let key = bench.key("a");
    let upload = begin(bench, &key).await;
    let part = send(bench, &key, &upload, 1, "1".into()).await;
    bench.ok(bench.remote.upload_abort(&key, &upload).await);
    bench.ok(bench.remote.upload_abort(&key, &upload).await);
    let again = bench.remote.upload_part(&key, &upload, PartNumber(2), "2".into()).await;
    bench.fails(again, ErrorKind::NotFound);
    let complete = bench.remote.upload_complete(&key, &upload, &[part], &Condition::Always).await;
    bench.fails(complete, ErrorKind::NotFound);
    bench.fails(bench.remote.head(&key).await, ErrorKind::NotFound);
}
