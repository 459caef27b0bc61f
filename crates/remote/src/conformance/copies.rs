//! Checks of parts that the store copies itself, and of uploads that nobody finished.

use base::ByteRange;
use bytes::Bytes;
use futures::FutureExt as _;

use super::bench::{Bench, Check, pattern, plainly};
use super::uploads::{begin, part_len, send};
use crate::{
    Condition, ErrorKind, Key, Original, PartCopies, PartNumber, PartTag, Result, UploadId, Version,
};

pub(super) const ALL: &[Check] = &[
    ("unchanged_parts_are_copied", |bench| unchanged_parts_are_copied(bench).boxed()),
    ("an_appended_object_is_copied", |bench| an_appended_object_is_copied(bench).boxed()),
    ("any_range_of_any_object_is_copied", |bench| any_range_of_any_object_is_copied(bench).boxed()),
    ("a_copied_part_names_its_version", |bench| a_copied_part_names_its_version(bench).boxed()),
    ("a_copied_part_lies_within_its_object", |bench| {
        a_copied_part_lies_within_its_object(bench).boxed()
    }),
    ("unfinished_uploads_are_told", |bench| unfinished_uploads_are_told(bench).boxed()),
];

/// An object of three parts, the last of which is short.
struct Whole {
    key: Key,
    len: u64,
    bytes: Bytes,
    version: Version,
}

impl Whole {
    async fn upload(bench: &Bench<'_>, key: Key) -> Whole {
        let len = part_len(bench);
        let bytes = pattern(2 * len + 77);
        let upload = begin(bench, &key).await;
        let mut parts = Vec::new();
        for (number, range) in (1..).zip([0..len, len..2 * len, 2 * len..bytes.len()]) {
            parts.push(send(bench, &key, &upload, number, bytes.slice(range)).await);
        }
        let done = bench.remote.upload_complete(&key, &upload, &parts, &Condition::Always).await;
        Whole { key, len: len as u64, bytes, version: bench.ok(done) }
    }

    fn original(&self) -> Original<'_> {
        Original { key: &self.key, version: &self.version, size: self.bytes.len() as u64 }
    }

    /// Copies the bytes from `start` to `end` into an upload.
    async fn copy(
        &self,
        bench: &Bench<'_>,
        (key, upload, number): (&Key, &UploadId, u32),
        start: u64,
        end: u64,
    ) -> Result<(PartNumber, PartTag)> {
        let (part, range) = (PartNumber(number), ByteRange::new(start, end).expect("not empty"));
        let copied = bench.remote.upload_part_copy(key, upload, part, self.original(), range).await;
        copied.map(|tag| (part, tag))
    }
}

async fn unchanged_parts_are_copied(bench: &Bench<'_>) {
    match bench.remote.personality().part_copies {
        PartCopies::None | PartCopies::WholeFirst => return,
        PartCopies::AnyRange { .. } | PartCopies::OwnBlocks => {}
    }
    let old = Whole::upload(bench, bench.key("a b+c")).await;
    let (key, len, size) = (&old.key, old.len, old.bytes.len() as u64);
    let upload = begin(bench, key).await;
    let one = bench.ok(old.copy(bench, (key, &upload, 1), 0, len).await);
    let two = send(bench, key, &upload, 2, pattern(part_len(bench))).await;
    let run = bench.ok(old.copy(bench, (key, &upload, 3), 0, 2 * len).await);
    let end = bench.ok(old.copy(bench, (key, &upload, 4), 2 * len, size).await);
    let is = Condition::Is(old.version.clone());
    let parts = [one, two, run, end];
    let done = bench.ok(bench.remote.upload_complete(key, &upload, &parts, &is).await);
    let first = &old.bytes[..part_len(bench)];
    assert!(bench.whole(key).await == [first, &pattern(first.len()), &old.bytes].concat());

    // What was copied is as good as what was sent: it can be copied again.
    let new = Whole { bytes: bench.whole(key).await, version: done, ..old };
    let key = &new.key;
    let upload = begin(bench, key).await;
    let again = bench.ok(new.copy(bench, (key, &upload, 1), len, 2 * len).await);
    let size = new.bytes.len() as u64;
    let end = bench.ok(new.copy(bench, (key, &upload, 2), 4 * len, size).await);
    let is = Condition::Is(new.version.clone());
    bench.ok(bench.remote.upload_complete(key, &upload, &[again, end], &is).await);
    let want = [&new.bytes[..first.len()], &new.bytes[4 * first.len()..]].concat();
    assert!(bench.whole(key).await == want);
}

async fn an_appended_object_is_copied(bench: &Bench<'_>) {
    if bench.remote.personality().part_copies == PartCopies::None {
        return;
    }
    let old = Whole::upload(bench, bench.key("log")).await;
    let (key, size) = (&old.key, old.bytes.len() as u64);
    let upload = begin(bench, key).await;
    let one = bench.ok(old.copy(bench, (key, &upload, 1), 0, size).await);
    let two = send(bench, key, &upload, 2, "appended".into()).await;
    let is = Condition::Is(old.version.clone());
    bench.ok(bench.remote.upload_complete(key, &upload, &[one, two], &is).await);
    assert!(bench.whole(key).await == [&old.bytes[..], b"appended"].concat());
}

async fn any_range_of_any_object_is_copied(bench: &Bench<'_>) {
    match bench.remote.personality().part_copies {
        PartCopies::AnyRange { bytes_max } => assert!(0 < bytes_max),
        PartCopies::None | PartCopies::OwnBlocks | PartCopies::WholeFirst => return,
    }
    let old = Whole::upload(bench, bench.key("from")).await;
    let small = bench.put(&bench.key("small"), "whole").await;
    let small_key = bench.key("small");
    let key = bench.key("to");
    let upload = begin(bench, &key).await;
    let (start, end) = (old.len / 2, old.len / 2 + old.len);
    let one = bench.ok(old.copy(bench, (&key, &upload, 1), start, end).await);
    let original = Original { key: &small_key, version: &small, size: 5 };
    let (part, range) = (PartNumber(2), ByteRange::new(0, 5).expect("not empty"));
    let tag = bench.remote.upload_part_copy(&key, &upload, part, original, range).await;
    let parts = [one, (part, bench.ok(tag))];
    bench.ok(bench.remote.upload_complete(&key, &upload, &parts, &Condition::Absent).await);
    let (start, len) = (part_len(bench) / 2, part_len(bench));
    assert!(bench.whole(&key).await == [&old.bytes[start..start + len], b"whole"].concat());
}

async fn a_copied_part_names_its_version(bench: &Bench<'_>) {
    if bench.remote.personality().part_copies == PartCopies::None {
        return;
    }
    let old = Whole::upload(bench, bench.key("a")).await;
    let (key, size) = (&old.key, old.bytes.len() as u64);
    let upload = begin(bench, key).await;
    bench.put(key, old.bytes.clone()).await;
    let stale = old.copy(bench, (key, &upload, 1), 0, size).await;
    bench.fails(stale, ErrorKind::Changed);
    bench.ok(bench.remote.delete(key).await);
    let missing = old.copy(bench, (key, &upload, 1), 0, size).await;
    bench.fails(missing, ErrorKind::NotFound);
    bench.ok(bench.remote.upload_abort(key, &upload).await);
}

async fn a_copied_part_lies_within_its_object(bench: &Bench<'_>) {
    let old = Whole::upload(bench, bench.key("a")).await;
    let (key, size) = (&old.key, old.bytes.len() as u64);
    let upload = begin(bench, key).await;
    for (start, end) in [(0, size + 1), (size, size + 1), (size + 10, size + 20)] {
        let beyond = old.copy(bench, (key, &upload, 1), start, end).await;
        bench.fails(beyond, ErrorKind::Unsupported);
    }
    bench.ok(bench.remote.upload_abort(key, &upload).await);
}

async fn unfinished_uploads_are_told(bench: &Bench<'_>) {
    let key = bench.key("a");
    assert_eq!(bench.ok(bench.remote.uploads(&key).await), []);
    let beside = [bench.key("a/b"), bench.key("ab"), bench.key("A")];
    let mut others = Vec::new();
    for key in &beside {
        others.push((key, begin(bench, key).await));
    }
    let one = begin(bench, &key).await;
    send(bench, &key, &one, 1, "1".into()).await;
    let two = begin(bench, &key).await;
    let told = bench.ok(bench.remote.uploads(&key).await);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.windows(2).all(|pair| pair[0].since <= pair[1].since), "{told:?}");
    for unfinished in &told {
        // Only one of them was sent a part.
        assert_eq!(unfinished.has_parts, unfinished.upload == one, "{told:?}");
    }
    // What is told can be aborted, and completed.
    for unfinished in told {
        bench.ok(bench.remote.upload_abort(&key, &unfinished.upload).await);
    }
    assert_eq!(bench.ok(bench.remote.uploads(&key).await), []);
    for upload in [one, two] {
        let late = bench.remote.upload_part(&key, &upload, PartNumber(2), "2".into()).await;
        bench.fails(late, ErrorKind::NotFound);
    }
    let done = begin(bench, &key).await;
    let parts = [send(bench, &key, &done, 1, "1".into()).await];
    bench.ok(bench.remote.upload_complete(&key, &done, &parts, &Condition::Always).await);
    assert_eq!(bench.ok(bench.remote.uploads(&key).await), []);
    for (key, upload) in others {
        assert_eq!(bench.ok(bench.remote.uploads(key).await).len(), 1);
        bench.ok(bench.remote.upload_abort(key, &upload).await);
    }
    let other = bench.remote.upload_create(&key, &plainly()).await;
    bench.ok(bench.remote.upload_abort(&key, &bench.ok(other)).await);
}
