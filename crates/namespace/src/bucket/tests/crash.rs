//! Changes of names that end in the middle: the store fails, or the process dies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use base::{ByteRange, Ino, ManualClock};
use bytes::Bytes;
use parking_lot::Mutex;
use remote::fake::{Fake, Op};
use remote::{
    Body, Condition, Error, ErrorKind, Key, ListRequest, Meta, Metadata, Original, Page,
    PartNumber, PartTag, Personality, PutOptions, Remote, Version,
};

use super::super::journal::{FileMove, Record};
use super::{name, size};
use crate::{Bucket, BucketOptions, Ledger, LedgerFailed, Namespace, RecordId, RenameMode, Result};

/// A journal in memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    records: Mutex<BTreeMap<u64, Vec<u8>>>,
    last: AtomicU64,
}

impl Memory {
    /// What is noted of names; attributes are replayed elsewhere.
    pub(super) fn left(&self) -> Vec<(RecordId, Vec<u8>)> {
        self.all().into_iter().filter(|(_, record)| record[1] == b'n').collect()
    }

    /// All that is noted.
    pub(super) fn all(&self) -> Vec<(RecordId, Vec<u8>)> {
        let records = self.records.lock();
        records.iter().map(|(&id, record)| (RecordId(id), record.clone())).collect()
    }
}

impl Ledger for Memory {
    fn append(&self, record: &[u8]) -> std::result::Result<RecordId, LedgerFailed> {
        let id = 1 + self.last.fetch_add(1, Ordering::Relaxed);
        self.records.lock().insert(id, record.to_vec());
        Ok(RecordId(id))
    }

    fn strike(&self, records: &[RecordId]) {
        for id in records {
            self.records.lock().remove(&id.0);
        }
    }

    fn number(&self, _path: &[u8]) -> Option<Ino> {
        None
    }

    fn is_kept(&self, _number: Ino) -> bool {
        false
    }

    fn set_number(&self, _path: &[u8], _number: Option<Ino>) {}
}

/// What becomes of a request that one has no more patience for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It and all after it are never answered: the process dies.
    Death,
    /// It fails, and nothing else does.
    Failure,
    /// It is carried out, and its answer is lost.
    LostAnswer,
    /// It and all after it fail.
    Outage,
    /// It is carried out, and the process dies before it hears of it.
    LastWords,
}

/// What folders are to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What keys say.
    Keys,
    /// Things of their own, that are renamed in one step, as objects are.
    Folders,
}

/// A store that lets so many requests through.
#[derive(Debug)]
pub(super) struct Mortal {
    fake: Fake,
    left: AtomicU64,
    end: End,
    has_spoken: AtomicBool,
    pub(super) dead: tokio::sync::Notify,
}

impl Mortal {
    pub(super) fn new(fake: &Fake, requests: u64, end: End) -> Arc<Mortal> {
        let (left, dead) = (AtomicU64::new(requests), tokio::sync::Notify::new());
        let has_spoken = AtomicBool::new(false);
        Arc::new(Mortal { fake: fake.clone(), left, end, has_spoken, dead })
    }

    /// No request is let through from now on.
    pub(super) fn die(&self) {
        // Nor is anything said any more.
        self.has_spoken.store(true, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }

    /// Counts a request, and does what becomes of it.
    async fn pass<T: Send>(
        &self,
        op: &'static str,
        request: impl Future<Output = remote::Result<T>> + Send,
    ) -> remote::Result<T> {
        // Requests end in another order than they began.
        tokio::task::yield_now().await;
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            match (left, self.end) {
                (0, End::Death | End::LastWords | End::Outage) => Some(0),
                (0, End::Failure | End::LostAnswer) => Some(u64::MAX),
                _ => Some(left - 1),
            }
        });
        let failure = Error::new(ErrorKind::Unavailable, op, &Key::from("failed on purpose"));
        match (left, self.end) {
            (Ok(0), End::Death) => {
                self.dead.notify_one();
                std::future::pending().await
            }
            (Ok(0), End::LastWords) => {
                if !self.has_spoken.swap(true, Ordering::Relaxed) {
                    drop(request.await);
                }
                self.dead.notify_one();
                std::future::pending().await
            }
            (Ok(0), End::Failure | End::Outage) => Err(failure),
            (Ok(0), End::LostAnswer) => request.await.and(Err(failure)),
            _ => request.await,
        }
    }

    /// Whether the request that one has no patience for has come.
    fn has_ended(&self) -> bool {
        match self.left.load(Ordering::Relaxed) {
            0 => true,
            left => left > 1 << 32,
        }
    }
}

#[async_trait]
impl Remote for Mortal {
    fn personality(&self) -> Personality {
        self.fake.personality()
    }

    async fn head(&self, key: &Key) -> remote::Result<Meta> {
        self.pass("head", self.fake.head(key)).await
    }

    async fn get(
        &self,
        key: &Key,
        range: ByteRange,
        version: Option<&Version>,
    ) -> remote::Result<Body> {
        self.pass("get", self.fake.get(key, range, version)).await
    }

    async fn get_whole(
        &self,
        key: &Key,
        known: Option<&Version>,
        bytes_max: u64,
    ) -> remote::Result<remote::Fresh> {
        self.pass("get whole", self.fake.get_whole(key, known, bytes_max)).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> remote::Result<Version> {
        self.pass("put", self.fake.put(key, bytes, options)).await
    }

    async fn upload_create(
        &self,
        key: &Key,
        options: &PutOptions,
    ) -> remote::Result<remote::UploadId> {
        self.fake.upload_create(key, options).await
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &remote::UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> remote::Result<PartTag> {
        self.fake.upload_part(key, upload, part, bytes).await
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &remote::UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> remote::Result<PartTag> {
        self.fake.upload_part_copy(key, upload, part, original, range).await
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &remote::UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> remote::Result<Version> {
        self.fake.upload_complete(key, upload, parts, condition).await
    }

    async fn upload_abort(&self, key: &Key, upload: &remote::UploadId) -> remote::Result<()> {
        self.fake.upload_abort(key, upload).await
    }

    async fn uploads(&self, key: &Key) -> remote::Result<Vec<remote::Unfinished>> {
        self.fake.uploads(key).await
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> remote::Result<Version> {
        self.pass("copy", self.fake.copy(original, to, condition)).await
    }

    async fn rename(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> remote::Result<Version> {
        self.pass("rename", self.fake.rename(original, to, condition)).await
    }

    async fn rename_folder(&self, from: &Key, to: &Key) -> remote::Result<()> {
        self.pass("rename folder", self.fake.rename_folder(from, to)).await
    }

    async fn delete(&self, key: &Key) -> remote::Result<()> {
        self.pass("delete", self.fake.delete(key)).await
    }

    async fn list(&self, request: &ListRequest) -> remote::Result<Page> {
        self.pass("list", self.fake.list(request)).await
    }
}

/// A change of names, and the objects before and after it.
pub(super) struct Change {
    pub(super) before: &'static [(&'static str, &'static str)],
    pub(super) after: &'static [(&'static str, &'static str)],
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) mode: RenameMode,
}

pub(super) const FOLDER: Change = Change {
    before: &[("a/", ""), ("a/f", "1"), ("a/g", "2"), ("a/sub/h", "3"), ("a/z", "4"), ("b", "b")],
    after: &[("b", "b"), ("c/", ""), ("c/f", "1"), ("c/g", "2"), ("c/sub/h", "3"), ("c/z", "4")],
    from: "a",
    to: "c",
    mode: RenameMode::NoReplace,
};

pub(super) const ONTO_EMPTY: Change = Change {
    before: &[("a/f", "1"), ("a/sub/h", "3"), ("c/", "")],
    after: &[("c/", ""), ("c/f", "1"), ("c/sub/h", "3")],
    from: "a",
    to: "c",
    mode: RenameMode::Replace,
};

pub(super) const FILE: Change = Change {
    before: &[("a", "1")],
    after: &[("c", "1")],
    from: "a",
    to: "c",
    mode: RenameMode::Replace,
};

pub(super) const FILE_OVER: Change = Change {
    before: &[("a", "1"), ("c", "2")],
    after: &[("c", "1")],
    from: "a",
    to: "c",
    mode: RenameMode::Replace,
};

pub(super) const SWAP: Change = Change {
    before: &[("a", "1"), ("c", "2")],
    after: &[("a", "2"), ("c", "1")],
    from: "a",
    to: "c",
    mode: RenameMode::Exchange,
};

pub(super) const SWAP_KINDS: Change = Change {
    before: &[("a/f", "1"), ("a/sub/h", "3"), ("c", "22")],
    after: &[("a", "22"), ("c/f", "1"), ("c/sub/h", "3")],
    from: "a",
    to: "c",
    mode: RenameMode::Exchange,
};

impl Change {
    pub(super) fn store(&self) -> Fake {
        self.store_of(Kind::Keys)
    }

    fn store_of(&self, kind: Kind) -> Fake {
        let fake = kind.store();
        for (key, bytes) in self.before {
            fake.insert(&Key::from(*key), *bytes, Metadata::new());
        }
        fake
    }

    pub(super) async fn make(&self, bucket: &Bucket) -> Result<Option<Ino>> {
        let (from, to) = (name(self.from), name(self.to));
        bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), self.mode).await
    }
}

pub(super) fn bucket(remote: Arc<dyn Remote>, ledger: &Arc<Memory>) -> Bucket {
    bucket_and_clock(remote, ledger).0
}

fn bucket_and_clock(remote: Arc<dyn Remote>, ledger: &Arc<Memory>) -> (Bucket, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let (ledger, options) = (Arc::clone(ledger), BucketOptions::default());
    (Bucket::new(remote, Arc::clone(&clock) as _, ledger as _, options), clock)
}

pub(super) fn objects(fake: &Fake) -> Vec<(String, String)> {
    let bytes = |key: &Key| String::from_utf8(fake.bytes(key).unwrap().to_vec()).unwrap();
    fake.keys().iter().map(|key| (key.to_string(), bytes(key))).collect()
}

pub(super) fn owned(objects: &[(&str, &str)]) -> Vec<(String, String)> {
    objects.iter().map(|(key, bytes)| ((*key).to_owned(), (*bytes).to_owned())).collect()
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Keys, Kind::Folders];

    /// An empty one.
    pub(super) fn store(self) -> Fake {
        match self {
            Kind::Keys => Fake::new(),
            Kind::Folders => Fake::with_folders(),
        }
    }

    /// The objects that say what there is: folders of their own come and stay by themselves.
    fn telling(self, mut objects: Vec<(String, String)>) -> Vec<(String, String)> {
        objects.retain(|(key, _)| self == Kind::Keys || !key.ends_with('/'));
        objects
    }
}

/// What `made` gave, unless the process died first.
pub(super) async fn until_death<T>(mortal: &Mortal, made: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = mortal.dead.notified() => None,
        made = made => Some(made),
    }
}

/// Kills the process at every request of the change, and the next one at every request of its
/// replay; whatever happens, a whole replay ends with the old names or the new.
async fn survives_every_death(change: &Change) {
    for (kind, end) in [
        (Kind::Keys, End::Death),
        (Kind::Keys, End::LastWords),
        (Kind::Folders, End::Death),
        (Kind::Folders, End::LastWords),
    ] {
        survives_every_death_of(change, kind, end).await;
    }
}

async fn survives_every_death_of(change: &Change, kind: Kind, end: End) {
    let (before, after) = (kind.telling(owned(change.before)), kind.telling(owned(change.after)));
    let mut deaths = 0;
    for first in 0.. {
        let mut second = 0;
        loop {
            let (fake, ledger) = (change.store_of(kind), Arc::new(Memory::default()));
            let mortal = Mortal::new(&fake, first, end);
            let dying = bucket(Arc::clone(&mortal) as _, &ledger);
            if let Some(made) = until_death(&mortal, change.make(&dying)).await {
                made.unwrap();
                assert_eq!(kind.telling(objects(&fake)), after);
                assert_eq!(ledger.left(), []);
                assert!(0 < deaths, "it took no request");
                return;
            }
            deaths += 1;
            drop(dying);
            let mortal = Mortal::new(&fake, second, end);
            let dying = bucket(Arc::clone(&mortal) as _, &ledger);
            let replayed = until_death(&mortal, dying.replay(ledger.left())).await;
            let last = bucket(Arc::new(fake.clone()), &ledger);
            let finished = last.replay(ledger.left()).await;
            assert_eq!(finished.waiting, 0);
            let now = kind.telling(objects(&fake));
            let what = format!("{kind:?} {end:?} at request {first}, then at {second}");
            // A folder may have got a marker so that it stays when it is empty.
            assert!(now == before || now == after, "{what}: {now:?}");
            assert_eq!(ledger.left(), [], "{what}");
            if replayed.is_some() {
                break;
            }
            second += 1;
        }
    }
}

#[tokio::test]
async fn a_folder_whose_rename_is_cut_short_has_one_of_its_names_after_the_replay() {
    survives_every_death(&FOLDER).await;
}

#[tokio::test]
async fn a_folder_moved_onto_an_empty_one_has_one_of_its_names_after_the_replay() {
    // The marker of the empty folder is all that tells the old state from the new one's.
    survives_every_death(&ONTO_EMPTY).await;
}

#[tokio::test]
async fn a_file_whose_rename_is_cut_short_has_one_of_its_names_after_the_replay() {
    survives_every_death(&FILE).await;
    survives_every_death(&FILE_OVER).await;
}

#[tokio::test]
async fn names_whose_exchange_is_cut_short_are_exchanged_or_not_after_the_replay() {
    survives_every_death(&SWAP).await;
    survives_every_death(&SWAP_KINDS).await;
}

/// Lets one request of the change end as `end` says, each in its turn: what is there then is
/// whole, and the next mount, or time, makes it the old state or the new.
async fn survives_every(end: End, change: &Change) {
    for kind in Kind::ALL {
        survives_every_of(end, change, kind).await;
    }
}

async fn survives_every_of(end: End, change: &Change, kind: Kind) {
    let (old, new) = (kind.telling(owned(change.before)), kind.telling(owned(change.after)));
    for request in 0.. {
        let (fake, ledger) = (change.store_of(kind), Arc::new(Memory::default()));
        let mortal = Mortal::new(&fake, request, end);
        let (bucket, clock) = bucket_and_clock(Arc::clone(&mortal) as _, &ledger);
        let made = change.make(&bucket).await;
        if !mortal.has_ended() {
            made.unwrap();
            break;
        }
        let now = kind.telling(objects(&fake));
        let all = |want: &[(String, String)]| want.iter().all(|object| now.contains(object));
        // An exchange has a place between, from which the next mount goes on.
        let between = now.iter().any(|(key, _)| key.starts_with(".quayfs-moving/"));
        let what = format!("{kind:?} {end:?} {request} ({made:?})");
        assert!(all(&old) || all(&new) || between, "{what}: {now:?}");
        // While the mount lives it mends this itself.
        mortal.left.store(1 << 33, Ordering::Relaxed);
        wait_for_rests(&bucket, &clock, &ledger).await;
        let now = kind.telling(objects(&fake));
        assert!(now == old || now == new, "{what}: {now:?}");
        if made.is_ok() {
            assert_eq!(now, new, "{what}");
        }
        // What the mount believes is what is there.
        let names: Vec<_> = bucket.list(Ino::ROOT).await.unwrap();
        let names: Vec<_> = names.iter().map(|entry| entry.name.to_string()).collect();
        let fresh = self::bucket(Arc::new(fake), &ledger).list(Ino::ROOT).await.unwrap();
        let fresh: Vec<_> = fresh.iter().map(|entry| entry.name.to_string()).collect();
        assert_eq!(names, fresh, "{what}");
    }
}

/// Lets time pass until what failed in the middle is done.
async fn wait_for_rests(bucket: &Bucket, clock: &ManualClock, ledger: &Memory) {
    for _ in 0..10_000 {
        if bucket.shared.rests.available_permits() == super::super::persist::RESTS_MAX {
            assert_eq!(ledger.left(), []);
            return;
        }
        clock.advance(std::time::Duration::from_mins(1));
        tokio::task::yield_now().await;
    }
    panic!("what failed in the middle was never finished");
}

#[tokio::test]
async fn a_rename_that_a_request_fails_leaves_the_old_names_or_the_new() {
    for change in [&FOLDER, &ONTO_EMPTY, &FILE, &FILE_OVER, &SWAP, &SWAP_KINDS] {
        survives_every(End::Failure, change).await;
    }
}

#[tokio::test]
async fn a_rename_of_which_an_answer_is_lost_leaves_the_old_names_or_the_new() {
    for change in [&FOLDER, &ONTO_EMPTY, &FILE, &FILE_OVER, &SWAP, &SWAP_KINDS] {
        survives_every(End::LostAnswer, change).await;
    }
}

#[tokio::test]
async fn a_rename_cut_short_by_an_outage_is_finished_or_taken_back_when_it_is_over() {
    for change in [&FOLDER, &ONTO_EMPTY, &FILE, &FILE_OVER, &SWAP, &SWAP_KINDS] {
        survives_every(End::Outage, change).await;
    }
}

#[tokio::test]
async fn what_only_looks_like_a_copy_is_not_taken_for_one() {
    // The size, the metadata and the order of a copy, and other bytes.
    let (fake, ledger) = (Fake::new(), Arc::new(Memory::default()));
    let version = fake.insert(&Key::from("a"), "AAAA", Metadata::new());
    let over = fake.insert(&Key::from("b"), "BBBB", Metadata::new());
    let (from, to) = (Key::from("a"), Key::from("b"));
    for (over, want) in [(None, "BBBB"), (Some(over), "AAAA")] {
        let (from, to, version) = (from.clone(), to.clone(), version.clone());
        let planned = FileMove { from, to, version, over };
        ledger.append(&Record::MoveFile(planned).to_bytes()).unwrap();
        bucket(Arc::new(fake.clone()), &ledger).replay(ledger.left()).await;
        assert_eq!(ledger.left(), []);
        let objects = objects(&fake);
        assert!(objects.iter().any(|(_, bytes)| bytes == "AAAA"), "{objects:?}");
        assert_eq!(objects.last().unwrap().1, want);
    }
}

#[tokio::test]
async fn renaming_a_thousand_objects_costs_a_copy_and_a_removal_each_and_two_listings() {
    let fake = Fake::new();
    for number in 0..1000 {
        fake.insert(&Key::from(format!("a/{number:04}").as_str()), "x", Metadata::new());
    }
    let bucket = bucket(Arc::new(fake.clone()), &Arc::default());
    bucket.lookup(Ino::ROOT, &name("a")).await.unwrap();
    let lists = fake.calls(Op::List);
    FOLDER.make(&bucket).await.unwrap();
    assert_eq!((fake.calls(Op::Copy), fake.calls(Op::Delete)), (1000, 1000));
    assert!(fake.calls(Op::List) - lists <= 4, "{}", fake.calls(Op::List) - lists);
    assert!(fake.calls(Op::Head) <= 2);
    assert_eq!(fake.keys().len(), 1000);
}

#[tokio::test]
async fn a_store_with_folders_renames_a_thousand_objects_with_one_request() {
    let fake = Fake::with_folders();
    for number in 0..1000 {
        fake.insert(&Key::from(format!("a/sub/{number:04}").as_str()), "x", Metadata::new());
    }
    fake.insert(&Key::from("file"), "y", Metadata::new());
    let bucket = bucket(Arc::new(fake.clone()), &Arc::default());
    let a = bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.ino;
    let sub = bucket.lookup(a, &name("sub")).await.unwrap().attr.ino;
    let file = bucket.lookup(sub, &name("0007")).await.unwrap().attr.ino;
    FOLDER.make(&bucket).await.unwrap();
    assert_eq!(fake.calls(Op::RenameFolder), 1);
    assert_eq!((fake.calls(Op::Copy), fake.calls(Op::Delete)), (0, 0));
    assert_eq!(fake.keys().len(), 1003);
    let content = bucket.content(file).await.unwrap();
    assert_eq!(content.extents[0].key, Key::from("c/sub/0007"), "who has it open goes on there");
    let target = bucket.target(file).unwrap();
    assert_eq!((target.key, target.condition), {
        let version = fake.meta(&Key::from("c/sub/0007")).unwrap().version;
        (Key::from("c/sub/0007"), Condition::Is(version))
    });

    let c = bucket.lookup(Ino::ROOT, &name("c")).await.unwrap().attr.ino;
    let (from, to) = (name("file"), name("moved"));
    bucket.rename((Ino::ROOT, &from), (c, &to), RenameMode::Replace).await.unwrap();
    assert_eq!((fake.calls(Op::Rename), fake.calls(Op::Copy)), (1, 0));
    assert!(
        fake.keys().contains(&Key::from("c/moved")) && fake.bytes(&Key::from("file")).is_none()
    );
}

#[tokio::test]
async fn what_a_store_will_not_rename_in_one_step_is_copied() {
    let fake = FOLDER.store_of(Kind::Folders);
    let bucket = bucket(Arc::new(fake.clone()), &Arc::default());
    fake.fail_next(Op::RenameFolder, ErrorKind::Unsupported);
    FOLDER.make(&bucket).await.unwrap();
    fake.fail_next(Op::Rename, ErrorKind::Unsupported);
    let (from, to) = (name("b"), name("d"));
    let root = Ino::ROOT;
    bucket.rename((root, &from), (root, &to), RenameMode::Replace).await.unwrap();
    let now = Kind::Folders.telling(objects(&fake));
    let mut want = Kind::Folders.telling(owned(FOLDER.after));
    want.retain(|(key, _)| key != "b");
    want.push(("d".to_owned(), "b".to_owned()));
    assert_eq!(now, want);
    let old: Vec<Key> =
        fake.keys().into_iter().filter(|key| key.as_bytes().starts_with(b"a/")).collect();
    assert_eq!(old, [], "nor is there an empty folder under the old name");
}

#[tokio::test]
async fn what_others_add_and_change_under_the_old_name_stays_there() {
    let fake = FOLDER.store();
    let bucket = bucket(Arc::new(fake.clone()), &Arc::default());
    bucket.list(Ino::ROOT).await.unwrap();
    let removals = fake.hold(Op::Delete);
    let listings = fake.hold(Op::List);
    let others = async {
        // The listing of what is to be removed comes after the one of what was to be copied.
        listings.arrived(1).await;
        listings.let_through(1);
        listings.arrived(2).await;
        fake.insert(&Key::from("a/f"), "theirs", Metadata::new());
        fake.insert(&Key::from("a/new"), "theirs", Metadata::new());
        drop(listings);
        drop(removals);
    };
    let (made, ()) = tokio::join!(FOLDER.make(&bucket), others);
    made.unwrap();
    let mut want = owned(FOLDER.after);
    want.extend(owned(&[("a/f", "theirs"), ("a/new", "theirs")]));
    want.sort();
    assert_eq!(objects(&fake), want);
}

#[tokio::test]
async fn files_below_a_moved_folder_keep_their_numbers_and_their_bytes() {
    let fake = FOLDER.store();
    let bucket = bucket(Arc::new(fake.clone()), &Arc::default());
    let a = bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.ino;
    let f = bucket.lookup(a, &name("f")).await.unwrap().attr.ino;
    let sub = bucket.lookup(a, &name("sub")).await.unwrap().attr.ino;
    let h = bucket.lookup(sub, &name("h")).await.unwrap().attr.ino;
    let fresh = bucket.create(sub, &name("fresh"), super::NODE).await.unwrap().attr.ino;
    bucket.set_attr(f, size(9)).await.unwrap();
    FOLDER.make(&bucket).await.unwrap();
    assert_eq!(fake.calls(Op::Copy), 5, "what is not uploaded is not copied");
    let c = bucket.lookup(Ino::ROOT, &name("c")).await.unwrap().attr.ino;
    assert_eq!(c, a);
    assert_eq!(bucket.lookup(c, &name("f")).await.unwrap().attr.ino, f);
    assert_eq!(bucket.attr(f).await.unwrap().size, 9, "its edit");
    assert_eq!(bucket.parent(sub).unwrap(), a);
    let h_content = bucket.content(h).await.unwrap();
    assert_eq!(h_content.extents[0].key, Key::from("c/sub/h"));
    assert_eq!(
        Some(&h_content.extents[0].version),
        fake.meta(&Key::from("c/sub/h")).map(|meta| meta.version).as_ref()
    );
    assert_eq!(bucket.target(fresh).unwrap().key, Key::from("c/sub/fresh"));
    let f_version = fake.meta(&Key::from("c/f")).unwrap().version;
    assert_eq!(bucket.target(f).unwrap().condition, Condition::Is(f_version));
}

#[tokio::test]
async fn a_folder_does_not_go_below_itself_nor_onto_a_full_one() {
    let fake = FOLDER.store();
    fake.insert(&Key::from("full/x"), "x", Metadata::new());
    let bucket = bucket(Arc::new(fake), &Arc::default());
    let a = bucket.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.ino;
    let from = name("a");
    let into = bucket.rename((Ino::ROOT, &from), (a, &name("new")), RenameMode::Replace).await;
    assert_eq!(into.unwrap_err().kind, crate::ErrorKind::Invalid);
    let full = name("full");
    let onto = bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &full), RenameMode::Replace).await;
    assert_eq!(onto.unwrap_err().kind, crate::ErrorKind::NotEmpty);
}
